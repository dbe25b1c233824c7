//! Fetch sessions (KIP-227): what a consumer asked for stays with the broker between its requests.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{FetchRequest, TopicName as WireTopic};
use uuid::Uuid;

use super::super::super::topics::{PartitionKey, Topics};
use crate::ids::{Moment, TopicName};

/// The sessions of one broker.
#[derive(Debug)]
pub(in super::super::super) struct Sessions {
    slots: usize,
    last_id: i32,
    by_id: BTreeMap<i32, Session>,
}

#[derive(Debug)]
struct Session {
    /// The epoch its next request must carry.
    epoch: i32,
    by_topic_id: bool,
    used_at: Moment,
    rows: Rows,
}

/// Where the partitions of a request are found.
#[derive(Debug)]
pub(super) enum Source {
    /// In the request alone.
    Request(Rows),
    /// In the session with this id.
    Session(i32),
}

/// What a request means under the session rules.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) source: Source,
    pub(super) incremental: bool,
}

/// A topic as a request names it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TopicRef {
    Name(TopicName),
    Id(Uuid),
}

/// One partition of a fetch.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) topic: TopicRef,
    pub(super) partition: i32,
    pub(super) asked: Asked,
    /// Resolved when first needed; a topic id or name never comes to mean another partition.
    pub(super) key: Option<PartitionKey>,
    /// High watermark and log start of the last answer; an error leaves -1, so that the next good
    /// row counts as changed.
    pub(super) sent: Option<(i64, i64)>,
}

/// What is asked of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub(super) offset: i64,
    pub(super) current_epoch: i32,
    pub(super) last_fetched_epoch: i32,
    pub(super) bytes_max: i32,
}

/// The partitions of a fetch in the order in which they are served.
#[derive(Debug, Default)]
pub(super) struct Rows {
    in_order: BTreeMap<u64, Row>,
    index: BTreeMap<(TopicRef, i32), u64>,
    by_key: BTreeMap<PartitionKey, u64>,
    next: u64,
}

impl Sessions {
    /// A session unused for so long gives its slot to a new one
    /// (`min.incremental.fetch.session.eviction.ms`).
    const IDLE_MIN: Duration = Duration::from_secs(120);

