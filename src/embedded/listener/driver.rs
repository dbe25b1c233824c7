//! The task that moves the cluster's clock and serves its connections.

use tokio::io::DuplexStream;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::{Handle, io};
use crate::embedded::ConnectionId;
use crate::ids::Moment;

/// A connection that the cluster has accepted, and its stream.
#[derive(Debug)]
pub(super) struct Incoming {
    connection: ConnectionId,
    stream: Stream,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Memory(DuplexStream),
}

impl Incoming {
    pub(super) fn tcp(connection: ConnectionId, stream: TcpStream) -> Self {
        Self {
            connection,
            stream: Stream::Tcp(stream),
        }
    }

    pub(super) fn memory(connection: ConnectionId, stream: DuplexStream) -> Self {
        Self {
            connection,
            stream: Stream::Memory(stream),
        }
    }
}

/// Runs until it is aborted. Owns the tasks of all connections.
pub(super) async fn drive(handle: Handle, mut arrivals: mpsc::UnboundedReceiver<Incoming>) {
    let mut connections = JoinSet::new();
    loop {
        let due = handle.next_due();
        tokio::select! {
            // Time first: a connection must not see an answer before what was due earlier.
            biased;
            () = sleep_to(due) => handle.run(|_| ()),
            () = handle.0.earlier.notified() => {}
            Some(incoming) = arrivals.recv() => serve(&handle, &mut connections, incoming),
            Some(_ended) = connections.join_next() => {}
        }
    }
}

fn serve(handle: &Handle, connections: &mut JoinSet<()>, incoming: Incoming) {
    let Incoming { connection, stream } = incoming;
    let answers = handle.register(connection);
    let handle = handle.clone();
    match stream {
        Stream::Tcp(stream) => {
            connections.spawn(io::serve(handle, connection, stream, answers));
        }
        Stream::Memory(stream) => {
            connections.spawn(io::serve(handle, connection, stream, answers));
        }
    }
}

async fn sleep_to(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl Handle {
    /// When the cluster has something to do by itself; notes that the driver sleeps until then.
    fn next_due(&self) -> Option<Instant> {
        let mut shared = self.lock();
        let due = shared.cluster.next_deadline();
        shared.sleeps_until = due;
        due.map(|due| self.0.started + due.since(Moment::ZERO))
    }
}
