//! Drives the metadata machine in virtual time and checks its invariants after every input
//! (metadata.md 15).

use std::collections::BTreeMap;
use std::time::Duration;

use nearside::cluster::{
    Counted, Diff, Endpoint, Hint, HintLot, Input, Interest, LinkState, Metadata, Output, Reason,
    RequestToken, Settings, Target, Waiter, Want,
};
use nearside::ids::{
    BrokerId, Draw, LeaderEpoch, Moment, PartitionIndex, TopicId, TopicIncarnation, TopicName,
    TopicPartition,
};
use nearside::wire::ErrorCode;
use nearside::wire::api::{self, TopicRef, metadata};

/// A request the machine sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) to: Target,
    pub(crate) topics: Option<Vec<String>>,
    pub(crate) token: RequestToken,
    pub(crate) at: Moment,
}

pub(crate) struct Rig {
    pub(crate) machine: Metadata,
    pub(crate) now: Moment,
    pub(crate) sent: Vec<Sent>,
    /// Differences since they were last taken.
    pub(crate) diffs: Vec<Diff>,
    pub(crate) counted: BTreeMap<Counted, u32>,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) rebootstraps: u32,
    draw: Draw,
    open: Option<(RequestToken, Moment)>,
    floors: BTreeMap<(TopicPartition, TopicIncarnation), LeaderEpoch>,
    revision: u64,
}

impl Rig {
    /// A machine that has not been subscribed to anything.
    pub(crate) fn asleep(settings: Settings) -> Self {
        Self {
            machine: Metadata::new(settings, vec![Endpoint::new("kafka", 9092)]),
            now: Moment::from_ms(1_000),
            sent: Vec::new(),
            diffs: Vec::new(),
            counted: BTreeMap::new(),
            waiters: Vec::new(),
            rebootstraps: 0,
            draw: Draw(7),
            open: None,
            floors: BTreeMap::new(),
            revision: 0,
        }
    }

    /// Brokers 1 to 3 with ready links, topic `t` whose partition 0 is led by 1 at epoch 5.
    pub(crate) fn standard() -> Self {
        Self::with(Settings::default(), &Reply::standard())
    }

    /// The same brokers, with what `reply` says about the topics.
    pub(crate) fn with(settings: Settings, reply: &Reply) -> Self {
        let mut rig = Self::asleep(settings);
        let names = reply.0.topics.iter().filter_map(|topic| topic.name.clone());
        rig.input(Input::Subscribe(Interest::topics(
            names.collect::<Vec<TopicName>>(),
        )));
        rig.answer(reply);
        for broker in 1..=3 {
            rig.link(broker, LinkState::Ready);
        }
        rig.forget();
        rig
    }

    /// Drops what was recorded so far.
    pub(crate) fn forget(&mut self) {
        self.diffs.clear();
        self.sent.clear();
        self.counted.clear();
    }

