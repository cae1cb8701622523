//! Where the server is: a URL as libpq reads it, completed by the `PG*` variables and the password file.
//!
//! Three more are our own: `notify=0` for neither telling other hosts of queued jobs nor hearing of theirs, and `listen_host`
//! and `listen_port` for the server itself where the rest goes through a pooler.
//!
//! Only parameters that are known are taken, so that a misspelt one is not ignored. The password is handed to the driver and
//! kept nowhere else: what messages and logs name is [`Address::target`].

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, LoadBalanceHosts, TargetSessionAttrs};

use super::password;
use crate::error::{Error, Result};

/// The parameters that a URL may have, and the variable that stands in for each.
const PARAMETERS: [(&str, &str); 22] = [
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
    ("keepalives", ""),
    ("keepalives_idle", ""),
    ("keepalives_interval", ""),
    ("keepalives_count", ""),
    ("tcp_user_timeout", ""),
    ("notify", ""),
    ("listen_host", ""),
    ("listen_port", ""),
];

/// The server, and how to reach it.
#[derive(Clone)]
pub(super) struct Address {
    /// For the driver; holds the password.
    pub(super) config: Config,
    /// What messages call it: no password, no parameters.
    pub(super) target: String,
    /// Whether, and how, the connection is encrypted.
    pub(super) ssl_mode: SslMode,
    /// How long connecting may take.
    pub(super) connect_timeout: Duration,
    /// Whether other hosts are told of queued jobs, and heard.
    pub(super) notify: bool,
    /// The way for that, where it is another one.
    pub(super) listen: Option<Box<Address>>,
}

/// The six modes of libpq.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SslMode {
    Disable,
    Allow,
    #[default]
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
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
        for (parameter, name) in PARAMETERS {
            if !given.contains_key(parameter)
                && let Some(value) = variable(name).filter(|value| !name.is_empty() && !value.is_empty())
            {
                given.insert(parameter.into(), value);
            }
        }
        build(&given)
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

fn build(given: &BTreeMap<String, String>) -> Result<Address> {
    let text = |name: &str| given.get(name).map(String::as_str);
    let mut config = Config::new();
    let hosts: Vec<String> = match (text("host"), text("hostaddr")) {
        (Some(hosts), _) => hosts.split(',').map(str::to_owned).collect(),
        (None, Some(_)) => Vec::new(),
        (None, None) => vec![default_host()],
    };
    for host in &hosts {
        config.host(if host.is_empty() { default_host() } else { host.clone() });
    }
    for address in text("hostaddr").into_iter().flat_map(|addresses| addresses.split(',')) {
        match address.parse() {
            Ok(address) => config.hostaddr(address),
            Err(_) => return invalid("hostaddr must be an IP address"),
        };
    }
    let mut ports = Vec::new();
    for port in text("port").unwrap_or("5432").split(',') {
        match if port.is_empty() { Ok(5432) } else { port.parse() } {
            Ok(port) if port > 0 => ports.push(port),
            _ => return invalid("a port must be a number from 1 to 65535"),
        }
    }
    for port in &ports {
        config.port(*port);
    }
    let user = text("user").map_or_else(operating_system_user, str::to_owned);
    let database = text("dbname").unwrap_or(&user);
    config.user(&user).dbname(database);
    let first_host = hosts.first().map_or("", String::as_str);
    let port = ports.first().copied().unwrap_or(5432);
    match text("password") {
        Some(password) => config.password(password),
        None => match password::find(text("passfile"), first_host, port, database, &user) {
            Some(password) => config.password(password),
            None => &mut config,
        },
    };
    config.application_name(text("application_name").unwrap_or("bandog"));
    if let Some(options) = text("options") {
        config.options(options);
    }
    let connect_timeout = seconds(text("connect_timeout"), "connect_timeout")?.unwrap_or(Duration::from_secs(10));
    config.connect_timeout(connect_timeout);
    tune(&mut config, given)?;
    let ssl_mode = ssl_mode(given)?;
    let place = if hosts.is_empty() { text("hostaddr").unwrap_or_default().to_owned() } else { hosts.join(",") };
    let port = if ports == [5432] { String::new() } else { format!(":{}", text("port").unwrap_or_default()) };
    let target = format!("postgresql://{place}{port}/{database}");
    let notify = match text("notify").unwrap_or("1") {
        "0" => false,
        "1" => true,
        _ => return invalid("notify must be 0 or 1"),
    };
    Ok(Address { config, target, ssl_mode, connect_timeout, notify, listen: listen(given)? })
}

