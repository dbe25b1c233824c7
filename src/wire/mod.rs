//! Frames, versions, bounded decoders and the connection machine.
