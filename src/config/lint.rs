//! Values that are fine alone and wrong together (runtime.md 16, wire.md 15).

use std::fmt;
use std::time::Duration;

use super::shares::share_of;
use super::{Config, Handling};
use crate::assign::Assignor;
use crate::ids::Rack;
use crate::offsets::resolve::Reset;

/// One contradiction. Prints as one line that names the key, its value, the clash and what would
/// work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Whether it stops the start.
    pub severity: Severity,
    /// The key to change.
    pub key: &'static str,
    /// What is wrong and what works.
    pub message: String,
}

/// How bad a [`Finding`] is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Legal, but hardly meant.
    Warning,
    /// Cannot work; nothing is started.
    Error,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}: {}", self.message)
    }
}

impl Config {
    /// Finds values that contradict each other, errors first. Defaults give none.
    pub fn lint(&self) -> Vec<Finding> {
        let mut findings: Vec<_> = all_checks().filter_map(|check| check(self)).collect();
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings
    }
}

fn all_checks() -> impl Iterator<Item = &'static Check> {
    CHECKS.iter().chain(super::lint_security::CHECKS)
}

pub(super) type Check = fn(&Config) -> Option<Finding>;

const CHECKS: &[Check] = &[
    revoke_fits_the_rebalance,
    stop_leaves_time_to_drain,
    heartbeats_fit_the_session,
    static_session_outlives_a_stop,
    deadline_comes_before_stall,
    deadline_fits_the_drain,
    deadline_fits_the_stop,
    budget_holds_partitions,
    answer_holds_a_partition,
    assignors_are_given,
    assignors_agree,
    commits_are_by_completion,
    new_partitions_are_read_from_the_start,
    panics_unwind,
    inflation_fits_its_share,
    names_fit_a_request,
    super::letters::dead_letters_go_to_a_topic,
    frames_hold_an_answer,
    delivery_covers_a_request,
    the_shares_leave_room_to_fetch,
    there_is_room_to_inflate,
];

/// runtime.md 16 (1).
fn revoke_fits_the_rebalance(config: &Config) -> Option<Finding> {
    let life = &config.lifecycle;
    let needed = config.revoke_budget();
    let allowed = config.group.rebalance * 4 / 5;
    error(needed > allowed, "drain.timeout.ms", || {
        format!(
            "`drain.timeout.ms` is {}: with handler.cancel.grace.ms, drain.commit.timeout.ms and 5 \
             s for the listener a revoke takes {} ms, more than 80 % of `max.poll.interval.ms` {}; \
             {}",
            ms(life.drain),
            ms(needed),
            ms(config.group.rebalance),
            works(
                "max.poll.interval.ms",
                needed * 5 / 4 + Duration::from_millis(1)
            ),
        )
    })
}

/// runtime.md 16 (2).
fn stop_leaves_time_to_drain(config: &Config) -> Option<Finding> {
    let needed = revoke_rest(config);
    error(config.lifecycle.stop < needed, "stop.deadline.ms", || {
        format!(
            "`stop.deadline.ms` is {}: handler.cancel.grace.ms {}, drain.commit.timeout.ms {} and \
             5 s for the listener leave no time to drain; {}",
            ms(config.lifecycle.stop),
            ms(config.handling.cancel_grace),
            ms(config.lifecycle.drain_commit),
            works("stop.deadline.ms", needed + Duration::from_secs(10)),
        )
    })
}

/// runtime.md 16 (3).
fn heartbeats_fit_the_session(config: &Config) -> Option<Finding> {
    let (heartbeat, session) = (config.group.heartbeat, config.group.session);
    error(heartbeat > session / 3, "heartbeat.interval.ms", || {
        format!(
            "`heartbeat.interval.ms` is {}, more than a third of `session.timeout.ms` {}; {}",
            ms(heartbeat),
            ms(session),
            works("heartbeat.interval.ms", session / 3),
        )
    })
}

/// runtime.md 16 (5).
fn static_session_outlives_a_stop(config: &Config) -> Option<Finding> {
    let needed = config.lifecycle.stop + Duration::from_secs(20);
    let short = config.group.instance_id.is_some() && config.group.session < needed;
    warning(short, "session.timeout.ms", || {
        format!(
            "`session.timeout.ms` is {}: a static member that stops within `stop.deadline.ms` {} \
             and starts again will have lost its partitions; {}",
            ms(config.group.session),
            ms(config.lifecycle.stop),
            works("session.timeout.ms", needed),
        )
    })
}

