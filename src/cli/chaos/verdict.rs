//! What the run amounts to: figures for each step, and everything that broke a promise.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::book::{Span, Track};
use super::crew::Told;
use super::step::{Promise, Step};
use crate::fleet::{Event, RouteChange};
use crate::ids::Moment;

/// The figures of one step.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    /// By partition, the longest time without a delivery.
    pub(super) read_gaps: Vec<Duration>,
    /// By partition, the longest time without an acknowledgement.
    pub(super) write_gaps: Vec<Duration>,
    /// From acknowledgement to delivery, the slowest.
    pub(super) delay: Duration,
    /// For each promise of the step, the slowest.
    pub(super) kept: Vec<Duration>,
    /// What this machine cost at that time: the slowest record of the partitions that no promise
    /// names, of all in a calm time if every partition has one.
    pub(super) machine: Duration,
    pub(super) lost: usize,
    pub(super) strays: usize,
    pub(super) repeats: usize,
    /// Records that the writer wrote twice.
    pub(super) copies: usize,
    /// Repeats of records that nobody's death excuses.
    pub(super) unexcused: usize,
    pub(super) resets: usize,
    /// Changes of route by reason.
    pub(super) changes: BTreeMap<String, usize>,
    /// Errors that the members told, by name.
    pub(super) errors: BTreeMap<String, usize>,
}

impl Figures {
    /// Looks at one step; `calm` is the slowest record of a time without a fault.
    pub(super) fn new(step: &Step, tracks: &[Track], log: &[Told], calm: Duration) -> Self {
        let span = step.span();
        let within = |moments: &[(u64, Moment)]| -> Vec<u64> {
            let hits = moments.iter().filter(|(_, at)| span.holds(*at));
            hits.map(|(number, _)| *number).collect()
        };
        let told: Vec<&Told> = log.iter().filter(|told| span.holds(told.at)).collect();
        let repeats: Vec<Vec<u64>> = tracks.iter().map(|it| within(&it.repeats)).collect();
        let unexcused = repeats.iter().enumerate().map(|(partition, numbers)| {
            let from = step.repeats_from.get(&partition);
            let excused = |number: &&u64| from.is_some_and(|from| *number >= from);
            numbers.len() - numbers.iter().filter(excused).count()
        });
        Self {
            read_gaps: tracks.iter().map(|it| it.read_gap(span)).collect(),
            write_gaps: tracks.iter().map(|it| it.write_gap(span)).collect(),
            delay: slowest(tracks, span, |_| Some(Moment::ZERO)),
            kept: step
                .promises
                .iter()
                .map(|it| it.kept(tracks, step))
                .collect(),
            machine: bystanders(step, tracks).unwrap_or(calm),
            lost: tracks.iter().map(|it| it.lost(span)).sum(),
            strays: tracks.iter().map(|it| within(&it.strays).len()).sum(),
            repeats: repeats.iter().map(Vec::len).sum(),
            copies: tracks.iter().map(|it| within(&it.copies).len()).sum(),
            unexcused: unexcused.sum(),
            resets: told.iter().filter(|told| is_reset(&told.event)).count(),
            changes: count(
                told.iter()
                    .filter_map(|told| change(&told.event))
                    .map(words),
            ),
            errors: count(told.iter().filter_map(|told| error(&told.event))),
        }
    }

    /// The longest time without a delivery of any partition.
    pub(super) fn read_gap(&self) -> Duration {
        self.read_gaps.iter().max().copied().unwrap_or_default()
    }

    /// The longest time without an acknowledgement of any partition.
    pub(super) fn write_gap(&self) -> Duration {
        self.write_gaps.iter().max().copied().unwrap_or_default()
    }

    /// What a promise is forgiven: a busy machine delays the concerned partitions no less than
    /// the others. Never more than the promise itself, lest a failure of all excuse some.
    pub(super) fn slack(&self, promise: &Promise) -> Duration {
        self.machine.min(promise.within)
    }

    /// What must hold for a step and does not, one line each.
    pub(super) fn broken(&self, step: &Step) -> Vec<String> {
        let mut broken = Vec::new();
        let mut none = |count: usize, what: &str| {
            if count > 0 {
                broken.push(format!("{}: {count} {what}", step.name));
            }
        };
        none(self.lost, "records lost");
        none(self.strays, "records out of order");
        none(
            self.unexcused,
            "records twice although their reader lived or had committed them",
        );
        none(self.copies, "records written twice");
        if !step.resets {
            none(self.resets, "offset resets");
        }
        for (promise, kept) in step.promises.iter().zip(&self.kept) {
            let limit = promise.within + self.slack(promise);
            if *kept > limit {
                broken.push(format!(
                    "{}: {}: {:.2} s, not {:.2} s",
                    step.name,
                    promise.what,
                    kept.as_secs_f64(),
                    limit.as_secs_f64()
                ));
            }
        }
        broken
    }
}

