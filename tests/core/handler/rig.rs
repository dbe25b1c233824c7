//! A host, a clock that tests turn, and a pool of one thread that polls everything when told.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use nearside::budget::Budget;
use nearside::handler::{
    Assignment, BoxFuture, Clock, Event, Handling, Host, Input, Output, Settings, StintEnd,
    StintId, StopReason, Subscription,
};
use nearside::ids::{AssignmentEpoch, Draw, LeaderEpoch, Moment, Offset, TopicPartition};
use nearside::records::{BatchSet, BatchView, BatchWriter, NewRecord, ReadSettings};

/// Time that tests turn.
#[derive(Debug, Default)]
pub(crate) struct TurnedClock {
    now: Mutex<Moment>,
    alarms: Mutex<BTreeSet<Moment>>,
}

impl Clock for TurnedClock {
    fn now(&self) -> Moment {
        *self.now.lock().unwrap()
    }
}

impl TurnedClock {
    /// Ends after `time`, by this clock.
    pub(crate) async fn sleep(&self, time: Duration) {
        let due = self.now() + time;
        self.alarms.lock().unwrap().insert(due);
        poll_fn(|_| {
            if self.now() >= due {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

/// What the host reported of one partition.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Every `from..to` that became finished.
    pub(crate) finished: Vec<(i64, i64)>,
    pub(crate) leader_epoch: Option<LeaderEpoch>,
    pub(crate) drained: Vec<Option<Offset>>,
    pub(crate) ended: Vec<AssignmentEpoch>,
    pub(crate) full: bool,
}

impl Report {
    /// What would be committed.
    pub(crate) fn watermark(&self) -> i64 {
        self.finished.last().map_or(0, |(_, to)| *to)
    }
}

pub(crate) struct Rig {
    pub(crate) host: Host,
    /// What the host charges its copies to.
    pub(crate) budget: Budget,
    pub(crate) clock: Arc<TurnedClock>,
    tasks: BTreeMap<StintId, BoxFuture<'static, StintEnd>>,
    /// Tasks that survive an abort, like those on the blocking pool.
    pub(crate) deaf: bool,
    /// Whether tasks stand still, as if every thread of the pool were held.
    pub(crate) frozen: bool,
    pub(crate) reports: BTreeMap<TopicPartition, Report>,
    pub(crate) events: Vec<Event>,
    pub(crate) stops: Vec<StopReason>,
    pub(crate) draw: Draw,
    /// Stints started so far.
    pub(crate) started: usize,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let clock = Arc::new(TurnedClock::default());
        let budget = Budget::unlimited();
        let host = Host::new(settings, Arc::clone(&clock) as Arc<dyn Clock>);
        Self {
            host: host.charging(budget.clone()),
            budget,
            clock,
            tasks: BTreeMap::new(),
            deaf: false,
            frozen: false,
            reports: BTreeMap::new(),
            events: Vec::new(),
            stops: Vec::new(),
            draw: Draw(u64::MAX),
            started: 0,
        }
    }

    /// Assigns partition `index` of the topic, in its first assignment.
    pub(crate) fn assign(&mut self, index: i32, subscription: &Subscription) {
        self.assign_at(index, 1, subscription);
    }

    pub(crate) fn assign_at(&mut self, index: i32, epoch: u64, subscription: &Subscription) {
        let assignment = Assignment {
            group: "billing".into(),
            partition: partition(index),
            topic_id: None,
            generation: 4.into(),
            epoch: epoch.into(),
        };
        let handling = subscription.policy().over(&Handling::default());
        let handler = Arc::clone(subscription.handler());
        self.input(Input::Assign {
            assignment,
            handler,
            handling,
        });
    }

    pub(crate) fn deliver(&mut self, index: i32, views: Vec<BatchView>) {
        self.deliver_at(index, 1, views);
    }

    pub(crate) fn deliver_at(&mut self, index: i32, epoch: u64, views: Vec<BatchView>) {
        self.input(Input::Deliver {
            partition: partition(index),
            epoch: epoch.into(),
            views,
        });
    }

    /// Takes one input and runs until nothing moves any more.
    pub(crate) fn input(&mut self, input: Input) {
        self.draw = self.draw.split();
        self.host.handle(input, self.draw, self.clock.now());
        self.settle();
    }

    /// Turns the clock by `time`, stopping at every deadline and alarm on the way.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.clock.now() + time;
        loop {
            let alarm = self.clock.alarms.lock().unwrap().first().copied();
            let due = [self.host.next_deadline(), alarm]
                .into_iter()
                .flatten()
                .min();
            let Some(due) = due.filter(|due| *due <= end) else {
                break;
            };
            let due = due.max(self.clock.now());
            *self.clock.now.lock().unwrap() = due;
            self.clock
                .alarms
                .lock()
                .unwrap()
                .retain(|alarm| *alarm > due);
            self.input(Input::Tick);
        }
        *self.clock.now.lock().unwrap() = end;
        self.settle();
    }

    pub(crate) fn report(&self, index: i32) -> &Report {
        &self.reports[&partition(index)]
    }

    fn settle(&mut self) {
        loop {
            while let Some(output) = self.host.poll_output() {
                self.perform(output);
            }
            if self.frozen {
                return;
            }
            let mut task = TaskContext::from_waker(Waker::noop());
            let ended = self.tasks.iter_mut().find_map(|(stint, future)| {
                match future.as_mut().poll(&mut task) {
                    Poll::Ready(end) => Some((*stint, end)),
                    Poll::Pending => None,
                }
            });
            let Some((stint, end)) = ended else {
                return;
            };
            self.tasks.remove(&stint);
            let now = self.clock.now();
            self.host.handle(
                Input::Settled {
                    stint,
                    end: Some(end),
                },
                self.draw,
                now,
            );
        }
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Start {
                stint,
                handler,
                work,
                ..
            } => {
                self.started += 1;
                self.tasks.insert(stint, handler.start(work));
            }
            Output::Abort { stint } => {
                if !self.deaf && self.tasks.remove(&stint).is_some() {
                    let now = self.clock.now();
                    self.host
                        .handle(Input::Settled { stint, end: None }, self.draw, now);
                }
            }
            Output::Finished {
                partition,
                from,
                to,
                leader_epoch,
                ..
            } => {
                let report = self.reports.entry(partition).or_default();
                report.finished.push((from.0, to.0));
                report.leader_epoch = leader_epoch;
            }
            Output::Full { partition, .. } => self.report_mut(partition).full = true,
            Output::Room { partition, .. } => self.report_mut(partition).full = false,
            Output::Drained {
                partition,
                abandoned,
                ..
            } => {
                self.report_mut(partition).drained.push(abandoned);
            }
            Output::Ended { partition, epoch } => self.report_mut(partition).ended.push(epoch),
            Output::Stop(reason) => self.stops.push(reason),
            Output::Event(event) => self.events.push(event),
            Output::Unreadable { error, .. } => panic!("unreadable: {error}"),
        }
    }

    fn report_mut(&mut self, partition: TopicPartition) -> &mut Report {
        self.reports.entry(partition).or_default()
    }
}

pub(crate) fn partition(index: i32) -> TopicPartition {
    TopicPartition::new("orders", index)
}

/// One batch of `count` records from `base` on; the value of each is its offset as text.
pub(crate) fn batch(base: i64, count: i64) -> BatchView {
    batch_at_epoch(base, count, 0)
}

pub(crate) fn batch_at_epoch(base: i64, count: i64, leader_epoch: i32) -> BatchView {
    let values: Vec<String> = (base..base + count)
        .map(|offset| offset.to_string())
        .collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    batch_of(base, leader_epoch, &values)
}

/// One batch with the given values.
pub(crate) fn batch_of(base: i64, leader_epoch: i32, values: &[&str]) -> BatchView {
    let mut writer = BatchWriter::default();
    for value in values {
        writer
            .push(&NewRecord {
                value: Some(value.as_bytes()),
                ..NewRecord::default()
            })
            .unwrap();
    }
    let mut bytes = writer.seal().unwrap().to_vec();
    // What the leader does to a batch it appends; both fields lie outside the checksum.
    bytes[..8].copy_from_slice(&base.to_be_bytes());
    bytes[12..16].copy_from_slice(&leader_epoch.to_be_bytes());
    let set = BatchSet::new(Bytes::from(bytes), Offset(base), ReadSettings::default());
    set.map(Result::unwrap).next().unwrap()
}

/// A list that handlers write and tests read.
pub(crate) type Log<T> = Arc<Mutex<Vec<T>>>;

pub(crate) fn log<T>() -> Log<T> {
    Arc::default()
}

pub(crate) fn read<T: Clone>(log: &Log<T>) -> Vec<T> {
    log.lock().unwrap().clone()
}

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
