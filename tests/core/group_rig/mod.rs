//! Hosts of the group's machines around an embedded cluster, in virtual time.
//!
//! Each [`Node`] is one process: a member, its commit plan, its resolver and one ledger per
//! partition. Frames really are encoded and decoded, so that what a scenario sees is what a broker
//! saw.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use nearside::embedded::{Cluster, ConnectionId, Output as ClusterOutput, Settings};
use nearside::group::{self, ClassicMember, NoAnswer, StepId, Token};
use nearside::ids::{
    AssignmentEpoch, BrokerId, Draw, Moment, Offset, PositionGeneration, Rack, TopicName,
    TopicPartition,
};
use nearside::offsets::Ledger;
use nearside::offsets::commit::{self, Committer, Due, FlushId, Observed};
use nearside::offsets::resolve::{self, Outcome, Question, Resolver};
use nearside::wire::{ApiKey, Request, Response, ours};

mod host;
mod known;

pub(crate) use known::Known;

/// Which machine of a node asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Who {
    Member,
    Committer,
    Resolver,
}

/// A request that is out.
struct Out {
    node: usize,
    who: Who,
    token: Token,
    api: ApiKey,
    version: i16,
    due: Moment,
}

/// One process.
pub(crate) struct Node {
    pub(crate) member: ClassicMember,
    pub(crate) committer: Committer,
    pub(crate) resolver: Resolver,
    pub(crate) ledgers: BTreeMap<TopicPartition, (AssignmentEpoch, Ledger)>,
    /// What happened, in words.
    pub(crate) log: Vec<String>,
    pub(crate) resolved: Vec<(TopicPartition, Outcome)>,
    /// Questions that a leader did not answer in time.
    pub(crate) unanswered: Vec<(TopicPartition, Moment)>,
    /// Revoke steps wait for [`Rig::finish_drain`] instead of being done at once.
    pub(crate) slow_drains: bool,
    pub(crate) draining: Option<(StepId, Vec<group::Assigned>)>,
    pub(crate) fatal: Option<nearside::Error>,
    pub(crate) left: bool,
    coordinator: Option<BrokerId>,
    connections: BTreeMap<(BrokerId, bool), ConnectionId>,
    flushes: BTreeMap<FlushId, (StepId, Vec<group::Assigned>)>,
    next_flush: u64,
    alive: bool,
}

pub(crate) struct Rig {
    pub(crate) cluster: Cluster,
    pub(crate) nodes: Vec<Node>,
    pub(crate) now: Moment,
    pub(crate) known: Known,
    out: BTreeMap<(ConnectionId, i32), Out>,
    correlation: i32,
    draw: u64,
    answers: VecDeque<(usize, Who, Token, Result<Response, NoAnswer>)>,
}

pub(crate) fn partition(index: i32) -> TopicPartition {
    TopicPartition::new("orders", index)
}

impl Rig {
    /// Three brokers in three racks, and a topic `orders`.
    pub(crate) fn new(partitions: u32) -> Self {
        let mut cluster = Cluster::new(Settings::default());
        cluster.create_topic("orders", partitions, 3).unwrap();
        let mut rig = Self {
            cluster,
            nodes: Vec::new(),
            now: Moment::ZERO,
            known: Known::default(),
            out: BTreeMap::new(),
            correlation: 0,
            draw: 7,
            answers: VecDeque::new(),
        };
        rig.refresh();
        rig
    }

    /// A process of group `billing` with the defaults, changed by `change`; it starts at once.
    pub(crate) fn start(&mut self, change: impl FnOnce(&mut group::Settings)) -> usize {
        let mut settings = group::Settings::new("billing");
        change(&mut settings);
        let node = Node {
            member: ClassicMember::new(settings),
            committer: Committer::new(commit::Settings::new("billing")),
            resolver: Resolver::new(resolve::Settings::new(Some("billing".into()))),
            ledgers: BTreeMap::new(),
            log: Vec::new(),
            resolved: Vec::new(),
            unanswered: Vec::new(),
            slow_drains: false,
            draining: None,
            fatal: None,
            left: false,
            coordinator: None,
            connections: BTreeMap::new(),
            flushes: BTreeMap::new(),
            next_flush: 0,
            alive: true,
        };
        self.nodes.push(node);
        let index = self.nodes.len() - 1;
        self.tell_member(
            index,
            group::Input::Start(BTreeSet::from(["orders".into()])),
        );
        index
    }

