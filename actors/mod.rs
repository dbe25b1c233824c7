//! Everything that acts: the only place that names actix.
