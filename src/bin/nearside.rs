//! The `nearside` command.

fn main() {}
