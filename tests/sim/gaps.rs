//! How long readers stood still although records could have been had, and how long they may.

use std::collections::BTreeMap;
use std::time::Duration;

use nearside::backoff::Backoff;
use nearside::cluster;
use nearside::embedded::{Cluster, PartitionView, ReplicaView};
use nearside::ids::{BrokerId, Moment, Offset, TopicPartition};
use nearside::invariants::routing::{Flow, Supply};
use nearside::routing::{self, Breaker, Class, Link, Route};
use nearside::wire;

use crate::member::{Member, Slot};
use crate::plan::ROUND_TRIP;
use crate::world::LOOK;

/// A time without records.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Gap {
    pub(crate) length: Duration,
    pub(crate) at: Moment,
    pub(crate) place: String,
}

/// The present gap of every partition at its owner, and the longest of all.
#[derive(Default)]
pub(crate) struct Gaps {
    waits: BTreeMap<Key, Wait>,
    longest: Longest,
}

/// The longest gaps, by what they were spent on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Longest {
    /// Noticing, asking and dialling.
    pub(crate) owed: Gap,
    /// A dial that hung.
    pub(crate) dialling: Gap,
    /// A replica that was well, but behind the others.
    pub(crate) behind: Gap,
}

/// Index of a member, and one of its partitions.
pub(crate) type Key = (usize, TopicPartition);

/// A gap that lasts.
#[derive(Default)]
struct Wait {
    flow: Flow,
    fed_at: Moment,
    looked_at: Moment,
    owed: Duration,
    dialling: Duration,
    behind: Duration,
}

/// How a partition without records is to be seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// There is nothing to be had: the wait begins anew.
    Nothing,
    /// Whoever has records may not be asked: a mute, a cooldown, a breaker that lets in a few at a
    /// time. The clock stands still.
    Held,
    /// Whoever has records is being dialled, by a dial that began while it was out of reach.
    Dialling,
    /// The replica being read has nothing.
    Behind,
    /// Records could be had.
    Owed,
}

impl Gaps {
    /// Measures the gaps of one member. `reachable` tells whom nothing ails.
    pub(crate) fn look(
        &mut self,
        (index, member): (usize, &Member),
        cluster: &Cluster,
        reachable: impl Fn(BrokerId) -> bool,
        now: Moment,
    ) {
        for (partition, slot) in &member.slots {
            let view = cluster.partition(partition).unwrap();
            let begun = || Wait {
                looked_at: now,
                ..Wait::default()
            };
            let wait = self.waits.entry((index, partition.clone()));
            let wait = wait.or_insert_with(begun);
            let supply = supply(member, slot, &view, &reachable, now);
            let flows = !slot.wants_records() || wait.flow.holds(&slot.route, supply, now);
            let place = format!("{} {partition} {:?}", member.name, slot.route.state());
            assert!(flows, "I9: {place} since {:?}: {supply:?}", slot.fed_at);
            wait.add(standing(member, slot, &view, &reachable, now), slot, now);
            let gap = |length| Gap {
                length,
                at: now,
                place: place.clone(),
            };
            let bounds = Bounds::of(member, &slot.route);
            keep(&mut self.longest.owed, gap(wait.owed), bounds.owed);
            keep(
                &mut self.longest.dialling,
                gap(wait.dialling),
                bounds.dialling,
            );
            keep(&mut self.longest.behind, gap(wait.behind), bounds.behind);
        }
    }

    pub(crate) fn longest(&self) -> Longest {
        self.longest.clone()
    }

    /// The assignment is over.
    pub(crate) fn forget(&mut self, key: &Key) {
        self.waits.remove(key);
    }

    /// A member is no more.
    pub(crate) fn gone(&mut self, member: usize) {
        self.waits.retain(|(of, _), _| *of != member);
    }
}

impl Wait {
    fn add(&mut self, standing: Standing, slot: &Slot, now: Moment) {
        if slot.fed_at > self.fed_at || standing == Standing::Nothing {
            (self.owed, self.dialling, self.behind) = Default::default();
        }
        let time = now.since(self.looked_at.max(slot.fed_at));
        (self.fed_at, self.looked_at) = (slot.fed_at, now);
        match standing {
            Standing::Nothing | Standing::Held => {}
            Standing::Dialling => self.dialling += time,
            Standing::Behind => self.behind += time,
            Standing::Owed => self.owed += time,
        }
    }
}

fn keep(longest: &mut Gap, gap: Gap, bound: Duration) {
    assert!(gap.length <= bound, "{gap:?}, longer than {bound:?}");
    if gap.length > longest.length {
        *longest = gap;
    }
}