/// runtime.md 16 (6).
fn deadline_comes_before_stall(config: &Config) -> Option<Finding> {
    let longest = config.handling.deadline + config.handling.cancel_grace;
    let bounded = !config.handling.deadline.is_zero();
    error(
        bounded && longest > config.lifecycle.stall_after,
        "handler.deadline.ms",
        || {
            format!(
                "`handler.deadline.ms` is {}: with handler.cancel.grace.ms {} it ends after \
                 `stall.after.ms` {}, so slow attempts would count as stalls; {}",
                ms(config.handling.deadline),
                ms(config.handling.cancel_grace),
                ms(config.lifecycle.stall_after),
                works("stall.after.ms", longest),
            )
        },
    )
}

/// runtime.md 16 (7), first half.
fn deadline_fits_the_drain(config: &Config) -> Option<Finding> {
    let (deadline, drain) = (config.handling.deadline, config.lifecycle.drain);
    warning(deadline > drain, "handler.deadline.ms", || {
        format!(
            "`handler.deadline.ms` is {}, above `drain.timeout.ms` {}: attempts are cut when \
             partitions are revoked; {}",
            ms(deadline),
            ms(drain),
            works("drain.timeout.ms", deadline),
        )
    })
}

/// runtime.md 16 (7), second half: only for a deadline somebody chose.
fn deadline_fits_the_stop(config: &Config) -> Option<Finding> {
    let left = config.lifecycle.stop.saturating_sub(revoke_rest(config));
    let chosen = config.handling.deadline != Handling::default().deadline;
    let cut = chosen && config.handling.deadline > left;
    warning(cut, "handler.deadline.ms", || {
        format!(
            "`handler.deadline.ms` is {}: `stop.deadline.ms` {} leaves {} ms to drain, so attempts \
             are cut on a deploy; {}",
            ms(config.handling.deadline),
            ms(config.lifecycle.stop),
            ms(left),
            works(
                "stop.deadline.ms",
                config.handling.deadline + revoke_rest(config)
            ),
        )
    })
}

/// runtime.md 16 (11), first half: how many brokers there are is not known before the start.
fn budget_holds_partitions(config: &Config) -> Option<Finding> {
    let needed = u64::from(config.fetch.partition_bytes).saturating_mul(4);
    error(config.fetch.budget < needed, "memory.budget.bytes", || {
        format!(
            "`memory.budget.bytes` is {}, below four times `max.partition.fetch.bytes` {}; \
             `memory.budget.bytes={needed}` works",
            config.fetch.budget, config.fetch.partition_bytes,
        )
    })
}

/// runtime.md 16 (12).
fn answer_holds_a_partition(config: &Config) -> Option<Finding> {
    let fetch = &config.fetch;
    error(
        fetch.max_bytes < fetch.partition_bytes,
        "fetch.max.bytes",
        || {
            format!(
                "`fetch.max.bytes` is {}, below `max.partition.fetch.bytes` {}; \
                 `fetch.max.bytes={}` works",
                fetch.max_bytes, fetch.partition_bytes, fetch.partition_bytes,
            )
        },
    )
}

fn assignors_are_given(config: &Config) -> Option<Finding> {
    error(
        config.group.assignors.is_empty(),
        "partition.assignment.strategy",
        || {
            "`partition.assignment.strategy` is empty, but a member must offer an assignor; \
         `partition.assignment.strategy=cooperative-sticky` works"
                .into()
        },
    )
}

/// runtime.md 16 (16).
fn assignors_agree(config: &Config) -> Option<Finding> {
    let list = &config.group.assignors;
    let cooperative = list.contains(&Assignor::CooperativeSticky);
    let eager = list
        .iter()
        .any(|assignor| *assignor != Assignor::CooperativeSticky);
    warning(
        cooperative && eager,
        "partition.assignment.strategy",
        || {
            format!(
                "`partition.assignment.strategy` is {}: eager and cooperative assignors clash, all \
                 work as eager; to move, roll out the list once, then roll out \
                 `partition.assignment.strategy=cooperative-sticky`",
                config
                    .show("partition.assignment.strategy")
                    .unwrap_or_default(),
            )
        },
    )
}

/// runtime.md 16 (19).
fn commits_are_by_completion(config: &Config) -> Option<Finding> {
    warning(!config.offsets.auto_commit, "enable.auto.commit", || {
        "`enable.auto.commit` is false, but commits come from completed records in any case, never \
         from what was merely read; leave it out"
            .into()
    })
}

/// runtime.md 16 (20): only for a reset that somebody chose.
fn new_partitions_are_read_from_the_start(config: &Config) -> Option<Finding> {
    let both = config.offsets.reset == Reset::Latest && config.offsets.reset_new == Reset::Latest;
    warning(both, "reset.new.partitions", || {
        "`reset.new.partitions` is latest, as is `auto.offset.reset`: the first records of a new \
         partition are lost; `reset.new.partitions=earliest` works"
            .into()
    })
}

/// runtime.md 16 (21).
fn panics_unwind(_: &Config) -> Option<Finding> {
    error(cfg!(panic = "abort"), "panic", || {
        "the profile sets `panic` to abort: a panicking handler would end the process; `panic = \
         \"unwind\"` in Cargo.toml works"
            .into()
    })
}

