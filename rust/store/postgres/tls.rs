//! Whether, and how, a connection is encrypted: libpq's six modes and its files, as settings of rustls.
//!
//! The files are read anew for each connection, so that renewed certificates are taken up. As in libpq, `require` checks the
//! chain of the server's certificate where there is a file to check it by. Unlike libpq, `allow` and `prefer` check nothing
//! even then: what does not pass would be sent in plain text instead.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::certificate::{Trusted, Verifier};
use crate::error::{Error, Result};

/// What a PostgreSQL server is told that the connection is for.
const PROTOCOL: &[u8] = b"postgresql";

/// The six modes of libpq.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SslMode {
    /// Plain text.
    Disable,
    /// Plain text, and encrypted where the server insists.
    Allow,
    /// Encrypted, and plain text where the server cannot.
    Prefer,
    /// Encrypted, or not at all.
    Require,
    /// And the server's certificate must have been signed by somebody known.
    VerifyCa,
    /// And be for the name of the host.
    VerifyFull,
}

impl fmt::Display for SslMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Disable => "disable",
            Self::Allow => "allow",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        })
    }
}

/// Who is known to sign certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Roots {
    Nobody,
    File(PathBuf),
    System,
}

/// How connections are to be encrypted.
#[derive(Clone, Debug)]
pub(super) struct Encryption {
    pub(super) mode: SslMode,
    /// Without asking the server first whether it can.
    pub(super) direct: bool,
    roots: Roots,
    /// The client's certificate, and its key.
    identity: Option<(PathBuf, PathBuf)>,
}

fn invalid<T>(problem: impl Into<String>) -> Result<T> {
    Err(Error::Invalid { field: "url", problem: problem.into() })
}

impl Encryption {
    /// Of the parameters of a URL; `home` is where libpq's own files lie.
    ///
    /// # Errors
    /// `Invalid` for parameters that contradict each other, or promise more than would be done.
    pub(super) fn read(given: &BTreeMap<String, String>, home: Option<&Path>) -> Result<Self> {
        let text = |name: &str| given.get(name).map(String::as_str);
        let known = |name: &str| {
            let file = home?.join(".postgresql").join(name);
            file.is_file().then_some(file)
        };
        let roots = match text("sslrootcert") {
            Some("system") => Roots::System,
            Some(file) => Roots::File(file.into()),
            None => known("root.crt").map_or(Roots::Nobody, Roots::File),
        };
        let mode = match text("sslmode").unwrap_or(if roots == Roots::System { "verify-full" } else { "prefer" }) {
            "disable" => SslMode::Disable,
            "allow" => SslMode::Allow,
            "prefer" => SslMode::Prefer,
            "require" => SslMode::Require,
            "verify-ca" => SslMode::VerifyCa,
            "verify-full" => SslMode::VerifyFull,
            _ => return invalid("sslmode must be disable, allow, prefer, require, verify-ca or verify-full"),
        };
        let roots = match (mode, roots) {
            (SslMode::VerifyFull, Roots::Nobody) => Roots::System,
            (SslMode::VerifyCa, Roots::Nobody) => {
                return invalid(
                    "sslmode=verify-ca needs the certificate of your own authority, as sslrootcert=FILE or in \
                     ~/.postgresql/root.crt; against the system's authorities use sslmode=verify-full",
                );
            }
            // One of the system's authorities has signed a certificate for every attacker who owns a name.
            (mode, Roots::System) if mode != SslMode::VerifyFull => {
                return invalid("sslrootcert=system needs sslmode=verify-full");
            }
            (SslMode::Disable | SslMode::Allow | SslMode::Prefer, _) => Roots::Nobody,
            (_, roots) => roots,
        };
        let identity = match (text("sslcert"), text("sslkey")) {
            (None, None) => known("postgresql.crt").zip(known("postgresql.key")),
            (certificate, key) => {
                let certificate = certificate.map(PathBuf::from).or_else(|| known("postgresql.crt"));
                match certificate.zip(key.map(PathBuf::from).or_else(|| known("postgresql.key"))) {
                    Some(identity) => Some(identity),
                    None => return invalid("sslcert and sslkey belong together: name both files"),
                }
            }
        };
        let direct = match text("sslnegotiation").unwrap_or("postgres") {
            "postgres" => false,
            "direct" if mode >= SslMode::Require => true,
            "direct" => return invalid("sslnegotiation=direct needs sslmode=require, verify-ca or verify-full"),
            _ => return invalid("sslnegotiation must be postgres or direct"),
        };
        Ok(Self { mode, direct, roots, identity })
    }