impl Promise {
    /// How long the slowest record took.
    fn kept(&self, tracks: &[Track], step: &Step) -> Duration {
        slowest(tracks, step.span(), |partition| {
            let since = self.since.get(&partition).copied().unwrap_or(step.fault);
            let first = |track: &Track| track.acknowledged_from(since);
            let agreed = tracks.get(partition).filter(|_| self.under_new_leader);
            let since = agreed.and_then(first).unwrap_or(since);
            self.partitions.contains(&partition).then_some(since)
        })
    }
}

/// The slowest record of the partitions that no promise names; `None` without such partitions.
fn bystanders(step: &Step, tracks: &[Track]) -> Option<Duration> {
    let named: BTreeSet<usize> = step
        .promises
        .iter()
        .flat_map(|promise| promise.partitions.iter().copied())
        .collect();
    let by = |partition: usize| (!named.contains(&partition)).then_some(Moment::ZERO);
    (named.len() < tracks.len()).then(|| slowest(tracks, step.span(), by))
}

fn slowest(tracks: &[Track], span: Span, since: impl Fn(usize) -> Option<Moment>) -> Duration {
    let delay = |(partition, track): (usize, &Track)| Some(track.delay(span, since(partition)?));
    tracks
        .iter()
        .enumerate()
        .filter_map(delay)
        .max()
        .unwrap_or_default()
}

/// Partitions that changed their route more than three times within a minute outside the faults:
/// one line each. A leader that the cluster moves is a fault of its own, after which the count
/// begins anew: where brokers starve, leaders move by themselves.
pub(super) fn oscillations(steps: &[Step], log: &[Told]) -> Vec<String> {
    let ends = steps
        .iter()
        .skip(1)
        .map(|next| next.fault)
        .chain(steps.last().map(|last| last.ended));
    let mut found = BTreeSet::new();
    for (step, to) in steps.iter().zip(ends) {
        let calm = Span {
            from: step.healed,
            to,
        };
        let mut changes: BTreeMap<String, Vec<Vec<Moment>>> = BTreeMap::new();
        for told in log.iter().filter(|told| calm.holds(told.at)) {
            let Some(change) = change(&told.event) else {
                continue;
            };
            let key = format!("{} at member {}", change.partition, told.member);
            let runs = changes.entry(key).or_default();
            match runs.last_mut() {
                Some(run) if change.reason != LEADER_CHANGED => run.push(told.at),
                None if change.reason != LEADER_CHANGED => runs.push(vec![told.at]),
                Some(_) | None => runs.push(Vec::new()),
            }
        }
        for (who, runs) in changes {
            if runs.iter().any(|run| most_in_a_minute(run) > CHANGES_MAX) {
                let after = &step.name;
                found.insert(format!("{who} oscillates after: {after}"));
            }
        }
    }
    found.into_iter().collect()
}

fn most_in_a_minute(moments: &[Moment]) -> usize {
    let from = |start: &Moment| {
        let within = moments
            .iter()
            .filter(|it| *it >= start && it.since(*start) < MINUTE);
        within.count()
    };
    moments.iter().map(from).max().unwrap_or(0)
}

/// A change of route of a partition that stays with its member.
fn change(event: &Event) -> Option<&RouteChange> {
    let Event::RoutingChange(change) = event else {
        return None;
    };
    (change.reason != "assigned" && change.reason != "revoked").then_some(change)
}

/// Reason of a change that the cluster asked for.
const LEADER_CHANGED: &str = "leader_changed";

fn words(change: &RouteChange) -> String {
    change.reason.clone()
}

fn is_reset(event: &Event) -> bool {
    // Without a commit the policy gives the first position; that is no reset.
    matches!(
        event,
        Event::PositionReset { from: Some(_), .. } | Event::Truncated { .. }
    )
}

/// The name of an event that reports a failure to the user.
fn error(event: &Event) -> Option<String> {
    let name = match event {
        Event::CorruptBatch { .. } => "corrupt_batch",
        Event::DeadLettered { .. } => "dead_lettered",
        Event::CommitFailed { .. } => "commit_failed",
        Event::PartitionFailed { .. } => "partition_failed",
        Event::TopicError { .. } => "topic_error",
        Event::MemberFatal { .. } => "member_fatal",
        Event::Lost { .. } => "partitions_lost",
        Event::AttemptPanicked { .. } => "attempt_panicked",
        Event::AttemptDeadline { .. } => "attempt_deadline",
        Event::AttemptAbandoned { .. } => "attempt_abandoned",
        Event::AttemptStuck { .. } => "attempt_stuck",
        Event::ActorRestarted { .. } => "actor_restarted",
        Event::DrainOverrun { .. } => "drain_overrun",
        Event::Diagnostic { name, .. } => name,
        Event::FleetStarting
        | Event::FleetStarted
        | Event::FleetStopping { .. }
        | Event::FleetStopped
        | Event::MemberJoined { .. }
        | Event::MemberLeft
        | Event::Assigned { .. }
        | Event::Revoked { .. }
        | Event::RoutingChange(_)
        | Event::PositionReset { .. }
        | Event::Truncated { .. }
        | Event::CaughtUpWithLeader { .. }
        | Event::CaughtUpWithReplica { .. }
        | Event::BreakerChanged { .. }
        | Event::BrokerLink { .. } => return None,
    };
    Some(name.to_owned())
}

