//! Unit tests of the transition table: one route, hand-made rows, no wire.

mod desk;

mod arms;
mod errors;
mod hints;
mod leases;
mod links;
mod properties;
mod replay;
mod samples;
