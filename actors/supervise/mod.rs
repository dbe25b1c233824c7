//! Supervision: who notices that an actor ended, and who starts it again.

mod crash;
mod death;
mod fleet;
mod producer;
mod start;

pub(crate) use crash::on_purpose;
pub(crate) use death::{Death, DeathReason, DeathWatch, Watched, guarded};
pub(crate) use fleet::Command;
pub(crate) use start::{Blueprint, launch};
