//! The APIs the embedded cluster serves and the versions it serves them at.

use std::fmt;

/// An API of the Kafka protocol that the embedded cluster serves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Api {
    /// Key 0.
    Produce,
    /// Key 1.
    Fetch,
    /// Key 2.
    ListOffsets,
    /// Key 3.
    Metadata,
    /// Key 8.
    OffsetCommit,
    /// Key 9.
    OffsetFetch,
    /// Key 10.
    FindCoordinator,
    /// Key 11.
    JoinGroup,
    /// Key 12.
    Heartbeat,
    /// Key 13.
    LeaveGroup,
    /// Key 14.
    SyncGroup,
    /// Key 17.
    SaslHandshake,
    /// Key 18.
    ApiVersions,
    /// Key 19.
    CreateTopics,
    /// Key 22.
    InitProducerId,
    /// Key 23.
    OffsetForLeaderEpoch,
    /// Key 36.
    SaslAuthenticate,
}

impl Api {
    /// Every API served, by ascending key.
    pub const ALL: [Self; 17] = [
        Self::Produce,
        Self::Fetch,
        Self::ListOffsets,
        Self::Metadata,
        Self::OffsetCommit,
        Self::OffsetFetch,
        Self::FindCoordinator,
        Self::JoinGroup,
        Self::Heartbeat,
        Self::LeaveGroup,
        Self::SyncGroup,
        Self::SaslHandshake,
        Self::ApiVersions,
        Self::CreateTopics,
        Self::InitProducerId,
        Self::OffsetForLeaderEpoch,
        Self::SaslAuthenticate,
    ];

    /// The API with this key on the wire.
    pub fn from_key(key: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.key() == key)
    }

    /// The key on the wire.
    pub const fn key(self) -> i16 {
        self.facts().0
    }

    /// Lowest version served by default.
    pub const fn min_version(self) -> i16 {
        self.facts().1
    }

    /// Highest version served by default: what Kafka 4.4.0 serves, as far as it can be encoded.
    pub const fn max_version(self) -> i16 {
        self.facts().2
    }

    const fn facts(self) -> (i16, i16, i16) {
        match self {
            Self::Produce => (0, 3, 13),
            Self::Fetch => (1, 4, 18),
            Self::ListOffsets => (2, 1, 10),
            Self::Metadata => (3, 0, 13),
            Self::OffsetCommit => (8, 2, 9),
            Self::OffsetFetch => (9, 1, 9),
            Self::FindCoordinator => (10, 0, 6),
            Self::JoinGroup => (11, 0, 9),
            Self::Heartbeat => (12, 0, 4),
            Self::LeaveGroup => (13, 0, 5),
            Self::SyncGroup => (14, 0, 5),
            Self::SaslHandshake => (17, 0, 1),
            Self::ApiVersions => (18, 0, 4),
            Self::CreateTopics => (19, 2, 7),
            Self::InitProducerId => (22, 0, 5),
            Self::OffsetForLeaderEpoch => (23, 2, 4),
            Self::SaslAuthenticate => (36, 0, 2),
        }
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lead_back_to_their_api() {
        for api in Api::ALL {
            assert_eq!(Api::from_key(api.key()), Some(api));
            assert!(api.min_version() <= api.max_version());
        }
        assert_eq!(Api::from_key(999), None);
    }
}