    pub(in super::super::super) fn new(slots: usize) -> Self {
        Self {
            slots,
            last_id: 0,
            by_id: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Applies the session part of a request.
    pub(super) fn open(
        &mut self,
        request: &FetchRequest,
        version: i16,
        throttled: bool,
        now: Moment,
    ) -> Result<Context, ResponseError> {
        let by_topic_id = version >= 13;
        if request.session_epoch > 0 {
            return self.go_on(request, by_topic_id, now);
        }
        self.by_id.remove(&request.session_id);
        let mut rows = Rows::default();
        rows.add_all(request);
        let wants_session = request.session_epoch == 0 && !throttled && !rows.is_empty();
        if !wants_session || !self.has_room(now) {
            return Ok(Context {
                source: Source::Request(rows),
                incremental: false,
            });
        }
        self.last_id = self.last_id.checked_add(1).unwrap_or(1);
        self.by_id.insert(
            self.last_id,
            Session {
                epoch: 1,
                by_topic_id,
                used_at: now,
                rows,
            },
        );
        Ok(Context {
            source: Source::Session(self.last_id),
            incremental: false,
        })
    }

    fn go_on(
        &mut self,
        request: &FetchRequest,
        by_topic_id: bool,
        now: Moment,
    ) -> Result<Context, ResponseError> {
        let id = request.session_id;
        let session = self
            .by_id
            .get_mut(&id)
            .ok_or(ResponseError::FetchSessionIdNotFound)?;
        if session.by_topic_id != by_topic_id {
            return Err(ResponseError::FetchSessionTopicIdError);
        }
        if session.epoch != request.session_epoch {
            return Err(ResponseError::InvalidFetchSessionEpoch);
        }
        session.epoch = session.epoch.checked_add(1).unwrap_or(1);
        session.used_at = now;
        session.rows.add_all(request);
        session.rows.forget_all(request);
        if session.rows.is_empty() {
            self.by_id.remove(&id);
            return Ok(Context {
                source: Source::Request(Rows::default()),
                incremental: false,
            });
        }
        Ok(Context {
            source: Source::Session(id),
            incremental: true,
        })
    }

    /// Makes room for one more session if it can.
    fn has_room(&mut self, now: Moment) -> bool {
        if self.by_id.len() < self.slots {
            return true;
        }
        let oldest = self.by_id.iter().min_by_key(|(_, session)| session.used_at);
        let Some(id) = oldest
            .filter(|(_, session)| now.since(session.used_at) > Self::IDLE_MIN)
            .map(|(&id, _)| id)
        else {
            return false;
        };
        self.by_id.remove(&id).is_some()
    }

    pub(super) fn take_rows(&mut self, id: i32) -> Option<Rows> {
        self.by_id
            .get_mut(&id)
            .map(|session| std::mem::take(&mut session.rows))
    }

    pub(super) fn return_rows(&mut self, id: i32, rows: Rows) {
        if let Some(session) = self.by_id.get_mut(&id) {
            session.rows = rows;
        }
    }
}

impl Source {
    /// The session id an answer carries.
    pub(super) fn id(&self) -> i32 {
        match self {
            Self::Request(_) => 0,
            Self::Session(id) => *id,
        }
    }

    pub(super) fn rows<'a>(&'a self, sessions: &'a Sessions) -> Option<&'a Rows> {
        match self {
            Self::Request(rows) => Some(rows),
            Self::Session(id) => sessions.by_id.get(id).map(|session| &session.rows),
        }
    }
}

impl TopicRef {
    pub(super) fn of(name: &WireTopic, id: Uuid) -> Self {
        if id.is_nil() {
            Self::Name(TopicName::from(name.as_str()))
        } else {
            Self::Id(id)
        }
    }

    /// The name, or the id as text if no topic has it.
    pub(super) fn name(&self, topics: &Topics) -> TopicName {
        match self {
            Self::Name(name) => name.clone(),
            Self::Id(id) => topics
                .by_id(id)
                .map_or_else(|| id.to_string().into(), |topic| topic.name.clone()),
        }
    }

    pub(super) fn resolve(&self, topics: &Topics, partition: i32) -> Option<PartitionKey> {
        let topic = match self {
            Self::Name(name) => topics.index_by_name(name.as_str()),
            Self::Id(id) => topics.index_by_id(id),
        };
        topics.key_in(topic?, partition)
    }

    /// The code for a topic that does not exist.
    pub(super) fn unknown(&self) -> ResponseError {
        match self {
            Self::Name(_) => ResponseError::UnknownTopicOrPartition,
            Self::Id(_) => ResponseError::UnknownTopicId,
        }
    }
}

impl Rows {
    fn add_all(&mut self, request: &FetchRequest) {
        for topic in &request.topics {
            let reference = TopicRef::of(&topic.topic, topic.topic_id);
            for wire in &topic.partitions {
                let asked = Asked {
                    offset: wire.fetch_offset,
                    current_epoch: wire.current_leader_epoch,
                    last_fetched_epoch: wire.last_fetched_epoch,
                    bytes_max: wire.partition_max_bytes,
                };
                self.add(reference.clone(), wire.partition, asked);
            }
        }
    }

    fn add(&mut self, topic: TopicRef, partition: i32, asked: Asked) {
        let place = self.index.get(&(topic.clone(), partition));
        if let Some(row) = place.and_then(|order| self.in_order.get_mut(order)) {
            row.asked = asked;
            return;
        }
        self.index.insert((topic.clone(), partition), self.next);
        self.in_order.insert(
            self.next,
            Row {
                topic,
                partition,
                asked,
                key: None,
                sent: None,
            },
        );
        self.next += 1;
    }

    fn forget_all(&mut self, request: &FetchRequest) {
        for topic in &request.forgotten_topics_data {
            let reference = TopicRef::of(&topic.topic, topic.topic_id);
            for &partition in &topic.partitions {
                let Some(order) = self.index.remove(&(reference.clone(), partition)) else {
                    continue;
                };
                let key = self.in_order.remove(&order).and_then(|row| row.key);
                if let Some(key) = key {
                    self.by_key.remove(&key);
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_order.is_empty()
    }

    /// Finds the partitions of rows that had none, and forgets those whose topic is gone.
    pub(super) fn resolve(&mut self, topics: &Topics) {
        for (&order, row) in &mut self.in_order {
            let stale = row.key.is_some_and(|key| topics.partition(key).is_none());
            if stale {
                self.by_key.remove(&row.key.take().unwrap_or(PartitionKey {
                    topic: 0,
                    partition: 0,
                }));
            }
            if row.key.is_none() {
                row.key = row.topic.resolve(topics, row.partition);
                if let Some(key) = row.key {
                    self.by_key.insert(key, order);
                }
            }
        }
    }

    pub(super) fn asked(&self, key: PartitionKey) -> Option<Asked> {
        self.in_order
            .get(self.by_key.get(&key)?)
            .map(|row| row.asked)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Row)> {
        self.in_order.iter().map(|(&order, row)| (order, row))
    }

    pub(super) fn get_mut(&mut self, order: u64) -> Option<&mut Row> {
        self.in_order.get_mut(&order)
    }

    /// Partitions that delivered queue up again behind those that did not.
    pub(super) fn move_to_end(&mut self, order: u64) {
        let Some(row) = self.in_order.remove(&order) else {
            return;
        };
        self.index
            .insert((row.topic.clone(), row.partition), self.next);
        if let Some(key) = row.key {
            self.by_key.insert(key, self.next);
        }
        self.in_order.insert(self.next, row);
        self.next += 1;
    }
}
