//! Where the server is: a URL as libpq reads it, completed by the `PG*` variables and the password file.
//!
//! Three more are our own: `notify=0` for neither telling other hosts of queued jobs nor hearing of theirs, and `listen_host`
//! and `listen_port` for the server itself where the rest goes through a pooler.
//!
//! Only parameters that are known are taken, so that a misspelt one is not ignored. The password is handed to the driver and
//! kept nowhere else: what messages and logs name is [`Address::target`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::ChannelBinding;

use super::password;
use super::place::{self, Place, Standing};
use super::tls::{Encryption, SslMode};
use crate::error::{Error, Result};

/// The parameters that a URL may have, and the variable that stands in for each.
const PARAMETERS: [(&str, &str); 26] = [
    ("host", "PGHOST"),
    ("hostaddr", "PGHOSTADDR"),
    ("port", "PGPORT"),
    ("dbname", "PGDATABASE"),
    ("user", "PGUSER"),
    ("password", "PGPASSWORD"),
    ("passfile", "PGPASSFILE"),
    ("application_name", "PGAPPNAME"),
    ("options", "PGOPTIONS"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("target_session_attrs", "PGTARGETSESSIONATTRS"),
    ("load_balance_hosts", "PGLOADBALANCEHOSTS"),
    ("channel_binding", "PGCHANNELBINDING"),
    ("sslmode", "PGSSLMODE"),
    ("sslnegotiation", "PGSSLNEGOTIATION"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("keepalives", ""),
    ("keepalives_idle", ""),
    ("keepalives_interval", ""),
    ("keepalives_count", ""),
    ("tcp_user_timeout", ""),
    ("notify", ""),
    ("listen_host", ""),
    ("listen_port", ""),
];

/// Variables that ask libpq for a protection that is not given here: better no connection than one without it.
const NOT_KEPT: [&str; 5] = ["PGSSLCRL", "PGSSLCRLDIR", "PGSSLMINPROTOCOLVERSION", "PGREQUIREAUTH", "PGREQUIREPEER"];

/// The server, and how to reach it.
#[derive(Clone)]
pub(super) struct Address {
    /// The hosts, at least one, in the order in which they are tried.
    pub(super) places: Vec<Place>,
    /// Whether they are tried in any order instead.
    pub(super) any_order: bool,
    /// What the server must be.
    pub(super) standing: Standing,
    /// What messages call it: no password, no parameters.
    pub(super) target: String,
    /// Whether, and how, the connection is encrypted.
    pub(super) encryption: Encryption,
    /// How long connecting to one address of a host may take.
    pub(super) connect_timeout: Duration,
    /// Whether other hosts are told of queued jobs, and heard.
    pub(super) notify: bool,
    /// The way for that, where it is another one.
    pub(super) listen: Option<Box<Address>>,
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.target)
    }
}

fn invalid<T>(problem: impl Into<String>) -> Result<T> {
    Err(Error::Invalid { field: "url", problem: problem.into() })
}

impl Address {
    /// Read a URL, and complete it from the environment.
    ///
    /// # Errors
    /// `Invalid` with what is wrong. The URL, which may hold a password, is not repeated.
    pub(super) fn parse(url: &str) -> Result<Self> {
        Self::read(url, |name| std::env::var(name).ok())
    }

    fn read(url: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut given = split(url)?;
        if given.contains_key("service") || variable("PGSERVICE").is_some_and(|service| !service.is_empty()) {
            return invalid("service files are not read; name host, port and dbname in the URL");
        }
        for name in NOT_KEPT {
            if variable(name).is_some_and(|value| !value.is_empty()) {
                return invalid(format!("the variable {name} is set, and what it asks for is not done here; unset it"));
            }
        }
        let roots = given.contains_key("sslrootcert");
        for (parameter, name) in PARAMETERS {
            if !given.contains_key(parameter)
                && let Some(value) = variable(name).filter(|value| !name.is_empty() && !value.is_empty())
            {
                given.insert(parameter.into(), value);
            }
        }
        let home = variable("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let address = build(&given, Encryption::read(&given, home.as_deref())?)?;
        let mode = address.encryption.mode;
        if roots && mode < SslMode::Require {
            // Whoever names it in the URL believes that it is used.
            return invalid(format!(
                "sslrootcert is given, but sslmode={mode} would connect without it; use sslmode=verify-full"
            ));
        }
        Ok(address)
    }
}

/// The parts of a URL as parameters.
fn split(url: &str) -> Result<BTreeMap<String, String>> {
    let Some(rest) = url.strip_prefix("postgresql://").or_else(|| url.strip_prefix("postgres://")) else {
        return invalid("must begin with postgresql://");
    };
    if rest.contains('#') {
        return invalid("must not contain #; percent-encode it as %23");
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (user_info, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    let mut parameters = BTreeMap::new();
    let mut put = |name: &str, value: String| {
        if !value.is_empty() {
            parameters.insert(name.to_owned(), value);
        }
    };
    put("user", decode(user)?);
    put("password", decode(password)?);
    put("dbname", decode(database)?);
    let (mut names, mut ports) = (Vec::new(), Vec::new());
    for host in hosts.split(',') {
        // An IPv6 address stands in brackets, for its colons.
        let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, port)) => (name, port.strip_prefix(':').unwrap_or(port)),
            None => host.rsplit_once(':').unwrap_or((host, "")),
        };
        names.push(decode(name)?);
        ports.push(decode(port)?);
    }
    put("host", if names.iter().all(String::is_empty) { String::new() } else { names.join(",") });
    put("port", if ports.iter().all(String::is_empty) { String::new() } else { ports.join(",") });
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode(name)?;
        if !PARAMETERS.iter().any(|(known, _)| *known == name) && name != "service" {
            let known: Vec<_> = PARAMETERS.iter().map(|(known, _)| *known).collect();
            return invalid(format!("the parameter {name:?} is not known; known are {}", known.join(", ")));
        }
        put(&name, decode(value)?);
    }
    Ok(parameters)
}

