//! From news about the cluster to inputs of the routes concerned.

use std::sync::Arc;

use super::interest::Interest;
use super::messages::{BrokerNews, Told};
use super::supervisor::PartitionSupervisor;
use crate::cluster::{Diff, LeaderSource, Snapshot};
use crate::ids::{BrokerId, LeaderEpoch, TopicName, TopicPartition};
use crate::routing::{Breaker, BrokerFacts, Brokers, Class, Input, Leadership, Link, LinkChange};

impl PartitionSupervisor {
    /// Takes a new snapshot and tells each route what changed for it.
    pub(super) fn diffs(&mut self, snapshot: Arc<Snapshot>, diffs: &[Diff]) {
        self.snapshot = snapshot;
        self.refresh_broker_facts();
        for diff in diffs {
            self.diff(diff);
        }
    }

    fn diff(&mut self, diff: &Diff) {
        match diff {
            Diff::LeaderChanged {
                partition,
                leader,
                epoch,
                addressable,
                source,
                ..
            } => {
                self.note_hinted(partition, *epoch, *source);
                let leadership = Leadership {
                    leader: *leader,
                    epoch: *epoch,
                    addressable: *addressable,
                };
                self.route(partition, Input::LeaderChanged(leadership));
            }
            Diff::LeaderLost { partition, .. } => self.route(partition, Input::LeaderLost),
            Diff::IsrChanged {
                partition,
                isr,
                isr_epoch,
                ..
            } => {
                let (isr, epoch) = (Arc::clone(isr), *isr_epoch);
                self.route(partition, Input::IsrChanged { isr, epoch });
            }
            Diff::ReplicasChanged {
                partition,
                replicas,
                offline,
                ..
            } => {
                let (replicas, offline) = (Arc::clone(replicas), Arc::clone(offline));
                self.route(partition, Input::ReplicasChanged { replicas, offline });
            }
            Diff::MetadataVersion { version } => {
                let input = Input::MetadataVersion(*version);
                self.route_those(&input, Interest::heeds_versions);
            }
            Diff::TopicRecreated {
                topic,
                new_id: Some(id),
                incarnation,
                ..
            } => {
                let input = Input::TopicRecreated {
                    incarnation: *incarnation,
                    id: *id,
                };
                self.route_topic(topic, &input);
            }
            Diff::TopicGone { topic, .. } => self.route_topic(topic, &Input::TopicGone),
            Diff::BrokerRemoved { broker } => self.broker_left(*broker),
            // One that comes back has a new link, which knows nothing of what was asked before.
            Diff::BrokerAdded { broker } => self.broker_news(*broker, BrokerNews::Restarted),
            // The rest concerns others: links, the coordinator, the fleet.
            Diff::TopicRecreated { new_id: None, .. }
            | Diff::EndpointChanged { .. }
            | Diff::TopicUnconfirmed { .. }
            | Diff::TopicError { .. }
            | Diff::PartitionsAdded { .. }
            | Diff::EpochRegressed { .. }
            | Diff::RebootstrapStarted { .. }
            | Diff::RebootstrapEnded
            | Diff::ClusterChanged { .. }
            | Diff::HintEndpointDistrusted { .. } => {}
        }
    }

    /// A link ends with its broker, and its breaker and permits with it.
    fn broker_left(&mut self, broker: BrokerId) {
        self.broker_news(broker, BrokerNews::Gone);
        let mut facts = self.thread.brokers.borrow_mut();
        facts.entry(broker).addressable = false;
    }

    /// Address and rack of every broker, as the snapshot has them.
    fn refresh_broker_facts(&mut self) {
        let mut facts = self.thread.brokers.borrow_mut();
        for broker in self.snapshot.brokers() {
            let entry = facts.entry(broker.id);
            entry.addressable = true;
            entry.rack.clone_from(&broker.rack);
        }
    }

    /// Applies a fact about a broker, then tells the routes it may concern.
    pub(super) fn broker_news(&mut self, broker: BrokerId, news: BrokerNews) {
        let inputs = apply(&mut self.thread.brokers.borrow_mut(), broker, news);
        for input in inputs {
            self.route_those(&input, |interest| interest.heeds(broker));
        }
    }

