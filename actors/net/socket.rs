//! The task of one socket: dial, TLS, reading and writing.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::port::{IoInput, IoNews, PortId};
use super::tls::Tls;
use super::transport::Stream;
use crate::actors::clock::Clock;
use crate::wire::{Deframer, Input, SocketId, Tier};

/// What the machine has a socket do.
pub(super) enum Order {
    /// Shake hands in TLS as a client of this host.
    Tls(Arc<str>),
    /// Write a frame. The tier is that of its answer.
    Frame(Bytes, Tier),
}

/// Frames are told by their length: some carry secrets.
impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tls(host) => write!(f, "Tls({host:?})"),
            Self::Frame(bytes, tier) => write!(f, "Frame({} bytes, {tier:?})", bytes.len()),
        }
    }
}

/// The task of one open socket.
pub(super) struct Run {
    pub(super) port: PortId,
    pub(super) socket: SocketId,
    pub(super) to_actor: UnboundedSender<IoInput>,
    pub(super) deframer: Deframer,
    pub(super) written: Rc<Cell<u64>>,
    pub(super) clock: Clock,
    pub(super) tls: Option<Arc<Tls>>,
}

impl Run {
    /// Dials, then carries what the machine writes and what the broker answers.
    pub(super) async fn run<D>(self, dial: D, mut orders: UnboundedReceiver<Order>)
    where
        D: Future<Output = std::io::Result<Box<dyn Stream>>>,
    {
        let socket = self.socket;
        let dialed = dial.await;
        let result = dialed.as_ref().map(drop).map_err(ToString::to_string);
        self.tell(Input::Dialed { socket, result });
        let Ok(stream) = dialed else { return };
        let Some(tls) = &self.tls else {
            return self.carry(stream, orders).await;
        };
        // Nothing is written before this is over, and nothing in clear ever.
        let Some(Order::Tls(host)) = orders.recv().await else {
            return;
        };
        match tls.shake(&host, stream).await {
            Ok((stream, asked)) => {
                let result = Ok(asked);
                self.tell(Input::Tls { socket, result });
                self.carry(stream, orders).await;
            }
            Err(failure) => {
                let result = Err(failure);
                self.tell(Input::Tls { socket, result });
            }
        }
    }

    fn tell(&self, input: Input) {
        // An actor that is gone needs no input.
        drop(self.to_actor.send((self.port, IoNews::Input(input))));
    }

    /// Reads and writes until either ends. One future reads, one writes, on one task: closing
    /// aborts both.
    async fn carry(mut self, stream: Box<dyn Stream>, writes: UnboundedReceiver<Order>) {
        let (read, write) = tokio::io::split(stream);
        let (expect, expected) = mpsc::unbounded_channel();
        let written = Rc::clone(&self.written);
        let reason = tokio::select! {
            reason = write_all(write, writes, expect, written) => Some(reason),
            reason = self.read_all(read, expected) => reason,
        };
        if let Some(reason) = reason {
            let (socket, written) = (self.socket, self.written.get());
            self.tell(Input::Lost {
                socket,
                written,
                reason,
            });
        }
    }

    /// Reads frames until the stream ends; the reason, or `None` if the machine was told already.
    async fn read_all(
        &mut self,
        mut stream: ReadHalf<Box<dyn Stream>>,
        mut expected: UnboundedReceiver<Tier>,
    ) -> Option<String> {
        let mut told = self.clock.now();
        loop {
            match stream.read_buf(self.deframer.buffer()).await {
                Ok(0) => return Some("closed by the broker".to_owned()),
                Ok(_) => {}
                Err(error) => return Some(error.to_string()),
            }
            // An answer cannot precede its request, so every tier needed is here by now.
            while let Ok(tier) = expected.try_recv() {
                self.deframer.expect(tier);
            }
            loop {
                match self.deframer.next_frame() {
                    Ok(Some(frame)) => {
                        self.tell(Input::Frame {
                            socket: self.socket,
                            frame,
                        });
                        told = self.clock.now();
                    }
                    Ok(None) => break,
                    Err(error) => {
                        self.tell(Input::Broken {
                            socket: self.socket,
                            error,
                        });
                        return None;
                    }
                }
            }
            if self.deframer.buffered() > 0 && self.clock.now().since(told) >= PROGRESS {
                told = self.clock.now();
                drop(self.to_actor.send((self.port, IoNews::Progress)));
            }
        }
    }
}

/// Writes frames until the stream fails; without senders left it waits for the task to be aborted.
async fn write_all(
    mut stream: WriteHalf<Box<dyn Stream>>,
    mut orders: UnboundedReceiver<Order>,
    expect: UnboundedSender<Tier>,
    written: Rc<Cell<u64>>,
) -> String {
    while let Some(order) = orders.recv().await {
        let Order::Frame(mut bytes, tier) = order else {
            return "a second TLS handshake was ordered".to_owned();
        };
        expect.send(tier).ok();
        while !bytes.is_empty() {
            match stream.write_buf(&mut bytes).await {
                Ok(0) => return "the stream takes no more bytes".to_owned(),
                Ok(count) => written.set(written.get() + u64::try_from(count).unwrap_or(0)),
                Err(error) => return error.to_string(),
            }
        }
        // TLS may hold back what the socket did not take.
        if let Err(error) = stream.flush().await {
            return error.to_string();
        }
    }
    std::future::pending().await
}

/// How often an answer that takes long is told of.
const PROGRESS: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    /// wire.md A28
    #[test]
    fn a_frame_to_write_is_told_by_its_length_alone() {
        let order = Order::Frame(Bytes::from_static(b"hunter2"), Tier::Setup);
        assert_eq!(format!("{order:?}"), "Frame(7 bytes, Setup)");
    }
}
