//! The bytes of one proxied connection, in both directions.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Instant;

use super::super::wait::now;
use super::{Fault, Shared};

/// Bytes on their way, and when they may arrive.
struct Chunk {
    bytes: Vec<u8>,
    due: Option<Instant>,
}

impl Shared {
    pub(super) fn serve(
        self: &Arc<Self>,
        id: u64,
        client: TcpStream,
        broker: SocketAddr,
    ) -> io::Result<()> {
        self.gate(id)?;
        let broker = TcpStream::connect(broker)?;
        client.set_nodelay(true)?;
        broker.set_nodelay(true)?;
        let (down_from, down_to) = (broker.try_clone()?, client.try_clone()?);
        match self.lock().connections.get_mut(&id) {
            Some(pair) => pair.broker = Some(broker.try_clone()?),
            None => return Err(io::ErrorKind::ConnectionAborted.into()),
        }
        let (chunks, on_their_way) = mpsc::sync_channel(CHUNKS_MAX);
        let (taker, giver) = (Arc::clone(self), Arc::clone(self));
        let down = [
            thread::spawn(move || taker.take(down_from, &chunks)),
            thread::spawn(move || giver.give(id, &on_their_way, down_to)),
        ];
        self.pass(id, client, broker);
        for thread in down {
            // Neither has a panic to pass on.
            drop(thread.join());
        }
        Ok(())
    }

    /// From the client: passes bytes on until either side ends, then ends both.
    fn pass(&self, id: u64, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; CHUNK_BYTES];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let chunk = buffer.get(..length).unwrap_or_default();
            if self.gate(id).and_then(|()| to.write_all(chunk)).is_err() {
                break;
            }
        }
        end(&from, &to);
    }

    /// From the broker: notes when each lot of bytes may arrive.
    fn take(&self, mut from: TcpStream, chunks: &SyncSender<Chunk>) {
        let mut buffer = vec![0; CHUNK_BYTES];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let due = match self.lock().fault {
                Fault::Late(delay) => Some(now() + delay),
                Fault::None | Fault::Refuse | Fault::Vanish => None,
            };
            let bytes = buffer.get(..length).unwrap_or_default().to_vec();
            if chunks.send(Chunk { bytes, due }).is_err() {
                break;
            }
        }
        drop(from.shutdown(Shutdown::Both));
    }

    /// To the client: hands each lot over when it is due, in their order.
    fn give(&self, id: u64, chunks: &Receiver<Chunk>, mut to: TcpStream) {
        while let Ok(Chunk { bytes, due }) = chunks.recv() {
            if let Some(wait) = due.map(|due| due.saturating_duration_since(now())) {
                thread::sleep(wait);
            }
            if self.gate(id).and_then(|()| to.write_all(&bytes)).is_err() {
                break;
            }
        }
        drop(to.shutdown(Shutdown::Both));
    }

    /// Holds the caller while packets vanish; an error when the connection was cut meanwhile.
    fn gate(&self, id: u64) -> io::Result<()> {
        let mut state = self.lock();
        while state.fault == Fault::Vanish && state.connections.contains_key(&id) {
            state = self.wait(state);
        }
        if state.connections.contains_key(&id) {
            Ok(())
        } else {
            Err(io::ErrorKind::ConnectionAborted.into())
        }
    }

    pub(super) fn forget(&self, id: u64) {
        self.lock().connections.remove(&id);
    }
}

fn end(from: &TcpStream, to: &TcpStream) {
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}

const CHUNK_BYTES: usize = 64 * 1024;
/// Bytes a late connection holds are at most this many lots.
const CHUNKS_MAX: usize = 256;