/// The same server by another way, where one is named.
fn listen(given: &BTreeMap<String, String>) -> Result<Option<Box<Address>>> {
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
    build(&other).map(|address| Some(Box::new(address)))
}

/// What is about the link, and about choosing among hosts.
fn tune(config: &mut Config, given: &BTreeMap<String, String>) -> Result<()> {
    let text = |name: &str| given.get(name).map(String::as_str);
    match text("target_session_attrs").unwrap_or("any") {
        "any" => config.target_session_attrs(TargetSessionAttrs::Any),
        "read-write" | "primary" => config.target_session_attrs(TargetSessionAttrs::ReadWrite),
        _ => return invalid("target_session_attrs must be any, read-write or primary: a queue is written to"),
    };
    match text("load_balance_hosts").unwrap_or("disable") {
        "disable" => config.load_balance_hosts(LoadBalanceHosts::Disable),
        "random" => config.load_balance_hosts(LoadBalanceHosts::Random),
        _ => return invalid("load_balance_hosts must be disable or random"),
    };
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

fn ssl_mode(given: &BTreeMap<String, String>) -> Result<SslMode> {
    match given.get("sslmode").map_or("prefer", String::as_str) {
        "disable" => Ok(SslMode::Disable),
        "allow" => Ok(SslMode::Allow),
        "prefer" => Ok(SslMode::Prefer),
        "require" => Ok(SslMode::Require),
        "verify-ca" => Ok(SslMode::VerifyCa),
        "verify-full" => Ok(SslMode::VerifyFull),
        _ => invalid("sslmode must be disable, allow, prefer, require, verify-ca or verify-full"),
    }
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

/// The folder of the server's socket, where there is one.
fn default_host() -> String {
    ["/var/run/postgresql", "/tmp"]
        .into_iter()
        .find(|folder| std::path::Path::new(folder).join(".s.PGSQL.5432").exists())
        .unwrap_or("localhost")
        .to_owned()
}

fn operating_system_user() -> String {
    let variable = |name| std::env::var(name).ok().filter(|user| !user.is_empty());
    variable("USER").or_else(|| variable("LOGNAME")).unwrap_or_else(|| "postgres".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_postgres::config::Host;

    fn read(url: &str) -> Result<Address> {
        Address::read(url, |_| None)
    }

    #[test]
    fn a_url_is_read_as_libpq_does() {
        let address =
            read("postgresql://ada:s%40cret@one:1,[::1]:2/jobs?application_name=mine&connect_timeout=3").unwrap();
        assert_eq!(address.target, "postgresql://one,::1:1,2/jobs");
        assert_eq!(address.config.get_user(), Some("ada"));
        assert_eq!(address.config.get_password(), Some(&b"s@cret"[..]));
        assert_eq!(address.config.get_dbname(), Some("jobs"));
        assert_eq!(address.config.get_ports(), [1, 2]);
        assert_eq!(address.config.get_hosts(), [Host::Tcp("one".into()), Host::Tcp("::1".into())]);
        assert_eq!(address.config.get_application_name(), Some("mine"));
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
        assert_eq!(address.ssl_mode, SslMode::VerifyFull);
    }

    #[test]
    fn there_may_be_another_way_for_listening() {
        let address = read("postgresql://ada:secret@pooler:6432/jobs?listen_host=server&connect_timeout=3").unwrap();
        assert_eq!(address.target, "postgresql://pooler:6432/jobs");
        assert!(address.notify);
        let listen = address.listen.unwrap();
        assert_eq!(listen.target, "postgresql://server/jobs");
        assert_eq!(listen.config.get_password(), Some(&b"secret"[..]));
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
            "postgresql://u:secret@h/db?target_session_attrs=standby",
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
