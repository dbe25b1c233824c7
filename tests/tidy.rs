//! House style, as tests.
