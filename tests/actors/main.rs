//! Whole fleets on the embedded cluster.

mod failing;
mod reading;
mod stage;
mod supervision;