    pub(crate) fn input(&mut self, input: Input) {
        self.draw = self.draw.split();
        self.machine.handle(input, self.draw, self.now);
        let mut published = false;
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::SendMetadata { to, request, token } => self.on_send(to, request, token),
                Output::Publish(snapshot) => {
                    assert!(snapshot.revision().0 >= self.revision, "revisions go up");
                    self.revision = snapshot.revision().0;
                    published = true;
                }
                Output::Diff(diff) => {
                    assert!(
                        published,
                        "a difference comes after the snapshot that holds it"
                    );
                    self.on_diff(&diff);
                    self.diffs.push(diff);
                }
                Output::WaiterDone(waiter) => self.waiters.push(waiter),
                Output::Rebootstrap => {
                    self.rebootstraps += 1;
                    self.open = None;
                }
                Output::Counted(counted) => *self.counted.entry(counted).or_default() += 1,
            }
        }
        self.check_snapshot();
    }

    /// Lets time pass, deadline by deadline.
    pub(crate) fn advance(&mut self, by: Duration) {
        let end = self.now + by;
        let mut turns = 0;
        while let Some(due) = self.machine.next_deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.input(Input::Tick);
            turns += 1;
            assert!(turns < 100_000, "the machine spins");
        }
        self.now = end;
    }

    pub(crate) fn advance_ms(&mut self, ms: u64) {
        self.advance(Duration::from_millis(ms));
    }

    /// Lets time pass until the machine has sent its next request.
    pub(crate) fn next_request(&mut self) -> Sent {
        let before = self.sent.len();
        while self.sent.len() == before {
            let due = self.machine.next_deadline().expect("something is due");
            self.now = self.now.max(due);
            self.input(Input::Tick);
        }
        self.sent[before].clone()
    }

    /// Answers the last request.
    pub(crate) fn answer(&mut self, reply: &Reply) {
        let token = self.sent.last().expect("a request was sent").token;
        self.answer_to(token, reply);
    }

    pub(crate) fn answer_to(&mut self, token: RequestToken, reply: &Reply) {
        if self.open.is_some_and(|(open, _)| open == token) {
            self.open = None;
        }
        self.input(Input::Response {
            token,
            answer: Box::new(reply.0.clone()),
        });
    }

    /// The next request is sent and answered.
    pub(crate) fn round(&mut self, reply: &Reply) -> Sent {
        let sent = self.next_request();
        self.answer(reply);
        sent
    }

    pub(crate) fn fail(&mut self) {
        let token = self.sent.last().expect("a request was sent").token;
        self.open = None;
        self.input(Input::Failed { token });
    }

    pub(crate) fn link(&mut self, broker: i32, state: LinkState) {
        self.input(Input::LinkChanged {
            target: Target::Broker(BrokerId(broker)),
            state,
        });
    }

    pub(crate) fn hint(&mut self, from: i32, hints: Vec<Hint>, endpoints: Vec<api::Endpoint>) {
        self.input(Input::Hints(HintLot {
            from: BrokerId(from),
            hints,
            endpoints,
        }));
    }

    /// One hint about `t-0` by broker 1, without an endpoint.
    pub(crate) fn hint_bare(&mut self, leader: i32, epoch: i32) {
        self.hint(1, vec![hint(leader, epoch)], vec![]);
    }

    /// Partition 0 of `t` needs a leader newer than epoch `failed`.
    pub(crate) fn want(&mut self, reason: Reason, failed: i32) {
        let want = Want::Leader {
            partition: t0(),
            failed: Some(LeaderEpoch(failed)),
        };
        self.input(Input::Refresh {
            reason,
            wants: vec![want],
            prefer: None,
            waiter: None,
        });
    }

    /// Leader, epoch and addressable of `t-0`.
    pub(crate) fn leader(&self) -> (Option<i32>, Option<i32>, bool) {
        let row = self
            .machine
            .snapshot()
            .partition(&t0())
            .expect("t-0 is known")
            .clone();
        (
            row.leader().map(|id| id.0),
            row.floor.map(|epoch| epoch.0),
            row.addressable,
        )
    }

    pub(crate) fn count(&self, counted: Counted) -> u32 {
        self.counted.get(&counted).copied().unwrap_or_default()
    }

    /// Leaders told for `t-0` since differences were last taken, as (leader, epoch).
    pub(crate) fn leaders_told(&self) -> Vec<(Option<i32>, Option<i32>)> {
        let told = |diff: &Diff| {
            let Diff::LeaderChanged {
                partition,
                leader,
                epoch,
                ..
            } = diff
            else {
                return None;
            };
            (*partition == t0()).then(|| (leader.map(|id| id.0), epoch.map(|epoch| epoch.0)))
        };
        self.diffs.iter().filter_map(told).collect()
    }

    /// In-sync lists told since differences were last taken.
    pub(crate) fn isrs_told(&self) -> Vec<Vec<i32>> {
        let told = |diff: &Diff| {
            let Diff::IsrChanged { isr, .. } = diff else {
                return None;
            };
            Some(isr.iter().map(|id| id.0).collect())
        };
        self.diffs.iter().filter_map(told).collect()
    }

    fn on_send(&mut self, to: Target, request: metadata::Request, token: RequestToken) {
        if let Some((_, at)) = self.open {
            let given_up = self.now.since(at) >= self.machine.settings().attempt;
            assert!(given_up, "M6: at most one request in flight");
        }
        self.open = Some((token, self.now));
        let name = |topic| match topic {
            TopicRef::Name(name) => name.to_string(),
            TopicRef::Id(id) => id.to_string(),
        };
        let topics = request
            .topics
            .map(|topics| topics.into_iter().map(name).collect());
        self.sent.push(Sent {
            to,
            topics,
            token,
            at: self.now,
        });
    }

    fn on_diff(&mut self, diff: &Diff) {
        let snapshot = self.machine.snapshot();
        if let Diff::IsrChanged {
            partition,
            isr_epoch,
            ..
        } = diff
        {
            let floor = snapshot
                .partition(partition)
                .expect("a known partition")
                .floor;
            assert!(
                *isr_epoch >= floor,
                "M8: no in-sync list older than the floor is told"
            );
        }
        if let Diff::EpochRegressed { partition, to, .. } = diff {
            let incarnation = snapshot.topic(&partition.topic).expect("known").incarnation;
            self.floors.insert((partition.clone(), incarnation), *to);
        }
    }

    fn check_snapshot(&mut self) {
        let snapshot = self.machine.snapshot().clone();
        for topic in snapshot.topics() {
            for (index, row) in topic.partitions.iter() {
                let partition = TopicPartition::new(topic.name.clone(), *index);
                if row.addressable {
                    let leader = row.leader().expect("only a leader is addressable");
                    assert!(
                        snapshot.broker(leader).is_some(),
                        "M3: {partition} lost its address"
                    );
                }
                let Some(floor) = row.floor else { continue };
                let key = (partition, topic.incarnation);
                let before = self.floors.insert(key, floor);
                assert!(
                    before.is_none_or(|before| before <= floor),
                    "M2: the floor fell"
                );
            }
        }
    }
}

