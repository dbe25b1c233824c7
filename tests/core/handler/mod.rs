//! The host machine with scripted handlers.

mod attempts;
mod batches;
mod fences;
mod holding;
mod order;
mod rig;