fn decode(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.extend(u8::try_from(high * 16 + low)),
            _ => return invalid("a % must be followed by two hexadecimal digits"),
        }
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => invalid("must be UTF-8 without NUL"),
    }
}

fn build(given: &BTreeMap<String, String>, encryption: Encryption) -> Result<Address> {
    let text = |name: &str| given.get(name).map(String::as_str);
    let user = text("user").map_or_else(operating_system_user, str::to_owned);
    let database = text("dbname").unwrap_or(&user);
    let mut config = Config::new();
    config.user(&user).dbname(database);
    config.application_name(text("application_name").unwrap_or("bandog"));
    if let Some(options) = text("options") {
        config.options(options);
    }
    tune(&mut config, given)?;
    let mut places = place::read(given)?;
    for place in &mut places {
        place.config = config.clone();
        let password = match text("password") {
            Some(password) => Some(password.to_owned()),
            None => password::find(text("passfile"), &place.host, place.port, database, &user),
        };
        if let Some(password) = password {
            place.config.password(password);
        }
    }
    let hosts = text("host").or(text("hostaddr")).unwrap_or(&places[0].host);
    let port = match text("port") {
        None | Some("5432") => String::new(),
        Some(port) => format!(":{port}"),
    };
    let target = format!("postgresql://{hosts}{port}/{database}");
    let standing = Standing::read(text("target_session_attrs").unwrap_or("any"))?;
    let any_order = match text("load_balance_hosts").unwrap_or("disable") {
        "disable" => false,
        "random" => true,
        _ => return invalid("load_balance_hosts must be disable or random"),
    };
    let connect_timeout = seconds(text("connect_timeout"), "connect_timeout")?.unwrap_or(Duration::from_secs(10));
    let notify = match text("notify").unwrap_or("1") {
        "0" => false,
        "1" => true,
        _ => return invalid("notify must be 0 or 1"),
    };
    let listen = listen(given, &encryption)?;
    Ok(Address { places, any_order, standing, target, encryption, connect_timeout, notify, listen })
}

/// The same server by another way, where one is named.
fn listen(given: &BTreeMap<String, String>, encryption: &Encryption) -> Result<Option<Box<Address>>> {
    let mut other = given.clone();
    let (host, port) = (other.remove("listen_host"), other.remove("listen_port"));
    if host.is_none() && port.is_none() {
        return Ok(None);
    }
    if let Some(host) = host {
        other.remove("hostaddr");
        other.insert("host".into(), host);
        // The port of the pooler is not the server's.
        other.remove("port");
    }
    if let Some(port) = port {
        other.insert("port".into(), port);
    }
    build(&other, encryption.clone()).map(|address| Some(Box::new(address)))
}

/// What is about the link.
fn tune(config: &mut Config, given: &BTreeMap<String, String>) -> Result<()> {
    let text = |name: &str| given.get(name).map(String::as_str);
    match text("channel_binding").unwrap_or("prefer") {
        "disable" => config.channel_binding(ChannelBinding::Disable),
        "prefer" => config.channel_binding(ChannelBinding::Prefer),
        "require" => config.channel_binding(ChannelBinding::Require),
        _ => return invalid("channel_binding must be disable, prefer or require"),
    };
    match text("keepalives").unwrap_or("1") {
        "0" => config.keepalives(false),
        "1" => config.keepalives(true),
        _ => return invalid("keepalives must be 0 or 1"),
    };
    // The system's own are two hours: a firewall forgets a silent link long before.
    config.keepalives_idle(seconds(text("keepalives_idle"), "keepalives_idle")?.unwrap_or(Duration::from_secs(30)));
    config.keepalives_interval(
        seconds(text("keepalives_interval"), "keepalives_interval")?.unwrap_or(Duration::from_secs(10)),
    );
    let count = text("keepalives_count").map_or(Ok(3), str::parse);
    config.keepalives_retries(count.or_else(|_| invalid("keepalives_count must be a number"))?);
    if let Some(timeout) = text("tcp_user_timeout") {
        let timeout = timeout.parse().or_else(|_| invalid("tcp_user_timeout must be a number of milliseconds"))?;
        config.tcp_user_timeout(Duration::from_millis(timeout));
    }
    Ok(())
}

