//! Writes down what the route machines of a fleet see and answer, for `nearside replay`.
//!
//! A data thread hands a step over and goes on: the queue is bounded, a step that does not fit is
//! dropped and counted, and the file says so. Words and JSON are made on the writer's own thread.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, channel, sync_channel,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::ids::{Draw, Moment, TopicPartition};
use crate::routing::trace::{FactsSeen, Header, Line, Taken};
use crate::routing::{Brokers, Input, Output, Route};

/// The trace of one fleet.
#[derive(Debug)]
pub(crate) struct RouteTrace {
    queue: SyncSender<Note>,
    count: Arc<Counts>,
    threads: AtomicU32,
    machines: AtomicU64,
    /// Hangs up when the writer has ended.
    writer: Mutex<Option<Receiver<()>>>,
}

/// What the writer is told besides the queue, which may be full.
#[derive(Default, Debug)]
struct Counts {
    dropped: AtomicU64,
    closing: AtomicBool,
}

#[derive(Debug)]
enum Note {
    Step(Box<Taken>),
    Close,
}

impl RouteTrace {
    /// Creates the file, or replaces it, and begins to write.
    ///
    /// # Errors
    /// If the file cannot be created, or not within 5 s.
    pub(crate) fn create(path: &Path, header: Header) -> io::Result<Arc<Self>> {
        let path = path.to_owned();
        let open = move || {
            let mut file = File::create(path)?;
            write(&mut file, &Line::Header(Box::new(header)))?;
            Ok(file)
        };
        Self::begin(open, QUEUE_MAX, PATIENCE)
    }

    /// Only the writer's thread touches the file: it may be one that takes nothing for long.
    fn begin<W: Write>(
        open: impl FnOnce() -> io::Result<W> + Send + 'static,
        queue_max: usize,
        patience: Duration,
    ) -> io::Result<Arc<Self>> {
        let (queue, notes) = sync_channel(queue_max);
        let (opened, open_file) = channel();
        let (living, writer) = channel();
        let count = Arc::<Counts>::default();
        let counter = Arc::clone(&count);
        std::thread::Builder::new()
            .name("nearside-trace".into())
            .spawn(move || {
                let _until_the_end = living;
                let (file, result) = match open() {
                    Ok(file) => (Some(file), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                // Who waits no longer has no use for the file.
                let wanted = opened.send(result).is_ok();
                if let Some(file) = file.filter(|_| wanted)
                    && let Err(error) = write_all(file, &notes, &counter)
                {
                    tracing::error!(%error, "the route trace ends here");
                }
            })?;
        let late = || io::Error::from(io::ErrorKind::TimedOut);
        open_file
            .recv_timeout(patience)
            .map_err(|_| late())
            .flatten()?;
        Ok(Arc::new(Self {
            queue,
            count,
            threads: AtomicU32::new(0),
            machines: AtomicU64::new(0),
            writer: Mutex::new(Some(writer)),
        }))
    }

    /// What one data thread needs to take part.
    pub(crate) fn thread(self: &Arc<Self>) -> ThreadTrace {
        ThreadTrace {
            trace: Arc::clone(self),
            thread: self.threads.fetch_add(1, Ordering::Relaxed),
            facts: RefCell::default(),
        }
    }

    /// Ends the file in order; what comes later is not recorded. Waits for the writer, but 5 s at
    /// most: a stop does not fail for a file that takes nothing.
    pub(crate) fn close(&self) {
        self.close_within(PATIENCE);
    }

    fn close_within(&self, patience: Duration) {
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(writer) = writer {
            self.count.closing.store(true, Ordering::SeqCst);
            // A writer that failed has hung up already; one whose queue is full looks at the flag.
            self.queue.try_send(Note::Close).ok();
            if writer.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                tracing::error!("the file of the route trace takes nothing: it has no end");
            }
        }
    }

    /// Whether there was room.
    fn offer(&self, taken: Taken) -> bool {
        let taken = self.queue.try_send(Note::Step(Box::new(taken))).is_ok();
        if !taken {
            self.count.dropped.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }
}

/// A data thread's part in the trace.
#[derive(Debug)]
pub(crate) struct ThreadTrace {
    trace: Arc<RouteTrace>,
    thread: u32,
    facts: RefCell<FactsSeen>,
}

impl ThreadTrace {
    /// A tracer for a route machine that has seen nothing yet.
    pub(crate) fn tracer(&self) -> Tracer {
        Tracer {
            route: self.trace.machines.fetch_add(1, Ordering::Relaxed),
            steps: 0,
        }
    }
}

/// A route machine's part in the trace.
#[derive(Debug)]
pub(crate) struct Tracer {
    route: u64,
    steps: u64,
}

impl Tracer {
    /// Takes note of an input, before the machine of `partition` is handed it.
    pub(crate) fn begin(
        &mut self,
        input: &Input,
        (thread, brokers): (&ThreadTrace, &Brokers),
        partition: &TopicPartition,
        (draw, now): (Draw, Moment),
    ) -> Taken {
        let mut taken = Taken::begin(self.route, self.steps, input, (draw, now));
        if self.steps == 0 {
            taken.after_line(Line::Route {
                route: self.route,
                thread: thread.thread,
                partition: partition.clone(),
            });
        }
        self.steps += 1;
        for (broker, facts) in thread.facts.borrow().news(brokers) {
            let thread = thread.thread;
            taken.after_line(Line::Facts {
                thread,
                broker,
                facts,
            });
        }
        taken
    }

    /// Hands the step over. Facts count as told only if it found room.
    pub(crate) fn end(
        &self,
        mut taken: Taken,
        route: &Route,
        (thread, brokers): (&ThreadTrace, &Brokers),
    ) {
        taken.end(route);
        let tells_facts = taken.tells_facts();
        if thread.trace.offer(taken) && tells_facts {
            thread.facts.borrow_mut().told(brokers);
        }
    }
}

/// Takes note of an output of a step being recorded, if one is.
pub(crate) fn note(taken: &mut Option<Taken>, output: &Output) {
    if let Some(taken) = taken {
        taken.gave(output);
    }
}

/// Writes until it is told to close, or nobody is left to tell anything.
fn write_all(file: impl Write, notes: &Receiver<Note>, count: &Counts) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    let (mut steps, mut lost) = (0, 0);
    while let Some(taken) = next(&mut file, notes, &count.closing)? {
        lost += write_dropped(&mut file, &count.dropped)?;
        for line in taken.lines() {
            write(&mut file, &line)?;
        }
        steps += 1;
    }
    lost += write_dropped(&mut file, &count.dropped)?;
    write(
        &mut file,
        &Line::End {
            steps,
            dropped: lost,
        },
    )?;
    file.flush()
}

/// The next step; flushes the file before it waits, so that a quiet trace can be read.
fn next(
    file: &mut impl Write,
    notes: &Receiver<Note>,
    closing: &AtomicBool,
) -> io::Result<Option<Box<Taken>>> {
    let note = match notes.try_recv() {
        Ok(note) => note,
        Err(TryRecvError::Disconnected) => Note::Close,
        Err(TryRecvError::Empty) if closing.load(Ordering::SeqCst) => Note::Close,
        Err(TryRecvError::Empty) => {
            file.flush()?;
            notes.recv().unwrap_or(Note::Close)
        }
    };
    Ok(match note {
        Note::Step(taken) => Some(taken),
        Note::Close => None,
    })
}

/// Says how many steps are missing here.
fn write_dropped(file: &mut impl Write, dropped: &AtomicU64) -> io::Result<u64> {
    let lost = dropped.swap(0, Ordering::Relaxed);
    if lost > 0 {
        write(file, &Line::Dropped(lost))?;
    }
    Ok(lost)
}

fn write(file: &mut impl Write, line: &Line) -> io::Result<()> {
    let text = line.encode().map_err(io::Error::other)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")
}

/// Steps that may wait for the writer: some ten megabytes.
const QUEUE_MAX: usize = 8_192;
/// How long anybody waits for the file.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::routing::Settings;

