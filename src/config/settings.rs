//! From properties to the settings of each machine.
//!
//! A machine's settings default to the specification's values, and so do the properties: the tests
//! below hold the two together.

use std::num::NonZeroU32;
use std::time::Duration;

use super::connection::{ClusterChange, HintEndpoints, Recovery};
use super::{Acks, AssignmentRack, Compression, Config};
use crate::backoff::Backoff;
use crate::budget::Budget;
use crate::ids::{GroupId, Rack};
use crate::records::{self, ReadSettings};
use crate::routing::{CooldownBases, FollowHints};
use crate::wire::api::Isolation;
use crate::{cluster, group, handler, offsets, producer, routing, wire};

impl Config {
    /// Settings of the metadata machine.
    pub fn metadata_settings(&self) -> cluster::Settings {
        let metadata = &self.metadata;
        let (hint_endpoints, hint_suffixes) = match &metadata.hint_endpoints {
            HintEndpoints::Accept => (cluster::HintEndpoints::Accept, Vec::new()),
            HintEndpoints::KnownHosts(suffixes) => {
                (cluster::HintEndpoints::KnownHosts, suffixes.clone())
            }
            HintEndpoints::IdsOnly => (cluster::HintEndpoints::IdsOnly, Vec::new()),
        };
        let defaults = cluster::Settings::default();
        cluster::Settings {
            age_max: metadata.age_max,
            debounce: metadata.debounce,
            attempt: metadata.attempt,
            no_progress: Backoff {
                cap: metadata.no_progress_max,
                ..defaults.no_progress
            },
            unconfirmed: metadata.unconfirmed,
            regress: metadata.regress,
            hint_endpoints,
            hint_suffixes,
            hint_distrust: metadata.hint_distrust,
            cluster_change: match metadata.cluster_change {
                ClusterChange::Fail => cluster::ClusterChange::Fail,
                ClusterChange::Follow => cluster::ClusterChange::Follow,
            },
            recovery: match metadata.recovery {
                Recovery::Rebootstrap => cluster::RecoveryStrategy::Rebootstrap,
                Recovery::None => cluster::RecoveryStrategy::None,
            },
            rebootstrap_after: metadata.rebootstrap_after,
        }
    }

    /// Settings of every connection machine.
    pub fn connection_settings(&self) -> wire::Settings {
        let (connection, security, wire) = (&self.connection, &self.security, &self.wire);
        wire::Settings {
            client_id: connection.client_id.as_str().into(),
            security: wire::Security {
                tls: security.protocol.tls(),
                sasl: security.mechanism.filter(|_| security.protocol.sasl()),
                plain_in_clear: security.plain_in_clear,
            },
            auth: Backoff::new(security.backoff, security.backoff_max),
            reconnect: Backoff::new(connection.reconnect, connection.reconnect_max),
            setup: Backoff::new(connection.setup, connection.setup_max),
            request_timeout: connection.request,
            idle: connection.idle,
            address_timeout: wire.address,
            dns_timeout: wire.dns,
            dns_stale: wire.dns_stale,
            mixup: wire.mixup,
            drain: wire.drain,
            throttle_max: wire.throttle_max,
            strict: wire.strict,
            ..wire::Settings::default()
        }
    }

    /// Largest frames a socket may deliver.
    pub fn frame_caps(&self) -> wire::Caps {
        wire::Caps {
            setup: size(self.wire.frame_setup_max),
            other: size(self.wire.frame_max),
            fetch: size(self.connection.answer_max),
        }
    }

    /// How record sets are read.
    pub fn read_settings(&self) -> ReadSettings {
        ReadSettings {
            check_crcs: self.fetch.check_crcs,
            batch_bytes_max: size(self.connection.answer_max),
            inflated_bytes_max: self.inflated_bytes_max(),
            strict: self.wire.strict,
        }
    }

    /// Whether only the records of committed transactions are read.
    pub fn reads_committed(&self) -> bool {
        self.fetch.isolation == Isolation::ReadCommitted
    }

