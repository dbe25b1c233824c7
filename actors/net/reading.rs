//! Reads files that may lie on a mount that hangs: with patience, and one read at a time.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Reads one file, or a few that belong together. Clones share the read that is underway.
pub(super) struct Reader<T> {
    current: Arc<Mutex<Option<Arc<Slot<T>>>>>,
    patience: Duration,
}

/// Where what is read is waited for.
struct Slot<T> {
    progress: Mutex<Progress<T>>,
    ended: Condvar,
}

enum Progress<T> {
    Underway,
    Read(T),
    Panicked,
}

impl<T: Clone + Send + 'static> Reader<T> {
    pub(super) fn new() -> Self {
        Self::waiting(PATIENCE)
    }

    fn waiting(patience: Duration) -> Self {
        let current = Arc::default();
        Self { current, patience }
    }

    /// What `read` returns; `None` if that takes longer than [`PATIENCE`]. A read that hangs is not
    /// begun again: whoever asks meanwhile waits for the same one. Its thread stands in nobody's
    /// way, not even in that of a runtime's end.
    pub(super) async fn read<F>(&self, read: F) -> Option<T>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        let reader = self.clone();
        let waiting = tokio::task::spawn_blocking(move || reader.read_here(read));
        waiting.await.ok().flatten()
    }

    /// The same for threads that may wait.
    pub(super) fn read_here<F>(&self, read: F) -> Option<T>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        let slot = self.underway(read)?;
        let is_underway = |progress: &mut Progress<T>| matches!(progress, Progress::Underway);
        let waited =
            slot.ended
                .wait_timeout_while(lock(&slot.progress), self.patience, is_underway);
        let (progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &*progress {
            Progress::Read(value) => Some(value.clone()),
            Progress::Underway | Progress::Panicked => None,
        }
    }

    /// The read that is underway, or a new one; `None` if the system has no thread to give.
    fn underway<F>(&self, read: F) -> Option<Arc<Slot<T>>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        let mut current = lock(&self.current);
        if let Some(slot) = &*current {
            return Some(Arc::clone(slot));
        }
        let slot = Arc::new(Slot {
            progress: Mutex::new(Progress::Underway),
            ended: Condvar::new(),
        });
        *current = Some(Arc::clone(&slot));
        // A thread that is not to be had ends the read here.
        drop(current);
        let ending = Ending {
            reader: self.clone(),
            slot: Arc::clone(&slot),
            progress: Progress::Panicked,
        };
        let reading = move || {
            let mut ending = ending;
            ending.progress = Progress::Read(read());
        };
        std::thread::Builder::new()
            .name("nearside-read".to_owned())
            .spawn(reading)
            .ok()?;
        Some(slot)
    }
}

/// Ends a read, also one that panics.
struct Ending<T> {
    reader: Reader<T>,
    slot: Arc<Slot<T>>,
    progress: Progress<T>,
}

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        // Whoever asks from here on begins a new read.
        drop(lock(&self.reader.current).take());
        *lock(&self.slot.progress) = std::mem::replace(&mut self.progress, Progress::Panicked);
        self.slot.ended.notify_all();
    }
}

impl<T> Clone for Reader<T> {
    fn clone(&self) -> Self {
        Self {
            current: Arc::clone(&self.current),
            patience: self.patience,
        }
    }
}

impl<T> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reader")
    }
}

/// Nothing under these locks can be left half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a file may take: well within the time to set a connection up. Of the system's time, as
/// the file is the system's.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    /// A file that hangs until somebody writes to it.
    struct Fifo(PathBuf);

    impl Fifo {
        fn new(name: &str) -> Self {
            let name = format!("nearside-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            assert!(
                Command::new("mkfifo")
                    .arg(&path)
                    .status()
                    .unwrap()
                    .success()
            );
            Self(path)
        }

        fn read(&self) -> impl FnOnce() -> String + Send + 'static {
            let path = self.0.clone();
            move || std::fs::read_to_string(path).unwrap()
        }
    }

    impl Drop for Fifo {
        fn drop(&mut self) {
            std::fs::remove_file(&self.0).ok();
        }
    }

    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn a_file_that_hangs_is_given_up_and_its_read_begun_once() {
        let (fifo, reader) = (Fifo::new("hangs"), Reader::waiting(SHORT));
        assert_eq!(reader.read_here(fifo.read()), None);
        let again = || -> String { panic!("the first read is not over") };
        assert_eq!(reader.read_here(again), None);
        std::fs::write(&fifo.0, "late").unwrap();
        // Whoever asks right now may still be given what the first read brings.
        let next = || std::iter::repeat_with(|| reader.read_here(|| "next".to_owned()));
        let first = next().flatten().next().unwrap();
        assert!(["late", "next"].contains(&first.as_str()), "{first}");
        assert_eq!(
            next().flatten().find(|text| text != "late").unwrap(),
            "next"
        );
    }

    #[test]
    fn a_read_that_panics_ends_and_the_next_one_begins() {
        let reader = Reader::waiting(Duration::MAX);
        assert_eq!(reader.read_here(|| -> u8 { panic!("on purpose") }), None);
        assert_eq!(reader.read_here(|| 7), Some(7));
    }
}
