//! From letters to records and back to those who wait for them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::backoff::Backoff;
use crate::ids::{
    AssignmentEpoch, Draw, GroupId, Moment, Offset, PartitionIndex, TopicName, TopicPartition,
};
use crate::producer::{Leaders, ProduceError, Record, RecordToken};
use crate::wire::ErrorCode;

use super::check::Check;
use super::letter::{Letter, Reason, TopicRule};

/// Settings of [`Letters`].
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// The group that gives up.
    pub group: GroupId,
    /// Its client id.
    pub client: String,
    /// Where letters go (`dead.letter.topic`; default [`DEFAULT_TOPIC`](super::DEFAULT_TOPIC)).
    pub topic: TopicRule,
    /// Dead letter topics that must be there at the start; default none.
    pub required: Vec<TopicName>,
    /// Pauses before a letter is sent again that could not be written; default 1 s to 30 s.
    pub retry: Backoff,
}

impl Settings {
    /// The defaults for a client of a group.
    pub fn new(group: impl Into<GroupId>, client: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            client: client.into(),
            topic: TopicRule::default(),
            required: Vec::new(),
            retry: Backoff::from_ms(1_000, 30_000),
        }
    }
}

/// Names the wait of a partition for its letter. It comes back with the [`End`], so that one that
/// is late, of an assignment that is over or a position that moved, is told apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// Whose letter it is.
    pub partition: TopicPartition,
    /// Its assignment.
    pub assignment: AssignmentEpoch,
    /// The number of the wait.
    pub number: u64,
}

/// What became of a letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// Acknowledged: what it was about is finished.
    Written,
    /// Not written, and nothing of it is kept here: send it again.
    Again,
    /// It can never be written; the reason in words.
    Hopeless(String),
}

/// One input of [`Letters`].
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// Write a letter.
    Post {
        /// Comes back with the end.
        ticket: Ticket,
        /// The letter.
        letter: Letter,
        /// The time of the calendar, in ms since 1970.
        unix_ms: i64,
    },
    /// The producer is done with a record.
    Ended {
        /// Which.
        token: RecordToken,
        /// Where it lies, or why it does not.
        result: Result<(TopicPartition, Option<Offset>), ProduceError>,
    },
    /// The cluster view changed.
    ClusterChanged,
    /// A deadline passed.
    Tick,
}

/// One output of [`Letters`].
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Have the producer write this.
    Append {
        /// Comes back with [`Input::Ended`].
        token: RecordToken,
        /// The record.
        record: Record,
    },
    /// Tell the sender.
    Tell {
        /// Of which letter.
        ticket: Ticket,
        /// What became of it.
        end: End,
    },
    /// This topic must become known.
    Want(TopicName),
    /// Something to be told to operators.
    Notice(Notice),
}

/// What operators are told of dead letters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A letter was acknowledged.
    Written {
        /// Where the trouble lay.
        origin: TopicPartition,
        /// First offset it finishes.
        from: Offset,
        /// Offset behind the last one.
        to: Offset,
        /// Why.
        reason: Reason,
        /// Where the letter lies.
        partition: TopicPartition,
        /// Its offset there, unless the broker recognised a batch it already had.
        offset: Option<Offset>,
        /// From the post to the acknowledgement.
        took: Duration,
    },
    /// From now on letters of a topic wait. Told once until one is written.
    Down {
        /// The dead letter topic.
        topic: TopicName,
        /// Why.
        error: String,
    },
    /// Brokers refuse a required topic, or do not know it: told at the start only.
    Unusable {
        /// The dead letter topic.
        topic: TopicName,
        /// The brokers' reason.
        code: ErrorCode,
    },
    /// They are written again, or nobody waits for that any more.
    Up {
        /// The dead letter topic.
        topic: TopicName,
    },
}

/// Writes dead letters through a [`Producer`](crate::producer::Producer). One input, then drain the
/// outputs.
#[derive(Debug)]
pub struct Letters {
    settings: Settings,
    check: Check,
    last_token: u64,
    out: BTreeMap<RecordToken, Out>,
    /// Senders to be told [`End::Again`].
    waiting: Vec<Waiting>,
    /// Topics that could not be written to, with the failures since one was.
    down: BTreeMap<TopicName, Down>,
    outputs: VecDeque<Output>,
}

/// A topic that could not be written to.
#[derive(Debug)]
struct Down {
    /// Failures since one was written.
    failures: u32,
    /// When a letter last failed or was sent back.
    last: Moment,
}

/// A letter at the producer.
#[derive(Debug)]
struct Out {
    ticket: Ticket,
    topic: TopicName,
    reason: Reason,
    from: Offset,
    to: Offset,
    since: Moment,
}

