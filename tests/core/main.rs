//! Scenarios of the pure machines, in virtual time.
