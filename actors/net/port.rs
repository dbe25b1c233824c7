//! Hosts one connection machine: dials, reads and writes for it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;

use super::transport::{Stream, Transport};
use crate::actors::clock::Clock;
use crate::actors::entropy::Entropy;
use crate::actors::spawn;
use crate::ids::{BrokerId, Moment};
use crate::wire::{
    Caps, Class, Completion, Connection, Deframer, DrainReason, Event, Input, Output, Request,
    Settings, SocketId, Target, Tier, Token,
};

/// What all ports of a fleet have in common.
#[derive(Clone, Debug)]
pub(crate) struct Net {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) settings: Settings,
    pub(crate) caps: Caps,
    pub(crate) clock: Clock,
}

/// Names a port within its actor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PortId(pub(crate) u32);

/// What an I/O task brings to the actor that hosts the port.
pub(crate) type IoInput = (PortId, IoNews);

/// One thing an I/O task has to say.
#[derive(Debug)]
pub(crate) enum IoNews {
    /// For the connection machine.
    Input(Input),
    /// Bytes of an answer came in that is not whole yet. Told at most every 100 ms, and not of
    /// answers that are whole sooner.
    Progress,
}

/// What a port tells its actor.
#[derive(Debug)]
pub(crate) enum Said {
    /// A request ended.
    Completed(Completion),
    /// The broker's other data and control connections are to be muted.
    Throttled(Moment),
    /// Something for logs, counters and facts.
    Event(Event),
}

/// One connection with its sockets. Lives on the thread of its actor.
pub(crate) struct Port {
    id: PortId,
    class: Class,
    connection: Connection,
    net: Net,
    entropy: Entropy,
    // Unbounded, yet bounded: a socket sends one input per frame, and frames are bounded by
    // requests in flight.
    to_actor: UnboundedSender<IoInput>,
    socket: Option<Socket>,
    resolving: Option<JoinHandle<()>>,
}

/// A socket being dialled, or open.
struct Socket {
    id: SocketId,
    /// Frames to write, each with the tier of its answer.
    writes: UnboundedSender<(Bytes, Tier)>,
    /// Bytes handed to the system so far.
    written: Rc<Cell<u64>>,
    task: JoinHandle<()>,
}

impl Port {
    /// A port that dials when the first request comes. `failures` carries over the count of the
    /// port it replaces.
    pub(crate) fn new(
        id: PortId,
        class: Class,
        target: Target,
        net: Net,
        to_actor: UnboundedSender<IoInput>,
        failures: u32,
    ) -> Self {
        let connection = Connection::new(class, target, net.settings.clone(), failures);
        let entropy = Entropy::from_system();
        Self {
            id,
            class,
            connection,
            net,
            entropy,
            to_actor,
            socket: None,
            resolving: None,
        }
    }

    /// What the connection is for.
    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// The machine, for its state and versions.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sends a request; it completes exactly once.
    pub(crate) fn request(&mut self, token: Token, request: Request) -> Vec<Said> {
        self.input(Input::Request { token, request })
    }

    /// Ends the connection in good order.
    pub(crate) fn drain(&mut self, reason: DrainReason) -> Vec<Said> {
        self.input(Input::Drain(reason))
    }

    /// Feeds the machine, performs what it asks for, and returns what concerns the actor.
    pub(crate) fn input(&mut self, input: Input) -> Vec<Said> {
        self.connection
            .handle(input, self.entropy.draw(), self.net.clock.now());
        let mut said = Vec::new();
        while let Some(output) = self.connection.poll_output() {
            match output {
                Output::Resolve { host, port } => self.resolve(&host, port),
                Output::Dial { socket, address } => self.dial(socket, address),
                Output::Write {
                    socket,
                    bytes,
                    tier,
                } => self.write(socket, bytes, tier),
                Output::Close { socket } => self.close(socket),
                Output::Completed(completion) => said.push(Said::Completed(completion)),
                Output::Throttled { until } => said.push(Said::Throttled(until)),
                Output::Event(event) => said.push(Said::Event(event)),
                // Configuration refuses TLS and SASL, so the machine never gets there.
                Output::StartTls { .. } | Output::Sasl { .. } | Output::TwinWanted => {}
            }
        }
        said
    }

