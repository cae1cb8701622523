//! The socket of a connection: one whose descriptor is known, so that a forked child lets go of it.
//!
//! A child that outlives a killed parent would otherwise keep the connection open, and with it the session on the server and
//! every row that the session has locked. So each descriptor is in a register from before it is connected until it is closed,
//! and the child closes what the register names before any user code runs.
#![allow(unsafe_code, reason = "registers fork handlers, and closes descriptors by number in a forked child")]

use std::io;
use std::mem::ManuallyDrop;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{Domain, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::Config;

use crate::fork::Generation;

/// A connected socket.
pub(super) struct Wire {
    /// Closed by `drop`, together with its entry in the register.
    stream: ManuallyDrop<Stream>,
    opened_in: Generation,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Wire {
    /// Connect to an address of a host, with the keepalives of the configuration.
    pub(super) async fn to_address(address: IpAddr, port: u16, config: &Config) -> io::Result<Self> {
        let address = SocketAddr::from((address, port));
        let wire = Self::open(Domain::for_address(address), &address.into(), |socket| {
            socket.set_tcp_nodelay(true)?;
            tune(socket, config)
        })?;
        wire.connected().await
    }

    /// Connect to a server on this machine, by the folder of its socket.
    pub(super) async fn to_folder(folder: &Path, port: u16) -> io::Result<Self> {
        let path = folder.join(format!(".s.PGSQL.{port}"));
        Self::open(Domain::UNIX, &SockAddr::unix(path)?, |_| Ok(()))?.connected().await
    }

    fn open(domain: Domain, address: &SockAddr, tune: impl FnOnce(&Socket) -> io::Result<()>) -> io::Result<Self> {
        let opened_in = Generation::current();
        let mut register = register::lock();
        let socket = Socket::new(domain, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        tune(&socket)?;
        let descriptor = socket.as_raw_fd();
        // Before the register knows the descriptor nothing is sent, and nothing is waited for while it is locked.
        match socket.connect(address) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        let stream = match domain == Domain::UNIX {
            true => Stream::Unix(UnixStream::from_std(socket.into())?),
            false => Stream::Tcp(TcpStream::from_std(socket.into())?),
        };
        register.push(descriptor);
        Ok(Self { stream: ManuallyDrop::new(stream), opened_in })
    }

    async fn connected(self) -> io::Result<Self> {
        let failed = match &*self.stream {
            Stream::Tcp(stream) => {
                stream.writable().await?;
                stream.take_error()?
            }
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
        let mut register = register::lock();
        let descriptor = match &*self.stream {
            Stream::Tcp(stream) => stream.as_raw_fd(),
            Stream::Unix(stream) => stream.as_raw_fd(),
        };
        register.retain(|&registered| registered != descriptor);
        // SAFETY: nothing uses the stream after `drop`. The register is locked, so that no child inherits a descriptor that
        // is no longer in it, and none closes a number that is in use again.
        unsafe { ManuallyDrop::drop(&mut self.stream) };
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut().usable()? {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, into),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut().usable()? {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut().usable()? {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut().usable()? {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// The descriptors of all sockets of this process.
mod register {
    use std::cell::Cell;
    use std::os::fd::RawFd;
    use std::sync::{Mutex, MutexGuard, Once, PoisonError};

    type Guard = MutexGuard<'static, Vec<RawFd>>;

    static OPEN: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

    /// The lock, carried from before a fork to after it.
    struct Held(Cell<Option<Guard>>);

    // SAFETY: only the holder of the lock touches the cell: it is filled after locking and emptied to unlock, on one thread.
    unsafe impl Sync for Held {}

    static HELD: Held = Held(Cell::new(None));

    /// Lock the register. A fork waits meanwhile, so hold it for as long as a system call takes that waits for nobody.
    pub(super) fn lock() -> Guard {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            // SAFETY: the three functions live as long as this library, take no arguments and never unwind.
            let outcome = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
            assert_eq!(outcome, 0, "pthread_atfork failed: out of memory");
        });
        OPEN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    unsafe extern "C" fn prepare() {
        HELD.0.set(Some(OPEN.lock().unwrap_or_else(PoisonError::into_inner)));
    }

    unsafe extern "C" fn parent() {
        drop(HELD.0.take());
    }

    /// Only what is safe after the fork of a process with many threads: system calls, and the release of this thread's lock.
    unsafe extern "C" fn child() {
        if let Some(mut open) = HELD.0.take() {
            for &descriptor in &*open {
                // SAFETY: the number is an open socket's of ours; what used it is the parent's, or refuses to (see `usable`).
                unsafe { libc::close(descriptor) };
            }
            open.clear(); // frees nothing
        }
    }
}
