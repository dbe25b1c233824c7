//! Where byte streams come from: TCP, or an in-process cluster in tests and the demo.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream, lookup_host};

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

    /// The name of an address, by the system's reverse lookup unless the transport knows better.
    /// Asked at the start alone, for `client.dns.lookup=resolve_canonical_bootstrap_servers_only`.
    fn name_of(&self, address: IpAddr) -> BoxFuture<io::Result<String>> {
        Box::pin(async move {
            let looked_up = tokio::task::spawn_blocking(move || dns_lookup::lookup_addr(&address));
            looked_up.await.map_err(io::Error::other)?
        })
    }
}

/// The transport of production: the system's resolver, and TCP that notices a peer that is gone.
///
/// Small writes go at once (`TCP_NODELAY`). A connection without traffic is probed after 30 s,
/// every 10 s, and given up after three probes; one whose bytes nobody acknowledges is given up
/// after [`Tcp::giving_up_after`], where the system knows how (`TCP_USER_TIMEOUT`; wire.md C6).
#[derive(Clone, Copy, Debug)]
pub struct Tcp {
    unacknowledged_max: Duration,
    send_buffer: Option<u32>,
    receive_buffer: Option<u32>,
}

impl Tcp {
    /// Connections whose bytes nobody acknowledges for `time` are given up (default 30 s).
    pub const fn giving_up_after(time: Duration) -> Self {
        Self {
            unacknowledged_max: time,
            send_buffer: None,
            receive_buffer: None,
        }
    }

    /// The same with socket buffers of these sizes, in bytes; `None` leaves one to the system.
    #[must_use]
    pub const fn buffers(self, send: Option<u32>, receive: Option<u32>) -> Self {
        Self {
            send_buffer: send,
            receive_buffer: receive,
            ..self
        }
    }

    /// A socket for a peer of this kind of address. Buffers are set before it connects: what TCP
    /// may have in flight is settled then.
    fn socket(self, address: SocketAddr) -> io::Result<TcpSocket> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        if let Some(size) = self.send_buffer {
            socket.set_send_buffer_size(size)?;
        }
        if let Some(size) = self.receive_buffer {
            socket.set_recv_buffer_size(size)?;
        }
        Ok(socket)
    }

    /// What a system does not know, or refuses, it does without.
    fn tune(self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let socket = SockRef::from(stream);
        let keepalive = TcpKeepalive::new().with_time(PROBE_AFTER);
        #[cfg(not(target_os = "openbsd"))]
        let keepalive = keepalive
            .with_interval(PROBE_EVERY)
            .with_retries(PROBES_MAX);
        if let Err(error) = socket.set_tcp_keepalive(&keepalive) {
            tracing::debug!(%error, "no keepalive");
        }
        #[cfg(target_os = "linux")]
        if let Err(error) = socket.set_tcp_user_timeout(Some(self.unacknowledged_max)) {
            tracing::debug!(%error, "no limit to bytes without acknowledgement");
        }
        Ok(())
    }
}

impl Default for Tcp {
    fn default() -> Self {
        Self::giving_up_after(Duration::from_secs(30))
    }
}

impl Transport for Tcp {
    fn resolve(&self, host: String, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(lookup_host((host.as_str(), port)).await?.collect()) })
    }

    fn dial(&self, address: SocketAddr) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let tcp = *self;
        Box::pin(async move {
            let stream = tcp.socket(address)?.connect(address).await?;
            tcp.tune(&stream)?;
            let stream: Box<dyn Stream> = Box::new(stream);
            Ok(stream)
        })
    }
}

/// How long a connection is quiet before the system asks whether the peer is there.
const PROBE_AFTER: Duration = Duration::from_secs(30);
/// How often it asks again.
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// How often in all.
const PROBES_MAX: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// wire.md 5.3 C6
    #[test]
    #[cfg(target_os = "linux")]
    fn sockets_are_set_up_as_configured_and_notice_a_peer_that_is_gone() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let time = Duration::from_secs(17);
        let tcp = Tcp::giving_up_after(time).buffers(Some(20_000), Some(30_000));
        let connect = async { tcp.socket(at).unwrap().connect(at).await };
        let stream = runtime.block_on(connect).unwrap();
        tcp.tune(&stream).unwrap();
        let socket = SockRef::from(&stream);
        assert!(stream.nodelay().unwrap() && socket.keepalive().unwrap());
        let probes = (
            socket.tcp_keepalive_time().unwrap(),
            socket.tcp_keepalive_interval().unwrap(),
            socket.tcp_keepalive_retries().unwrap(),
        );
        assert_eq!(probes, (PROBE_AFTER, PROBE_EVERY, PROBES_MAX));
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(time));
        // Linux doubles what it is told, for its own books.
        assert_eq!(socket.send_buffer_size().unwrap(), 40_000);
        assert_eq!(socket.recv_buffer_size().unwrap(), 60_000);
    }
}
