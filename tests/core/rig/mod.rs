//! The virtual-time rig: routes, broker links, metadata and connections of nearside against the
//! embedded cluster.
//!
//! It is what the actors are, without actors: every output is carried out in order, every answer
//! travels half a round trip, and time moves from deadline to deadline. After each step the
//! invariants of routing.md 19 are checked, so a scenario only has to tell its own story.

mod host;
pub(crate) mod many;
mod net;
mod probing;
mod questions;
mod reader;
mod resolving;
mod sampling;
mod step;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nearside::cluster::{self, Endpoint, Interest, Metadata};
use nearside::embedded::{self, Cluster, Record, Seen};
use nearside::ids::{AssignmentEpoch, BrokerId, Draw, LeaderEpoch, Moment, Offset, TopicPartition};
use nearside::invariants::routing as invariants;
use nearside::offsets::resolve::{self, Resolver};
use nearside::offsets::sampler::{self, Sampler};
use nearside::routing::{self, Brokers, Class, Input, Route, broker};

pub(crate) use reader::Reader;

use host::Purpose;
use net::Net;

/// Round trip between client and cluster.
pub(crate) const ROUND_TRIP: Duration = Duration::from_millis(2);

/// A client and a cluster in one value.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) now: Moment,
    cluster: Cluster,
    metadata: Metadata,
    resolver: Resolver,
    sampler: Sampler,
    asking: BTreeMap<TopicPartition, resolve::Question>,
    end: Option<Offset>,
    brokers: Brokers,
    /// Leaders known by a hint alone.
    hinted: BTreeMap<TopicPartition, LeaderEpoch>,
    links: BTreeMap<BrokerId, broker::Broker>,
    net: Net,
    purposes: BTreeMap<u64, Purpose>,
    next_token: u64,
    pub(crate) readers: BTreeMap<TopicPartition, Reader>,
    settings: Arc<routing::Settings>,
    link_settings: Arc<broker::Settings>,
    probe_budget: broker::ProbeBudget,
    draw: Draw,
    /// What the links counted.
    pub(crate) link_counts: Vec<(BrokerId, broker::Count)>,
    /// When a leader was asked about a position.
    pub(crate) positions_asked: Vec<Moment>,
    /// Readmission permits given by breakers.
    pub(crate) permits: usize,
    steps: u32,
    seen: Vec<Seen>,
    reading: BTreeMap<i32, Vec<Seen>>,
    probed: BTreeMap<i32, Vec<Seen>>,
    hedged: BTreeMap<i32, Vec<Seen>>,
    probing: probing::Watch,
    /// Routes that were given something since they were last checked.
    touched: BTreeSet<TopicPartition>,
}

/// The partition most scenarios read.
pub(crate) fn partition() -> TopicPartition {
    TopicPartition::new("orders", 0)
}

impl Rig {
    /// Three brokers in racks a, b, c; `orders-0` led by 1 at epoch 5 with replicas 1, 2, 3;
    /// `client.rack=b`.
    pub(crate) fn new() -> Self {
        Self::with(|_| {}, |_| {})
    }

    /// The same with other settings of the client and other properties of the cluster.
    pub(crate) fn with(
        client: impl FnOnce(&mut routing::Settings),
        brokers: impl FnOnce(&mut embedded::Settings),
    ) -> Self {
        Self::of(1, client, brokers)
    }

