//! The demo's cluster and what is done to it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cli::demo::feed::Feed;
use crate::cli::demo::script::Step;
use crate::cli::demo::table::Place;
use crate::cli::exit::Failure;
use crate::embedded::listener::Serving;
use crate::embedded::{PartitionView, Settings};
use crate::ids::{BrokerId, GroupId, Rack, TopicPartition};

/// The topic of the demo.
pub(super) const TOPIC: &str = "parcels";
/// The group of its members.
pub(super) const GROUP: &str = "demo";

const PARTITIONS: i32 = 6;
/// The broker that dies: it leads nothing.
const FOLLOWER: BrokerId = BrokerId(3);

/// An embedded cluster of three brokers in three racks on TCP.
#[derive(Debug)]
pub(super) struct Stage {
    serving: Serving,
    racks: BTreeMap<BrokerId, Rack>,
}

impl Stage {
    /// Starts the cluster and creates the topic. Brokers 1 and 2 lead in turn, broker 3 follows.
    pub(super) async fn build() -> Result<Self, Failure> {
        let settings = Settings::default().on_loopback(None);
        let brokers = settings.brokers.iter();
        let racks = brokers
            .filter_map(|broker| Some((broker.id, broker.rack.clone()?)))
            .collect();
        let serving = Serving::listen(settings).await?;
        let replicas = |index: i32| {
            let leader = BrokerId(1 + index % 2);
            let other = BrokerId(2 - index % 2);
            vec![leader, other, FOLLOWER]
        };
        let assignment: Vec<_> = (0..PARTITIONS).map(replicas).collect();
        let created = serving
            .handle()
            .with(|cluster| cluster.create_topic_on(TOPIC, &assignment));
        created.map_err(|error| Failure::running(error.to_string()))?;
        Ok(Self { serving, racks })
    }

    pub(super) fn bootstrap(&self) -> String {
        self.serving.handle().bootstrap()
    }

    /// Every partition of the topic.
    pub(super) fn partitions() -> impl Iterator<Item = TopicPartition> {
        (0..PARTITIONS).map(|index| TopicPartition::new(TOPIC, index))
    }

    /// Writes what is due. Lines for a partition without a leader are left out, and not counted.
    pub(super) fn write(&self, feed: &mut Feed, elapsed: Duration) -> Result<(), Failure> {
        let count = usize::try_from(PARTITIONS).unwrap_or_default();
        let batches = feed.due(elapsed, count);
        for (partition, batch) in Self::partitions().zip(batches) {
            if batch.is_empty()
                || self
                    .view(&partition)
                    .is_none_or(|view| view.leader.is_none())
            {
                continue;
            }
            let written = self
                .serving
                .handle()
                .with(|cluster| cluster.produce(&partition, &batch));
            written.map_err(|error| Failure::running(format!("{partition}: {error}")))?;
            feed.accepted(batch.len());
        }
        Ok(())
    }

    /// Performs a step, and says it in words.
    pub(super) fn perform(&self, step: Step) -> Result<String, Failure> {
        let handle = self.serving.handle();
        let rack = self.racks.get(&FOLLOWER).map_or("?", Rack::as_str);
        Ok(match step {
            Step::KillFollower => {
                handle.with(|cluster| cluster.kill(FOLLOWER));
                format!("broker {FOLLOWER} (rack {rack}) was killed")
            }
            Step::ReviveFollower => {
                handle.with(|cluster| cluster.revive(FOLLOWER));
                format!("broker {FOLLOWER} (rack {rack}) is back")
            }
            Step::MoveLeader => self.move_leader()?,
            Step::EndFeeding => "no more records are written".to_owned(),
        })
    }

    fn move_leader(&self) -> Result<String, Failure> {
        let partition = TopicPartition::new(TOPIC, 0);
        let leader = self.view(&partition).and_then(|view| view.leader);
        let next = if leader == Some(BrokerId(1)) {
            BrokerId(2)
        } else {
            BrokerId(1)
        };
        let moved = self
            .serving
            .handle()
            .with(|cluster| cluster.move_leader(&partition, next));
        let epoch = moved.map_err(|error| Failure::running(format!("{partition}: {error}")))?;
        Ok(format!(
            "the leader of {partition} moved to broker {next}, epoch {epoch}"
        ))
    }

    /// A broker with its rack.
    pub(super) fn place(&self, broker: BrokerId) -> Place {
        let rack = self.racks.get(&broker).map_or("?", Rack::as_str);
        Place {
            broker: broker.0,
            rack: rack.to_owned(),
        }
    }

    /// The leader of a partition.
    pub(super) fn leader(&self, partition: &TopicPartition) -> Option<Place> {
        Some(self.place(self.view(partition)?.leader?))
    }

    /// Records below the offsets that the group's coordinator holds: the cluster's word, not ours.
    pub(super) fn committed(&self) -> u64 {
        let group = GroupId::from(GROUP);
        self.serving.handle().with(|cluster| {
            let offsets = Self::partitions().filter_map(|at| cluster.committed(&group, &at));
            offsets
                .map(|committed| u64::try_from(committed.offset.0).unwrap_or_default())
                .sum()
        })
    }

    fn view(&self, partition: &TopicPartition) -> Option<PartitionView> {
        self.serving
            .handle()
            .with(|cluster| cluster.partition(partition))
    }

    /// Records of a partition that consumers may read and nobody handled.
    pub(super) fn lag(&self, partition: &TopicPartition, handled: u64) -> u64 {
        let end = self.view(partition).map_or(0, |view| view.high_watermark.0);
        u64::try_from(end)
            .unwrap_or_default()
            .saturating_sub(handled)
    }
}
