//! Why a host was not connected to: what is tried instead, and what is said about it.

use std::error::Error as StdError;
use std::io;

use tokio_postgres::config::SslMode as Wish;
use tokio_postgres::error::SqlState;

use super::address::Address;
use super::certificate::remedy;
use super::fault::{Fault, describe};
use super::place::{Place, Standing};

/// How far encrypting came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not begun: plain text.
    Plain,
    /// The server can; the two are at it.
    ShakingHands,
    /// Encrypted.
    Done,
}

/// Why a host was not connected to.
pub(super) enum Trouble {
    /// It did not answer in time.
    Silent,
    /// No socket.
    Socket(io::Error),
    /// The settings of encryption, in words.
    Settings(String),
    /// The driver's error, and when it came.
    Driver { error: tokio_postgres::Error, stage: Stage, insisted: bool },
    /// The server stands otherwise than `target_session_attrs` asks for.
    Standing(&'static str, Standing),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

impl Trouble {
    pub(super) fn driver(error: tokio_postgres::Error, stage: Stage, wish: Wish) -> Self {
        Self::Driver { error, stage, insisted: wish == Wish::Require }
    }

    /// Whether the server has no rule for connections that are not encrypted, as this one.
    pub(super) fn asks_for_encryption(&self) -> bool {
        matches!(self, Self::Driver { error, stage: Stage::Plain, .. } if unruled(error))
    }

    /// Whether the handshake failed, or the server has no rule for encrypted connections. A password that was refused is
    /// never sent again in plain text.
    pub(super) fn asks_for_plain_text(&self) -> bool {
        match self {
            Self::Driver { stage: Stage::ShakingHands, .. } => true,
            Self::Driver { error, stage: Stage::Done, .. } => unruled(error),
            _ => false,
        }
    }

    /// Whether the server, or the role, has no connection left.
    pub(super) fn is_lack_of_connections(&self) -> bool {
        matches!(self, Self::Driver { error, .. } if error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS))
    }

    /// What is said of a connection that was there before.
    pub(super) fn problem(&self) -> String {
        match self {
            Self::Silent => "no answer in time".into(),
            Self::Socket(error) => error.to_string(),
            Self::Settings(problem) => problem.clone(),
            Self::Driver { error, .. } => describe(error),
            Self::Standing(problem, standing) => format!("{problem} (target_session_attrs={standing})"),
        }
    }

    /// What is said, and whether trying again may help. Names the host where there are several, and the mode where it matters.
    pub(super) fn fault(self, address: &Address, place: &Place) -> Fault {
        let mode = address.encryption.mode;
        let (host, several) = (place.to_string(), address.places.len() > 1);
        let plainly = |problem: String| if several { format!("{host}: {problem}") } else { problem };
        match self {
            Self::Silent => {
                Fault::Lost(plainly(format!("no answer within {:.0} s", address.connect_timeout.as_secs_f64())))
            }
            Self::Socket(error) => Fault::Lost(plainly(error.to_string())),
            Self::Settings(problem) => Fault::broken(problem),
            Self::Standing(problem, standing) => {
                Fault::Lost(plainly(format!("{problem} (target_session_attrs={standing})")))
            }
            Self::Driver { error, stage, .. } if of_rustls(&error).is_some() || stage == Stage::ShakingHands => {
                let rustls = of_rustls(&error);
                let problem = rustls.map_or_else(|| describe(&error), ToString::to_string);
                let remedy =
                    rustls.map_or("look whether it is a PostgreSQL server that speaks TLS 1.2 or newer", remedy);
                let text = format!("no encrypted connection to {host} (sslmode={mode}): {problem}; {remedy}");
                let told =
                    matches!(rustls, Some(rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_)));
                if told { Fault::broken(text) } else { Fault::Lost(text) }
            }
            Self::Driver { error, stage: Stage::Plain, insisted: true } if !is_of_the_link(&error) => {
                Fault::broken(format!(
                    "{host} does not offer encryption (sslmode={mode}): give the server a certificate (ssl=on), or \
                     where the way to it is safe use sslmode=prefer"
                ))
            }
            Self::Driver { error, stage, .. } => {
                let unruled = unruled(&error);
                match Fault::from_connecting(&error) {
                    Fault::Lost(problem) => Fault::Lost(plainly(problem)),
                    fault => {
                        let hint = match stage {
                            Stage::Plain if unruled && !place.is_folder() => {
                                format!(
                                    " (not encrypted, sslmode={mode}; where the server insists, use sslmode=require)"
                                )
                            }
                            Stage::Done if unruled => format!(
                                " (encrypted, sslmode={mode}; where it wants a client's certificate, name it with sslcert \
                                 and sslkey)"
                            ),
                            _ => String::new(),
                        };
                        Fault::broken(plainly(fault.problem() + &hint))
                    }
                }
            }
        }
    }
}

/// Whether `pg_hba.conf` has no rule for such a connection.
fn unruled(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
}

/// Whether the socket failed, or the server said what is wrong.
fn is_of_the_link(error: &tokio_postgres::Error) -> bool {
    error.is_closed() || error.as_db_error().is_some() || error.source().is_some_and(<dyn StdError>::is::<io::Error>)
}

/// The error of rustls in a driver's error.
fn of_rustls(error: &tokio_postgres::Error) -> Option<&rustls::Error> {
    error.source()?.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}
