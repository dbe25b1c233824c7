//! Recorded routing: why a consumer read from where it did.
//!
//! A trace holds every input of every route machine with the time, the random sample and the broker
//! facts it saw, and what came of it. The machine is pure, so that the same inputs lead to the same
//! decisions: a [`Player`] plays them again, compares each with what was recorded, and tells it in
//! words with the rule that took it (`R-` and `H-` numbers of routing.md 4.3 and 7.1).
//!
//! A trace is a file of JSON lines, the first of them a [`Header`]. It holds no record bytes, keys,
//! values or secrets: of records only their length, and of topics and racks their names.

pub(super) mod brokers;
pub(super) mod row;

mod line;
mod outcome;
mod outputs;
mod player;
mod taken;
mod words;

pub use line::{FORMAT, Header, Line, LineError, Step};
pub use outcome::Outcome;
pub use player::{Decision, Difference, PlayError, Player};
pub use taken::{FactsSeen, Taken};
