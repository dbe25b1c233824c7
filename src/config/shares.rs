//! How the memory budget is divided (wire.md 4.2, runtime.md 11 B1).

use super::{Config, Share};

impl Config {
    /// Largest batch after inflation, in bytes: what was set, else 64 MiB or the inflation share of
    /// the memory budget if that is smaller.
    pub fn inflated_bytes_max(&self) -> usize {
        let cap = self.wire.inflated_max.unwrap_or(INFLATED_MAX);
        bytes(cap).min(self.inflation_bytes())
    }

    /// Inflated bytes that may be held at a time: a share of the memory budget.
    pub fn inflation_bytes(&self) -> usize {
        bytes(share_of(self.fetch.budget, self.wire.inflate_share))
    }

    /// Bytes of records to be written that may be held at a time: a share of the memory budget.
    pub(super) fn producing_bytes(&self) -> usize {
        bytes(share_of(self.fetch.budget, self.wire.produce_share))
    }

    /// Fetched bytes that may be held at a time: the memory budget without the other shares.
    pub(super) fn fetched_bytes_max(&self) -> usize {
        bytes(self.fetch.budget)
            .saturating_sub(self.inflation_bytes())
            .saturating_sub(self.producing_bytes())
    }
}

/// A share of the budget in whole bytes.
pub(super) fn share_of(budget: u64, share: Share) -> u64 {
    // Parts per million keep this in integers; no share needs to be finer.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share is from 0 to 1"
    )]
    let millionths = (share.0 * 1e6) as u64;
    budget / 1_000_000 * millionths + budget % 1_000_000 * millionths / 1_000_000
}

fn bytes(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Largest inflated batch where nothing is set.
const INFLATED_MAX: u64 = 64 * 1_024 * 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_budget_is_divided_and_nothing_of_it_is_given_twice() {
        let config = Config::from_pairs([
            ("memory.budget.bytes", "100000000"),
            ("wire.budget.inflate.share", "0.3"),
            ("wire.budget.produce.share", "0.2"),
        ])
        .unwrap();
        assert_eq!(config.inflation_bytes(), 30_000_000);
        assert_eq!(config.producer_settings().buffer_bytes, 20_000_000);
        assert_eq!(config.broker_settings().budget.limit(), 50_000_000);
        assert_eq!(config.inflated_bytes_max(), 30_000_000, "below 64 MiB");
    }
}
