//! The `nearside` command.

pub mod kafka;
