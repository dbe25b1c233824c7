//! Watches over the probes of the whole client: routing.md I18.

use std::collections::VecDeque;
use std::time::Duration;

use nearside::embedded::Seen;
use nearside::ids::Moment;
use nearside::invariants::routing as invariants;

/// Probed partitions of the last second, oldest first.
#[derive(Debug, Default)]
pub(super) struct Watch {
    recent: VecDeque<(Moment, usize)>,
}

impl Watch {
    /// A broker received a probe request, while the client may probe `rate` partitions a second.
    pub(super) fn arrived(&mut self, seen: &Seen, rate: f64) {
        let rows = seen.fetch.as_ref().unwrap().rows.len();
        assert!(invariants::probe_is_small(rows, 8), "{seen:?}");
        self.recent.push_back((seen.at, rows));
        let gone = |at: Moment| seen.at.since(at) >= Duration::from_secs(1);
        while self.recent.front().is_some_and(|(at, _)| gone(*at)) {
            self.recent.pop_front();
        }
        let asked: usize = self.recent.iter().map(|(_, rows)| rows).sum();
        assert!(
            invariants::probes_keep_the_rate(asked, rate),
            "{asked} partitions probed within a second"
        );
    }
}
