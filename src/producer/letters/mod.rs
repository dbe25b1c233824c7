//! Dead letters: what cannot be handled is written elsewhere before it counts as finished
//! (runtime.md 10 Q2, Q3).
//!
//! A [`Letter`] says what failed, where and why, and how that looks as a record. [`Letters`] is the
//! machine between partitions and the [`Producer`](super::Producer): it accepts a letter only if
//! its topic can be written to and the produce buffer has room, tells the sender once a letter is
//! acknowledged, and has it sent again after whatever time may mend. It keeps no bytes: a sender
//! that is told [`End::Again`] brings them anew.

mod check;
mod letter;
mod machine;
#[cfg(test)]
mod tests;

pub use letter::{DEFAULT_TOPIC, ERROR_BYTES_MAX, Letter, Reason, TopicRule};
pub use machine::{End, Input, Letters, Notice, Output, Settings, Ticket};
