//! One connection: to which of the hosts, over which socket, and encrypted as the mode says.
//!
//! Hosts are tried in the order of the URL, each address of a host for as long as `connect_timeout`. Each host is verified by
//! its own name. From `require` up nothing is sent before the connection is encrypted but the question whether it can be.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode as Wish, SslNegotiation};
use tokio_postgres::tls::{NoTls, TlsConnect, TlsStream};
use tokio_postgres::{AsyncMessage, Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::Address;
use super::fault::{Fault, describe};
use super::place::{Place, Standing};
use super::shared::Shared;
use super::socket::Wire;
use super::tls::SslMode;
use super::trouble::{Stage, Trouble};

/// Reads and writes the socket. Aborted with the link, so that nothing is left behind.
pub(super) struct Driving(pub(super) JoinHandle<()>);

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a connection is for, and whose it is.
#[derive(Clone, Copy)]
pub(super) struct Duty<'a> {
    pub(super) name: &'static str,
    pub(super) shared: &'a Arc<Shared>,
}

/// A session on a server.
pub(super) type Session = (Client, Driving);

/// Connect to the first host that answers and stands as was asked for. `next` is where to begin: where the caller gives up on
/// a host that is silent, the next attempt begins after it.
pub(super) async fn connect(address: &Address, duty: Duty<'_>, next: &Cell<usize>) -> Result<Session, Fault> {
    let mut order: Vec<usize> = (0..address.places.len()).collect();
    match address.any_order {
        true => fastrand::shuffle(&mut order),
        false => order.rotate_left(next.get() % address.places.len().max(1)),
    }
    let mut troubles: Vec<(usize, Fault)> = Vec::new();
    for standing in address.standing.in_turn() {
        for &number in &order {
            next.set(number + 1);
            match connect_to_place(address, &address.places[number], *standing, duty).await {
                Ok(session) => {
                    next.set(0);
                    return Ok(session);
                }
                Err(trouble) => {
                    if trouble.is_lack_of_connections() {
                        duty.shared.connection_is_lacking.send_replace(());
                    }
                    troubles.retain(|(earlier, _)| *earlier != number);
                    troubles.push((number, trouble.fault(address, &address.places[number])));
                }
            }
        }
    }
    next.set(0);
    Err(altogether(troubles.into_iter().map(|(_, fault)| fault).collect()))
}

/// One fault of several hosts' faults: worth trying again where one of them is.
fn altogether(mut faults: Vec<Fault>) -> Fault {
    if faults.len() == 1 {
        return faults.remove(0);
    }
    let again = faults.iter().any(|fault| matches!(fault, Fault::Lost(_)));
    let problem = faults.into_iter().map(Fault::problem).collect::<Vec<_>>().join("; ");
    if again { Fault::Lost(problem) } else { Fault::broken(problem) }
}

async fn connect_to_place(
    address: &Address,
    place: &Place,
    standing: Standing,
    duty: Duty<'_>,
) -> Result<Session, Trouble> {
    let bounded = async |attempt: LocalBoxFuture<'_, Result<Session, Trouble>>| {
        tokio::time::timeout(address.connect_timeout, attempt).await.unwrap_or(Err(Trouble::Silent))
    };
    if place.is_folder() {
        // The mode is about the network.
        let attempt = async {
            let session = plain(Wire::to_folder(place.host.as_ref(), place.port).await?, place, duty).await?;
            stands(&session.0, standing).await.map(|()| session)
        };
        return bounded(attempt.boxed_local()).await;
    }
    let addresses: Vec<IpAddr> = if let Some(known) = place.address {
        vec![known]
    } else {
        let looking = tokio::net::lookup_host((place.host.as_str(), place.port));
        let found = tokio::time::timeout(address.connect_timeout, looking).await.map_err(|_| Trouble::Silent)??;
        found.map(|found| found.ip()).collect()
    };
    let mut trouble = Trouble::Socket(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    for ip in addresses {
        let attempt = async {
            let session = by_mode(address, place, ip, duty).await?;
            stands(&session.0, standing).await.map(|()| session)
        };
        match bounded(attempt.boxed_local()).await {
            Ok(session) => return Ok(session),
            Err(Trouble::Socket(error)) => trouble = Trouble::Socket(error),
            Err(Trouble::Silent) => trouble = Trouble::Silent,
            // It was there, and another address of it would say the same.
            Err(other) => return Err(other),
        }
    }
    Err(trouble)
}

