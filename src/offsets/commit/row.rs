//! The commit state of one partition.

use std::time::Duration;

use super::io::Observed;
use crate::group::Token;
use crate::ids::{AssignmentEpoch, Draw, Moment, TopicPartition};

/// What is known about the commits of one assigned partition.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) epoch: AssignmentEpoch,
    /// The newest state that is neither out nor accepted.
    pub(super) wanted: Option<Observed>,
    /// The state that is out.
    pub(super) out: Option<(Token, Observed)>,
    /// The last accepted state.
    pub(super) accepted: Option<Observed>,
    /// When the wanted state is due.
    pub(super) due: Option<Moment>,
    pub(super) failures: u32,
    pub(super) failing_since: Option<Moment>,
    pub(super) stuck: bool,
    /// Most rows a request with this one may have, after a larger one was refused whole.
    pub(super) rows_max: Option<usize>,
}

impl Row {
    pub(super) fn new(epoch: AssignmentEpoch) -> Self {
        Self {
            epoch,
            wanted: None,
            out: None,
            accepted: None,
            due: None,
            failures: 0,
            failing_since: None,
            stuck: false,
            rows_max: None,
        }
    }

    /// Takes a state and says what it adds.
    pub(super) fn observe(&mut self, state: Observed) -> Observation {
        let known = self
            .wanted
            .as_ref()
            .or(self.out.as_ref().map(|(_, state)| state));
        let Some(known) = known.or(self.accepted.as_ref()) else {
            self.wanted = Some(state);
            return Observation::Fresh;
        };
        let key = |state: &Observed| (state.generation, state.offset);
        match key(&state).cmp(&key(known)) {
            std::cmp::Ordering::Less => Observation::Stale,
            std::cmp::Ordering::Equal => Observation::Known,
            std::cmp::Ordering::Greater => {
                self.wanted = Some(state);
                Observation::Fresh
            }
        }
    }

    /// Whether everything observed is accepted.
    pub(super) fn is_clean(&self) -> bool {
        self.wanted.is_none() && self.out.is_none()
    }

    /// Offsets finished since the last state that left.
    pub(super) fn backlog(&self) -> u64 {
        let base = self
            .out
            .as_ref()
            .map(|(_, state)| state)
            .or(self.accepted.as_ref());
        match (&self.wanted, base) {
            (Some(wanted), Some(base)) if wanted.generation == base.generation => {
                wanted.offset.0.abs_diff(base.offset.0)
            }
            (Some(_) | None, Some(_) | None) => 0,
        }
    }

    /// The state that was out is stored.
    pub(super) fn accept(&mut self) -> Option<Observed> {
        let (_, state) = self.out.take()?;
        self.accepted = Some(state.clone());
        self.failures = 0;
        self.failing_since = None;
        self.stuck = false;
        self.rows_max = None;
        Some(state)
    }

    /// The state that was out is not stored: wanted again, unless a newer one is. Counts towards
    /// the backoff.
    pub(super) fn reject(&mut self, now: Moment) {
        self.take_back();
        self.failures = self.failures.saturating_add(1);
        self.failing_since.get_or_insert(now);
    }

    /// The state that was out is wanted again, through no fault of its own.
    pub(super) fn take_back(&mut self) {
        if let Some((_, state)) = self.out.take() {
            self.wanted.get_or_insert(state);
        }
    }

    /// Whether this refusal shows for the first time that the row fails for too long.
    pub(super) fn turns_stuck(&mut self, now: Moment) -> bool {
        let long = self
            .failing_since
            .is_some_and(|since| now.since(since) >= STUCK_AFTER);
        long && !std::mem::replace(&mut self.stuck, true)
    }
}

/// What a state adds to what is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Observation {
    Fresh,
    Known,
    Stale,
}

/// The partition's next turn after `now`: turns are spread over the interval by hash, so that a
/// process with many partitions commits some of them all the time instead of all of them at once
/// (L7). There are few distinct turns, so that rows still share requests.
pub(super) fn next_turn(partition: &TopicPartition, interval: Duration, now: Moment) -> Moment {
    let interval = u64::try_from(interval.as_micros())
        .unwrap_or(u64::MAX)
        .max(1);
    // Mixed once more: neighbours differ in few bits of this hash.
    let turn = Draw(hash(partition)).split().0 % TURNS;
    let phase = interval / TURNS * turn;
    let start = now.0 - now.0 % interval;
    let this = start.saturating_add(phase);
    Moment(if this > now.0 {
        this
    } else {
        this.saturating_add(interval)
    })
}

/// FNV-1a over topic and index: the same in every run.
fn hash(partition: &TopicPartition) -> u64 {
    let bytes = partition
        .topic
        .as_str()
        .bytes()
        .chain(partition.partition.0.to_be_bytes());
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    }) >> 16
}

const TURNS: u64 = 16;
const STUCK_AFTER: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_lie_ahead_within_one_interval_and_are_spread() {
        let interval = Duration::from_secs(5);
        let now = Moment::from_ms(12_345);
        let turns: std::collections::BTreeSet<Moment> = (0..1_000)
            .map(|index| next_turn(&TopicPartition::new("t", index), interval, now))
            .collect();
        assert_eq!(turns.len(), 16);
        assert!(
            turns
                .iter()
                .all(|turn| *turn > now && *turn <= now + interval)
        );
    }
}
