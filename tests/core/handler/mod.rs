//! The host machine with scripted handlers.

mod attempts;
mod batches;
mod fences;
mod order;
mod rig;