    /// Settings of the route machines.
    pub fn route_settings(&self) -> routing::Settings {
        let (routes, cooldown) = (&self.routing, &self.cooldown);
        let defaults = routing::Settings::default();
        routing::Settings {
            client_rack: self.connection.rack.clone(),
            follow_hints: routes.follow_hints,
            isr: routes.isr,
            isolation: self.fetch.isolation,
            max_wait: self.fetch.max_wait,
            partition_bytes: signed(self.fetch.partition_bytes),
            metadata_max_age: self.metadata.age_max,
            lease_max: routes.lease_max,
            lease_jitter: routes.lease_jitter.0,
            lease_trial: routes.lease_trial,
            lease_stop_factor: routes.lease_stop.get(),
            cooldown_policy: cooldown.policy,
            cooldown_max: cooldown.max,
            cooldown_bases: CooldownBases {
                transport: cooldown.transport,
                not_replica: cooldown.not_replica,
                storage: cooldown.storage,
                unknown_code: cooldown.unknown_code,
                range: cooldown.range,
                slow: cooldown.slow,
                server_error: cooldown.server_error,
                corruption: cooldown.corruption,
                authorization: cooldown.authorization,
                version: cooldown.version,
            },
            cooldown_reset: cooldown.reset,
            pending_max: routes.hint_pending,
            connect_grace: routes.connect_grace,
            hedge: routes.hedge,
            refuge: routes.refuge,
            refuge_probe: Backoff {
                base: routes.refuge_probe,
                cap: routes.refuge_probe_max,
                ..defaults.refuge_probe
            },
            not_yet_max: routes.not_yet_max,
            not_yet_hold: routes.not_yet_hold,
            flap_max: whole(routes.flap_max),
            flap_window: routes.flap_window,
            flap_hold: Backoff {
                cap: routes.flap_hold_max,
                ..defaults.flap_hold
            },
            starve_count: small(routes.starve_count.get()),
            starve: routes.starve,
            starve_quiet: routes.starve_quiet,
            stuck: routes.stuck,
            stuck_probe: routes.stuck_probe,
            stuck_grace: routes.stuck_grace,
            free_retries: small(self.metadata.free_retries),
            ..defaults
        }
    }

    /// Settings of every broker machine.
    pub fn broker_settings(&self) -> routing::broker::Settings {
        let (routes, cooldown) = (&self.routing, &self.cooldown);
        routing::broker::Settings {
            rack: self.rack_sent(),
            isolation: self.fetch.isolation,
            max_wait: self.fetch.max_wait,
            min_bytes: signed(self.fetch.min_bytes),
            max_bytes: signed(self.fetch.max_bytes),
            budget: Budget::new(self.fetched_bytes_max()),
            hedge: routes.hedge,
            refuge: routes.refuge_after,
            session_retry: self.metadata.session_retry,
            no_rack_idle: routes.norack_idle,
            probe_timeout: routes.probe_timeout,
            probe_batch: whole(routes.probe_batch),
            probe_per_second: f64::from(routes.probe_rate.get()),
            breaker_partitions: whole(cooldown.breaker_partitions),
            breaker_ratio: cooldown.breaker_ratio.0,
            breaker_window: cooldown.breaker_window,
            breaker_readmit_ratio: cooldown.readmit_ratio.0,
            cooldown_base: cooldown.transport,
            cooldown_max: cooldown.max,
            ..routing::broker::Settings::default()
        }
    }

    /// The probe budget that the links of one client share.
    pub fn probe_budget(&self) -> routing::broker::ProbeBudget {
        let lease = self.route_settings().lease_cap();
        routing::broker::ProbeBudget::new(f64::from(self.routing.probe_rate.get()), lease)
    }

    /// Settings of the member of `group`.
    pub fn group_settings(&self, group: impl Into<GroupId>) -> group::Settings {
        group::Settings {
            instance: self.group.instance_id.clone(),
            rack: match &self.routing.assignment_rack {
                AssignmentRack::Inherit => self.connection.rack.clone(),
                AssignmentRack::None => None,
                AssignmentRack::Rack(rack) => Some(rack.clone()),
            },
            assignors: self.group.assignors.clone(),
            session_timeout: self.group.session,
            heartbeat_interval: self.group.heartbeat,
            rebalance_timeout: self.group.rebalance,
            request_timeout: self.connection.request,
            revoke_budget: self.revoke_budget(),
            join_jitter: self.group.join_jitter,
            leave_on_stop: self.group.leave_on_stop,
            retry: self.retry_backoff(),
            ..group::Settings::new(group)
        }
    }