    /// What shakes hands with the server.
    ///
    /// # Errors
    /// What is wrong with one of the files, and what to do.
    pub(super) fn connector(&self) -> Result<MakeRustlsConnect, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let settings = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(&provider)?);
        let mut settings = match &self.identity {
            None => settings.with_no_client_auth(),
            Some((certificate, key)) => settings
                .with_client_auth_cert(certificates("sslcert", certificate)?, private_key(key)?)
                .map_err(|error| format!("sslcert={} and its sslkey: {error}", certificate.display()))?,
        };
        settings.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(MakeRustlsConnect::new(settings))
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, String> {
        let trusted = match &self.roots {
            Roots::Nobody => None,
            Roots::File(file) => {
                let trusted = Trusted::new(certificates("sslrootcert", file)?);
                let Some(trusted) = trusted else {
                    return Err(format!("sslrootcert={}: no certificate in it can be read", file.display()));
                };
                Some(trusted)
            }
            Roots::System => {
                return match rustls_platform_verifier::Verifier::new(Arc::clone(provider)) {
                    Ok(verifier) => Ok(Arc::new(verifier)),
                    Err(error) => Err(format!(
                        "the system's certificate authorities cannot be read ({error}); install them (ca-certificates), \
                         or name a file with sslrootcert"
                    )),
                };
            }
        };
        let by_name = self.mode == SslMode::VerifyFull;
        Ok(Arc::new(Verifier { trusted, by_name, algorithms: provider.signature_verification_algorithms }))
    }
}

fn certificates(parameter: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(format!("{parameter}={}: there is no certificate in PEM form in it", file.display())),
        Err(error) => Err(format!("{parameter}={}: {error}", file.display())),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    if others_may_read(file) {
        return Err(format!("sslkey={}: take the rights of others away with chmod 600", file.display()));
    }
    PrivateKeyDer::from_pem_file(file).map_err(|error| {
        format!(
            "sslkey={}: {error}; it must hold a private key in PEM form that no passphrase protects",
            file.display()
        )
    })
}

/// As libpq: a key of the superuser may be read by a group.
#[cfg(unix)]
fn others_may_read(file: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let forbidden = |owner| if owner == 0 { 0o037 } else { 0o077 };
    std::fs::metadata(file).is_ok_and(|metadata| metadata.mode() & forbidden(metadata.uid()) != 0)
}

#[cfg(not(unix))]
fn others_may_read(_file: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &[(&str, &str)]) -> Result<Encryption> {
        Encryption::read(&query.iter().map(|&(name, value)| (name.into(), value.into())).collect(), None)
    }

    #[test]
    fn roots_are_used_where_the_mode_promises_it_and_nowhere_else() {
        let roots = |query: &[(&str, &str)]| read(query).map(|encryption| encryption.roots);
        let file = ("sslrootcert", "/r");
        assert_eq!(roots(&[]), Ok(Roots::Nobody));
        assert_eq!(roots(&[("sslmode", "require")]), Ok(Roots::Nobody));
        assert_eq!(roots(&[("sslmode", "verify-full")]), Ok(Roots::System));
        for mode in ["require", "verify-ca", "verify-full"] {
            assert_eq!(roots(&[("sslmode", mode), file]), Ok(Roots::File("/r".into())), "{mode}");
        }
        for mode in ["disable", "allow", "prefer"] {
            assert_eq!(roots(&[("sslmode", mode), file]), Ok(Roots::Nobody), "{mode}");
        }
        assert_eq!(read(&[("sslrootcert", "system")]).map(|encryption| encryption.mode), Ok(SslMode::VerifyFull));
    }

    #[test]
    fn what_promises_more_than_would_be_done_is_refused() {
        for query in [
            &[("sslmode", "verify-ca")][..],
            &[("sslmode", "verify-ca"), ("sslrootcert", "system")],
            &[("sslmode", "require"), ("sslrootcert", "system")],
            &[("sslmode", "prefer"), ("sslrootcert", "system")],
            &[("sslmode", "prefer"), ("sslnegotiation", "direct")],
            &[("sslmode", "require"), ("sslnegotiation", "straight")],
            &[("sslmode", "require"), ("sslcert", "/c")],
            &[("sslmode", "require"), ("sslkey", "/k")],
        ] {
            assert!(matches!(read(query), Err(Error::Invalid { field: "url", .. })), "{query:?}");
        }
    }
}
