//! Whether a server's certificate is to be believed, by the certificates of a file.
//!
//! Three degrees: anything goes; its chain leads to the file; and it is for the host's name too. A certificate that is itself
//! in the file is believed as well: a server that signed its own certificate is given to its clients that way.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_cert::der::Decode;

/// The rule for one connection.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) trusted: Option<Trusted>,
    /// Whether the certificate must be for the host's name.
    pub(super) by_name: bool,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

/// The certificates of a file.
#[derive(Debug)]
pub(super) struct Trusted {
    certificates: Vec<CertificateDer<'static>>,
    anchors: RootCertStore,
}

impl Trusted {
    /// `None` where there is none that can be read.
    pub(super) fn new(certificates: Vec<CertificateDer<'static>>) -> Option<Self> {
        let mut anchors = RootCertStore::empty();
        let (understood, _) = anchors.add_parsable_certificates(certificates.iter().cloned());
        (understood > 0).then_some(Self { certificates, anchors })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(trusted) = &self.trusted else { return Ok(ServerCertVerified::assertion()) };
        let parsed = ParsedCertificate::try_from(certificate)?;
        if trusted.certificates.iter().any(|trusted| trusted == certificate) {
            in_its_time(certificate, now)?;
        } else {
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&parsed, &trusted.anchors, intermediates, now, algorithms)?;
        }
        if self.by_name {
            verify_server_name(&parsed, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.trusted {
            // Whose signature it would be is not known: certificates of any make will do, those of version 1 too.
            None => Ok(HandshakeSignatureValid::assertion()),
            Some(_) => verify_tls12_signature(message, certificate, signature, &self.algorithms),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.trusted {
            None => Ok(HandshakeSignatureValid::assertion()),
            Some(_) => verify_tls13_signature(message, certificate, signature, &self.algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn in_its_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let read = x509_cert::Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let validity = read.tbs_certificate.validity;
    if now.as_secs() < validity.not_before.to_unix_duration().as_secs() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now.as_secs() > validity.not_after.to_unix_duration().as_secs() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

/// What to do about a certificate that was not believed, or a handshake that failed.
pub(super) fn remedy(error: &Error) -> &'static str {
    let Error::InvalidCertificate(problem) = error else {
        return match error {
            Error::AlertReceived(_) => {
                "the server refused; where it wants a client's certificate, sslcert and sslkey name one that it knows"
            }
            _ => "look whether it is a PostgreSQL server that speaks TLS 1.2 or newer",
        };
    };
    match problem {
        CertificateError::UnknownIssuer => "name the certificate of the authority that signed it with sslrootcert",
        CertificateError::NotValidForName => "connect by a name that its certificate has",
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "give the server a certificate with a subjectAltName: its common name is not looked at"
        }
        CertificateError::NotValidForNameContext { .. } => {
            "connect by a name that its certificate has (hostaddr gives the address), or check no name with \
             sslmode=verify-ca"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "renew the server's certificate, or set this machine's clock"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "set this machine's clock",
        _ => "give the server a certificate of version 3 with a subjectAltName, and its authority's in sslrootcert",
    }
}
