//! The demo's last words: counts that prove what it claims.

use std::fmt;

use crate::cli::demo::table::{bytes, grouped};
use crate::cli::demo::tally::Totals;

/// What the demo found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Summary {
    /// Records that brokers acknowledged.
    pub(super) written: u64,
    /// What members handled.
    pub(super) totals: Totals,
    /// Records below the committed offsets of the group.
    pub(super) committed: u64,
    /// Record bytes read inside zones.
    pub(super) same_zone_bytes: u64,
    /// Record bytes read across zones.
    pub(super) cross_zone_bytes: u64,
}

impl Summary {
    /// Whether every record written was handled and committed, none skipped.
    pub(super) fn is_proof(&self) -> bool {
        self.written > 0
            && self.totals.records == self.written
            && self.totals.skipped == 0
            && self.committed == self.written
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = self.written.saturating_sub(self.totals.records);
        writeln!(f, "written                {:>12}", grouped(self.written))?;
        writeln!(
            f,
            "handled                {:>12}",
            grouped(self.totals.records)
        )?;
        writeln!(f, "committed              {:>12}", grouped(self.committed))?;
        writeln!(f, "lost                   {:>12}", grouped(lost))?;
        writeln!(
            f,
            "skipped                {:>12}",
            grouped(self.totals.skipped)
        )?;
        writeln!(
            f,
            "handled again          {:>12}",
            grouped(self.totals.again)
        )?;
        writeln!(
            f,
            "read in the same zone  {:>12}",
            bytes(self.same_zone_bytes)
        )?;
        writeln!(
            f,
            "read across zones      {:>12}",
            bytes(self.cross_zone_bytes)
        )?;
        f.write_str(if self.is_proof() {
            "every record written was handled and committed"
        } else {
            "NOT every record written was handled and committed"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Summary {
        Summary {
            written: 12_000,
            totals: Totals {
                records: 12_000,
                again: 3,
                skipped: 0,
            },
            committed: 12_000,
            same_zone_bytes: 1 << 20,
            cross_zone_bytes: 2_048,
        }
    }

    #[test]
    fn only_a_whole_run_is_a_proof() {
        assert!(good().is_proof());
        let lost = Totals {
            records: 11_999,
            ..good().totals
        };
        assert!(
            !Summary {
                totals: lost,
                ..good()
            }
            .is_proof()
        );
        let skipped = Totals {
            skipped: 1,
            ..good().totals
        };
        assert!(
            !Summary {
                totals: skipped,
                ..good()
            }
            .is_proof()
        );
        assert!(
            !Summary {
                committed: 11_999,
                ..good()
            }
            .is_proof()
        );
        assert!(!Summary::default().is_proof());
    }

    #[test]
    fn the_text_says_what_was_lost() {
        let totals = Totals {
            records: 11_998,
            ..good().totals
        };
        let text = Summary { totals, ..good() }.to_string();
        assert!(
            text.contains("lost                              2\n"),
            "{text}"
        );
        assert!(text.ends_with("NOT every record written was handled and committed"));
    }
}