    /// The same with `count` partitions, all alike.
    pub(crate) fn of(
        count: i32,
        client: impl FnOnce(&mut routing::Settings),
        brokers: impl FnOnce(&mut embedded::Settings),
    ) -> Self {
        let mut settings = routing::Settings {
            client_rack: Some("b".into()),
            ..Default::default()
        };
        client(&mut settings);
        let mut cluster_settings = embedded::Settings::default();
        brokers(&mut cluster_settings);
        let mut cluster = Cluster::new(cluster_settings);
        many::create(&mut cluster, count);
        let link_settings = broker::Settings {
            rack: settings.rack_sent().cloned(),
            isolation: settings.isolation,
            // Until it is told its share.
            probe_per_second: 0.0,
            ..Default::default()
        };
        let bootstrap = vec![Endpoint::new("broker-1.embedded", 9092)];
        let mut rig = Self {
            now: Moment::ZERO,
            cluster,
            metadata: Metadata::new(cluster::Settings::default(), bootstrap),
            resolver: Resolver::new(resolve::Settings::new(None)),
            sampler: Sampler::new(sampler::Settings {
                isolation: settings.isolation,
                ..sampler::Settings::default()
            }),
            asking: BTreeMap::new(),
            end: None,
            brokers: Brokers::new(),
            hinted: BTreeMap::new(),
            links: BTreeMap::new(),
            net: Net::new(ROUND_TRIP),
            purposes: BTreeMap::new(),
            next_token: 0,
            readers: BTreeMap::new(),
            probe_budget: broker::ProbeBudget::new(50.0, settings.lease_cap()),
            settings: Arc::new(settings),
            link_settings: Arc::new(link_settings),
            draw: Draw(7),
            link_counts: Vec::new(),
            positions_asked: Vec::new(),
            permits: 0,
            steps: 0,
            seen: Vec::new(),
            reading: BTreeMap::new(),
            probed: BTreeMap::new(),
            hedged: BTreeMap::new(),
            probing: probing::Watch::default(),
            touched: BTreeSet::new(),
        };
        rig.reset_to(resolve::Reset::Earliest);
        let interest = Interest::topics(["orders"]);
        let draw = rig.sample();
        rig.metadata
            .handle(cluster::Input::Subscribe(interest), draw, rig.now);
        rig.settle();
        rig
    }

    /// Writes `count` records of about 100 bytes, replicated at once.
    pub(crate) fn preload(&mut self, count: usize) {
        let batch: Vec<Record> = (0..count).map(|_| Record::of(vec![b'x'; 100])).collect();
        let bytes: Bytes = embedded::encode_batch(&batch);
        self.cluster().preload(&partition(), bytes).unwrap();
    }

    /// Assigns the partition at offset 0 and runs until metadata is there and the first answers
    /// came.
    pub(crate) fn assign(&mut self) {
        self.assign_at(0);
    }

    /// Assigns the partition at an offset without a known epoch.
    pub(crate) fn assign_at(&mut self, offset: i64) {
        self.run_until(|rig| rig.metadata.snapshot().partition(&partition()).is_some());
        let route = Route::new(Arc::clone(&self.settings));
        self.readers
            .entry(partition())
            .or_insert_with(|| Reader::new(route));
        self.begin(offset);
    }

    /// Assigns the partition and runs until it reads from follower 2, with a backlog.
    pub(crate) fn follow(&mut self) {
        self.preload(1_000);
        self.assign();
        self.run_until(|rig| rig.follower() == Some(BrokerId(2)));
        self.run_for(Duration::from_millis(20));
    }

    /// Assigns the partition anew, as after a rebalance.
    pub(crate) fn assign_again(&mut self, offset: i64) {
        self.begin(offset);
    }

    /// Asks for metadata now.
    pub(crate) fn refresh_metadata(&mut self) {
        let draw = self.sample();
        let wants = vec![cluster::Want::Topic(partition().topic)];
        let reason = cluster::Reason::Age;
        let input = cluster::Input::Refresh {
            reason,
            wants,
            prefer: None,
            waiter: None,
        };
        self.metadata.handle(input, draw, self.now);
        self.settle();
    }