    /// Opens the connection although no request waits for it.
    pub(crate) fn open(&mut self) -> Vec<Said> {
        self.input(Input::Open)
    }

    /// Gives the socket up at once; the machine judges what was on it.
    pub(crate) fn hang_up(&mut self) -> Vec<Said> {
        let Some(open) = self.socket.take() else {
            return Vec::new();
        };
        open.task.abort();
        let (socket, written) = (open.id, open.written.get());
        self.input(Input::Lost {
            socket,
            written,
            reason: "hung up".to_owned(),
        })
    }

    /// When to feed [`Input::Tick`] at the latest.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        self.connection.next_deadline()
    }

    fn resolve(&mut self, host: &str, port: u16) {
        let answer = self.net.transport.resolve(host.to_owned(), port);
        let (id, to_actor) = (self.id, self.to_actor.clone());
        let task = spawn::local("resolve", async move {
            let result = answer.await.map_err(|error| error.to_string());
            drop(to_actor.send((id, IoNews::Input(Input::Resolved(result)))));
        });
        if let Some(former) = self.resolving.replace(task) {
            former.abort();
        }
    }

    fn dial(&mut self, socket: SocketId, address: std::net::SocketAddr) {
        let (writes, to_write) = mpsc::unbounded_channel();
        let written = Rc::new(Cell::new(0));
        let run = Run {
            port: self.id,
            socket,
            to_actor: self.to_actor.clone(),
            deframer: Deframer::new(self.net.caps),
            written: Rc::clone(&written),
            clock: self.net.clock,
        };
        let dial = self.net.transport.dial(address);
        let task = spawn::local("socket", async move {
            match dial.await {
                Ok(stream) => {
                    run.tell(Input::Dialed {
                        socket,
                        result: Ok(()),
                    });
                    run.carry(stream, to_write).await;
                }
                Err(error) => {
                    run.tell(Input::Dialed {
                        socket,
                        result: Err(error.to_string()),
                    });
                }
            }
        });
        self.socket = Some(Socket {
            id: socket,
            writes,
            written,
            task,
        });
    }

    fn write(&mut self, socket: SocketId, bytes: Bytes, tier: Tier) {
        if let Some(open) = self.socket.as_ref().filter(|open| open.id == socket) {
            // A task that has ended has told why; the machine will hear of it.
            drop(open.writes.send((bytes, tier)));
        }
    }

    fn close(&mut self, socket: SocketId) {
        if let Some(open) = self.socket.take_if(|open| open.id == socket) {
            open.task.abort();
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Some(open) = self.socket.take() {
            open.task.abort();
        }
        if let Some(resolving) = self.resolving.take() {
            resolving.abort();
        }
    }
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port")
            .field("class", &self.class)
            .field("state", &self.connection.state())
            .finish_non_exhaustive()
    }
}

/// The task of one open socket.
struct Run {
    port: PortId,
    socket: SocketId,
    to_actor: UnboundedSender<IoInput>,
    deframer: Deframer,
    written: Rc<Cell<u64>>,
    clock: Clock,
}

impl Run {
    fn tell(&self, input: Input) {
        // An actor that is gone needs no input.
        drop(self.to_actor.send((self.port, IoNews::Input(input))));
    }

    /// Reads and writes until either ends. One future reads, one writes, on one task: closing
    /// aborts both.
    async fn carry(mut self, stream: Box<dyn Stream>, writes: UnboundedReceiver<(Bytes, Tier)>) {
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
    mut frames: UnboundedReceiver<(Bytes, Tier)>,
    expect: UnboundedSender<Tier>,
    written: Rc<Cell<u64>>,
) -> String {
    while let Some((mut bytes, tier)) = frames.recv().await {
        expect.send(tier).ok();
        while !bytes.is_empty() {
            match stream.write_buf(&mut bytes).await {
                Ok(0) => return "the stream takes no more bytes".to_owned(),
                Ok(count) => written.set(written.get() + u64::try_from(count).unwrap_or(0)),
                Err(error) => return error.to_string(),
            }
        }
    }
    std::future::pending().await
}

/// How often an answer that takes long is told of.
const PROGRESS: Duration = Duration::from_millis(100);

/// The target of a broker's connection.
pub(crate) fn target(broker: Option<BrokerId>, host: &str, port: u16) -> Target {
    Target {
        broker,
        host: host.into(),
        port,
    }
}
