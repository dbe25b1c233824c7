//! The `nearside` command.