    /// Writes records every `pause` for a while.
    pub(crate) fn run_busy(&mut self, time: Duration, pause: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.preload(1);
            self.run_for(pause);
        }
    }

    /// The leader and its epoch as the metadata machine knows them.
    pub(crate) fn leader_known(&self) -> (Option<BrokerId>, Option<LeaderEpoch>) {
        let row = self.metadata.snapshot().partition(&partition()).unwrap();
        (row.leader(), row.floor)
    }

    /// Number of Metadata answers applied.
    pub(crate) fn metadata_version(&self) -> u64 {
        self.metadata.snapshot().version().0
    }

    fn begin(&mut self, offset: i64) {
        self.begin_at(&partition(), offset);
        self.settle();
    }

    fn begin_at(&mut self, partition: &TopicPartition, offset: i64) {
        let route = &self.readers[partition].route;
        let assignment = AssignmentEpoch(route.generation().0 + 1);
        let snapshot = self.metadata.snapshot();
        let position = Some((Offset(offset), None));
        let assigned = routing::Assigned::by(snapshot, partition, assignment, position);
        self.route_input(partition, Input::Assigned(assigned));
    }

    /// Hands the route an input and carries out what follows.
    pub(crate) fn input(&mut self, input: Input) {
        self.route_input(&partition(), input);
        self.settle();
    }

    /// The reader of the one partition.
    pub(crate) fn reader(&self) -> &Reader {
        &self.readers[&partition()]
    }

    /// The follower being read, if one is.
    pub(crate) fn follower(&self) -> Option<BrokerId> {
        self.reader().route.state().follower()
    }

    /// The cluster, at the present moment.
    pub(crate) fn cluster(&mut self) -> &mut Cluster {
        self.cluster.advance(self.now);
        &mut self.cluster
    }

    /// Requests of one API received so far, by any broker.
    pub(crate) fn seen(&self, api: embedded::Api) -> Vec<Seen> {
        self.seen
            .iter()
            .filter(|seen| seen.api == api)
            .cloned()
            .collect()
    }

    /// Reading fetches received so far by one broker: those of a session.
    pub(crate) fn reading(&self, broker: i32) -> &[Seen] {
        self.reading.get(&broker).map_or(&[], Vec::as_slice)
    }

    /// Probes received so far by one broker: sessionless fetches.
    pub(crate) fn probed(&self, broker: i32) -> &[Seen] {
        self.probed.get(&broker).map_or(&[], Vec::as_slice)
    }

    /// Hedges received so far by one broker: sessionless fetches of more than one byte.
    pub(crate) fn hedged(&self, broker: i32) -> &[Seen] {
        self.hedged.get(&broker).map_or(&[], Vec::as_slice)
    }

    /// Sorts the requests that came since the last call.
    fn take_history(&mut self) {
        for seen in self.cluster.take_history() {
            let broker = seen.broker.0;
            let Some(fetch) = &seen.fetch else {
                self.seen.push(seen);
                continue;
            };
            let ours = self.settings.rack_sent();
            assert!(
                invariants::rack_is_ours(fetch.rack.as_ref(), ours),
                "I19: {seen:?}"
            );
            match (fetch.session_id, fetch.session_epoch, fetch.bytes_max) {
                (0, -1, 1) => {
                    let rate = self.probe_budget.rate();
                    self.probing.probed(seen.at, fetch.rows.len(), rate);
                    self.probed.entry(broker).or_default().push(seen);
                }
                (0, -1, _) => self.hedged.entry(broker).or_default().push(seen),
                // The good-bye of a session.
                (_, -1, _) => self.seen.push(seen),
                _ => self.reading.entry(broker).or_default().push(seen),
            }
        }
    }

    /// Dials of one broker's data connection for the rack lane.
    pub(crate) fn dials(&self, broker: i32, class: nearside::wire::Class) -> usize {
        let wanted = (BrokerId(broker), class);
        self.net
            .dials
            .iter()
            .filter(|(_, wire)| *wire == wanted)
            .count()
    }

    /// When one broker's connection of a class was dialled.
    pub(crate) fn dialled(&self, broker: i32, class: nearside::wire::Class) -> Vec<Moment> {
        let wanted = (BrokerId(broker), class);
        let dials = self.net.dials.iter().filter(|(_, wire)| *wire == wanted);
        dials.map(|(at, _)| *at).collect()
    }

    /// Whether a link is Ready.
    pub(crate) fn is_ready(&self, broker: i32, class: Class) -> bool {
        self.brokers.is_ready(BrokerId(broker), class)
    }

    /// The breaker of one broker.
    pub(crate) fn breaker(&self, broker: i32) -> routing::Breaker {
        self.brokers.breaker(BrokerId(broker))
    }

    /// Runs for a while.
    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        while self.step(end) {}
        self.now = end;
        self.settle();
    }

    /// Runs until something holds; fails if it does not within a quarter of an hour.
    pub(crate) fn run_until(&mut self, holds: impl Fn(&Self) -> bool) {
        let end = self.now + Duration::from_secs(900);
        self.settle();
        while !holds(self) {
            assert!(
                self.step(end),
                "nothing happened any more: {:#?}",
                self.readers
            );
        }
    }

    /// Goes to the next moment at which something happens, if it lies before `end`.
    fn step(&mut self, end: Moment) -> bool {
        let Some(next) = self.next_deadline().filter(|next| *next <= end) else {
            return false;
        };
        self.steps = if next > self.now { 0 } else { self.steps + 1 };
        assert!(self.steps < 1_000, "time stands still: {:#?}", self.links);
        self.now = self.now.max(next);
        self.tick();
        true
    }

    fn sample(&mut self) -> Draw {
        self.draw = self.draw.split();
        self.draw
    }
}
