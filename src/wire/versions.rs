//! Our own version table (wire.md 6): what we speak, what we need, what one connection may use.

use std::fmt;

use crate::wire::api::api_versions;
use crate::wire::api_key::ApiKey;
use crate::wire::message::Request;

/// An inclusive range of versions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionRange {
    /// Lowest version.
    pub min: i16,
    /// Highest version.
    pub max: i16,
}

impl VersionRange {
    /// The versions in both ranges, if there are any.
    pub fn intersect(self, other: Self) -> Option<Self> {
        let both = Self {
            min: self.min.max(other.min),
            max: self.max.min(other.max),
        };
        (both.min <= both.max).then_some(both)
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.min, self.max)
    }
}

/// An API that the two sides have no usable version of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnsupportedVersion {
    /// The API.
    pub api: ApiKey,
    /// What we would speak; narrower than the table if the request needs it.
    pub ours: VersionRange,
    /// What the broker serves; `None` if it does not know the API.
    pub theirs: Option<VersionRange>,
}

impl fmt::Display for UnsupportedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { api, ours, theirs } = self;
        match theirs {
            Some(theirs) => write!(f, "broker serves {api} {theirs}, this client needs {ours}"),
            None => write!(f, "broker does not serve {api}, this client needs {ours}"),
        }
    }
}

impl std::error::Error for UnsupportedVersion {}

/// The versions this client speaks, and never others, whatever the protocol library lists.
pub const fn ours(api: ApiKey) -> VersionRange {
    let (min, max) = match api {
        ApiKey::Produce => (7, 13),
        ApiKey::Fetch => (10, 18),
        ApiKey::ListOffsets => (4, 10),
        ApiKey::Metadata => (9, 13),
        ApiKey::OffsetCommit => (7, 9),
        ApiKey::OffsetFetch | ApiKey::JoinGroup => (5, 9),
        ApiKey::FindCoordinator => (3, 6),
        ApiKey::Heartbeat | ApiKey::OffsetForLeaderEpoch => (3, 4),
        ApiKey::LeaveGroup | ApiKey::SyncGroup | ApiKey::InitProducerId => (3, 5),
        ApiKey::SaslHandshake | ApiKey::ConsumerGroupHeartbeat => (1, 1),
        ApiKey::ApiVersions => (0, 4),
        ApiKey::CreateTopics => (5, 7),
        ApiKey::DescribeConfigs => (1, 4),
        ApiKey::SaslAuthenticate => (1, 2),
    };
    VersionRange { min, max }
}

/// Whether a broker without this API is of no use to us.
pub const fn is_required(api: ApiKey) -> bool {
    match api {
        ApiKey::Produce
        | ApiKey::Fetch
        | ApiKey::ListOffsets
        | ApiKey::Metadata
        | ApiKey::OffsetCommit
        | ApiKey::OffsetFetch
        | ApiKey::FindCoordinator
        | ApiKey::ApiVersions => true,
        ApiKey::JoinGroup
        | ApiKey::Heartbeat
        | ApiKey::LeaveGroup
        | ApiKey::SyncGroup
        | ApiKey::SaslHandshake
        | ApiKey::CreateTopics
        | ApiKey::InitProducerId
        | ApiKey::OffsetForLeaderEpoch
        | ApiKey::DescribeConfigs
        | ApiKey::SaslAuthenticate
        | ApiKey::ConsumerGroupHeartbeat => false,
    }
}

/// What one broker serves, as one connection was told. Never shared between connections (wire.md
/// 5.5).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VersionTable {
    theirs: Vec<(ApiKey, VersionRange)>,
}

impl VersionTable {
    /// Keeps the rows of APIs we speak.
    pub fn new(rows: &[api_versions::Range]) -> Self {
        let known = |row: &api_versions::Range| {
            ApiKey::from_code(row.api).map(|api| {
                (
                    api,
                    VersionRange {
                        min: row.min,
                        max: row.max,
                    },
                )
            })
        };
        Self {
            theirs: rows.iter().filter_map(known).collect(),
        }
    }

