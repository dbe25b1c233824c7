//! Whole fleets on the embedded cluster.
