//! From properties to the settings of each machine of a consumer.

use super::{
    AssignmentRack, Assignor, Config, CooldownPolicy, FollowHints, Isolation, IsrRule, Reset,
};
use crate::backoff::Backoff;
use crate::cluster::Endpoint;
use crate::ids::{GroupId, Rack};
use crate::offsets::{commit, resolve};
use crate::records::ReadSettings;
use crate::routing::{self, broker};
use crate::wire::api::Isolation as WireIsolation;
use crate::wire::{self, Caps};
use crate::{assign, group, handler};

impl Config {
    /// The addresses to start from.
    pub fn bootstrap_endpoints(&self) -> Vec<Endpoint> {
        self.connection.bootstrap.clone()
    }

    /// Settings of every connection.
    pub fn connection_settings(&self) -> wire::Settings {
        let (ours, limits) = (&self.connection, &self.wire);
        wire::Settings {
            client_id: ours.client_id.as_str().into(),
            reconnect: Backoff::new(ours.reconnect, ours.reconnect_max),
            setup: Backoff::new(ours.setup, ours.setup_max),
            request_timeout: ours.request,
            idle: ours.idle,
            address_timeout: limits.address,
            dns_timeout: limits.dns,
            dns_stale: limits.dns_stale,
            mixup: limits.mixup,
            drain: limits.drain,
            throttle_max: limits.throttle_max,
            ..wire::Settings::default()
        }
    }

    /// Largest frames accepted.
    pub fn frame_caps(&self) -> Caps {
        Caps {
            setup: bytes(self.wire.frame_setup_max),
            other: bytes(self.wire.frame_max),
            fetch: bytes(self.connection.answer_max),
        }
    }

    /// Settings of every broker link's fetch plan.
    pub fn broker_settings(&self) -> broker::Settings {
        let (fetch, route, cooldown) = (&self.fetch, &self.routing, &self.cooldown);
        broker::Settings {
            rack: self.rack_sent(),
            isolation: self.wire_isolation(),
            max_wait: fetch.max_wait,
            min_bytes: wire_bytes(fetch.min_bytes),
            max_bytes: wire_bytes(fetch.max_bytes),
            session_retry: self.metadata.session_retry,
            no_rack_idle: route.norack_idle,
            probe_timeout: route.probe_timeout,
            probe_batch: bytes(route.probe_batch.get()),
            probe_per_second: f64::from(route.probe_rate.get()),
            breaker_partitions: bytes(cooldown.breaker_partitions.get()),
            breaker_ratio: cooldown.breaker_ratio.0,
            breaker_window: cooldown.breaker_window,
            breaker_readmit_ratio: cooldown.readmit_ratio.0,
            cooldown_max: cooldown.max,
            ..broker::Settings::default()
        }
    }

    /// Settings of every route.
    pub fn route_settings(&self) -> routing::Settings {
        let (route, cooldown) = (&self.routing, &self.cooldown);
        let defaults = routing::Settings::default();
        routing::Settings {
            client_rack: self.connection.rack.clone(),
            follow_hints: match route.follow_hints {
                FollowHints::Always => routing::FollowHints::Always,
                FollowHints::Rack => routing::FollowHints::Rack,
                FollowHints::Never => routing::FollowHints::Never,
            },
            isr: match route.isr {
                IsrRule::Require => routing::IsrPolicy::Require,
                IsrRule::Advise => routing::IsrPolicy::Advise,
            },
            max_wait: self.fetch.max_wait,
            partition_bytes: wire_bytes(self.fetch.partition_bytes),
            metadata_max_age: self.metadata.age_max,
            lease_max: route.lease_max,
            lease_jitter: route.lease_jitter.0,
            lease_trial: route.lease_trial,
            cooldown_policy: match cooldown.policy {
                CooldownPolicy::Exponential => routing::CooldownPolicy::Exponential,
                CooldownPolicy::Fixed => routing::CooldownPolicy::Fixed,
            },
            cooldown_max: cooldown.max,
            cooldown_reset: cooldown.reset,
            pending_max: route.hint_pending,
            connect_grace: route.connect_grace,
            hedge: route.hedge,
            not_yet_max: route.not_yet_max,
            not_yet_hold: route.not_yet_hold,
            flap_max: bytes(route.flap_max.get()),
            flap_window: route.flap_window,
            flap_hold: Backoff {
                cap: route.flap_hold_max,
                ..defaults.flap_hold
            },
            starve: route.starve,
            ..defaults
        }
    }

    /// How record sets are read.
    pub fn read_settings(&self) -> ReadSettings {
        let batch_bytes_max = bytes(self.connection.answer_max);
        ReadSettings {
            check_crcs: self.fetch.check_crcs,
            batch_bytes_max,
        }
    }

