//! Scenarios of the pure machines, in virtual time.

mod handler;
