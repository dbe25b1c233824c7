//! Unit tests of the transition table: one route, hand-made rows, no wire.

mod desk;

mod bounds;
mod errors;
mod flow;
mod havens;
mod hedges;
mod hints;
mod laws;
mod leases;
mod links;
mod liveness;
mod permits;
mod properties;
mod quiet;
mod refuges;
mod replay;
mod samples;
mod steps;
mod stuck;
mod topics;
mod watchdogs;
mod wishes;