    /// Looks at the cluster anew, and tells every process.
    pub(crate) fn refresh(&mut self) {
        let racks = ["a", "b", "c"].map(Rack::from);
        let names: Vec<TopicName> = self.cluster.topics().cloned().collect();
        let mut known = Known::default();
        for name in names {
            let mut rows = Vec::new();
            for index in 0.. {
                let at = TopicPartition::new(name.clone(), index);
                let Some(view) = self.cluster.partition(&at) else {
                    break;
                };
                rows.push(racks.to_vec());
                known
                    .leaders
                    .extend(view.leader.map(|leader| (at, (leader, Some(view.epoch)))));
            }
            known.racks.insert(name, rows);
        }
        self.known = known;
        for index in 0..self.nodes.len() {
            self.tell_member(index, group::Input::MetadataChanged);
            self.tell_resolver(index, resolve::Input::MetadataChanged);
        }
    }

    pub(crate) fn log(&self, node: usize) -> &[String] {
        &self.nodes[node].log
    }

    pub(crate) fn owned(&self, node: usize) -> Vec<i32> {
        let owned = self.nodes[node].member.owned().keys();
        owned.map(|partition| partition.partition.0).collect()
    }

    /// The process stops answering to anything, as after a kill.
    pub(crate) fn kill(&mut self, node: usize) {
        self.nodes[node].alive = false;
        self.out.retain(|_, out| out.node != node);
        for (_, connection) in std::mem::take(&mut self.nodes[node].connections) {
            self.cluster.disconnect(connection, self.now);
        }
    }

    /// Finishes offsets of a partition, as handlers do.
    pub(crate) fn finish(&mut self, node: usize, at: &TopicPartition, from: i64, to: i64) {
        let epoch = self.cluster.partition(at).map(|view| view.epoch);
        let (assignment_epoch, ledger) = self.nodes[node].ledgers.get_mut(at).unwrap();
        ledger.finish(Offset(from), Offset(to), epoch);
        let state = Observed {
            partition: at.clone(),
            assignment_epoch: *assignment_epoch,
            generation: ledger.generation(),
            offset: ledger.watermark(),
            leader_epoch: ledger.leader_epoch(),
        };
        self.tell_committer(node, commit::Input::Observed(state, Due::Interval));
    }

    pub(crate) fn ask(
        &mut self,
        node: usize,
        at: &TopicPartition,
        generation: u64,
        question: Question,
    ) {
        let (assignment_epoch, _) = self.nodes[node].ledgers[at];
        let generation = PositionGeneration(generation);
        let input = resolve::Input::Resolve {
            partition: at.clone(),
            assignment_epoch,
            generation,
            question,
            unix_ms: 1_700_000_000_000,
        };
        self.tell_resolver(node, input);
    }

    /// Ends a drain that a slow node holds.
    pub(crate) fn finish_drain(&mut self, node: usize) {
        let (id, partitions) = self.nodes[node].draining.take().unwrap();
        self.flush(node, id, partitions);
    }

    pub(crate) fn stop(&mut self, node: usize, within: Duration) {
        let until = self.now + within;
        self.tell_member(
            node,
            group::Input::Stop {
                until,
                reason: "done".into(),
            },
        );
    }

    /// Every connection of a process breaks.
    pub(crate) fn cut_off(&mut self, node: usize) {
        let connections: Vec<_> = self.nodes[node].connections.values().copied().collect();
        for connection in connections {
            self.cluster.disconnect(connection, self.now);
            self.on_closed(connection);
        }
    }

