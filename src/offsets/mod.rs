//! Position, completion ledger, commits and leader-side offset resolution (runtime.md 6 and 7).
//!
//! [`Ledger`] is the account of one partition and lives in the partition's cell.

mod ledger;
mod runs;

pub use ledger::Ledger;
pub use runs::{Run, Runs};