fn count(names: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

const CHANGES_MAX: usize = 3;
const MINUTE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::RouteEnd;
    use crate::ids::{MetadataVersion, TopicIncarnation, TopicPartition};

    fn secs(secs: u64) -> Moment {
        Moment::from_ms(secs * 1_000)
    }

    /// Two partitions of one record each, acknowledged at 1 s, and a promise of 1 s for `named`.
    fn judged(named: &[usize], delivered: [u64; 2], calm: Duration) -> Vec<String> {
        let mut step = Step::new("step", Moment::ZERO);
        step.ended = secs(30);
        let named = named.iter().copied().collect();
        step.promise(Promise::new("it", named, secs(1), Duration::from_secs(1)));
        let tracks = delivered.map(|at| Track::of(&[(secs(1), secs(at))]));
        Figures::new(&step, &tracks, &[], calm).broken(&step)
    }

    const QUICK: Duration = Duration::ZERO;

    #[test]
    fn a_quick_machine_forgives_nothing() {
        assert!(judged(&[0], [2, 1], QUICK).is_empty());
        let broken = judged(&[0], [3, 1], QUICK);
        assert_eq!(broken, ["step: it: 2.00 s, not 1.00 s"]);
    }

    #[test]
    fn under_a_new_leader_the_clock_starts_at_its_first_acknowledgement() {
        let mut step = Step::new("step", Moment::ZERO);
        step.ended = secs(30);
        let promise = Promise::new("it", [0].into(), secs(2), Duration::from_secs(1));
        step.promise(promise.under_new_leader());
        let kept = |agreed| {
            let track = Track::of(&[(secs(1), secs(9)), (secs(agreed), secs(9))]);
            Figures::new(&step, &[track], &[], QUICK).kept
        };
        assert_eq!(kept(8), [Duration::from_secs(1)]);
        assert_eq!(kept(3), [Duration::from_secs(6)]);
    }

    #[test]
    fn a_promise_is_forgiven_what_bystanders_waited_but_never_more_than_itself() {
        assert!(judged(&[0], [3, 2], QUICK).is_empty());
        let broken = judged(&[0], [9, 9], QUICK);
        assert_eq!(broken, ["step: it: 8.00 s, not 2.00 s"]);
    }

    #[test]
    fn a_promise_for_all_is_forgiven_what_records_waited_in_a_calm_time() {
        let calm = Duration::from_millis(500);
        assert_eq!(judged(&[0, 1], [2, 2], calm), Vec::<String>::new());
        let broken = judged(&[0, 1], [3, 3], calm);
        assert_eq!(broken, ["step: it: 2.00 s, not 1.50 s"]);
    }

    fn change_for(reason: &str) -> RouteChange {
        let end = RouteEnd {
            state: "leader",
            broker: None,
            zone: None,
            lane: None,
        };
        RouteChange {
            partition: TopicPartition::new("orders", 0),
            from: end.clone(),
            to: end,
            reason: reason.to_owned(),
            generation: 1,
            hint: None,
            leader: None,
            leader_epoch: None,
            lease: None,
            topic_incarnation: TopicIncarnation(1),
            metadata_version: MetadataVersion(1),
            at: Moment::ZERO,
        }
    }

    fn oscillates(reasons: &[&str]) -> bool {
        let mut step = Step::new("step", Moment::ZERO);
        step.ended = secs(60);
        let told = |(at, reason): (u64, &&str)| Told {
            at: secs(at),
            member: 0,
            event: Event::RoutingChange(change_for(reason)),
        };
        let log: Vec<_> = (1..).zip(reasons).map(told).collect();
        !oscillations(&[step], &log).is_empty()
    }

    #[test]
    fn four_changes_in_a_minute_oscillate_unless_the_leader_moves_between_them() {
        let (hint, hold) = ("hint_adopted", "hold_cooldown");
        assert!(!oscillates(&[hint, hold, hint]));
        assert!(oscillates(&[hint, hold, hint, hold]));
        assert!(!oscillates(&[hint, hold, LEADER_CHANGED, hint, hold]));
        let late = [LEADER_CHANGED, hint, hold, hint, hold];
        assert!(oscillates(&late), "whatever came before");
    }
}
