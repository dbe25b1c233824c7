//! The producer and metadata machines with their connections, driven by one task.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::actors::{Entropy, IoInput, Net, Port, PortId, Said, target};
use crate::cluster::{
    Endpoint, Input as ViewInput, Interest, LinkState, Metadata, Output as ViewOutput,
    Reason as Refresh, RequestToken, Target,
};
use crate::config::Config;
use crate::error::{Error, ErrorKind};
use crate::ids::{Moment, TopicName};
use crate::producer::{
    Asked, Input, Leaders as _, Output, ProduceError, Producer, Record, RecordToken, Silence,
};
use crate::wire::{
    self, Class, Completion, DrainReason, ErrorCode, Event, Reason, Request, Response, StateName,
    Token,
};

/// An idempotent producer on connections of its own.
pub(in crate::cli) struct Client {
    producer: Producer,
    view: Metadata,
    net: Net,
    entropy: Entropy,
    io: UnboundedSender<IoInput>,
    ports: BTreeMap<PortId, (Target, Port)>,
    last_port: u32,
    waiting: BTreeMap<u64, Waiting>,
    last_token: u64,
    silence: Silence,
    told_acked: Option<Box<dyn FnMut(RecordToken)>>,
    /// What was found out.
    pub(in crate::cli) findings: Findings,
}

/// What the client found out so far.
#[derive(Debug, Default)]
pub(in crate::cli) struct Findings {
    /// Whether any broker has answered.
    pub(in crate::cli) connected: bool,
    /// The latest failure to reach a broker.
    pub(in crate::cli) connection_error: Option<Error>,
    /// Answers to metadata requests.
    pub(in crate::cli) answers: u32,
    /// Records acknowledged.
    pub(in crate::cli) acked: u64,
    /// The first record that was given up.
    pub(in crate::cli) failed: Option<(RecordToken, ProduceError)>,
}

/// Whose request it is.
#[derive(Clone, Copy)]
enum Waiting {
    View(RequestToken),
    Producer(Asked),
}

impl Client {
    /// A client that begins to ask for `topic`. The receiver brings what [`Client::io`] is to be
    /// fed.
    ///
    /// # Errors
    ///
    /// Certificates and keys that cannot be used.
    pub(in crate::cli) fn new(
        config: &Config,
        topic: TopicName,
    ) -> Result<(Self, UnboundedReceiver<IoInput>), Error> {
        let (io, inputs) = mpsc::unbounded_channel();
        let net = Net::new(config, None, None)?;
        let bootstrap = config.connection.bootstrap.iter();
        let bootstrap =
            bootstrap.map(|address| Endpoint::new(Arc::clone(&address.host), address.port));
        let mut client = Self {
            producer: Producer::new(config.producer_settings()),
            view: Metadata::new(config.metadata_settings(), bootstrap.collect()),
            net,
            entropy: Entropy::from_system(),
            io,
            ports: BTreeMap::new(),
            last_port: 0,
            waiting: BTreeMap::new(),
            last_token: 0,
            silence: Silence::default(),
            told_acked: None,
            findings: Findings::default(),
        };
        client.view_input(ViewInput::Subscribe(Interest::topics([topic])));
        Ok((client, inputs))
    }

    /// Has every acknowledged record told.
    pub(in crate::cli) fn on_acked(&mut self, told: impl FnMut(RecordToken) + 'static) {
        self.told_acked = Some(Box::new(told));
    }

    /// Produces a record.
    pub(in crate::cli) fn append(&mut self, token: RecordToken, record: Record) {
        self.produce(Input::Append { token, record });
    }

    /// Sends what is there without waiting for more.
    pub(in crate::cli) fn flush(&mut self) {
        self.produce(Input::Flush);
    }

    /// Bytes that may be appended.
    pub(in crate::cli) fn room(&self) -> usize {
        self.producer.room()
    }

    /// Whether every record has met its fate.
    pub(in crate::cli) fn is_idle(&self) -> bool {
        self.producer.is_idle()
    }

    /// Why `topic` cannot be written to, as far as the view goes.
    pub(in crate::cli) fn topic_error(&self, topic: &TopicName) -> Option<String> {
        let snapshot = self.view.snapshot();
        if snapshot.partition_count(topic).is_some() {
            return None;
        }
        Some(match snapshot.refusal(topic) {
            Some(code) => format!("topic `{topic}`: {code}"),
            None => format!("topic `{topic}` does not exist"),
        })
    }

    /// Whether the brokers refuse to speak about the topic to us.
    pub(in crate::cli) fn is_denied(&self, topic: &TopicName) -> bool {
        let refusal = self.view.snapshot().refusal(topic);
        refusal == Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
    }

    /// Feeds what a socket brought.
    pub(in crate::cli) fn io(&mut self, (id, news): IoInput) {
        self.with_port(id, |port| port.news(news));
        self.settle();
    }