    /// Remembers that a leader is known by a hint alone; any other source needs no proof.
    fn note_hinted(
        &mut self,
        partition: &TopicPartition,
        epoch: Option<LeaderEpoch>,
        source: LeaderSource,
    ) {
        if let Some(slot) = self.slots.get_mut(partition) {
            slot.hinted = match source {
                LeaderSource::Hint(_) => epoch,
                LeaderSource::Metadata(_) => None,
            };
        }
    }

    /// Tells the metadata actor once a hinted leader has served.
    pub(super) fn note_served(&mut self, partition: &TopicPartition, input: &Input) {
        if let Some(slot) = self.slots.get_mut(partition)
            && slot.hinted.is_some_and(|epoch| input.is_served_at(epoch))
        {
            slot.hinted = None;
            self.thread.leader_served(partition.clone());
        }
    }

    fn route(&mut self, partition: &TopicPartition, input: Input) {
        self.tell(partition, Told::Route(Box::new(input)));
    }

    fn route_topic(&mut self, topic: &TopicName, input: &Input) {
        for (partition, slot) in &mut self.slots {
            if partition.topic == *topic {
                slot.life.tell(Told::Route(Box::new(input.clone())));
            }
        }
    }

    fn route_those(&mut self, input: &Input, heeds: impl Fn(&Interest) -> bool) {
        for slot in self.slots.values_mut() {
            if heeds(slot.cell.interest()) {
                slot.life.tell(Told::Route(Box::new(input.clone())));
            }
        }
    }
}

/// Enters a fact about a broker; what the routes are to hear of it.
fn apply(table: &mut Brokers, broker: BrokerId, news: BrokerNews) -> Vec<Input> {
    let facts = table.entry(broker);
    let changed = |class, change| Input::LinkChanged {
        broker,
        class,
        change,
    };
    match news {
        BrokerNews::Link {
            class,
            link,
            change,
            fetch_version,
            fetch_min,
        } => {
            facts.set_link(class, link);
            facts.fetch_version = fetch_version.or(facts.fetch_version);
            facts.fetch_min = fetch_min.or(facts.fetch_min);
            change
                .map(|change| changed(class, change))
                .into_iter()
                .collect()
        }
        BrokerNews::Breaker(breaker) => {
            facts.breaker = breaker;
            breaker_input(broker, breaker).into_iter().collect()
        }
        BrokerNews::V10(dropped) => {
            facts.v10 = dropped;
            vec![match dropped {
                true => Input::LaneDropped { broker },
                false => Input::LaneRestored { broker },
            }]
        }
        BrokerNews::Silence { class, silent } => {
            facts.set_silent(class, silent);
            silent
                .then_some(Input::Silent { broker, class })
                .into_iter()
                .collect()
        }
        BrokerNews::Answered { class, at } => {
            facts.set_answered(class, at);
            vec![]
        }
        BrokerNews::RoundTrip(time) => {
            facts.round_trip = Some(time);
            vec![]
        }
        BrokerNews::Quiet(class) => vec![Input::Quiet { broker, class }],
        BrokerNews::Muted(until) => vec![Input::Throttled { broker, until }],
        BrokerNews::Gone => {
            for class in CLASSES {
                facts.set_link(class, Link::Down);
                facts.set_silent(class, false);
            }
            CLASSES.map(|class| changed(class, LinkChange::Lost)).into()
        }
        BrokerNews::Restarted => {
            let lane = begin_anew(facts).then_some(Input::LaneRestored { broker });
            let restarted = Input::LinkRestarted { broker };
            [restarted].into_iter().chain(lane).collect()
        }
    }
}

fn breaker_input(broker: BrokerId, breaker: Breaker) -> Option<Input> {
    match breaker {
        Breaker::Open(_) => Some(Input::BreakerOpened { broker }),
        Breaker::Closed => Some(Input::BreakerClosed { broker }),
        Breaker::Readmitting => None,
    }
}

/// Drops what the former link knew: whether the broker is silent, the new one finds out. Whether
/// the no-rack lane had dropped to v10.
fn begin_anew(facts: &mut BrokerFacts) -> bool {
    facts.breaker = Breaker::Closed;
    for class in CLASSES {
        facts.set_silent(class, false);
    }
    std::mem::take(&mut facts.v10)
}

const CLASSES: [Class; 3] = [Class::Rack, Class::NoRack, Class::Control];