    /// Settings of the resolution of positions for `group`.
    pub fn resolve_settings(&self, group: impl Into<GroupId>) -> offsets::resolve::Settings {
        offsets::resolve::Settings {
            reset: self.offsets.reset,
            reset_new_partitions: self.offsets.reset_new,
            isolation: self.fetch.isolation,
            request_timeout: self.connection.request,
            late_after: self.connection.operation,
            unanswered_after: self.route_settings().hedge_deadline(),
            confirm_after: self.routing.divergence_confirm,
            above_max: self.routing.range_hold,
            ..offsets::resolve::Settings::new(Some(group.into()))
        }
    }

    /// Settings of the sampler of replicas that stand still.
    pub fn sample_settings(&self) -> offsets::sampler::Settings {
        offsets::sampler::Settings {
            isolation: self.fetch.isolation,
            request_timeout: self.connection.request,
            ..offsets::sampler::Settings::default()
        }
    }

    /// Settings of the commit plan of `group`.
    pub fn commit_settings(&self, group: impl Into<GroupId>) -> offsets::commit::Settings {
        offsets::commit::Settings {
            interval: self.offsets.commit_interval,
            request_timeout: self.connection.request,
            retry: self.retry_backoff(),
            ..offsets::commit::Settings::new(group)
        }
    }

    /// Settings of every handler host. A queue is bounded by bytes: twice what one fetch may bring,
    /// so that the next fetch is under way while records are handled.
    pub fn host_settings(&self) -> handler::Settings {
        let (handling, partition) = (&self.handling, size(self.fetch.partition_bytes));
        let records = whole(self.fetch.poll_records);
        let defaults = handler::Settings::default();
        handler::Settings {
            stints_max: whole(handling.process_concurrency),
            blocking_max: handling
                .blocking_threads
                .map_or(defaults.blocking_max, usize::from),
            stint_bytes_max: partition,
            queue_records: QUEUE_RECORDS_MAX.max(records),
            queue_bytes: partition.saturating_mul(2),
            unit_records: records,
            cancel_grace: handling.cancel_grace,
            abandon_wait: handling.abandon_wait,
            ..defaults
        }
    }

    /// Settings of a producer.
    pub fn producer_settings(&self) -> producer::Settings {
        let produce = &self.produce;
        let (compression, compression_level) = match produce.compression {
            Compression::None => (records::Compression::None, None),
            Compression::Gzip => (records::Compression::Gzip, produce.gzip_level),
            Compression::Snappy => (records::Compression::Snappy, None),
            Compression::Lz4 => (records::Compression::Lz4, None),
            Compression::Zstd => (records::Compression::Zstd, produce.zstd_level),
        };
        producer::Settings {
            acks: match produce.acks {
                Acks::All => wire::api::produce::Acks::All,
                Acks::Leader => wire::api::produce::Acks::Leader,
            },
            // Sequences need every in-sync replica (wire.md 10.1).
            idempotent: produce.acks == Acks::All,
            delivery_timeout: produce.delivery,
            linger: produce.linger,
            batch_bytes: size(produce.batch_bytes),
            request_bytes: size(produce.request_bytes),
            buffer_bytes: self.producing_bytes(),
            compression,
            compression_level,
            request_timeout: self.connection.request,
            retry_backoff: self.retry_backoff(),
            move_drain: produce.move_drain,
            in_flight: whole(produce.in_flight.0),
            ..producer::Settings::default()
        }
    }

    /// How the records of a subscription are handled: what it sets itself, else what is configured.
    pub fn handling_for(&self, policy: &handler::Policy) -> handler::Handling {
        let retry = handler::Retry::exponential(self.retry.initial, self.retry.cap);
        policy.over(&handler::Handling {
            deadline: Some(self.handling.deadline).filter(|deadline| !deadline.is_zero()),
            retry: retry.ceiling(self.retry.ceiling),
            ..handler::Handling::default()
        })
    }

    /// The rack that requests carry, if they carry one.
    pub fn rack_sent(&self) -> Option<Rack> {
        match self.routing.follow_hints {
            FollowHints::Never => None,
            FollowHints::Always | FollowHints::Rack => self.connection.rack.clone(),
        }
    }

