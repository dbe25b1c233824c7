//! The handler host, and the pool its attempts run on: polled by hand, in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use nearside::handler::{
    Assignment, BoxFuture, Clock, Context, HandlerError, Handling, Input, Message, Outcome, Output,
    Raw, Retry, StintEnd, StintId, Subscription, handler_fn,
};
use nearside::ids::{AssignmentEpoch, Draw, Moment, Offset, TopicPartition};

use super::Member;
use crate::chance::Chance;
use crate::plan::{GROUP, TOPIC};

/// One record that a handler is done with.
#[derive(Clone, Debug)]
pub(crate) struct Handled {
    pub(crate) member: String,
    pub(crate) epoch: AssignmentEpoch,
    pub(crate) partition: TopicPartition,
    pub(crate) offset: Offset,
    pub(crate) value: Vec<u8>,
}

/// What all handlers write and the world reads.
pub(crate) type Diary = Arc<Mutex<Vec<Handled>>>;

/// The pool of one process.
pub(super) struct Pool {
    seed: u64,
    diary: Diary,
    clock: Arc<TurnedClock>,
    tasks: BTreeMap<StintId, BoxFuture<'static, StintEnd>>,
    /// Tasks that may get on.
    awake: BTreeSet<StintId>,
    ended: Vec<(StintId, Option<StintEnd>)>,
}

/// Time that the world turns.
#[derive(Debug, Default)]
struct TurnedClock {
    now: Mutex<Moment>,
    alarms: Mutex<BTreeSet<Moment>>,
}

impl Clock for TurnedClock {
    fn now(&self) -> Moment {
        *self.now.lock().unwrap()
    }
}