#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    topic: TopicName,
    until: Moment,
    since: Moment,
    /// Whether it waits for the topic, and not for time alone.
    missing: bool,
}

impl Letters {
    /// A machine without letters.
    pub fn new(settings: Settings) -> Self {
        Self {
            check: Check::new(settings.required.clone()),
            settings,
            last_token: 0,
            out: BTreeMap::new(),
            waiting: Vec::new(),
            down: BTreeMap::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input. `cluster` is the newest view, `room` what the produce buffer has left.
    pub fn handle(
        &mut self,
        input: Input,
        (cluster, room): (&dyn Leaders, usize),
        draw: Draw,
        now: Moment,
    ) {
        match input {
            Input::Post {
                ticket,
                letter,
                unix_ms,
            } => {
                // A partition waits for one letter; whatever it sent before, it gave up.
                self.waiting
                    .retain(|one| one.ticket.partition != ticket.partition);
                self.post((ticket, letter, unix_ms), (cluster, room), draw, now);
            }
            Input::Ended { token, result } => self.ended(token, result, draw, now),
            Input::ClusterChanged => {
                self.look(cluster, now);
                self.offer(cluster, draw, now, |one| one.missing);
            }
            Input::Tick => {
                self.look(cluster, now);
                self.offer(cluster, draw, now, |one| one.until <= now);
                self.forget_idle(now);
            }
        }
    }

    /// The next thing to do; `None` once all is said.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to hand in [`Input::Tick`] if nothing else happens before.
    pub fn next_deadline(&self) -> Option<Moment> {
        let waiting = self.waiting.iter().map(|one| one.until);
        let idle = self.idle().map(|(_, at)| at);
        waiting.chain(idle).chain(self.check.next_deadline()).min()
    }

    fn look(&mut self, cluster: &dyn Leaders, now: Moment) {
        if let Some((topic, code)) = self.check.look(cluster, now) {
            let notice = Notice::Unusable { topic, code };
            self.outputs.push_back(Output::Notice(notice));
        }
    }

    fn post(
        &mut self,
        (ticket, letter, unix_ms): (Ticket, Letter, i64),
        (cluster, room): (&dyn Leaders, usize),
        draw: Draw,
        now: Moment,
    ) {
        let topic = self.settings.topic.topic_for(&letter.origin.topic);
        let partitions = match writable(cluster, &topic) {
            Ok(partitions) => partitions,
            Err(error) => {
                self.outputs.push_back(Output::Want(topic.clone()));
                let until = self.fail(&topic, error, draw, now);
                return self.wait(ticket, topic, (until, now), true);
            }
        };
        // Alone it may take more than there is: the producer knows what can be written at all.
        if !self.out.is_empty() && letter.value.len() + OVERHEAD > room {
            let until = now + self.settings.retry.delay(0, draw);
            return self.wait(ticket, topic, (until, now), false);
        }
        self.last_token += 1;
        let token = RecordToken(self.last_token);
        let out = Out {
            ticket,
            topic,
            reason: letter.reason,
            from: letter.first_undelivered,
            to: letter.next,
            since: now,
        };
        self.out.insert(token, out);
        let record = letter.into_record(&self.settings, partitions, unix_ms);
        self.outputs.push_back(Output::Append { token, record });
    }

    fn ended(
        &mut self,
        token: RecordToken,
        result: Result<(TopicPartition, Option<Offset>), ProduceError>,
        draw: Draw,
        now: Moment,
    ) {
        let Some(out) = self.out.remove(&token) else {
            return;
        };
        match result {
            Ok(place) => self.written(out, place, now),
            Err(ProduceError::BufferFull) => {
                let until = now + self.settings.retry.delay(0, draw);
                self.wait(out.ticket, out.topic, (until, now), false);
            }
            Err(error) if is_hopeless(&error) => {
                self.tell(out.ticket, End::Hopeless(error.to_string()));
            }
            Err(error) => {
                let until = self.fail(&out.topic, error.to_string(), draw, now);
                self.wait(out.ticket, out.topic, (until, now), false);
            }
        }
    }

    fn written(&mut self, out: Out, place: (TopicPartition, Option<Offset>), now: Moment) {
        let (partition, offset) = place;
        let origin = out.ticket.partition.clone();
        self.outputs.push_back(Output::Notice(Notice::Written {
            origin,
            from: out.from,
            to: out.to,
            reason: out.reason,
            partition,
            offset,
            took: now.since(out.since),
        }));
        if self.down.remove(&out.topic).is_some() {
            let topic = out.topic;
            self.outputs.push_back(Output::Notice(Notice::Up { topic }));
        }
        self.tell(out.ticket, End::Written);
    }

    /// Has those sent again that wait, are `due` and whose topic can be written to.
    fn offer(
        &mut self,
        cluster: &dyn Leaders,
        draw: Draw,
        now: Moment,
        due: impl Fn(&Waiting) -> bool,
    ) {
        for mut one in std::mem::take(&mut self.waiting) {
            if !due(&one) {
                self.waiting.push(one);
            } else if now.since(one.since) >= ASK_AFTER {
                // Its partition may be another member's by now.
                self.send_back(one, now);
            } else if let Err(error) = writable(cluster, &one.topic) {
                if one.until <= now {
                    self.outputs.push_back(Output::Want(one.topic.clone()));
                    one.until = self.fail(&one.topic, error, draw, now);
                }
                one.missing = true;
                self.waiting.push(one);
            } else {
                self.send_back(one, now);
            }
        }
    }

    fn send_back(&mut self, one: Waiting, now: Moment) {
        if let Some(down) = self.down.get_mut(&one.topic) {
            down.last = now;
        }
        self.tell(one.ticket, End::Again);
    }

    /// The first topic that is down and that nobody waits for, and when it is forgotten.
    fn idle(&self) -> Option<(TopicName, Moment)> {
        let waits = |topic: &TopicName| {
            self.waiting.iter().any(|one| one.topic == *topic)
                || self.out.values().any(|out| out.topic == *topic)
        };
        let idle = self.down.iter().filter(|(topic, _)| !waits(topic));
        let first = idle.min_by_key(|(_, down)| down.last)?;
        Some((first.0.clone(), first.1.last + IDLE))
    }

    /// Nobody has come back: whoever waited for the topic was revoked or moved on.
    fn forget_idle(&mut self, now: Moment) {
        while let Some((topic, _)) = self.idle().filter(|(_, at)| *at <= now) {
            self.down.remove(&topic);
            self.outputs.push_back(Output::Notice(Notice::Up { topic }));
        }
    }

    /// Counts a failure of `topic`, told if it is the first; when to try again.
    fn fail(&mut self, topic: &TopicName, error: String, draw: Draw, now: Moment) -> Moment {
        let down = self.down.entry(topic.clone()).or_insert(Down {
            failures: 0,
            last: now,
        });
        let step = down.failures;
        (down.failures, down.last) = (step.saturating_add(1), now);
        if step == 0 {
            let topic = topic.clone();
            let notice = Notice::Down { topic, error };
            self.outputs.push_back(Output::Notice(notice));
        }
        now + self.settings.retry.delay(step, draw)
    }

    fn wait(
        &mut self,
        ticket: Ticket,
        topic: TopicName,
        (until, since): (Moment, Moment),
        missing: bool,
    ) {
        self.waiting.push(Waiting {
            ticket,
            topic,
            until,
            since,
            missing,
        });
    }

    fn tell(&mut self, ticket: Ticket, end: End) {
        self.outputs.push_back(Output::Tell { ticket, end });
    }
}

/// The number of partitions of a topic, or why it cannot be written to.
fn writable(cluster: &dyn Leaders, topic: &TopicName) -> Result<i32, String> {
    match (cluster.refusal(topic), cluster.partition_count(topic)) {
        (None, Some(count)) => Ok(count),
        (None, None) | (Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION), _) => {
            Err("does not exist".to_owned())
        }
        (Some(code), _) => Err(code.to_string()),
    }
}

/// What the same bytes meet again however often they are sent.
fn is_hopeless(error: &ProduceError) -> bool {
    match error {
        ProduceError::RecordTooLarge { .. } | ProduceError::Invalid(_) => true,
        ProduceError::Refused { code, .. } => matches!(
            *code,
            ErrorCode::MESSAGE_TOO_LARGE
                | ErrorCode::INVALID_RECORD
                | ErrorCode::INVALID_TOPIC_EXCEPTION
                | ErrorCode::UNSUPPORTED_COMPRESSION_TYPE
        ),
        ProduceError::Timeout
        | ProduceError::OutcomeUnknown
        | ProduceError::NoSuchPartition(PartitionIndex(_))
        | ProduceError::BufferFull => false,
    }
}

/// Bytes beside the value: headers with the longest error, and a batch of its own.
const OVERHEAD: usize = 4_096;
/// How long a letter waits for a missing topic before its sender has to say that it still does.
const ASK_AFTER: Duration = Duration::from_secs(300);
/// How long after its last letter was sent back a topic counts as down. Far above the time that a
/// sender takes to fetch the batch again.
const IDLE: Duration = Duration::from_secs(60);
