//! Properties of handling, retrying and stopping (runtime.md 16).

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use super::section::{count, ms, section};

section! {
    /// How records reach the handler.
    Handling {
        /// Attempts in hand in the whole process.
        "handler.concurrency.max" process_concurrency: NonZeroU32 = count(256);
        /// Time one attempt may take; 0 is without limit.
        "handler.deadline.ms" deadline: Duration = ms(60_000);
        /// Time an attempt may take to end after it was told to.
        "handler.cancel.grace.ms" cancel_grace: Duration = ms(5_000);
        /// Time an abandoned attempt may live on before the partition gives its record up.
        "handler.abandon.wait.ms" abandon_wait: Duration = ms(60_000);
        /// Where dead letters go, `<topic>` standing for the topic of origin; unset:
        /// `<topic>.dead-letter`.
        "dead.letter.topic" dead_letter_topic: Option<String> = None;
        /// Threads of the handler pool; unset: one per core.
        "handler.threads" handler_threads: Option<NonZeroUsize> = None;
        /// Threads of the pool of blocking handlers; unset: four per core, at most 128.
        "blocking.threads" blocking_threads: Option<NonZeroUsize> = None;
        /// Threads that fetch; unset: one per core.
        "data.arbiters" data_arbiters: Option<NonZeroUsize> = None;
    }
}

section! {
    /// When a failed record is tried again.
    Retry {
        /// Delay scale of the first retry.
        "retry.initial.ms" initial: Duration = ms(100);
        /// Longest delay between attempts.
        "retry.cap.ms" cap: Duration = ms(30_000);
        /// Attempts after which the record is exhausted; 0 is without limit.
        "retry.ceiling" ceiling: u32 = 0;
    }
}

section! {
    /// How partitions are given up and the process stops.
    Lifecycle {
        /// Time for attempts in hand to end when partitions are revoked.
        "drain.timeout.ms" drain: Duration = ms(60_000);
        /// Time for the final commit.
        "drain.commit.timeout.ms" drain_commit: Duration = ms(5_000);
        /// Time for a whole stop; below the usual 30 s until a process is killed.
        "stop.deadline.ms" stop: Duration = ms(25_000);
        /// Time without progress after which a partition counts as stalled.
        "stall.after.ms" stall_after: Duration = ms(120_000);
    }
}