fn standing(
    member: &Member,
    slot: &Slot,
    view: &PartitionView,
    reachable: &impl Fn(BrokerId) -> bool,
    now: Moment,
) -> Standing {
    let (route, next) = (&slot.route, slot.route.fetch_end());
    let serves = |replica: &&ReplicaView| {
        view.isr.contains(&replica.broker)
            && replica.high_watermark > next
            && reachable(replica.broker)
    };
    let serving: Vec<BrokerId> = view.replicas.iter().filter(serves).map(id).collect();
    // What retention took is found by asking the leader, and nobody else.
    if !slot.wants_records() || next < view.log_start || serving.is_empty() {
        return Standing::Nothing;
    }
    let read = route.served().map(|(broker, _)| broker);
    let muted = |broker: BrokerId| member.is_muted(broker, now);
    let follows = |broker: BrokerId| Some(broker) != route.leadership().leader;
    let held = |broker: BrokerId| {
        let few = member.brokers.breaker(broker) == Breaker::Readmitting;
        muted(broker) || (follows(broker) && (few || route.is_cooling(broker, now)))
    };
    let free: Vec<BrokerId> = serving.into_iter().filter(|one| !held(*one)).collect();
    let class = |broker: BrokerId| match route.served() {
        Some((read, lane)) if read == broker => Class::of(lane),
        Some(_) | None => Class::Rack,
    };
    let hangs = |broker: &BrokerId| {
        let facts = member.brokers.get(*broker);
        facts.is_some_and(|facts| facts.link(class(*broker)) == Link::Dialling)
    };
    if read.is_some_and(muted) || free.is_empty() {
        Standing::Held
    } else if read.is_some_and(|broker| reachable(broker) && trails(view, broker, next)) {
        Standing::Behind
    } else if free.iter().all(hangs) {
        Standing::Dialling
    } else {
        Standing::Owed
    }
}

/// Whether a replica has no records from `next` on.
fn trails(view: &PartitionView, broker: BrokerId, next: Offset) -> bool {
    let mut replicas = view.replicas.iter();
    replicas.any(|replica| replica.broker == broker && replica.high_watermark <= next)
}

fn id(replica: &ReplicaView) -> BrokerId {
    replica.broker
}

/// What I9 has to know.
fn supply(
    member: &Member,
    slot: &Slot,
    view: &PartitionView,
    reachable: &impl Fn(BrokerId) -> bool,
    now: Moment,
) -> Supply {
    let route = &slot.route;
    let (leader, settings) = (route.leadership().leader, route.settings());
    let answers = |leader: BrokerId| {
        let served = route.served().filter(|(broker, _)| *broker == leader);
        let recent = match served.map(|(_, lane)| Class::of(lane)) {
            Some(class) => member.brokers.answered(leader, class).is_some_and(|at| {
                let ready = member.brokers.is_ready(leader, class);
                ready && now.since(at) <= settings.max_wait + ANSWER_SLACK
            }),
            None => member.brokers.is_ready(leader, Class::Control),
        };
        recent && reachable(leader) && !member.is_muted(leader, now)
    };
    Supply {
        leader_answers: leader.is_some_and(answers) && leader == view.leader,
        leader_end: view.high_watermark,
        fed_at: slot.fed_at,
        round_trip: ROUND_TRIP,
    }
}

/// How long the parts of a gap may last, by the settings in use.
struct Bounds {
    owed: Duration,
    dialling: Duration,
    behind: Duration,
}

impl Bounds {
    fn of(member: &Member, route: &Route) -> Self {
        let (settings, wire) = (route.settings(), &member.net.settings);
        Self {
            owed: longest_owed(settings, wire, &cluster::Settings::default()) + LOOK,
            dialling: longest(wire.setup) + LOOK,
            behind: longest_behind(settings) + LOOK,
        }
    }
}

/// Who stands still finds a way in two steps, one after the other.
///
/// 1. It learns that it has to look for one, and where: by the hedge deadline that its broker is
///    silent, by the next answer of metadata who else is in sync, the broker asked first having
///    failed (routing.md 8.4, metadata.md 8). If there is nobody else, the fetch that gets no
///    answer is given up, and its connection with it (routing.md 10).
/// 2. It connects there, the last attempt having failed just before (wire.md C1).
fn longest_owed(
    settings: &routing::Settings,
    wire: &wire::Settings,
    metadata: &cluster::Settings,
) -> Duration {
    let news = settings.hedge_deadline()
        + settings.hedge_patience
        + metadata.attempt
        + longest(metadata.no_progress);
    let given_up = settings.max_wait + wire.fetch_grace;
    news.max(given_up) + longest(wire.reconnect)
}

/// The cap of a backoff, with its jitter.
fn longest(backoff: Backoff) -> Duration {
    backoff.cap.mul_f64(1.0 + backoff.jitter)
}

/// Two samples of the leader's end (I9).
fn longest_behind(settings: &routing::Settings) -> Duration {
    settings.stuck
        + settings.stuck_probe
        + settings.stuck_grace
        + settings.max_wait
        + 2 * ROUND_TRIP
}

/// The leader answered within its longest wait and this (I9).
const ANSWER_SLACK: Duration = Duration::from_millis(500);
