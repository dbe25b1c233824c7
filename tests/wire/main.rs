//! Frames, connections and decoders against hand-made and hostile bytes.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what is missing fails the test"
)]

mod answers;
mod asking;
mod flowing;
mod frames;
mod golden;
mod hostile;
mod mechanisms;
mod member;
mod rig;
mod samples;
mod securing;
mod setting_up;
mod strict;
mod troubles;