/// Encrypted, plain, or one after the other.
async fn by_mode(address: &Address, place: &Place, ip: IpAddr, duty: Duty<'_>) -> Result<Session, Trouble> {
    let encryption = &address.encryption;
    let connector = || encryption.connector().map_err(Trouble::Settings);
    let wire = || Wire::to_address(ip, place.port, &place.config);
    match encryption.mode {
        SslMode::Disable => plain(wire().await?, place, duty).await,
        SslMode::Allow => match plain(wire().await?, place, duty).await {
            Err(trouble) if trouble.asks_for_encryption() => {
                encrypted(wire().await?, place, connector()?, Wish::Require, false, duty).await
            }
            result => result,
        },
        SslMode::Prefer => match encrypted(wire().await?, place, connector()?, Wish::Prefer, false, duty).await {
            Err(trouble) if trouble.asks_for_plain_text() => {
                let problem = trouble.fault(address, place).problem();
                log::warn!("connecting without encryption, as sslmode=prefer allows: {problem}");
                plain(wire().await?, place, duty).await
            }
            result => result,
        },
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => {
            encrypted(wire().await?, place, connector()?, Wish::Require, encryption.direct, duty).await
        }
    }
}

async fn plain(wire: Wire, place: &Place, duty: Duty<'_>) -> Result<Session, Trouble> {
    let config = with(&place.config, Wish::Disable, false);
    let (client, connection) =
        config.connect_raw(wire, NoTls).await.map_err(|error| Trouble::driver(error, Stage::Plain, Wish::Disable))?;
    Ok((client, drive(connection, duty)))
}

async fn encrypted(
    wire: Wire,
    place: &Place,
    mut connector: MakeRustlsConnect,
    wish: Wish,
    direct: bool,
    duty: Duty<'_>,
) -> Result<Session, Trouble> {
    let stage = Rc::new(Cell::new(Stage::Plain));
    let Ok(inner) = tokio_postgres::tls::MakeTlsConnect::<Wire>::make_tls_connect(&mut connector, &place.host);
    let noting = Noting { inner, stage: Rc::clone(&stage) };
    let config = with(&place.config, wish, direct);
    let (client, connection) =
        config.connect_raw(wire, noting).await.map_err(|error| Trouble::driver(error, stage.get(), wish))?;
    if stage.get() == Stage::Plain {
        log::debug!(
            "the {} link is not encrypted: {place} does not offer it, and sslmode=prefer allows that",
            duty.name
        );
    }
    Ok((client, drive(connection, duty)))
}

fn with(config: &Config, wish: Wish, direct: bool) -> Config {
    let mut config = config.clone();
    config.ssl_mode(wish);
    config.ssl_negotiation(if direct { SslNegotiation::Direct } else { SslNegotiation::Postgres });
    config
}

fn drive<T>(connection: tokio_postgres::Connection<Wire, T>, duty: Duty<'_>) -> Driving
where
    T: TlsStream + Unpin + 'static,
{
    Driving(tokio::task::spawn_local(carry(Arc::clone(duty.shared), duty.name, connection)))
}

/// Read and write the socket of a link until it ends, and pass on what the server says of itself.
async fn carry<T>(shared: Arc<Shared>, duty: &'static str, mut connection: tokio_postgres::Connection<Wire, T>)
where
    T: TlsStream + Unpin + 'static,
{
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            Ok(AsyncMessage::Notification(notice)) if shared.notices.is_news(notice.process_id()) => shared.heard(),
            Ok(AsyncMessage::Notice(notice)) => log::debug!("the server says: {}", notice.message()),
            Ok(_) => {}
            Err(error) => {
                log::debug!("the {duty} link ended: {}", describe(&error));
                break;
            }
        }
    }
    shared.notices.disconnected(duty);
}

/// Whether the server stands as was asked for.
pub(super) async fn stands(client: &Client, standing: Standing) -> Result<(), Trouble> {
    const QUESTION: &str = "SELECT pg_catalog.pg_is_in_recovery(), \
                            pg_catalog.current_setting('transaction_read_only') = 'on'";
    if standing == Standing::Any {
        return Ok(());
    }
    let driver = |error| Trouble::driver(error, Stage::Done, Wish::Disable);
    let rows = client.query_typed(QUESTION, &[]).await.map_err(driver)?;
    let value = |column| rows.first().map_or(Ok(false), |row| row.try_get::<_, bool>(column)).map_err(driver);
    let (in_recovery, read_only) = (value(0)?, value(1)?);
    let refused = match standing {
        Standing::ReadWrite if read_only => "it does not allow writes",
        Standing::ReadOnly if !read_only => "it allows writes",
        Standing::Primary if in_recovery => "it is a standby",
        Standing::Standby if !in_recovery => "it is not a standby",
        _ => return Ok(()),
    };
    Err(Trouble::Standing(refused, standing))
}

/// Shakes hands as `inner` does, and notes how far it came.
struct Noting<T> {
    inner: T,
    stage: Rc<Cell<Stage>>,
}

impl<T> TlsConnect<Wire> for Noting<T>
where
    T: TlsConnect<Wire>,
    T::Future: 'static,
{
    type Stream = T::Stream;
    type Error = T::Error;
    type Future = LocalBoxFuture<'static, Result<T::Stream, T::Error>>;

    fn connect(self, wire: Wire) -> Self::Future {
        self.stage.set(Stage::ShakingHands);
        let shaking = self.inner.connect(wire);
        async move {
            let stream = shaking.await?;
            self.stage.set(Stage::Done);
            Ok(stream)
        }
        .boxed_local()
    }
}
