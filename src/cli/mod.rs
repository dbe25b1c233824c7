//! The `nearside` command.

#[doc(hidden)]
pub mod kafka;
