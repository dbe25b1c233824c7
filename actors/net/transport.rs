//! Where byte streams come from: TCP, or an in-process cluster in tests and the demo.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

/// A connected byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// A future that may cross threads.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Resolves names and opens connections.
pub trait Transport: Send + Sync + fmt::Debug + 'static {
    /// All addresses of `host`, in the resolver's order.
    fn resolve(&self, host: String, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>>;

    /// One connection to one address. Dropping the future gives up.
    fn dial(&self, address: SocketAddr) -> BoxFuture<io::Result<Box<dyn Stream>>>;
}

/// The transport of production: the system's resolver and TCP with `TCP_NODELAY`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Tcp {
    /// The transport as the fleet holds it.
    pub fn shared() -> Arc<dyn Transport> {
        Arc::new(Self)
    }
}

impl Transport for Tcp {
    fn resolve(&self, host: String, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(lookup_host((host.as_str(), port)).await?.collect()) })
    }

    fn dial(&self, address: SocketAddr) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let stream: Box<dyn Stream> = Box::new(stream);
            Ok(stream)
        })
    }
}
