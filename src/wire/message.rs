//! Any request, any response: what a connection carries.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::wire::api::{self, decode};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::Oddities;
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// Declares both enums over the API modules, with their dispatch.
macro_rules! messages {
    ($($api:ident => $module:ident),+ $(,)?) => {
        /// A request to any API of this client.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Request {
            $(
                #[doc = concat!("See [`api::", stringify!($module), "`].")]
                $api(api::$module::Request),
            )+
        }

        /// A response of any API of this client.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Response {
            $(
                #[doc = concat!("See [`api::", stringify!($module), "`].")]
                $api(api::$module::Response),
            )+
        }

        impl Request {
            /// The API asked.
            pub const fn api(&self) -> ApiKey {
                match self {
                    $(Self::$api(_) => ApiKey::$api,)+
                }
            }

            /// Appends the body at `version`.
            ///
            /// # Errors
            /// If `version` cannot carry it.
            pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
                match self {
                    $(Self::$api(request) => request.encode(version, out),)+
                }
            }
        }

        impl Response {
            /// The API that answered.
            pub const fn api(&self) -> ApiKey {
                match self {
                    $(Self::$api(_) => ApiKey::$api,)+
                }
            }

            /// Decodes the body of an answer of `api` at `version`, whole or not at all.
            ///
            /// # Errors
            /// If the bytes break the protocol.
            pub fn decode(
                api: ApiKey,
                version: i16,
                body: &Bytes,
            ) -> Result<(Self, Oddities), DecodeError> {
                match api {
                    $(ApiKey::$api => decode::<api::$module::Response>(version, body)
                        .map(|(response, oddities)| (Self::$api(response), oddities)),)+
                }
            }
        }

        $(
            impl From<api::$module::Request> for Request {
                fn from(request: api::$module::Request) -> Self {
                    Self::$api(request)
                }
            }

            impl From<api::$module::Response> for Response {
                fn from(response: api::$module::Response) -> Self {
                    Self::$api(response)
                }
            }
        )+
    };
}

messages! {
    Produce => produce,
    Fetch => fetch,
    ListOffsets => list_offsets,
    Metadata => metadata,
    OffsetCommit => offset_commit,
    OffsetFetch => offset_fetch,
    FindCoordinator => find_coordinator,
    JoinGroup => join_group,
    Heartbeat => heartbeat,
    LeaveGroup => leave_group,
    SyncGroup => sync_group,
    SaslHandshake => sasl_handshake,
    ApiVersions => api_versions,
    CreateTopics => create_topics,
    InitProducerId => init_producer_id,
    OffsetForLeaderEpoch => offset_for_leader_epoch,
    DescribeConfigs => describe_configs,
    SaslAuthenticate => sasl_authenticate,
    ConsumerGroupHeartbeat => consumer_group_heartbeat,
}

impl Request {
    /// The lowest version that can carry this request's content.
    pub fn version_min(&self) -> i16 {
        match self {
            Self::Metadata(request) => request.version_min(),
            Self::ListOffsets(request) => request.version_min(),
            Self::Produce(_)
            | Self::Fetch(_)
            | Self::OffsetCommit(_)
            | Self::OffsetFetch(_)
            | Self::FindCoordinator(_)
            | Self::JoinGroup(_)
            | Self::Heartbeat(_)
            | Self::LeaveGroup(_)
            | Self::SyncGroup(_)
            | Self::SaslHandshake(_)
            | Self::ApiVersions(_)
            | Self::CreateTopics(_)
            | Self::InitProducerId(_)
            | Self::OffsetForLeaderEpoch(_)
            | Self::DescribeConfigs(_)
            | Self::SaslAuthenticate(_)
            | Self::ConsumerGroupHeartbeat(_) => 0,
        }
    }

    /// The highest version that can carry this request's content.
    pub fn version_max(&self) -> i16 {
        match self {
            Self::Produce(request) => request.version_max(),
            Self::Fetch(request) => request.version_max(),
            Self::ListOffsets(_)
            | Self::Metadata(_)
            | Self::OffsetCommit(_)
            | Self::OffsetFetch(_)
            | Self::FindCoordinator(_)
            | Self::JoinGroup(_)
            | Self::Heartbeat(_)
            | Self::LeaveGroup(_)
            | Self::SyncGroup(_)
            | Self::SaslHandshake(_)
            | Self::ApiVersions(_)
            | Self::CreateTopics(_)
            | Self::InitProducerId(_)
            | Self::OffsetForLeaderEpoch(_)
            | Self::DescribeConfigs(_)
            | Self::SaslAuthenticate(_)
            | Self::ConsumerGroupHeartbeat(_) => i16::MAX,
        }
    }
}

impl Response {
    /// How long the broker asks us to be quiet (KIP-219).
    pub const fn throttle(&self) -> Duration {
        match self {
            Self::Produce(response) => response.throttle,
            Self::Fetch(response) => response.throttle,
            Self::ListOffsets(response) => response.throttle,
            Self::Metadata(response) => response.throttle,
            Self::OffsetCommit(response) => response.throttle,
            Self::OffsetFetch(response) => response.throttle,
            Self::FindCoordinator(response) => response.throttle,
            Self::JoinGroup(response) => response.throttle,
            Self::Heartbeat(response) => response.throttle,
            Self::LeaveGroup(response) => response.throttle,
            Self::SyncGroup(response) => response.throttle,
            Self::ApiVersions(response) => response.throttle,
            Self::CreateTopics(response) => response.throttle,
            Self::InitProducerId(response) => response.throttle,
            Self::OffsetForLeaderEpoch(response) => response.throttle,
            Self::DescribeConfigs(response) => response.throttle,
            Self::ConsumerGroupHeartbeat(response) => response.throttle,
            Self::SaslHandshake(_) | Self::SaslAuthenticate(_) => Duration::ZERO,
        }
    }

    /// Whether the broker no longer serves the version asked (wire.md 5.5 scope): true for a Fetch,
    /// Produce, Metadata or ListOffsets answer that is code 35 as a whole. Elsewhere 35 is an
    /// ordinary answer.
    pub fn is_version_refusal(&self) -> bool {
        const REFUSED: ErrorCode = ErrorCode::UNSUPPORTED_VERSION;
        match self {
            Self::Fetch(response) => response.error == REFUSED,
            Self::Metadata(response) => response.error == REFUSED,
            Self::Produce(response) => {
                let rows = &response.partitions;
                !rows.is_empty() && rows.iter().all(|row| row.error == REFUSED)
            }
            Self::ListOffsets(response) => {
                let rows = &response.partitions;
                !rows.is_empty() && rows.iter().all(|row| row.error == REFUSED)
            }
            Self::OffsetCommit(_)
            | Self::OffsetFetch(_)
            | Self::FindCoordinator(_)
            | Self::JoinGroup(_)
            | Self::Heartbeat(_)
            | Self::LeaveGroup(_)
            | Self::SyncGroup(_)
            | Self::SaslHandshake(_)
            | Self::ApiVersions(_)
            | Self::CreateTopics(_)
            | Self::InitProducerId(_)
            | Self::OffsetForLeaderEpoch(_)
            | Self::DescribeConfigs(_)
            | Self::SaslAuthenticate(_)
            | Self::ConsumerGroupHeartbeat(_) => false,
        }
    }
}
