//! Assignors: a problem on plain integers in, a solution out.
