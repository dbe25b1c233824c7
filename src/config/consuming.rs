//! Properties of fetching, group membership and offsets (runtime.md 16, routing.md 17).

use std::num::NonZeroU32;
use std::time::Duration;

use super::section::{count, ms, section};
use crate::assign::Assignor;
use crate::ids::GroupId;
use crate::offsets::resolve::Reset;
use crate::wire::api::Isolation;

section! {
    /// How much is fetched, and how eagerly.
    Fetch {
        /// How long a broker may wait for new records.
        "fetch.max.wait.ms" max_wait: Duration = ms(500);
        /// Bytes for which a broker waits no longer.
        "fetch.min.bytes" min_bytes: u32 = 1;
        /// Bytes of one Fetch answer; charged up front.
        "fetch.max.bytes" max_bytes: u32 = 16 * 1_024 * 1_024;
        /// Bytes of one partition in one Fetch answer.
        "max.partition.fetch.bytes" partition_bytes: u32 = 1_024 * 1_024;
        /// Whether batch checksums are verified.
        "check.crcs" check_crcs: bool = true;
        /// Which records of transactions are read.
        "isolation.level" isolation: Isolation = Isolation::ReadUncommitted;
        /// Records handed to a batch handler at once, and queued per partition.
        "max.poll.records" poll_records: NonZeroU32 = count(500);
        /// Bytes of records this process may hold.
        "memory.budget.bytes" budget: u64 = 256 * 1_024 * 1_024;
    }
}

section! {
    /// Membership in the consumer group.
    Group {
        /// The group; required to consume as a group.
        "group.id" id: Option<GroupId> = None;
        /// Name of this member for static membership (KIP-345).
        "group.instance.id" instance_id: Option<String> = None;
        /// Whether a static member leaves the group when it stops.
        "leave.on.stop" leave_on_stop: bool = false;
        /// Assignors offered, best first.
        "partition.assignment.strategy" assignors: Vec<Assignor> =
            vec![Assignor::CooperativeSticky];
        /// The group takes the partitions of a member silent for this long.
        "session.timeout.ms" session: Duration = ms(45_000);
        /// Pause between heartbeats.
        "heartbeat.interval.ms" heartbeat: Duration = ms(3_000);
        /// How long a rebalance may take; also the rebalance timeout told to the coordinator.
        "max.poll.interval.ms" rebalance: Duration = ms(300_000);
        /// Random delay before the first join, at most.
        "join.jitter.ms" join_jitter: Duration = ms(500);
    }
}

section! {
    /// Where reading starts and how completions are committed.
    Offsets {
        /// Where to start without a committed offset.
        "auto.offset.reset" reset: Reset = Reset::Latest;
        /// Where to start in a partition added to a topic already subscribed.
        "reset.new.partitions" reset_new: Reset = Reset::Earliest;
        /// Pause between commits of a partition with news.
        "auto.commit.interval.ms" commit_interval: Duration = ms(5_000);
        /// Read for compatibility: commits come from completions in any case.
        "enable.auto.commit" auto_commit: bool = true;
    }
}