/// A Metadata answer under construction.
#[derive(Clone, Debug)]
pub(crate) struct Reply(pub(crate) metadata::Response);

impl Reply {
    /// Brokers 1 to 3 of cluster `c`, no topic.
    pub(crate) fn brokers(ids: impl IntoIterator<Item = i32>) -> Self {
        Self(metadata::Response {
            throttle: Duration::ZERO,
            brokers: ids.into_iter().map(endpoint).collect(),
            cluster_id: Some("c".into()),
            controller: None,
            topics: Vec::new(),
            error: ErrorCode::NONE,
        })
    }

    /// Brokers 1 to 3, `t-0` led by 1 at epoch 5 with everybody in sync.
    pub(crate) fn standard() -> Self {
        Self::row_of(1, 5)
    }

    /// Brokers 1 to 3, `t-0` led by `leader` at `epoch`; -1 is none.
    pub(crate) fn row_of(leader: i32, epoch: i32) -> Self {
        Self::brokers(1..=3).topic("t", 1).row(0, leader, epoch)
    }

    pub(crate) fn topic(mut self, name: &str, id: u128) -> Self {
        self.0.topics.push(metadata::Topic {
            error: ErrorCode::NONE,
            name: Some(name.into()),
            id: Some(topic_id(id)),
            internal: false,
            partitions: Vec::new(),
        });
        self
    }

    /// The topic last added fails with `code`.
    pub(crate) fn topic_error(mut self, code: ErrorCode) -> Self {
        self.0.topics.last_mut().expect("a topic").error = code;
        self
    }

