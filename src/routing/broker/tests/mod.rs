//! Unit tests of the link machine.

mod desk;
mod fetching;
mod hedging;
mod silence;
