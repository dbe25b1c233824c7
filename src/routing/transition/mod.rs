//! The transition table of routing.md 4.3, one file per kind of input. Every rule that treats the
//! states apart names all of them.

mod assignment;
mod error;
mod follower;
mod frozen;
mod hedge;
mod isr;
mod leadership;
mod link;
mod position;
mod probe;
mod refuge;
mod row;
mod starve;
mod stuck;
mod timer;
mod topic;