impl TurnedClock {
    async fn sleep(&self, time: Duration) {
        let due = self.now() + time;
        self.alarms.lock().unwrap().insert(due);
        poll_fn(|_| match self.now() >= due {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

impl Pool {
    pub(super) fn new(seed: u64, diary: Diary) -> Self {
        Self {
            seed,
            diary,
            clock: Arc::default(),
            tasks: BTreeMap::new(),
            awake: BTreeSet::new(),
            ended: Vec::new(),
        }
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as Arc<dyn Clock>
    }

    /// Sets the time; whoever slept until now goes on.
    pub(super) fn turn(&mut self, now: Moment) {
        *self.clock.now.lock().unwrap() = now;
        let mut alarms = self.clock.alarms.lock().unwrap();
        if alarms.first().is_some_and(|due| *due <= now) {
            alarms.retain(|due| *due > now);
            self.awake.extend(self.tasks.keys());
        }
    }

    pub(super) fn next_alarm(&self) -> Option<Moment> {
        self.clock.alarms.lock().unwrap().first().copied()
    }

    /// The next task that ended.
    pub(super) fn next_end(&mut self) -> Option<(StintId, Option<StintEnd>)> {
        while let Some(stint) = self.awake.pop_first() {
            let Some(task) = self.tasks.get_mut(&stint) else {
                continue;
            };
            let mut context = TaskContext::from_waker(Waker::noop());
            if let Poll::Ready(end) = task.as_mut().poll(&mut context) {
                self.tasks.remove(&stint);
                self.ended.push((stint, Some(end)));
            }
        }
        self.ended.pop()
    }

    /// What handles one assignment: mostly at once, sometimes slowly, and failing now and then.
    fn subscription(
        &self,
        member: &str,
        at: &TopicPartition,
        epoch: AssignmentEpoch,
    ) -> Subscription {
        let (member, partition) = (member.to_owned(), at.clone());
        let (seed, diary, clock) = (self.seed, Arc::clone(&self.diary), Arc::clone(&self.clock));
        let handle = move |message: Message<Raw>, context: Context| {
            let mood = Mood::of(seed, &partition, message.offset(), context.attempt());
            let (diary, clock) = (Arc::clone(&diary), Arc::clone(&clock));
            let handled = Handled {
                member: member.clone(),
                epoch,
                partition: partition.clone(),
                offset: message.offset(),
                value: message.payload().unwrap_or_default().to_vec(),
            };
            async move {
                if !mood.pause.is_zero() {
                    clock.sleep(mood.pause).await;
                }
                if mood.fails {
                    return Err(HandlerError::retryable("not today"));
                }
                diary.lock().unwrap().push(handled);
                Ok(Outcome::Done)
            }
        };
        Subscription::topics([TOPIC])
            .retry(Retry::exponential(
                Duration::from_millis(50),
                Duration::from_secs(1),
            ))
            .handler(handler_fn(handle))
    }
}

/// How an attempt goes.
struct Mood {
    pause: Duration,
    fails: bool,
}

impl Mood {
    fn of(seed: u64, partition: &TopicPartition, offset: Offset, attempt: u32) -> Self {
        let place = u64::try_from(offset.0).unwrap() << 8;
        let place = place | u64::try_from(partition.partition.0).unwrap();
        let mut chance = Chance::new(Draw(seed ^ u64::from(attempt)).split().0, place);
        let pause = match chance.within(0..400) {
            0 => chance.millis(500..2_500),
            1..8 => chance.millis(5..120),
            _ => Duration::ZERO,
        };
        Self {
            pause,
            fails: attempt == 1 && chance.one_in(150),
        }
    }
}

impl Member {
    /// Tells the host of a new assignment.
    pub(super) fn assign_host(&mut self, partition: &TopicPartition, epoch: AssignmentEpoch) {
        let subscription = self.pool.subscription(&self.name, partition, epoch);
        let assignment = Assignment {
            group: GROUP.into(),
            partition: partition.clone(),
            topic_id: None,
            generation: self.generation,
            epoch,
        };
        self.feed_host(Input::Assign {
            assignment,
            handler: Arc::clone(subscription.handler()),
            handling: subscription.policy().over(&Handling::default()),
        });
    }

    pub(super) fn feed_host(&mut self, input: Input) {
        let (now, draw) = (self.now, self.draw());
        self.host.handle(input, draw, now);
        while let Some(output) = self.host.poll_output() {
            self.on_host(output);
        }
    }

    fn on_host(&mut self, output: Output) {
        match output {
            Output::Start {
                stint,
                handler,
                work,
                ..
            } => {
                self.pool.tasks.insert(stint, handler.start(work));
                self.pool.awake.insert(stint);
            }
            Output::Abort { stint } => {
                if self.pool.tasks.remove(&stint).is_some() {
                    self.pool.ended.push((stint, None));
                }
            }
            Output::Finished {
                partition,
                epoch,
                from,
                to,
                leader_epoch,
            } => {
                let slot = self.slots.get_mut(&partition);
                let slot = slot.filter(|slot| slot.epoch == epoch);
                if let Some(account) = slot.and_then(|slot| slot.account.as_mut()) {
                    account.finish(from, to, leader_epoch);
                }
            }
            Output::Full { partition, epoch } => self.room(partition, epoch, false),
            Output::Room { partition, epoch } => self.room(partition, epoch, true),
            Output::Drained {
                partition, epoch, ..
            } => self.drained(&partition, epoch),
            Output::Ended { partition, epoch } => self.ended(&partition, epoch),
            Output::Unreadable {
                partition, error, ..
            } => panic!("{partition}: {error}"),
            Output::Stop(reason) => panic!("handlers never stop the fleet: {reason}"),
            Output::Event(_) => {}
        }
    }

    fn room(&mut self, partition: TopicPartition, epoch: AssignmentEpoch, room: bool) {
        let slot = self.slots.get_mut(&partition);
        if let Some(slot) = slot.filter(|slot| slot.epoch == epoch) {
            slot.room = room;
            self.owed_routes
                .push_back((partition, nearside::routing::Input::Room(room)));
        }
    }
}

/// A host whose queues are short, so that back-pressure is part of every run.
pub(crate) fn host_settings() -> nearside::handler::Settings {
    nearside::handler::Settings {
        queue_records: 60,
        cancel_grace: Duration::from_secs(1),
        ..Default::default()
    }
}
