//! What happens to a batch that nobody can read (wire.md 8.6).

use crate::ids::Offset;

use super::error::BatchError;

/// What is done with a poison batch (`wire.batch.policy`). No commit passes one without this
/// decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BatchPolicy {
    /// The partition stands still until somebody looks.
    #[default]
    Halt,
    /// Reading goes on behind the batch; its offsets count as finished.
    Skip,
    /// Its raw bytes go to the dead letter topic, then as [`BatchPolicy::Skip`].
    DeadLetterRaw,
}

/// What a policy makes of one poison batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchDecision {
    /// Stand still.
    Halt,
    /// Finish `from..to` and read on at `to`.
    Skip {
        /// First offset that was not delivered.
        from: Offset,
        /// Offset behind the batch.
        to: Offset,
    },
    /// Keep the raw batch as a dead letter first, then as [`BatchDecision::Skip`].
    DeadLetterRaw {
        /// First offset that was not delivered.
        from: Offset,
        /// Offset behind the batch.
        to: Offset,
    },
}

impl BatchPolicy {
    /// Decides on `error`. Only a checksum that held vouches for where a batch ends, so without one
    /// every policy halts.
    pub fn decide(self, error: &BatchError) -> BatchDecision {
        let from = error.position();
        let to = error.skip_to().filter(|to| *to > from);
        match (self, to) {
            (Self::Halt, _) | (Self::Skip | Self::DeadLetterRaw, None) => BatchDecision::Halt,
            (Self::Skip, Some(to)) => BatchDecision::Skip { from, to },
            (Self::DeadLetterRaw, Some(to)) => BatchDecision::DeadLetterRaw { from, to },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::{Corruption, Place, PoisonReason};
    use super::*;

    fn poison(next: Option<Offset>) -> BatchError {
        let at = Place {
            position: Offset(12),
            base: Offset(10),
            next,
            size: 90,
        };
        let reason = PoisonReason::Corrupt(Corruption::Checksum);
        BatchError::Poison { at, reason }
    }

    #[test]
    fn only_a_batch_whose_checksum_held_is_passed() {
        let (from, to) = (Offset(12), Offset(20));
        let vouched = poison(Some(to));
        assert_eq!(BatchPolicy::Halt.decide(&vouched), BatchDecision::Halt);
        let skip = BatchDecision::Skip { from, to };
        assert_eq!(BatchPolicy::Skip.decide(&vouched), skip);
        let kept = BatchDecision::DeadLetterRaw { from, to };
        assert_eq!(BatchPolicy::DeadLetterRaw.decide(&vouched), kept);
        for policy in [
            BatchPolicy::Halt,
            BatchPolicy::Skip,
            BatchPolicy::DeadLetterRaw,
        ] {
            assert_eq!(policy.decide(&poison(None)), BatchDecision::Halt);
        }
    }
}