fn seconds(value: Option<&str>, name: &str) -> Result<Option<Duration>> {
    match value.map(str::parse::<u32>) {
        None => Ok(None),
        // libpq: 0 is for ever. A day is long enough to be the same.
        Some(Ok(0)) => Ok(Some(Duration::from_secs(86_400))),
        Some(Ok(seconds)) => Ok(Some(Duration::from_secs(seconds.into()))),
        Some(Err(_)) => invalid(format!("{name} must be a whole number of seconds")),
    }
}

fn operating_system_user() -> String {
    let variable = |name| std::env::var(name).ok().filter(|user| !user.is_empty());
    variable("USER").or_else(|| variable("LOGNAME")).unwrap_or_else(|| "postgres".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Address> {
        Address::read(url, |_| None)
    }

    #[test]
    fn a_url_is_read_as_libpq_does() {
        let address =
            read("postgresql://ada:s%40cret@one:1,[::1]:2/jobs?application_name=mine&connect_timeout=3").unwrap();
        assert_eq!(address.target, "postgresql://one,::1:1,2/jobs");
        for (place, name) in address.places.iter().zip(["one:1", "[::1]:2"]) {
            assert_eq!(place.to_string(), name);
            assert_eq!(place.config.get_user(), Some("ada"));
            assert_eq!(place.config.get_password(), Some(&b"s@cret"[..]));
            assert_eq!(place.config.get_dbname(), Some("jobs"));
            assert_eq!(place.config.get_application_name(), Some("mine"));
        }
        assert_eq!(address.places.len(), 2);
        assert_eq!(address.connect_timeout, Duration::from_secs(3));
        assert!(!format!("{address:?}").contains("cret"));
    }

    #[test]
    fn variables_stand_in_for_what_the_url_leaves_out() {
        let address = Address::read("postgresql:///?port=6", |name| {
            let value = match name {
                "PGHOST" => "there",
                "PGPORT" => "5",
                "PGUSER" => "bob",
                "PGSSLMODE" => "verify-full",
                _ => return None,
            };
            Some(value.into())
        });
        let address = address.unwrap();
        assert_eq!(address.target, "postgresql://there:6/bob");
        assert_eq!(address.encryption.mode, SslMode::VerifyFull);
    }

    #[test]
    fn a_variable_that_asks_for_protection_that_is_not_given_is_refused() {
        for name in NOT_KEPT {
            let read = Address::read("postgresql://h/db", |variable| (variable == name).then(|| "x".into()));
            assert!(read.is_err_and(|error| error.to_string().contains(name)));
        }
    }

    #[test]
    fn there_may_be_another_way_for_listening() {
        let address = read("postgresql://ada:secret@pooler:6432/jobs?listen_host=server&connect_timeout=3").unwrap();
        assert_eq!(address.target, "postgresql://pooler:6432/jobs");
        assert!(address.notify);
        let listen = address.listen.unwrap();
        assert_eq!(listen.target, "postgresql://server/jobs");
        assert_eq!(listen.places[0].config.get_password(), Some(&b"secret"[..]));
        assert_eq!(listen.connect_timeout, Duration::from_secs(3));
        assert!(listen.listen.is_none());
        let address = read("postgresql://one:6432/jobs?listen_port=5433&notify=0").unwrap();
        assert_eq!(address.listen.unwrap().target, "postgresql://one:5433/jobs");
        assert!(!address.notify);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for url in [
            "mysql://x",
            "postgresql://u:secret@h:port/db",
            "postgresql://u:secret@h:0/db",
            "postgresql://u:secret@h/db?sslmode=maybe",
            "postgresql://u:secret@h/db?sslmod=require",
            "postgresql://u:secret@h/db?target_session_attrs=maybe",
            "postgresql://u:secret@one,two,three:1,2/db?port=1,2",
            "postgresql://u:secret@one,two/db?hostaddr=127.0.0.1",
            "postgresql://u:secret@h/db?hostaddr=h",
            "postgresql://u:secret@h/db?sslrootcert=/roots",
            "postgresql://u:secret@h/%zz",
            "postgresql://u:secret@h/%00",
            "postgresql://u:secret@h/db?service=x",
            "postgresql://u:secret@h/db?notify=yes",
            "postgresql://u:secret@h/db?listen_port=x",
            "postgresql://u:secret@h/db#x",
        ] {
            let error = read(url).map(|_| ()).unwrap_err();
            assert!(matches!(error, Error::Invalid { field: "url", .. }), "{url}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