    /// What a revoke may take: drain, cancellation, final commit and 5 s for the listener
    /// (runtime.md D1).
    pub fn revoke_budget(&self) -> Duration {
        self.lifecycle.drain
            + self.handling.cancel_grace
            + self.lifecycle.drain_commit
            + LISTENER_TIME
    }

    fn retry_backoff(&self) -> Backoff {
        Backoff::new(self.connection.retry, self.connection.retry_max)
    }
}

/// A wire field of 32 bits with a sign; beyond it the largest value.
fn signed(bytes: u32) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

fn size(bytes: u32) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn whole(count: NonZeroU32) -> usize {
    size(count.get())
}

fn small(count: u32) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}

/// Unstarted records per partition, whatever their size.
const QUEUE_RECORDS_MAX: usize = 65_536;
/// Time a rebalance listener has within a revoke.
const LISTENER_TIME: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_properties_give_default_settings() {
        let config = Config::default();
        assert_eq!(config.metadata_settings(), cluster::Settings::default());
        assert_eq!(config.connection_settings(), wire::Settings::default());
        assert_eq!(config.frame_caps(), wire::Caps::default());
        assert_eq!(config.route_settings(), routing::Settings::default());
        assert_eq!(
            config.broker_settings(),
            routing::broker::Settings {
                budget: Budget::new(128 << 20),
                ..routing::broker::Settings::default()
            }
        );
        assert_eq!(config.group_settings("g"), group::Settings::new("g"));
        assert_eq!(
            config.commit_settings("g"),
            offsets::commit::Settings::new("g")
        );
        let resolve = offsets::resolve::Settings::new(Some("g".into()));
        assert_eq!(config.resolve_settings("g"), resolve);
        assert_eq!(config.producer_settings(), producer::Settings::default());
        let handling = config.handling_for(&handler::Policy::default());
        assert_eq!(handling, handler::Handling::default());
    }

    #[test]
    fn properties_reach_the_machines() {
        let config = Config::from_pairs([
            ("client.rack", "a"),
            ("fetch.max.bytes", "4294967295"),
            ("route.lease.stop.factor", "3"),
            ("route.assignment.rack", "none"),
            ("route.hint.endpoints", "known_hosts:.kafka.example"),
            ("route.cooldown.storage.ms", "7000"),
            ("route.cooldown.version.ms", "9000"),
            ("route.cooldown.transport.ms", "200"),
            ("max.poll.records", "10"),
            ("handler.deadline.ms", "0"),
            ("memory.budget.bytes", "64000000"),
        ])
        .unwrap();
        assert_eq!(config.route_settings().client_rack, Some("a".into()));
        assert_eq!(config.route_settings().lease_stop_factor, 3);
        let bases = config.route_settings().cooldown_bases;
        assert_eq!(bases.storage, Duration::from_secs(7));
        assert_eq!(bases.version, Some(Duration::from_secs(9)));
        assert_eq!(bases.transport, config.broker_settings().cooldown_base);
        assert_eq!(config.broker_settings().max_bytes, i32::MAX);
        assert_eq!(config.group_settings("g").rack, None);
        assert_eq!(config.metadata_settings().hint_suffixes, [".kafka.example"]);
        assert_eq!(config.host_settings().unit_records, 10);
        assert_eq!(
            config.handling_for(&handler::Policy::default()).deadline,
            None
        );
        assert_eq!(config.inflated_bytes_max(), 16_000_000);
    }

    #[test]
    fn a_subscription_overrides_what_is_configured() {
        let config = Config::from_pairs([("retry.ceiling", "4")]).unwrap();
        let deadline = Some(Duration::from_secs(1));
        let policy = handler::Policy {
            deadline,
            ..handler::Policy::default()
        };
        assert_eq!(config.producer_settings(), producer::Settings::default());
        let handling = config.handling_for(&policy);
        assert_eq!(handling.deadline, deadline);
        assert!(handling.retry.is_exhausted(4));
    }

    #[test]
    fn never_following_hints_keeps_the_rack_at_home() {
        let pairs = [("client.rack", "a"), ("route.follow.hints", "never")];
        let config = Config::from_pairs(pairs).unwrap();
        assert_eq!(config.broker_settings().rack, None);
        assert_eq!(
            config.group_settings("g").rack,
            Some("a".into()),
            "the assignor still knows"
        );
    }
}
