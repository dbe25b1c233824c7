//! What happens in the demo, and when.

use std::time::Duration;

/// A step of the demo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// A broker that leads nothing else than its share dies.
    KillFollower,
    /// It comes back.
    ReviveFollower,
    /// A leader moves to another broker.
    MoveLeader,
    /// No more records are written.
    EndFeeding,
}

/// The steps in order.
const STEPS: [(u64, Step); 4] = [
    (8, Step::KillFollower),
    (16, Step::ReviveFollower),
    (24, Step::MoveLeader),
    (30, Step::EndFeeding),
];

/// Longest time from the end of feeding to the end of the demo.
pub(super) const WIND_DOWN: Duration = Duration::from_secs(15);

/// Walks through the steps.
#[derive(Debug, Default)]
pub(super) struct Script {
    done: usize,
}

impl Script {
    /// The next step, if it is due `elapsed` after the start.
    pub(super) fn due(&mut self, elapsed: Duration) -> Option<Step> {
        let (at, step) = STEPS.get(self.done)?;
        if elapsed < Duration::from_secs(*at) {
            return None;
        }
        self.done += 1;
        Some(*step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_comes_once_and_in_order() {
        let mut script = Script::default();
        assert_eq!(script.due(Duration::from_secs(7)), None);
        assert_eq!(
            script.due(Duration::from_secs(20)),
            Some(Step::KillFollower)
        );
        assert_eq!(
            script.due(Duration::from_secs(20)),
            Some(Step::ReviveFollower)
        );
        assert_eq!(script.due(Duration::from_secs(20)), None);
    }

    #[test]
    fn the_demo_ends_by_itself_within_a_minute() {
        let (last, step) = STEPS[STEPS.len() - 1];
        assert_eq!(step, Step::EndFeeding);
        assert!(Duration::from_secs(last) + WIND_DOWN < Duration::from_secs(60));
    }
}
