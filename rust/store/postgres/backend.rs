//! Which process of the server a link was told that it talks to.
//!
//! A server names its process when a session begins, as the key to cancel with. A pooler that hands sessions round has to
//! give out keys of its own making. So where the key's process is the one that carries out statements, the session is the
//! link's own, and may be told things that last.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use futures_util::future::{Ready, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Client;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// The length of a request to cancel, and where it names the process.
const REQUEST: usize = 16;
const PROCESS: std::ops::Range<usize> = 8..12;

/// The process that the key names. The driver tells it to nobody but the connection that a request to cancel goes to; this
/// one ends here.
pub(super) async fn process_of_key(client: &Client) -> Option<i32> {
    let written = Rc::new(RefCell::new(Vec::new()));
    let nowhere = Nowhere(Rc::clone(&written));
    client.cancel_token().cancel_query_raw(nowhere, InTheClear).await.ok()?;
    let written = written.borrow();
    let request = &written[written.len().checked_sub(REQUEST)?..];
    Some(i32::from_be_bytes(request[PROCESS].try_into().ok()?))
}

/// Keeps what is written, and agrees to encryption.
struct Nowhere(Rc<RefCell<Vec<u8>>>);

impl AsyncRead for Nowhere {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        into.put_slice(b"S");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Nowhere {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl TlsStream for Nowhere {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// Takes the stream as it is: it leads nowhere.
struct InTheClear;

impl TlsConnect<Nowhere> for InTheClear {
    type Stream = Nowhere;
    type Error = io::Error;
    type Future = Ready<io::Result<Nowhere>>;

    fn connect(self, stream: Nowhere) -> Self::Future {
        ready(Ok(stream))
    }
}
