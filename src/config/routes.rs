//! Properties of replica routing (routing.md 17).

use std::num::NonZeroU32;
use std::time::Duration;

use super::choices::AssignmentRack;
use super::property::Share;
use super::section::{count, ms, section};
use crate::routing::{CooldownPolicy, FollowHints, IsrPolicy, RefugePolicy};

section! {
    /// Which replica is read, for how long, and when to ask again.
    Routing {
        /// When hints about a nearer replica are followed.
        "route.follow.hints" follow_hints: FollowHints = FollowHints::Always;
        /// What the in-sync list means for a hinted replica.
        "route.isr" isr: IsrPolicy = IsrPolicy::Require;
        /// Longest time on a follower before the leader is asked again.
        "route.lease.max.ms" lease_max: Duration = ms(300_000);
        /// Half-width of the spread of leases.
        "route.lease.jitter" lease_jitter: Share = Share(0.10);
        /// Time on a follower that is on trial.
        "route.lease.trial.ms" lease_trial: Duration = ms(30_000);
        /// Leases without an answer after which a follower is left.
        "route.lease.stop.factor" lease_stop: NonZeroU32 = count(2);
        /// A hinted broker outside the in-sync list is remembered this long.
        "route.hint.pending.max.ms" hint_pending: Duration = ms(30_000);
        /// How long a hinted broker may take to connect before the leader serves meanwhile.
        "route.connect.grace.ms" connect_grace: Duration = ms(250);
        /// Silence beyond the fetch wait after which the leader is asked as well.
        "route.hedge.ms" hedge: Duration = ms(2_000);
        /// Whether another in-sync replica is read while the leader is silent.
        "route.refuge" refuge: RefugePolicy = RefugePolicy::Isr;
        /// Time without a connection after which a broker that is waited for is silent.
        "route.refuge.ms" refuge_after: Duration = ms(250);
        /// Time between probes of a silent leader.
        "route.refuge.probe.ms" refuge_probe: Duration = ms(5_000);
        /// Longest time between them, for a leader that goes silent again and again.
        "route.refuge.probe.max.ms" refuge_probe_max: Duration = ms(300_000);
        /// How long a probe may take.
        "route.probe.timeout.ms" probe_timeout: Duration = ms(2_000);
        /// Partitions of one probe.
        "route.probe.batch" probe_batch: NonZeroU32 = count(8);
        /// Partitions probed per second.
        "route.probe.per.sec" probe_rate: NonZeroU32 = count(50);
        /// How long a follower may be behind its leader's epoch.
        "route.notyet.max.ms" not_yet_max: Duration = ms(1_000);
        /// How long the leader serves after that.
        "route.notyet.hold.ms" not_yet_hold: Duration = ms(5_000);
        /// Adoptions of a follower allowed in the window.
        "route.flap.max" flap_max: NonZeroU32 = count(3);
        /// The window of adoptions.
        "route.flap.window.ms" flap_window: Duration = ms(60_000);
        /// Longest hold at the leader after flapping.
        "route.flap.hold.max.ms" flap_hold_max: Duration = ms(60_000);
        /// Answers without records that make a starving partition.
        "route.starve.count" starve_count: NonZeroU32 = count(3);
        /// Time without records that makes a starving partition.
        "route.starve.ms" starve: Duration = ms(1_000);
        /// Time without any row of the leader after which it is probed.
        "route.starve.quiet.ms" starve_quiet: Duration = ms(30_000);
        /// Time at an end that stands still after which the leader is asked for its own.
        "route.stuck.ms" stuck: Duration = ms(10_000);
        /// Time between such questions.
        "route.stuck.probe.ms" stuck_probe: Duration = ms(30_000);
        /// How long the replica may take to reach the leader's answer.
        "route.stuck.grace.ms" stuck_grace: Duration = ms(2_000);
        /// How long an out-of-range position waits at the leader.
        "route.range.hold.ms" range_hold: Duration = ms(10_000);
        /// Pause before a divergence is confirmed.
        "route.divergence.confirm.ms" divergence_confirm: Duration = ms(250);
        /// An empty session without a rack closes after this.
        "route.norack.idle.ms" norack_idle: Duration = ms(60_000);
        /// The rack the assignor is told.
        "route.assignment.rack" assignment_rack: AssignmentRack = AssignmentRack::Inherit;
    }
}

section! {
    /// How long replicas and brokers that failed are left alone (routing.md 9).
    Cooldown {
        /// Whether cooldowns grow.
        "route.cooldown.policy" policy: CooldownPolicy = CooldownPolicy::Exponential;
        /// Longest cooldown.
        "route.cooldown.max.ms" max: Duration = ms(300_000);
        /// First cooldown after a refused, reset or timed out connection.
        "route.cooldown.transport.ms" transport: Duration = ms(1_000);
        /// First cooldown of a broker that says it is no replica.
        "route.cooldown.not_replica.ms" not_replica: Duration = ms(1_000);
        /// First cooldown after a failed log directory.
        "route.cooldown.storage.ms" storage: Duration = ms(30_000);
        /// First cooldown after a code this client does not know.
        "route.cooldown.unknown_code.ms" unknown_code: Duration = ms(30_000);
        /// First cooldown of a replica that does not have the offset.
        "route.cooldown.range.ms" range: Duration = ms(5_000);
        /// First cooldown of a replica that lost a hedge or stands still.
        "route.cooldown.slow.ms" slow: Duration = ms(10_000);
        /// First cooldown after three unknown server errors.
        "route.cooldown.server_error.ms" server_error: Duration = ms(10_000);
        /// Cooldown of a replica with a damaged copy; the longest one unless given.
        "route.cooldown.corruption.ms" corruption: Option<Duration> = None;
        /// Cooldown of a replica that alone refuses the topic; the longest one unless given.
        "route.cooldown.authorization.ms" authorization: Option<Duration> = None;
        /// Cooldown of a broker too old to serve followers; the longest one unless given.
        "route.cooldown.version.ms" version: Option<Duration> = None;
        /// Healthy reading after which cooldowns start small again.
        "route.cooldown.reset.ms" reset: Duration = ms(60_000);
        /// Partitions in trouble that open a broker's breaker.
        "route.breaker.partitions" breaker_partitions: NonZeroU32 = count(3);
        /// Share of a broker's partitions in trouble that opens its breaker.
        "route.breaker.ratio" breaker_ratio: Share = Share(0.5);
        /// Window in which trouble is counted.
        "route.breaker.window.ms" breaker_window: Duration = ms(5_000);
        /// Share of the waiting partitions readmitted per second.
        "route.breaker.readmit.ratio" readmit_ratio: Share = Share(0.10);
    }
}
