//! The embedded cluster as a client sees it: frames in virtual time.

mod client;
mod faults;
mod fetch;
mod fetch_sessions;
mod groups;
mod leadership;
mod producing;
