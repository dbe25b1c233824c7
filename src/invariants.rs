//! Predicates that must always hold, shared by tests, simulation and debug assertions.
