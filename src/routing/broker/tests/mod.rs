//! Unit tests of the link machine.

mod budget;
mod codes;
mod desk;
mod fetching;
mod hedging;
mod silence;
