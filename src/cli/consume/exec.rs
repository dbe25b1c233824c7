//! `consume --exec`: a command per record.

use std::collections::BTreeSet;
use std::io;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::handler::{HandlerError, Message, Raw};

/// Runs `command` in a shell for one record: the value is its standard input, the rest is in
/// `KAFKA_TOPIC`, `KAFKA_PARTITION`, `KAFKA_OFFSET`, `KAFKA_TIMESTAMP` and `KAFKA_KEY` (as far as
/// it is text). The command and all that it has started are killed when the attempt is given up.
///
/// # Errors
/// It cannot be started, or ends with anything but 0; the record is tried again.
pub(super) async fn run(
    command: &str,
    message: &Message<Raw>,
    groups: &Groups,
) -> Result<(), HandlerError> {
    let mut child = Command::new("sh");
    child
        .arg("-c")
        .arg(command)
        .env("KAFKA_TOPIC", message.topic().as_str())
        .env("KAFKA_PARTITION", message.partition().to_string())
        .env("KAFKA_OFFSET", message.offset().to_string())
        .env("KAFKA_TIMESTAMP", message.timestamp_ms().to_string())
        .stdin(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(key) = message.key().and_then(|key| std::str::from_utf8(key).ok()) {
        child.env("KAFKA_KEY", key);
    }
    let mut group = groups.spawn(&mut child)?;
    if let Some(mut input) = group.leader.stdin.take() {
        // A command need not read its input.
        drop(input.write_all(message.payload().unwrap_or_default()).await);
    }
    let status = group.leader.wait().await?;
    if status.success() {
        return Ok(());
    }
    Err(HandlerError::retryable(format!(
        "`{command}` ended with {status}"
    )))
}

/// The process groups of the commands that run; `None` once no more may begin.
#[derive(Debug)]
pub(super) struct Groups(Mutex<Option<BTreeSet<u32>>>);

/// A command with all that it starts.
struct Group<'a> {
    groups: &'a Groups,
    id: Option<u32>,
    leader: Child,
}

impl Groups {
    /// None so far.
    pub(super) fn new() -> Self {
        Self(Mutex::new(Some(BTreeSet::new())))
    }

    /// Kills them all, and lets no more begin. The runtime need not drop its tasks before the
    /// process ends.
    pub(super) fn end(&self) {
        let running = self.running().take();
        kill(running.unwrap_or_default());
    }

    /// Starts a command that leads a group of its own.
    fn spawn(&self, command: &mut Command) -> io::Result<Group<'_>> {
        let mut running = self.running();
        let Some(running) = running.as_mut() else {
            return Err(io::Error::other("the program ends"));
        };
        let leader = command.spawn()?;
        let id = leader.id();
        running.extend(id);
        Ok(Group {
            groups: self,
            id,
            leader,
        })
    }

    fn running(&self) -> MutexGuard<'_, Option<BTreeSet<u32>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if let (Some(id), Some(running)) = (self.id, self.groups.running().as_mut()) {
            running.remove(&id);
        }
        // Without an id it has ended and was waited for: the number may be somebody else's by now.
        kill(self.leader.id());
    }
}

/// Kills process groups. Safe code has no call for it, and not every system has a program for it:
/// a shell is there, since it runs the commands.
fn kill(groups: impl IntoIterator<Item = u32>) {
    let groups: Vec<String> = groups.into_iter().map(|id| format!("-{id}")).collect();
    if groups.is_empty() {
        return;
    }
    let killed = std::process::Command::new("sh")
        .args(["-c", "kill -s KILL -- \"$@\"", "kill"])
        .args(groups)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if let Err(error) = killed {
        tracing::warn!(%error, "cannot kill what a command has started");
    }
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
