//! The APIs this client speaks.

use std::fmt;

/// An API of the Kafka protocol that this client uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ApiKey {
    /// Writes record batches.
    Produce,
    /// Reads record batches.
    Fetch,
    /// Looks up offsets by time.
    ListOffsets,
    /// Describes brokers, topics and partitions.
    Metadata,
    /// Stores a group's offsets.
    OffsetCommit,
    /// Reads a group's offsets.
    OffsetFetch,
    /// Finds the coordinator of a group.
    FindCoordinator,
    /// Joins a classic group.
    JoinGroup,
    /// Keeps a classic membership alive.
    Heartbeat,
    /// Leaves a classic group.
    LeaveGroup,
    /// Hands out a classic group's assignment.
    SyncGroup,
    /// Names the SASL mechanism.
    SaslHandshake,
    /// Lists the versions a broker serves.
    ApiVersions,
    /// Creates topics.
    CreateTopics,
    /// Obtains a producer id.
    InitProducerId,
    /// Finds where an epoch ended.
    OffsetForLeaderEpoch,
    /// Reads configuration of topics and brokers.
    DescribeConfigs,
    /// Carries one SASL token.
    SaslAuthenticate,
    /// Joins, keeps and leaves a group whose coordinator assigns (KIP-848).
    ConsumerGroupHeartbeat,
}

impl ApiKey {
    /// Every API of this client, by number.
    pub const ALL: [Self; 19] = [
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
        Self::DescribeConfigs,
        Self::SaslAuthenticate,
        Self::ConsumerGroupHeartbeat,
    ];

    /// The API's number on the wire.
    pub const fn code(self) -> i16 {
        match self {
            Self::Produce => 0,
            Self::Fetch => 1,
            Self::ListOffsets => 2,
            Self::Metadata => 3,
            Self::OffsetCommit => 8,
            Self::OffsetFetch => 9,
            Self::FindCoordinator => 10,
            Self::JoinGroup => 11,
            Self::Heartbeat => 12,
            Self::LeaveGroup => 13,
            Self::SyncGroup => 14,
            Self::SaslHandshake => 17,
            Self::ApiVersions => 18,
            Self::CreateTopics => 19,
            Self::InitProducerId => 22,
            Self::OffsetForLeaderEpoch => 23,
            Self::DescribeConfigs => 32,
            Self::SaslAuthenticate => 36,
            Self::ConsumerGroupHeartbeat => 68,
        }
    }

    /// The API of a number, if this client uses it.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.code() == code)
    }

    /// The first version with compact lengths and tagged fields (KIP-482); `None` if there is none.
    const fn flexible_from(self) -> Option<i16> {
        match self {
            Self::Produce | Self::Metadata => Some(9),
            Self::Fetch => Some(12),
            Self::ListOffsets | Self::OffsetFetch | Self::JoinGroup => Some(6),
            Self::OffsetCommit => Some(8),
            Self::FindCoordinator | Self::ApiVersions => Some(3),
            Self::Heartbeat
            | Self::LeaveGroup
            | Self::SyncGroup
            | Self::OffsetForLeaderEpoch
            | Self::DescribeConfigs => Some(4),
            Self::SaslHandshake => None,
            Self::ConsumerGroupHeartbeat => Some(0),
            Self::CreateTopics => Some(5),
            Self::InitProducerId | Self::SaslAuthenticate => Some(2),
        }
    }

    /// Whether `version` has compact lengths and tagged fields.
    pub const fn is_flexible(self, version: i16) -> bool {
        match self.flexible_from() {
            Some(first) => version >= first,
            None => false,
        }
    }

    /// Version of the request header: 2 at flexible versions, else 1.
    pub const fn request_header(self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// Version of the response header: 1 (tagged fields) at flexible versions, else 0. ApiVersions
    /// answers with 0 at every version, since the asker may not know what it gets (KIP-511).
    pub const fn response_header(self, version: i16) -> i16 {
        match self {
            Self::ApiVersions => 0,
            Self::Produce
            | Self::Fetch
            | Self::ListOffsets
            | Self::Metadata
            | Self::OffsetCommit
            | Self::OffsetFetch
            | Self::FindCoordinator
            | Self::JoinGroup
            | Self::Heartbeat
            | Self::LeaveGroup
            | Self::SyncGroup
            | Self::SaslHandshake
            | Self::CreateTopics
            | Self::InitProducerId
            | Self::OffsetForLeaderEpoch
            | Self::DescribeConfigs
            | Self::SaslAuthenticate
            | Self::ConsumerGroupHeartbeat => {
                if self.is_flexible(version) {
                    1
                } else {
                    0
                }
            }
        }
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
