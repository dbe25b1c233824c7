//! Frames, connections and decoders against hand-made and hostile bytes.
