//! `consume --exec`: a command per record.

use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::handler::{HandlerError, Message, Raw};

/// Runs `command` in a shell for one record: the value is its standard input, the rest is in
/// `KAFKA_TOPIC`, `KAFKA_PARTITION`, `KAFKA_OFFSET`, `KAFKA_TIMESTAMP` and `KAFKA_KEY` (as far as
/// it is text). The command is killed when the attempt is given up.
///
/// # Errors
/// It cannot be started, or ends with anything but 0; the record is tried again.
pub(super) async fn run(command: &str, message: &Message<Raw>) -> Result<(), HandlerError> {
    let mut child = Command::new("sh");
    child
        .arg("-c")
        .arg(command)
        .env("KAFKA_TOPIC", message.topic().as_str())
        .env("KAFKA_PARTITION", message.partition().to_string())
        .env("KAFKA_OFFSET", message.offset().to_string())
        .env("KAFKA_TIMESTAMP", message.timestamp_ms().to_string())
        .stdin(Stdio::piped())
        .kill_on_drop(true);
    if let Some(key) = message.key().and_then(|key| std::str::from_utf8(key).ok()) {
        child.env("KAFKA_KEY", key);
    }
    let mut child = child.spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A command need not read its input.
        drop(input.write_all(message.payload().unwrap_or_default()).await);
    }
    let status = child.wait().await?;
    if status.success() {
        return Ok(());
    }
    Err(HandlerError::retryable(format!(
        "`{command}` ended with {status}"
    )))
}

/// How many commands may still succeed (`consume -c`). A command that runs holds a turn; one that
/// fails gives it back, to whichever record comes first then.
#[derive(Debug)]
pub(super) struct Turns(Option<Limited>);

#[derive(Debug)]
struct Limited {
    free: Semaphore,
    /// Turns that are not used up.
    left: AtomicU64,
}

/// The right to run one command. Dropped without [`Turn::used`] it goes to somebody else.
#[derive(Debug)]
pub(super) struct Turn<'a>(Option<(&'a Limited, SemaphorePermit<'a>)>);

impl Turns {
    /// As many turns as `count`; `None` is without limit.
    pub(super) fn new(count: Option<u64>) -> Self {
        Self(count.map(|count| {
            let most = Semaphore::MAX_PERMITS;
            let turns = usize::try_from(count).map_or(most, |count| count.min(most));
            let free = Semaphore::new(turns);
            if turns == 0 {
                free.close();
            }
            let left = AtomicU64::new(u64::try_from(turns).unwrap_or(u64::MAX));
            Limited { free, left }
        }))
    }

    /// The next turn, as soon as one is free; `None` once all are used up. Cancellation safe.
    pub(super) async fn next(&self) -> Option<Turn<'_>> {
        let Some(limited) = &self.0 else {
            return Some(Turn(None));
        };
        // Closed when the last one is used up.
        let permit = limited.free.acquire().await.ok()?;
        Some(Turn(Some((limited, permit))))
    }
}

impl Turn<'_> {
    /// The command succeeded. True if that was the last turn.
    pub(super) fn used(self) -> bool {
        let Some((limited, permit)) = self.0 else {
            return false;
        };
        permit.forget();
        let last = limited.left.fetch_sub(1, Ordering::AcqRel) == 1;
        if last {
            limited.free.close();
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_turn_given_back_goes_to_who_waits_and_the_last_one_used_ends_it() {
        let turns = Turns::new(Some(2));
        let [first, second] = [(); 2].map(|()| turns.next().now_or_never().flatten().unwrap());
        let mut waiting = Box::pin(turns.next());
        assert!(waiting.as_mut().now_or_never().is_none(), "none is free");
        assert!(!first.used());
        assert!(
            waiting.as_mut().now_or_never().is_none(),
            "one may come back"
        );
        drop(second);
        let third = waiting.now_or_never().flatten().unwrap();
        let mut waiting = Box::pin(turns.next());
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(third.used());
        assert!(waiting.now_or_never().unwrap().is_none(), "all are used up");
    }

    #[test]
    fn no_turns_are_none_and_without_a_count_there_is_always_one() {
        assert!(Turns::new(Some(0)).next().now_or_never().unwrap().is_none());
        let turn = Turns::new(None)
            .next()
            .now_or_never()
            .flatten()
            .map(Turn::used);
        assert_eq!(turn, Some(false));
    }
}