    /// Largest batch after inflation, in bytes (`wire.batch.inflated.max.bytes`): 64 MiB, or the inflation share of
    /// the memory budget if that is smaller.
    pub fn inflated_bytes_max(&self) -> usize {
        const DEFAULT: u64 = 64 << 20;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a byte count; exactness beyond 53 bits does not matter"
        )]
        let share = (self.fetch.budget as f64 * self.wire.inflate_share.0) as u64;
        let cap = self.wire.inflated_max.unwrap_or(DEFAULT).min(share);
        usize::try_from(cap).unwrap_or(usize::MAX)
    }

    /// Whether only committed data is read.
    pub fn reads_committed(&self) -> bool {
        self.fetch.isolation == Isolation::ReadCommitted
    }

    /// Settings of every handler host. A queue is bounded by bytes: twice what one fetch may bring, so that the next
    /// fetch is under way while records are handled.
    pub fn host_settings(&self) -> handler::Settings {
        let (handling, partition) = (&self.handling, bytes(self.fetch.partition_bytes));
        let records = bytes(self.fetch.poll_records.get());
        let defaults = handler::Settings::default();
        handler::Settings {
            stints_max: bytes(handling.process_concurrency.get()),
            blocking_max: handling
                .blocking_threads
                .map_or(defaults.blocking_max, |n| n.get()),
            queue_records: QUEUE_RECORDS_MAX.max(records),
            queue_bytes: partition.saturating_mul(2),
            stint_bytes_max: partition,
            unit_records: records,
            cancel_grace: handling.cancel_grace,
            abandon_wait: handling.abandon_wait,
            ..defaults
        }
    }

    /// How a subscription's records are handled: what it sets itself, else what is configured.
    pub fn handling_for(&self, policy: &handler::Policy) -> handler::Handling {
        let retry = handler::Retry::exponential(self.retry.initial, self.retry.cap)
            .ceiling(self.retry.ceiling);
        let deadline = policy.deadline.unwrap_or(self.handling.deadline);
        handler::Handling {
            ordering: policy.ordering.unwrap_or_default(),
            deadline: (!deadline.is_zero()).then_some(deadline),
            retry: policy.retry.unwrap_or(retry),
            exhausted: policy.exhausted.clone().unwrap_or_default(),
        }
    }

    /// Settings of the membership in `group`.
    pub fn group_settings(&self, group: impl Into<GroupId>) -> group::Settings {
        let (ours, life) = (&self.group, &self.lifecycle);
        group::Settings {
            instance: ours.instance_id.clone(),
            rack: self.rack_of_assignment(),
            assignors: ours.assignors.iter().map(assignor).collect(),
            session_timeout: ours.session,
            heartbeat_interval: ours.heartbeat,
            rebalance_timeout: ours.rebalance,
            request_timeout: self.connection.request,
            revoke_budget: life.drain + self.handling.cancel_grace + life.drain_commit + LISTENER,
            join_jitter: ours.join_jitter,
            leave_on_stop: ours.leave_on_stop,
            retry: Backoff::new(self.connection.retry, self.connection.retry_max),
            ..group::Settings::new(group)
        }
    }

    /// Settings of the commit plan of `group`.
    pub fn commit_settings(&self, group: impl Into<GroupId>) -> commit::Settings {
        commit::Settings {
            interval: self.offsets.commit_interval,
            request_timeout: self.connection.request,
            retry: Backoff::new(self.connection.retry, self.connection.retry_max),
            ..commit::Settings::new(group)
        }
    }

    /// Settings of the offset resolution for `group`.
    pub fn resolve_settings(&self, group: impl Into<GroupId>) -> resolve::Settings {
        resolve::Settings {
            reset: reset(self.offsets.reset),
            reset_new_partitions: reset(self.offsets.reset_new),
            isolation: self.wire_isolation(),
            request_timeout: self.connection.request,
            late_after: self.connection.operation,
            confirm_after: self.routing.divergence_confirm,
            above_max: self.routing.range_hold,
            ..resolve::Settings::new(Some(group.into()))
        }
    }

    /// The rack that requests carry.
    fn rack_sent(&self) -> Option<Rack> {
        match self.routing.follow_hints {
            FollowHints::Always | FollowHints::Rack => self.connection.rack.clone(),
            FollowHints::Never => None,
        }
    }

    fn rack_of_assignment(&self) -> Option<Rack> {
        match &self.routing.assignment_rack {
            AssignmentRack::Inherit => self.connection.rack.clone(),
            AssignmentRack::None => None,
            AssignmentRack::Rack(rack) => Some(rack.clone()),
        }
    }

    fn wire_isolation(&self) -> WireIsolation {
        match self.fetch.isolation {
            Isolation::ReadUncommitted => WireIsolation::ReadUncommitted,
            Isolation::ReadCommitted => WireIsolation::ReadCommitted,
        }
    }
}

fn assignor(name: &Assignor) -> assign::Assignor {
    match name {
        Assignor::CooperativeSticky => assign::Assignor::CooperativeSticky,
        Assignor::Range => assign::Assignor::Range,
        Assignor::RoundRobin => assign::Assignor::RoundRobin,
        Assignor::Sticky => assign::Assignor::Sticky,
    }
}

fn reset(policy: Reset) -> resolve::Reset {
    match policy {
        Reset::Latest => resolve::Reset::Latest,
        Reset::Earliest => resolve::Reset::Earliest,
        Reset::None => resolve::Reset::None,
        Reset::ByDuration(duration) => resolve::Reset::ByDuration(duration),
    }
}

fn bytes(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn wire_bytes(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Unstarted records per partition, whatever their size.
const QUEUE_RECORDS_MAX: usize = 65_536;
/// What a rebalance listener may take (runtime.md 8, step 5).
const LISTENER: std::time::Duration = std::time::Duration::from_secs(5);
