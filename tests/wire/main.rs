//! Frames, connections and decoders against hand-made and hostile bytes.

mod answers;
mod asking;
mod flowing;
mod frames;
mod hostile;
mod rig;
mod samples;
mod securing;
mod setting_up;
mod troubles;
