//! Record batches: what is read, and what is refused.

mod round_trip;
