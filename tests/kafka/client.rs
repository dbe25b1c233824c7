//! The smallest host of a connection machine: one blocking socket, one request at a time.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use nearside::ids::{Draw, Moment};
use nearside::wire::{
    Caps, Class, Completion, Connection, Deframer, Input, Output, Request, Response, Settings,
    SocketId, Target, Token,
};

/// One connection of ours to one broker.
pub(crate) struct Client {
    machine: Connection,
    socket: Option<Socket>,
    inputs: VecDeque<Input>,
    completed: Option<Completion>,
    started: Instant,
    tokens: u64,
}

struct Socket {
    id: SocketId,
    stream: TcpStream,
    deframer: Deframer,
    written: u64,
}

impl Client {
    /// A connection that dials with its first request.
    pub(crate) fn new(address: SocketAddr) -> Self {
        let host = address.ip().to_string().into();
        let target = Target {
            broker: None,
            host,
            port: address.port(),
        };
        Self {
            machine: Connection::new(Class::Control, target, Settings::default(), 0),
            socket: None,
            inputs: VecDeque::new(),
            completed: None,
            started: now(),
            tokens: 0,
        }
    }

    /// Asks and waits for the answer, at the highest version both sides speak.
    pub(crate) fn ask(&mut self, request: impl Into<Request>) -> Result<Response, Failed> {
        Ok(self.complete(request.into())?.result?)
    }

    /// Asks and waits for the end of the request, whatever it is.
    pub(crate) fn complete(&mut self, request: Request) -> Result<Completion, Failed> {
        self.tokens += 1;
        self.inputs.push_back(Input::Request {
            token: Token(self.tokens),
            request,
        });
        loop {
            self.drain()?;
            if let Some(completed) = self.completed.take() {
                return Ok(completed);
            }
            let input = self.listen();
            self.inputs.push_back(input);
        }
    }

    fn drain(&mut self) -> Result<(), Failed> {
        while let Some(input) = self.inputs.pop_front() {
            self.machine.handle(input, Draw(0), self.moment());
            while let Some(output) = self.machine.poll_output() {
                self.act(output)?;
            }
        }
        Ok(())
    }

    fn act(&mut self, output: Output) -> Result<(), Failed> {
        match output {
            Output::Resolve { host, port } => {
                let address = SocketAddr::new(host.parse()?, port);
                self.inputs.push_back(Input::Resolved(Ok(vec![address])));
            }
            Output::Dial { socket, address } => self.dial(socket, address),
            Output::Write { bytes, tier, .. } => {
                let socket = self.socket.as_mut().ok_or("written without a socket")?;
                socket.deframer.expect(tier);
                socket.stream.write_all(&bytes)?;
                socket.written += bytes.len() as u64;
            }
            Output::Close { .. } => self.socket = None,
            Output::Completed(completion) => self.completed = Some(completion),
            Output::Throttled { .. } | Output::Event(_) => {}
            other @ (Output::StartTls { .. }
            | Output::Sasl { .. }
            | Output::TwinWanted
            | Output::Returned(_)) => {
                return Err(format!("a plaintext connection wants {other:?}").into());
            }
        }
        Ok(())
    }

    fn dial(&mut self, id: SocketId, address: SocketAddr) {
        let result = TcpStream::connect(address).and_then(|stream| {
            stream.set_nodelay(true)?;
            Ok(stream)
        });
        let result = result.map_err(|error| error.to_string()).map(|stream| {
            let deframer = Deframer::new(Caps::default());
            self.socket = Some(Socket {
                id,
                stream,
                deframer,
                written: 0,
            });
        });
        self.inputs.push_back(Input::Dialed { socket: id, result });
    }

    /// The next thing that happens: a frame, the end of the socket, or a deadline.
    fn listen(&mut self) -> Input {
        let wait = self
            .machine
            .next_deadline()
            .map_or(TICK, |due| due.since(self.moment()));
        // A read timeout of zero would mean none.
        let wait = wait.clamp(Duration::from_millis(1), TICK);
        match &mut self.socket {
            Some(socket) => socket.listen(wait),
            None => {
                std::thread::park_timeout(wait);
                Input::Tick
            }
        }
    }

    fn moment(&self) -> Moment {
        Moment::ZERO + self.started.elapsed()
    }
}

impl Socket {
    fn listen(&mut self, wait: Duration) -> Input {
        let (id, written) = (self.id, self.written);
        let lost = |reason: String| Input::Lost {
            socket: id,
            written,
            reason,
        };
        if let Err(error) = self.stream.set_read_timeout(Some(wait)) {
            return lost(error.to_string());
        }
        loop {
            match self.deframer.next_frame() {
                Ok(Some(frame)) => return Input::Frame { socket: id, frame },
                Ok(None) => {}
                Err(error) => return Input::Broken { socket: id, error },
            }
            let mut chunk = [0; 16 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return lost("end of stream".to_owned()),
                Ok(length) => self.deframer.buffer().extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Input::Tick,
                Err(error) => return lost(error.to_string()),
            }
        }
    }
}

/// Asks, and insists on the kind of answer.
macro_rules! ask {
    ($client:expr, $api:ident, $request:expr) => {
        match $client.ask($request)? {
            nearside::wire::Response::$api(answer) => answer,
            other => return Err(format!("{other:?}").into()),
        }
    };
}
pub(crate) use ask;

#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock that feeds the machine"
)]
fn now() -> Instant {
    Instant::now()
}

const TICK: Duration = Duration::from_millis(500);
