//! The `nearside` command; see [`nearside::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    nearside::cli::run()
}
