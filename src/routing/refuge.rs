//! Whom to read while the leader is silent: the follower it granted last, or a refuge
//! (routing.md 8.4).

use std::collections::VecDeque;
use std::time::Duration;

use super::facts::{Class, FOLLOWER_FETCH};
use super::lease::Hold;
use super::route::{Context, Route};
use super::settings::{RefugePolicy, Settings};
use crate::ids::{BrokerId, Draw, LeaderEpoch, Moment, TopicPartition};

/// The last follower granted by an accepted hint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub(super) broker: BrokerId,
    pub(super) hold: Hold,
    /// Leader epoch of the grant.
    pub(super) epoch: Option<LeaderEpoch>,
}

/// What a route remembers of its refuges; none in most partitions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Absence {
    /// When the leader was last asked whether it is back; the entry counts as the first time.
    pub(super) asked_at: Moment,
    /// Whether it answered on this refuge.
    answered: bool,
    /// When the route last returned to it.
    returned: Option<Moment>,
    /// Returns after which it was soon silent again, oldest first.
    relapses: VecDeque<Moment>,
}

impl Absence {
    /// A refuge is entered.
    pub(super) fn begin(&mut self, now: Moment) {
        if let Some(returned) = self.returned.take()
            && now.since(returned) <= RELAPSE
        {
            if self.relapses.len() >= RELAPSES_MAX {
                self.relapses.pop_front();
            }
            self.relapses.push_back(returned);
        }
        self.asked_at = now;
        self.answered = false;
    }

    /// The leader answered a probe.
    pub(super) fn leader_answered(&mut self) {
        self.answered = true;
    }

    /// The leader is read again. Tells whether it was its own answer that led back.
    pub(super) fn end(&mut self, now: Moment) -> bool {
        if self.answered {
            self.returned = Some(now);
        }
        self.answered
    }

    /// Time between two questions: a leader that answers questions and stalls on data is returned
    /// to less and less often.
    pub(super) fn interval(&self, settings: &Settings, now: Moment) -> Duration {
        let recent = |at: &&Moment| now.since(**at) < RELAPSES_WITHIN;
        let count = self.relapses.iter().filter(recent).count();
        settings
            .refuge_probe
            .plain(u32::try_from(count).unwrap_or(u32::MAX))
    }
}

impl Route {
    /// The candidate, if it may be read now. A refuge being read is not its own successor.
    pub(super) fn usable_candidate(&self, context: Context<'_>) -> Option<Candidate> {
        let candidate = *self.candidate.as_deref()?;
        let broker = candidate.broker;
        let lease = candidate.hold.lease()?;
        let usable = candidate.epoch == self.cluster.leadership.epoch
            && lease.stop_at > context.now
            && self.leader() != Some(broker)
            && self.state.follower() != Some(broker)
            && self.may_read(broker, context)
            && answers(broker, context);
        usable.then_some(candidate)
    }

    /// The refuge of this partition: own rack first, then whoever is near, spread by partition.
    pub(super) fn refuge(&self, context: Context<'_>) -> Option<BrokerId> {
        let brokers = context.brokers;
        let fit = || {
            let members = self.cluster.isr.iter().copied();
            members.filter(|member| self.is_refuge(*member, context))
        };
        let rack = self.settings.client_rack.as_ref();
        let is_ours = |member: &BrokerId| rack.is_some() && brokers.rack(*member) == rack;
        let ours = fit().any(|member| is_ours(&member));
        let pool = || fit().filter(|member| !ours || is_ours(member));
        let trip = |member: &BrokerId| brokers.get(*member).and_then(|facts| facts.round_trip);
        let lowest = pool().filter_map(|member| trip(&member)).min();
        let near = |member: &BrokerId| match (trip(member), lowest) {
            (Some(trip), Some(lowest)) => trip <= (lowest * 2).max(lowest + NEAR),
            (Some(_) | None, _) => true,
        };
        pool()
            .filter(near)
            .max_by_key(|member| (self.weight(*member), *member))
    }

    fn is_refuge(&self, broker: BrokerId, context: Context<'_>) -> bool {
        let version = context.brokers.get(broker);
        let version = version.and_then(|facts| facts.fetch_version);
        self.could_be_refuge(broker, context)
            && version.is_some_and(|version| version >= FOLLOWER_FETCH)
            && answers(broker, context)
            && self.former_until(broker, context.now).is_none()
    }

    /// Whether nothing but its link stands between `broker` and being a refuge.
    fn could_be_refuge(&self, broker: BrokerId, context: Context<'_>) -> bool {
        self.is_haven(broker, context)
            && !self.ledger.is_cooling(broker, context.now)
            && self.breaker_lets(broker, context)
    }

    /// Whether `broker` is a refuge, or becomes one with its link, the end of its cooldown and the
    /// word of its breaker.
    pub(super) fn is_haven(&self, broker: BrokerId, context: Context<'_>) -> bool {
        self.settings.refuge == RefugePolicy::Isr
            && self.cluster.leadership.epoch.is_some()
            && self.leader() != Some(broker)
            && self.state.follower() != Some(broker)
            && self.in_isr_view(broker)
            && !context.brokers.is_legacy(broker)
    }

    /// Rendezvous hash of (topic, partition, broker): the partitions of a dead link spread evenly,
    /// and each goes the same way whenever it is asked.
    fn weight(&self, broker: BrokerId) -> u64 {
        let id = self.topic_id.map_or(0, |id| {
            let (high, low) = id.0.as_u64_pair();
            high ^ low
        });
        let broker = Draw(u64::from(broker.0.unsigned_abs())).split();
        Draw(Draw(self.seed ^ id).split().0 ^ broker.0).split().0
    }
}

/// What the rendezvous hash keeps of a partition's name (FNV-1a).
pub(super) fn seed_of(partition: &TopicPartition) -> u64 {
    let name = partition.topic.as_str().bytes();
    let bytes = name.chain(partition.partition.0.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Whether a fetch to `broker` would be answered, as far as known.
fn answers(broker: BrokerId, context: Context<'_>) -> bool {
    context.brokers.is_ready(broker, Class::Rack) && !context.brokers.is_silent(broker, Class::Rack)
}

/// Round trips this close are equal.
const NEAR: Duration = Duration::from_millis(5);
/// A leader silent again this soon after a return has relapsed.
const RELAPSE: Duration = Duration::from_secs(60);
/// How long a relapse counts.
const RELAPSES_WITHIN: Duration = Duration::from_secs(600);
/// More relapses than this change no interval any more.
const RELAPSES_MAX: usize = 8;