    pub(crate) fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        for _ in 0..100_000 {
            self.pump();
            let next = self.next_deadline().filter(|next| *next <= until);
            let Some(next) = next else {
                self.now = until;
                self.cluster.advance(until);
                self.pump();
                return;
            };
            self.now = self.now.max(next);
            self.tick();
        }
        panic!("no rest within 100,000 steps");
    }

    fn tick(&mut self) {
        self.cluster.advance(self.now);
        let late =
            |(key, out): (&(ConnectionId, i32), &Out)| (out.due <= self.now).then_some(key.0);
        let stuck: BTreeSet<ConnectionId> = self.out.iter().filter_map(late).collect();
        for connection in stuck {
            // As the connection machine does: what is stuck is cut.
            self.cluster.disconnect(connection, self.now);
            self.on_closed(connection);
        }
        for index in (0..self.nodes.len())
            .filter(|index| self.nodes[*index].alive)
            .collect::<Vec<_>>()
        {
            self.tell_member(index, group::Input::Tick);
            self.tell_committer(index, commit::Input::Tick);
            self.tell_resolver(index, resolve::Input::Tick);
        }
    }

    fn next_deadline(&self) -> Option<Moment> {
        let nodes = self
            .nodes
            .iter()
            .filter(|node| node.alive)
            .flat_map(|node| {
                [
                    node.member.next_deadline(),
                    node.committer.next_deadline(),
                    node.resolver.next_deadline(),
                ]
            });
        let timeouts = self.out.values().map(|out| out.due).min();
        nodes
            .flatten()
            .chain(self.cluster.next_deadline())
            .chain(timeouts)
            .min()
    }

    /// Carries frames and answers until nothing moves.
    fn pump(&mut self) {
        loop {
            while let Some(output) = self.cluster.poll_output() {
                match output {
                    ClusterOutput::Answer { connection, frame } => {
                        self.on_frame(connection, &frame)
                    }
                    ClusterOutput::Closed { connection } => self.on_closed(connection),
                }
            }
            let Some((node, who, token, result)) = self.answers.pop_front() else {
                return;
            };
            match who {
                Who::Member => self.tell_member(node, group::Input::Answer { token, result }),
                Who::Committer => {
                    self.tell_committer(node, commit::Input::Answer { token, result })
                }
                Who::Resolver => self.tell_resolver(node, resolve::Input::Answer { token, result }),
            }
        }
    }

    fn on_frame(&mut self, connection: ConnectionId, frame: &Bytes) {
        let correlation = frame.clone().get_i32();
        let Some(out) = self.out.remove(&(connection, correlation)) else {
            return;
        };
        let header = 4 + usize::from(out.api.response_header(out.version) == 1);
        let result = Response::decode(out.api, out.version, &frame.slice(header..));
        let (response, _) = result.unwrap();
        self.answers
            .push_back((out.node, out.who, out.token, Ok(response)));
    }

    fn on_closed(&mut self, connection: ConnectionId) {
        for node in &mut self.nodes {
            node.connections.retain(|_, known| *known != connection);
        }
        let lost: Vec<_> = self
            .out
            .keys()
            .filter(|(at, _)| *at == connection)
            .copied()
            .collect();
        for key in lost {
            let out = self.out.remove(&key).unwrap();
            let error = NoAnswer::Lost("disconnected".into());
            self.answers
                .push_back((out.node, out.who, out.token, Err(error)));
        }
    }

    fn transmit(
        &mut self,
        node: usize,
        who: Who,
        to: (BrokerId, bool),
        sent: (Token, Request, Duration),
    ) {
        let (token, request, timeout) = sent;
        let api = request.api();
        let connection = match self.nodes[node].connections.get(&to) {
            Some(connection) => *connection,
            None => match self.cluster.connect(to.0, self.now) {
                Ok(connection) => {
                    self.nodes[node].connections.insert(to, connection);
                    connection
                }
                Err(error) => {
                    let error = NoAnswer::Lost(format!("{error:?}"));
                    self.answers.push_back((node, who, token, Err(error)));
                    return;
                }
            },
        };
        let version = ours(api).max.min(request.version_max());
        self.correlation += 1;
        let correlation = self.correlation;
        let mut frame = BytesMut::new();
        frame.put_i16(api.code());
        frame.put_i16(version);
        frame.put_i32(correlation);
        frame.put_i16(-1);
        if api.request_header(version) == 2 {
            frame.put_u8(0);
        }
        request.encode(version, &mut frame).unwrap();
        let due = self.now + timeout;
        self.out.insert(
            (connection, correlation),
            Out {
                node,
                who,
                token,
                api,
                version,
                due,
            },
        );
        self.cluster.deliver(connection, frame.freeze(), self.now);
    }

    fn draw(&mut self) -> Draw {
        self.draw += 1;
        Draw(self.draw).split()
    }
}
