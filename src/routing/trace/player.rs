//! Plays a trace again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::line::{FORMAT, Header, Line, Step};
use super::outcome::Outcome;
use super::words::{self, Seen};
use crate::ids::{Moment, TopicPartition};
use crate::routing::facts::Brokers;
use crate::routing::output::Output;
use crate::routing::route::Route;
use crate::routing::settings::Settings;

/// Feeds the lines of one trace to route machines of its own, and tells what they decide.
#[derive(Debug)]
pub struct Player {
    settings: Arc<Settings>,
    start: Moment,
    threads: BTreeMap<u32, Brokers>,
    machines: BTreeMap<u64, Machine>,
    steps: u64,
    dropped: u64,
    skipped: u64,
    ended: bool,
}

#[derive(Debug)]
struct Machine {
    thread: u32,
    partition: TopicPartition,
    route: Route,
    next: u64,
    /// An input is missing, or it went another way than recorded: what it says now is worth
    /// nothing.
    lost: bool,
}

/// One step, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Time since the recording began.
    pub at: Duration,
    /// The partition.
    pub partition: TopicPartition,
    /// What came in.
    pub came: String,
    /// What was decided.
    pub decided: String,
    /// The rules that decided, by their numbers in routing.md.
    pub rules: Vec<&'static str>,
    /// The same rules as sentences.
    pub why: Vec<&'static str>,
    /// What follows.
    pub follows: Vec<String>,
    /// Whether nothing changed that anybody would ask about.
    pub quiet: bool,
    /// How the recorded outcome differs from the one of the replay, if it does.
    pub difference: Option<Difference>,
}

/// A recorded outcome that the machine does not repeat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// In what.
    pub what: &'static str,
    /// As recorded.
    pub recorded: String,
    /// As replayed.
    pub replayed: String,
}

impl Player {
    /// A player for the trace that begins with `header`.
    ///
    /// # Errors
    /// [`PlayError::Format`] if it was written in another version of the format.
    pub fn new(header: Header) -> Result<Self, PlayError> {
        if header.format != FORMAT {
            return Err(PlayError::Format(header.format));
        }
        Ok(Self {
            settings: Arc::new(header.settings),
            start: header.at,
            threads: BTreeMap::new(),
            machines: BTreeMap::new(),
            steps: 0,
            dropped: 0,
            skipped: 0,
            ended: false,
        })
    }

    /// Plays one line; `None` if nothing was decided in it, or if it cannot be checked any more.
    ///
    /// # Errors
    /// A line that cannot stand where it does.
    pub fn play(&mut self, line: Line) -> Result<Option<Decision>, PlayError> {
        if self.ended {
            return Err(PlayError::AfterEnd);
        }
        match line {
            Line::Header(_) => return Err(PlayError::SecondHeader),
            Line::Route {
                route,
                thread,
                partition,
            } => self.begin(route, thread, partition),
            Line::Facts {
                thread,
                broker,
                facts,
            } => {
                let known = self.threads.entry(thread).or_default();
                match facts {
                    Some(facts) => *known.entry(broker) = facts,
                    None => known.remove(broker),
                }
            }
            Line::Step(step) => return self.step(*step),
            Line::Dropped(count) => self.dropped += count,
            Line::End { steps, dropped } => {
                self.ended = true;
                if (steps, dropped) != (self.steps, self.dropped) {
                    return Err(PlayError::Missing {
                        told: steps + dropped,
                        seen: self.steps + self.dropped,
                    });
                }
            }
        }
        Ok(None)
    }

    /// Steps in the trace so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Steps that the recording lost.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Steps that were not played, because an earlier one of their machine is missing or went
    /// another way.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Whether the trace was closed in order.
    pub fn is_complete(&self) -> bool {
        self.ended
    }

    fn begin(&mut self, route: u64, thread: u32, partition: TopicPartition) {
        let machine = Machine {
            thread,
            partition,
            route: Route::new(Arc::clone(&self.settings)),
            next: 0,
            lost: false,
        };
        self.machines.insert(route, machine);
    }

    fn step(&mut self, step: Step) -> Result<Option<Decision>, PlayError> {
        self.steps += 1;
        let Some(machine) = self.machines.get_mut(&step.route) else {
            return self.unknown(step.route);
        };
        if step.number != machine.next {
            if self.dropped == 0 || step.number < machine.next {
                let expected = machine.next;
                return Err(PlayError::OutOfOrder {
                    route: step.route,
                    expected,
                    found: step.number,
                });
            }
            machine.lost = true;
        }
        machine.next = step.number + 1;
        if machine.lost {
            self.skipped += 1;
            return Ok(None);
        }
        let nothing = Brokers::new();
        let brokers = self.threads.get(&machine.thread).unwrap_or(&nothing);
        let decision = machine.play(step, brokers, self.start);
        machine.lost = decision.difference.is_some();
        Ok(Some(decision))
    }

    /// The line that introduced the machine may be among those lost.
    fn unknown(&mut self, route: u64) -> Result<Option<Decision>, PlayError> {
        if self.dropped == 0 {
            return Err(PlayError::UnknownRoute(route));
        }
        self.skipped += 1;
        Ok(None)
    }
}

impl Machine {
    fn play(&mut self, step: Step, brokers: &Brokers, start: Moment) -> Decision {
        let before = self.route.clone();
        let (input, now) = (step.input.clone(), step.at);
        self.route.handle(step.input, brokers, step.draw, now);
        let outputs: Vec<Output> = std::iter::from_fn(|| self.route.poll_output()).collect();
        let replayed = Outcome::of(&self.route, &outputs);
        let told = words::tell(Seen {
            before: &before,
            after: &self.route,
            input: &input,
            outputs: &outputs,
            brokers,
            now,
        });
        let difference = step.after.difference(&replayed);
        Decision {
            at: now.since(start),
            partition: self.partition.clone(),
            came: told.came,
            decided: told.decided,
            rules: told.rules,
            why: told.why,
            follows: told.follows,
            quiet: told.quiet,
            difference: difference.map(|(what, recorded, replayed)| Difference {
                what,
                recorded,
                replayed,
            }),
        }
    }
}

/// A line that does not belong where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlayError {
    /// The trace was written in another version of the format.
    Format(u32),
    /// A header inside the trace.
    SecondHeader,
    /// A step of a machine that never began.
    UnknownRoute(u64),
    /// A step is missing or stands twice, and no loss was recorded.
    OutOfOrder {
        /// The machine.
        route: u64,
        /// The step that was due.
        expected: u64,
        /// The step found.
        found: u64,
    },
    /// The end line counts other steps than the trace has.
    Missing {
        /// Steps by the end line.
        told: u64,
        /// Steps in the file.
        seen: u64,
    },
    /// A line behind the end line.
    AfterEnd,
}

impl fmt::Display for PlayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(format) => write!(
                f,
                "the trace is written in version {format} of its format; this nearside reads \
                 version {FORMAT}"
            ),
            Self::SecondHeader => f.write_str("a second header; are these two traces in one file?"),
            Self::UnknownRoute(route) => write!(f, "a step of machine {route}, which never began"),
            Self::OutOfOrder {
                route,
                expected,
                found,
            } => write!(
                f,
                "step {found} of machine {route} stands where step {expected} belongs"
            ),
            Self::Missing { told, seen } => {
                write!(f, "the end line counts {told} steps, the trace has {seen}")
            }
            Self::AfterEnd => f.write_str("a line behind the end of the trace"),
        }
    }
}

impl std::error::Error for PlayError {}
