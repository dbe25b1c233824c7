//! Whole fleets on the embedded cluster.

mod committing;
mod failing;
mod handling;
mod hostile;
mod offsets;
mod reading;
mod stage;
mod supervision;
