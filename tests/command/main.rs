//! The `nearside` command from outside: what it prints, and the code it exits with.

#![expect(clippy::unwrap_used, reason = "what is missing fails the test")]

mod bad_input;
mod bearing;
mod ending;
mod pipes;
mod replaying;
mod run;
mod stopping;
