//! Whole fleets on the embedded cluster.

mod reading;
mod stage;