    /// Works off the deadlines that passed.
    pub(in crate::cli) fn tick(&mut self) {
        let now = self.net.clock.now();
        let due = self
            .ports
            .iter()
            .filter(|(_, (_, port))| is_due(port.next_deadline(), now));
        let due: Vec<PortId> = due.map(|(id, _)| *id).collect();
        for id in due {
            self.port_input(id, wire::Input::Tick);
        }
        if is_due(self.view.next_deadline(), now) {
            self.view_input(ViewInput::Tick);
        }
        if is_due(self.producer.next_deadline(), now) {
            self.produce(Input::Tick);
        }
        if self.silence.take_due(now) {
            self.ask_for_leaders();
        }
        self.settle();
    }

    /// Time until [`Client::tick`] is due.
    pub(in crate::cli) fn next_deadline(&self) -> Option<std::time::Duration> {
        let ports = self
            .ports
            .values()
            .filter_map(|(_, port)| port.next_deadline());
        let machines = [
            self.view.next_deadline(),
            self.producer.next_deadline(),
            self.silence.next_deadline(),
        ];
        let due = ports.chain(machines.into_iter().flatten()).min()?;
        Some(due.since(self.net.clock.now()))
    }

    fn produce(&mut self, input: Input) {
        let snapshot = Arc::clone(self.view.snapshot());
        let now = self.net.clock.now();
        self.producer
            .handle(input, &*snapshot, self.entropy.draw(), now);
        self.settle();
    }

    fn view_input(&mut self, input: ViewInput) {
        self.view
            .handle(input, self.entropy.draw(), self.net.clock.now());
        self.settle();
    }

    /// Performs what both machines ask for, until they ask for nothing.
    fn settle(&mut self) {
        loop {
            if let Some(output) = self.view.poll_output() {
                self.perform_view(output);
            } else if let Some(output) = self.producer.poll_output() {
                self.perform(output);
            } else {
                return;
            }
        }
    }