    /// A file on a disk that stands still until it is told to go on.
    struct Stuck {
        go_on: Receiver<()>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Once nobody holds it up any more it takes everything.
            self.go_on.recv().ok();
            self.written.send(bytes.to_vec()).ok();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn steps(trace: &Arc<RouteTrace>, count: u64) {
        let (thread, brokers) = (trace.thread(), Brokers::new());
        let mut tracer = thread.tracer();
        let mut route = Route::new(Arc::new(Settings::default()));
        let partition = TopicPartition::new("orders", 0);
        for _ in 0..count {
            let (draw, now) = (Draw(1), Moment::from_ms(1));
            let taken = tracer.begin(&Input::Tick, (&thread, &brokers), &partition, (draw, now));
            route.handle(Input::Tick, &brokers, draw, now);
            tracer.end(taken, &route, (&thread, &brokers));
        }
    }

    fn lines(written: &Receiver<Vec<u8>>) -> Vec<Line> {
        let bytes: Vec<u8> = written.iter().flatten().collect();
        let text = String::from_utf8(bytes).unwrap();
        text.lines()
            .map(|line| Line::decode(line).unwrap())
            .collect()
    }

    #[test]
    fn a_slow_disk_costs_steps_and_the_file_says_how_many() {
        let (go, go_on) = channel();
        let (written, seen) = channel();
        let trace = RouteTrace::begin(|| Ok(Stuck { go_on, written }), 4, PATIENCE).unwrap();
        // Far more than the queue and the writer's buffer hold; none of it waits for the disk.
        steps(&trace, 2_000);
        drop(go);
        trace.close();
        let lines = lines(&seen);
        let kept = lines
            .iter()
            .filter(|line| matches!(line, Line::Step(_)))
            .count();
        let lost: u64 = lines
            .iter()
            .map(|line| if let Line::Dropped(n) = line { *n } else { 0 })
            .sum();
        let kept = u64::try_from(kept).unwrap();
        assert_eq!(kept + lost, 2_000);
        assert!(lost > 0, "nothing was lost");
        let end = Line::End {
            steps: kept,
            dropped: lost,
        };
        assert_eq!(lines.last(), Some(&end));
    }

    #[test]
    fn a_file_that_takes_nothing_holds_up_neither_a_start_nor_a_stop() {
        let moment = Duration::from_millis(10);
        let (_never, opened) = channel::<()>();
        let open = move || {
            opened.recv().ok();
            Ok(Vec::new())
        };
        let late = RouteTrace::begin(open, 4, moment).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);

        let (_never, go_on) = channel();
        let (written, seen) = channel();
        let trace = RouteTrace::begin(|| Ok(Stuck { go_on, written }), 4, PATIENCE).unwrap();
        steps(&trace, 2_000);
        trace.close_within(moment);
        assert!(seen.try_recv().is_err(), "it is stuck still");
    }

    #[test]
    fn what_comes_after_the_end_is_not_written_and_holds_nobody_up() {
        let (go, go_on) = channel();
        let (written, seen) = channel();
        drop(go);
        let trace = RouteTrace::begin(|| Ok(Stuck { go_on, written }), 4, PATIENCE).unwrap();
        trace.close();
        steps(&trace, 10);
        trace.close();
        let end = Line::End {
            steps: 0,
            dropped: 0,
        };
        assert_eq!(lines(&seen), [end]);
    }
}