    /// What the broker serves of `api`.
    pub fn theirs(&self, api: ApiKey) -> Option<VersionRange> {
        self.theirs
            .iter()
            .find(|(key, _)| *key == api)
            .map(|(_, range)| *range)
    }

    /// The highest version both sides speak of `api`; `None` if there is none.
    pub fn highest(&self, api: ApiKey) -> Option<i16> {
        self.theirs(api)?.intersect(ours(api)).map(|both| both.max)
    }

    /// The version for `request`: the highest both sides speak that can carry its content.
    ///
    /// # Errors
    /// If there is none.
    pub fn pick(&self, request: &Request) -> Result<i16, UnsupportedVersion> {
        let api = request.api();
        let table = ours(api);
        let content = VersionRange {
            min: request.version_min(),
            max: request.version_max(),
        };
        let ours = table.intersect(content).unwrap_or(table);
        let theirs = self.theirs(api);
        match theirs.and_then(|theirs| theirs.intersect(ours)) {
            Some(both) => Ok(both.max),
            None => Err(UnsupportedVersion { api, ours, theirs }),
        }
    }

    /// The first required API without a common version, if there is one.
    pub fn missing_required(&self) -> Option<UnsupportedVersion> {
        ApiKey::ALL
            .into_iter()
            .filter(|api| is_required(*api))
            .find_map(|api| {
                let missing = self.highest(api).is_none();
                missing.then(|| UnsupportedVersion {
                    api,
                    ours: ours(api),
                    theirs: self.theirs(api),
                })
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::api::{offset_commit, produce};

    fn broker(rows: &[(ApiKey, i16, i16)]) -> VersionTable {
        let rows: Vec<_> = rows
            .iter()
            .map(|&(api, min, max)| api_versions::Range {
                api: api.code(),
                min,
                max,
            })
            .collect();
        VersionTable::new(&rows)
    }

    fn produce_with(topic_ids: &[Option<crate::ids::TopicId>]) -> Request {
        let partition = |topic_id: &Option<_>| produce::Partition {
            topic: "orders".into(),
            topic_id: *topic_id,
            partition: 0.into(),
            records: bytes::Bytes::new(),
        };
        Request::Produce(produce::Request {
            transactional_id: None,
            transactions_v2: false,
            acks: produce::Acks::All,
            timeout: std::time::Duration::from_secs(30),
            partitions: topic_ids.iter().map(partition).collect(),
        })
    }

    /// wire.md A9
    #[test]
    fn versions_the_library_lists_but_cannot_encode_are_never_picked() {
        let table = broker(&[
            (ApiKey::OffsetCommit, 2, 10),
            (ApiKey::OffsetFetch, 1, 10),
            (ApiKey::InitProducerId, 0, 6),
            (ApiKey::Produce, 0, 13),
        ]);
        assert_eq!(table.highest(ApiKey::OffsetCommit), Some(9));
        assert_eq!(table.highest(ApiKey::OffsetFetch), Some(9));
        assert_eq!(table.highest(ApiKey::InitProducerId), Some(5));
        let id = Some(crate::ids::TopicId(uuid::Uuid::from_u128(7)));
        assert_eq!(table.pick(&produce_with(&[id, None, id])), Ok(12));
        assert_eq!(table.pick(&produce_with(&[None])), Ok(12));
        assert_eq!(table.pick(&produce_with(&[id, id])), Ok(13));
    }

    #[test]
    fn a_broker_without_a_common_version_is_named_with_both_ranges() {
        let table = broker(&[(ApiKey::OffsetCommit, 0, 6)]);
        let request = Request::OffsetCommit(offset_commit::Request {
            group: "g".into(),
            generation: None,
            member: None,
            instance: None,
            partitions: Vec::new(),
        });
        let error = table.pick(&request).unwrap_err();
        let text = "broker serves OffsetCommit 0-6, this client needs 7-9";
        assert_eq!(error.to_string(), text);
        assert!(table.missing_required().is_some());
    }
}