    fn perform_view(&mut self, output: ViewOutput) {
        match output {
            ViewOutput::SendMetadata { to, request, token } => {
                self.request(to, Class::Control, request.into(), Waiting::View(token));
            }
            ViewOutput::Publish(_) => self.produce(Input::ClusterChanged),
            ViewOutput::Rebootstrap => {
                let ids: Vec<PortId> = self.ports.keys().copied().collect();
                for id in ids {
                    self.with_port(id, |port| port.drain(DrainReason::Rebootstrap));
                }
                let bootstrap = self.view.bootstrap().to_vec();
                self.view_input(ViewInput::Resolved(bootstrap));
            }
            // The producer looks at the snapshot itself.
            ViewOutput::Diff(_) | ViewOutput::WaiterDone(_) | ViewOutput::Counted(_) => {}
        }
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Send {
                broker,
                request,
                token,
            } => {
                let to = Target::Broker(broker);
                let whose = Waiting::Producer(Asked::Records(token));
                self.request(to, Class::Produce, request.into(), whose);
            }
            Output::Identify { request, token } => {
                let to = self.somebody();
                let whose = Waiting::Producer(Asked::Identity(token));
                self.request(to, Class::Control, request.into(), whose);
            }
            Output::Refresh { reason, want } => {
                let wants = vec![want];
                self.view_input(ViewInput::Refresh {
                    reason,
                    wants,
                    prefer: None,
                    waiter: None,
                });
            }
            Output::Hints(lot) => self.view_input(ViewInput::Hints(lot)),
            Output::Abandon { broker } => {
                if let Some(id) = self.port_of(Target::Broker(broker), Class::Produce) {
                    self.with_port(id, abandon);
                }
            }
            Output::Acked { token, .. } => {
                self.findings.acked += 1;
                if let Some(told) = &mut self.told_acked {
                    told(token);
                }
            }
            Output::Failed { token, error } => {
                self.findings.failed.get_or_insert((token, error));
            }
        }
    }

    /// Any broker: a known one, else the first bootstrap address.
    fn somebody(&self) -> Target {
        let known = self
            .view
            .snapshot()
            .brokers()
            .next()
            .map(|broker| broker.id);
        known.map_or(Target::Bootstrap(0), Target::Broker)
    }

    fn request(&mut self, to: Target, class: Class, request: Request, whose: Waiting) {
        let id = self.port_of(to, class).or_else(|| self.new_port(to, class));
        let Some(id) = id else {
            return self.unanswered(whose, wire::Outcome::NotWritten);
        };
        self.last_token += 1;
        let token = Token(self.last_token);
        self.waiting.insert(token.0, whose);
        if class == Class::Produce {
            self.silence.sent(token.0, self.net.clock.now());
        }
        self.with_port(id, |port| port.request(token, request));
    }

    fn port_of(&self, to: Target, class: Class) -> Option<PortId> {
        let mut ports = self.ports.iter();
        ports
            .find(|(_, (of, port))| *of == to && port.class() == class)
            .map(|(id, _)| *id)
    }

    fn new_port(&mut self, to: Target, class: Class) -> Option<PortId> {
        let (broker, endpoint) = match to {
            Target::Broker(broker) => (
                Some(broker),
                self.view.snapshot().broker(broker)?.endpoint.clone(),
            ),
            Target::Bootstrap(index) => (None, self.view.bootstrap().get(index)?.clone()),
        };
        self.last_port += 1;
        let id = PortId(self.last_port);
        let target = target(broker, &endpoint.host, endpoint.port);
        let port = Port::new(id, class, target, self.net.clone(), self.io.clone(), 0);
        self.ports.insert(id, (to, port));
        Some(id)
    }

    fn port_input(&mut self, id: PortId, input: wire::Input) {
        self.with_port(id, |port| port.input(input));
    }

    fn with_port(&mut self, id: PortId, act: impl FnOnce(&mut Port) -> Vec<Said>) {
        let Some((of, port)) = self.ports.get_mut(&id) else {
            return;
        };
        let (of, class) = (*of, port.class());
        for said in act(port) {
            match said {
                Said::Completed(completion) => self.completed(completion),
                // Muting is the machine's own; other connections of the broker learn it by
                // themselves.
                Said::Throttled(_) => {}
                Said::Event(event) => self.event(id, of, class, event),
                // A producer's requests are short: what is in flight ends before the session does.
                Said::TwinWanted => {}
                Said::Returned(carried) => {
                    let refusal = wire::Outcome::NotWritten;
                    if let Some(whose) = self.waiting.remove(&carried.token().0) {
                        self.unanswered(whose, refusal);
                    }
                }
            }
        }
    }

    fn completed(&mut self, completion: Completion) {
        let Some(whose) = self.waiting.remove(&completion.token.0) else {
            return;
        };
        self.silence.ended(completion.token.0);
        match (whose, completion.result) {
            (Waiting::View(token), Ok(Response::Metadata(answer))) => {
                self.findings.answers = self.findings.answers.saturating_add(1);
                let answer = Box::new(answer);
                self.view_input(ViewInput::Response { token, answer });
            }
            (Waiting::Producer(asked), result) => self.produce(asked.ended(result)),
            (whose, Err(error)) => self.unanswered(whose, error.outcome),
            // A response of another API would have failed to decode.
            (whose, Ok(_)) => self.unanswered(whose, wire::Outcome::Unknown),
        }
    }

    fn unanswered(&mut self, whose: Waiting, outcome: wire::Outcome) {
        match whose {
            Waiting::View(token) => self.view_input(ViewInput::Failed { token }),
            Waiting::Producer(asked) => self.produce(asked.unanswered(outcome)),
        }
    }

    fn event(&mut self, id: PortId, of: Target, class: Class, event: Event) {
        let Event::Transition { from, to, reason } = event else {
            return;
        };
        if let Some((_, port)) = self.ports.get(&id) {
            tracing::debug!(?port, %from, %to, %reason, "connection");
        }
        if to == StateName::Closed {
            self.ports.remove(&id);
        }
        let state = match to {
            StateName::Ready | StateName::Reauth => {
                self.findings.connected = true;
                LinkState::Ready
            }
            StateName::Backoff | StateName::Closed => {
                self.note_failure(of, &reason);
                LinkState::Failed
            }
            StateName::Idle | StateName::Draining => LinkState::Idle,
            StateName::Resolving
            | StateName::Connecting
            | StateName::Tls
            | StateName::VersionsPre
            | StateName::Handshake
            | StateName::Authenticate
            | StateName::VersionsPost => LinkState::Connecting,
        };
        if class == Class::Control {
            self.view_input(ViewInput::LinkChanged { target: of, state });
        } else if state == LinkState::Failed {
            // What waits for this broker may have another leader by now.
            self.ask_for_leaders();
        }
    }

    fn ask_for_leaders(&mut self) {
        self.view_input(ViewInput::Refresh {
            reason: Refresh::LinkLost,
            wants: Vec::new(),
            prefer: None,
            waiter: None,
        });
    }

    fn note_failure(&mut self, of: Target, reason: &Reason) {
        let kind = if matches!(reason, Reason::Mixup(_)) {
            ErrorKind::WrongPort
        } else if matches!(reason, Reason::Trust(_)) {
            ErrorKind::Authentication
        } else {
            ErrorKind::Unreachable
        };
        let endpoint = match of {
            Target::Bootstrap(index) => self.view.bootstrap().get(index).map(ToString::to_string),
            Target::Broker(broker) => Some(format!("broker {broker}")),
        };
        let text = format!("{}: {reason}", endpoint.unwrap_or_default());
        self.findings.connection_error = Some(Error::new(kind, text));
    }
}

/// Ends every request of a port: those that wait for a connection, which may never come, and those
/// that wait for their answer.
fn abandon(port: &mut Port) -> Vec<Said> {
    let mut said = port.drain(DrainReason::Shutdown);
    said.extend(port.hang_up());
    said
}

fn is_due(deadline: Option<Moment>, now: Moment) -> bool {
    deadline.is_some_and(|due| due <= now)
}
