//! The hosts of a URL, and what each must be to be connected to.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use tokio_postgres::Config;

use crate::error::{Error, Result};

/// One of the hosts.
#[derive(Clone)]
pub(super) struct Place {
    /// Its name, by which its certificate is verified; its address where it has none; or the folder of a socket.
    pub(super) host: String,
    /// Where it is, if that is not to be looked up.
    pub(super) address: Option<IpAddr>,
    pub(super) port: u16,
    /// For the driver; holds the password.
    pub(super) config: Config,
}

fn invalid<T>(problem: impl Into<String>) -> Result<T> {
    Err(Error::Invalid { field: "url", problem: problem.into() })
}

/// The hosts that the parameters name, at least one, with nothing in their configuration yet.
///
/// # Errors
/// `Invalid` where the lists do not fit each other.
pub(super) fn read(given: &BTreeMap<String, String>) -> Result<Vec<Place>> {
    let list = |name: &str| given.get(name).map(|list| list.split(',').collect::<Vec<_>>());
    let (hosts, addresses) = (list("host"), list("hostaddr"));
    let count = hosts.as_ref().or(addresses.as_ref()).map_or(1, Vec::len);
    if addresses.as_ref().is_some_and(|addresses| addresses.len() != count) {
        return invalid("hostaddr must have as many addresses as there are hosts");
    }
    let ports = list("port").unwrap_or_else(|| vec![""]);
    if ports.len() != 1 && ports.len() != count {
        return invalid("there must be one port, or as many as there are hosts");
    }
    let place = |number: usize| {
        let port = match *ports.get(number).unwrap_or(&ports[0]) {
            "" => 5432,
            port => match port.parse() {
                Ok(port) if port > 0 => port,
                _ => return invalid("a port must be a number from 1 to 65535"),
            },
        };
        let address = match addresses.as_ref().map(|addresses| addresses[number].parse::<IpAddr>()) {
            None => None,
            Some(Ok(address)) => Some(address),
            Some(Err(_)) => return invalid("hostaddr must be an IP address"),
        };
        let named = hosts.as_ref().map(|hosts| hosts[number]).filter(|host| !host.is_empty()).map(str::to_owned);
        let host = named.or_else(|| address.map(|address| address.to_string())).unwrap_or_else(default_host);
        Ok(Place { host, address, port, config: Config::new() })
    };
    (0..count).map(place).collect()
}

/// The folder of the server's socket, where there is one.
fn default_host() -> String {
    ["/var/run/postgresql", "/tmp"]
        .into_iter()
        .find(|folder| Path::new(folder).join(".s.PGSQL.5432").exists())
        .unwrap_or("localhost")
        .to_owned()
}

impl Place {
    /// Whether it is a server on this machine, reached through a socket in a folder.
    pub(super) fn is_folder(&self) -> bool {
        self.address.is_none() && self.host.starts_with('/')
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(formatter, "[{}]:{}", self.host, self.port),
            false => write!(formatter, "{}:{}", self.host, self.port),
        }
    }
}

/// What a server must be to be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
    /// A standby where there is one.
    PreferStandby,
}

impl Standing {
    /// As `target_session_attrs` spells it.
    ///
    /// # Errors
    /// `Invalid` for another word.
    pub(super) fn read(word: &str) -> Result<Self> {
        const ALL: [Standing; 6] = [
            Standing::Any,
            Standing::ReadWrite,
            Standing::ReadOnly,
            Standing::Primary,
            Standing::Standby,
            Standing::PreferStandby,
        ];
        match ALL.into_iter().find(|standing| standing.to_string() == word) {
            Some(standing) => Ok(standing),
            None => {
                invalid(format!("target_session_attrs must be one of {}", ALL.map(|one| one.to_string()).join(", ")))
            }
        }
    }

    /// What is asked of all hosts before they are asked for the next.
    pub(super) fn in_turn(&self) -> &[Self] {
        match self {
            Self::PreferStandby => &[Self::Standby, Self::Any],
            one => std::slice::from_ref(one),
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Any => "any",
            Self::ReadWrite => "read-write",
            Self::ReadOnly => "read-only",
            Self::Primary => "primary",
            Self::Standby => "standby",
            Self::PreferStandby => "prefer-standby",
        })
    }
}
