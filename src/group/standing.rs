//! What a member may say in the group's name right now.

use crate::ids::{Generation, MemberId};

/// Who we are in the group: what a commit or an offset fetch signs with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Our member id.
    pub member: MemberId,
    /// The generation in which we were given our partitions.
    pub generation: Generation,
    /// Our static id, if we have one (KIP-345).
    pub instance: Option<String>,
}

/// Whether, and how, requests may be sent in the name of the member (runtime.md 5.1).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Standing {
    /// Not a member: nothing may be committed.
    #[default]
    Outside,
    /// A JoinGroup is out or about to be. Commits are valid with the present generation, but go by
    /// the control connection: a broker answers nothing behind a waiting join.
    Joining(Identity),
    /// Between the JoinGroup and the SyncGroup answer: commits are held.
    Syncing,
    /// A member of this generation; commits go by the coordinator connection.
    Stable(Identity),
}

impl Standing {
    /// Who we are, if requests may be sent at all.
    pub const fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Outside | Self::Syncing => None,
            Self::Joining(identity) | Self::Stable(identity) => Some(identity),
        }
    }
}
