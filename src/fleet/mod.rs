//! Builder, wiring, drain order and report.
