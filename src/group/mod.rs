//! Group membership machines.
