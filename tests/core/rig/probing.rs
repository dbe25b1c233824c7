//! Watches over the probes of one client: routing.md I18. The rig and the simulator share it.

use std::collections::VecDeque;
use std::time::Duration;

use nearside::ids::Moment;
use nearside::invariants::routing as invariants;

/// Probed partitions of the last second, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    recent: VecDeque<(Moment, usize)>,
}

impl Watch {
    /// A request probes so many partitions, while the client may probe `rate` of them a second.
    pub(crate) fn probed(&mut self, at: Moment, partitions: usize, rate: f64) {
        assert!(
            invariants::probe_is_small(partitions, 8),
            "I18: {partitions} partitions in one probe"
        );
        self.recent.push_back((at, partitions));
        let gone = |earlier: Moment| at.since(earlier) >= Duration::from_secs(1);
        while self.recent.front().is_some_and(|(at, _)| gone(*at)) {
            self.recent.pop_front();
        }
        let asked: usize = self.recent.iter().map(|(_, count)| count).sum();
        assert!(
            invariants::probes_keep_the_rate(asked, rate),
            "I18: {asked} partitions probed within a second"
        );
    }
}