/// wire.md 15.
fn inflation_fits_its_share(config: &Config) -> Option<Finding> {
    let share = share_of(config.fetch.budget, config.wire.inflate_share);
    let cap = config.wire.inflated_max.filter(|cap| *cap > share);
    error(cap.is_some(), "wire.batch.inflated.max.bytes", || {
        format!(
            "`wire.batch.inflated.max.bytes` is {}, above the {share} bytes that \
             `wire.budget.inflate.share` {} takes from the budget; \
             `wire.batch.inflated.max.bytes={share}` works",
            config
                .show("wire.batch.inflated.max.bytes")
                .unwrap_or_default(),
            config.wire.inflate_share.0,
        )
    })
}

/// What brokers take: 16-bit lengths, and less of some.
fn names_fit_a_request(config: &Config) -> Option<Finding> {
    let instance = config.group.instance_id.as_deref().unwrap_or_default();
    let rack = config.connection.rack.as_ref().map_or("", Rack::as_str);
    let names = [
        ("client.id", config.connection.client_id.as_str(), 32_767),
        ("client.rack", rack, 255),
        ("group.instance.id", instance, 249),
    ];
    let (key, name, most) = names
        .into_iter()
        .find(|(_, name, most)| name.len() > *most)?;
    error(true, key, || {
        format!("`{key}` has {} bytes; {most} are the most", name.len())
    })
}

/// wire.md 15.
fn frames_hold_an_answer(config: &Config) -> Option<Finding> {
    let needed = u64::from(config.fetch.max_bytes) + 1_024 * 1_024;
    error(
        u64::from(config.connection.answer_max) < needed,
        "receive.message.max.bytes",
        || {
            format!(
                "`receive.message.max.bytes` is {}, but `fetch.max.bytes` {} needs 1 MiB more than \
                 itself; `receive.message.max.bytes={needed}` works",
                config.connection.answer_max, config.fetch.max_bytes,
            )
        },
    )
}

/// wire.md 15.
fn delivery_covers_a_request(config: &Config) -> Option<Finding> {
    let needed = config.produce.linger + config.connection.request;
    error(
        config.produce.delivery < needed,
        "delivery.timeout.ms",
        || {
            format!(
                "`delivery.timeout.ms` is {}, below `linger.ms` {} and `request.timeout.ms` {} \
                 together; {}",
                ms(config.produce.delivery),
                ms(config.produce.linger),
                ms(config.connection.request),
                works("delivery.timeout.ms", needed),
            )
        },
    )
}

/// wire.md 4.2.
fn the_shares_leave_room_to_fetch(config: &Config) -> Option<Finding> {
    let (inflate, produce) = (config.wire.inflate_share.0, config.wire.produce_share.0);
    let (key, other) = if inflate >= produce {
        ("wire.budget.inflate.share", produce)
    } else {
        ("wire.budget.produce.share", inflate)
    };
    // A quarter, or less if the other share is large itself.
    let works = (SHARES_MAX - other).clamp(0.0, 0.25);
    error(inflate + produce > SHARES_MAX, key, || {
        format!(
            "`wire.budget.inflate.share` {inflate} and `wire.budget.produce.share` {produce} leave \
             less than a tenth of `memory.budget.bytes` to fetch; `{key}={works:.2}` works",
        )
    })
}

/// Most of the budget that the shares of inflation and producing may be together.
const SHARES_MAX: f64 = 0.9;

/// wire.md 8.4.
fn there_is_room_to_inflate(config: &Config) -> Option<Finding> {
    let share = share_of(config.fetch.budget, config.wire.inflate_share);
    error(share == 0, "wire.budget.inflate.share", || {
        format!(
            "`wire.budget.inflate.share` is {}, so that no compressed batch could be read; \
             `wire.budget.inflate.share=0.25` works",
            config.wire.inflate_share.0,
        )
    })
}

/// What a revoke takes beside the drain: cancellation, the final commit, and the listener.
fn revoke_rest(config: &Config) -> Duration {
    config
        .revoke_budget()
        .saturating_sub(config.lifecycle.drain)
}

fn ms(duration: Duration) -> u128 {
    duration.as_millis()
}

fn works(key: &str, value: Duration) -> String {
    format!("`{key}={}` works", ms(value))
}

pub(super) fn error(
    clash: bool,
    key: &'static str,
    message: impl FnOnce() -> String,
) -> Option<Finding> {
    clash.then(|| Finding {
        severity: Severity::Error,
        key,
        message: message(),
    })
}

pub(super) fn warning(
    clash: bool,
    key: &'static str,
    message: impl FnOnce() -> String,
) -> Option<Finding> {
    clash.then(|| Finding {
        severity: Severity::Warning,
        key,
        message: message(),
    })
}
