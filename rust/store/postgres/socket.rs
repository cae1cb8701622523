//! The socket of a connection: one that is in the register of `descriptors`, so that a forked child lets go of it.
#![allow(unsafe_code, reason = "a socket is closed while the register is locked, and so before its field is dropped")]

use std::io;
use std::mem::ManuallyDrop;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{Domain, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_postgres::Config;

use super::descriptors;
use crate::fork::Generation;

/// A connected socket.
pub(super) struct Wire {
    /// Closed by `drop`, together with its entry in the register.
    stream: ManuallyDrop<Stream>,
    opened_in: Generation,
}

enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Wire {
    /// Connect to an address of a host, with the keepalives of the configuration.
    pub(super) async fn to_address(address: IpAddr, port: u16, config: &Config) -> io::Result<Self> {
        let address = SocketAddr::from((address, port));
        let tune = |socket: &Socket| {
            socket.set_tcp_nodelay(true)?;
            tune(socket, config)
        };
        let stream = |socket: Socket| TcpStream::from_std(socket.into()).map(Stream::Tcp);
        let wire = Self::open(Domain::for_address(address), &address.into(), tune, stream)?;
        wire.connected().await
    }

    /// Connect to a server on this machine, by the folder of its socket.
    #[cfg(unix)]
    pub(super) async fn to_folder(folder: &Path, port: u16) -> io::Result<Self> {
        let path = folder.join(format!(".s.PGSQL.{port}"));
        let stream = |socket: Socket| UnixStream::from_std(socket.into()).map(Stream::Unix);
        Self::open(Domain::UNIX, &SockAddr::unix(path)?, |_| Ok(()), stream)?.connected().await
    }

    #[cfg(not(unix))]
    pub(super) async fn to_folder(_folder: &Path, _port: u16) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "a socket in a folder is not for this system; name a host"))
    }

    fn open(
        domain: Domain,
        address: &SockAddr,
        tune: impl FnOnce(&Socket) -> io::Result<()>,
        stream: impl FnOnce(Socket) -> io::Result<Stream>,
    ) -> io::Result<Self> {
        let opened_in = Generation::current();
        // Nothing is waited for while the register is locked: the connection is only begun.
        let mut register = descriptors::lock();
        let socket = Socket::new(domain, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        tune(&socket)?;
        match socket.connect(address) {
            Err(error) if !begun(&error) => return Err(error),
            _ => {}
        }
        let number = descriptors::number(&socket);
        let stream = stream(socket)?;
        register.push(number);
        Ok(Self { stream: ManuallyDrop::new(stream), opened_in })
    }

    async fn connected(self) -> io::Result<Self> {
        let failed = match &*self.stream {
            Stream::Tcp(stream) => {
                stream.writable().await?;
                stream.take_error()?
            }
            #[cfg(unix)]
            Stream::Unix(stream) => {
                stream.writable().await?;
                stream.take_error()?
            }
        };
        failed.map_or(Ok(self), Err)
    }

    /// Refuse to go on in a forked child: the descriptor is closed there, and its number may be another one's by now.
    fn usable(&mut self) -> io::Result<&mut Stream> {
        if self.opened_in.is_current() {
            Ok(&mut self.stream)
        } else {
            Err(io::Error::other("the connection belongs to the process that this one was forked from"))
        }
    }
}

/// Whether the connection will be there soon.
fn begun(error: &io::Error) -> bool {
    match cfg!(windows) {
        true => error.kind() == io::ErrorKind::WouldBlock,
        false => error.raw_os_error() == Some(libc::EINPROGRESS),
    }
}

fn tune(socket: &Socket, config: &Config) -> io::Result<()> {
    let socket = SockRef::from(socket);
    #[cfg(target_os = "linux")]
    if let Some(&timeout) = config.get_tcp_user_timeout() {
        socket.set_tcp_user_timeout(Some(timeout))?;
    }
    if config.get_keepalives() {
        let mut keepalive = TcpKeepalive::new().with_time(config.get_keepalives_idle());
        keepalive = keepalive.with_interval(config.get_keepalives_interval().unwrap_or(Duration::from_secs(10)));
        keepalive = keepalive.with_retries(config.get_keepalives_retries().unwrap_or(3));
        socket.set_tcp_keepalive(&keepalive)?;
    }
    Ok(())
}

impl Drop for Wire {
    fn drop(&mut self) {
        if !self.opened_in.is_current() {
            return; // closed already, in the child
        }
        let mut register = descriptors::lock();
        let number = match &*self.stream {
            Stream::Tcp(stream) => descriptors::number(stream),
            #[cfg(unix)]
            Stream::Unix(stream) => descriptors::number(stream),
        };
        register.retain(|&registered| registered != number);
        // SAFETY: nothing uses the stream after `drop`. The register is locked, so that no child inherits a descriptor that
        // is no longer in it, and none closes a number that is in use again.
        unsafe { ManuallyDrop::drop(&mut self.stream) };
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut().usable()? {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, into),
            #[cfg(unix)]
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut().usable()? {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            #[cfg(unix)]
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut().usable()? {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            #[cfg(unix)]
            Stream::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut().usable()? {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            #[cfg(unix)]
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
