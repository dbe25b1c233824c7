//! Record batches: what is read, and what is refused.