    /// A partition of the topic last added, with everybody in sync.
    pub(crate) fn row(mut self, index: i32, leader: i32, epoch: i32) -> Self {
        let ids: Vec<BrokerId> = (1..=3).map(BrokerId).collect();
        let row = metadata::Partition {
            error: ErrorCode::NONE,
            partition: PartitionIndex(index),
            leader: (leader >= 0).then_some(BrokerId(leader)),
            leader_epoch: (epoch >= 0).then_some(LeaderEpoch(epoch)),
            replicas: ids.clone(),
            isr: ids,
            offline: Vec::new(),
        };
        self.0
            .topics
            .last_mut()
            .expect("a topic")
            .partitions
            .push(row);
        self
    }

    /// Changes the row last added.
    pub(crate) fn edit(mut self, change: impl FnOnce(&mut metadata::Partition)) -> Self {
        let topic = self.0.topics.last_mut().expect("a topic");
        change(topic.partitions.last_mut().expect("a row"));
        self
    }

    /// The in-sync list of the row last added.
    pub(crate) fn isr(self, ids: impl IntoIterator<Item = i32>) -> Self {
        self.edit(|row| row.isr = ids.into_iter().map(BrokerId).collect())
    }
}

/// Broker `id` listens at `kafka-<id>:9092` in rack `r<id>`.
pub(crate) fn endpoint(id: i32) -> api::Endpoint {
    endpoint_at(id, &format!("kafka-{id}"), 9092)
}

pub(crate) fn endpoint_at(id: i32, host: &str, port: u16) -> api::Endpoint {
    let rack = Some(format!("r{id}").into());
    api::Endpoint {
        broker: BrokerId(id),
        host: host.into(),
        port,
        rack,
    }
}

/// A hint about `t-0` with code 6; -1 is none.
pub(crate) fn hint(leader: i32, epoch: i32) -> Hint {
    Hint {
        partition: t0(),
        topic_id: Some(topic_id(1)),
        incarnation: TopicIncarnation(0),
        code: ErrorCode::NOT_LEADER_OR_FOLLOWER,
        leader: (leader >= 0).then_some(BrokerId(leader)),
        epoch: (epoch >= 0).then_some(LeaderEpoch(epoch)),
    }
}

pub(crate) fn t0() -> TopicPartition {
    TopicPartition::new("t", 0)
}

pub(crate) fn topic_id(id: u128) -> TopicId {
    TopicId(uuid::Uuid::from_u128(id))
}

/// Names of the diffs, for assertions about order and number.
pub(crate) fn names(diffs: &[Diff]) -> Vec<&'static str> {
    let name = |diff: &Diff| match diff {
        Diff::LeaderChanged { .. } => "LeaderChanged",
        Diff::LeaderLost { .. } => "LeaderLost",
        Diff::IsrChanged { .. } => "IsrChanged",
        Diff::ReplicasChanged { .. } => "ReplicasChanged",
        Diff::EndpointChanged { .. } => "EndpointChanged",
        Diff::BrokerAdded { .. } => "BrokerAdded",
        Diff::BrokerRemoved { .. } => "BrokerRemoved",
        Diff::TopicRecreated { .. } => "TopicRecreated",
        Diff::TopicUnconfirmed { .. } => "TopicUnconfirmed",
        Diff::TopicGone { .. } => "TopicGone",
        Diff::TopicError { .. } => "TopicError",
        Diff::PartitionsAdded { .. } => "PartitionsAdded",
        Diff::EpochRegressed { .. } => "EpochRegressed",
        Diff::MetadataVersion { .. } => "MetadataVersion",
        Diff::RebootstrapStarted { .. } => "RebootstrapStarted",
        Diff::RebootstrapEnded => "RebootstrapEnded",
        Diff::ClusterChanged { .. } => "ClusterChanged",
        Diff::HintEndpointDistrusted { .. } => "HintEndpointDistrusted",
    };
    diffs
        .iter()
        .map(name)
        .filter(|name| *name != "MetadataVersion")
        .collect()
}
