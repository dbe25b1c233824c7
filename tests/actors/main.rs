//! Whole fleets on the embedded cluster.

#![expect(
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "what is missing or unexpected fails the test"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "the clock is paused and the test's own"
)]

mod answers;
mod bearing;
mod budget;
mod committing;
mod counting;
mod cut;
mod damaged;
mod diagnosing;
mod failing;
mod handling;
mod hostile;
mod inflating;
mod letters;
mod letters_late;
mod malformed;
mod offsets;
mod outlasting;
mod pki;
mod reading;
mod rebootstrapping;
mod secrets;
mod securing;
mod stage;
mod starving;
mod supervision;
mod tls;
mod tolerating;
mod truncating;
mod versions;
