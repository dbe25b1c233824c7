//! Record batches: zero-copy reader, writer and codecs.
