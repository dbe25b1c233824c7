//! The metadata machine, and what its differences say to the rest of the process.

use std::sync::Arc;

use nearside::cluster::{self, Diff, Output, Reason, Target, Want};
use nearside::group;
use nearside::ids::{BrokerId, TopicPartition};
use nearside::offsets::resolve;
use nearside::routing::{Breaker, Class, Input, Leadership, Link, LinkChange, broker};
use nearside::wire;

use super::Member;
use super::asking::Purpose;

impl Member {
    pub(super) fn feed_metadata(&mut self, input: cluster::Input) {
        let (now, draw) = (self.now, self.draw());
        self.metadata.handle(input, draw, now);
    }

    pub(super) fn on_metadata(&mut self, output: Output) {
        match output {
            Output::SendMetadata { to, request, token } => {
                let broker = match to {
                    Target::Bootstrap(index) => BrokerId(i32::try_from(index).unwrap() + 1),
                    Target::Broker(broker) => broker,
                };
                let wire = (broker, wire::Class::Control);
                self.send(wire, request.into(), Purpose::Metadata(token));
            }
            Output::Publish(snapshot) => {
                self.snapshot = snapshot;
                for known in self.snapshot.brokers() {
                    let facts = self.brokers.entry(known.id);
                    facts.addressable = true;
                    facts.rack.clone_from(&known.rack);
                }
            }
            Output::Diff(diff) => self.on_diff(diff),
            Output::Rebootstrap => {
                let endpoints = self.metadata.bootstrap().to_vec();
                self.feed_metadata(cluster::Input::Resolved(endpoints));
            }
            Output::WaiterDone(_) | Output::Counted(_) => {}
        }
    }

    fn on_diff(&mut self, diff: Diff) {
        match diff {
            Diff::LeaderChanged {
                partition,
                leader,
                epoch,
                addressable,
                ..
            } => {
                let leadership = Leadership {
                    leader,
                    epoch,
                    addressable,
                };
                self.owe(partition, Input::LeaderChanged(leadership));
            }
            Diff::LeaderLost { partition, .. } => self.owe(partition, Input::LeaderLost),
            Diff::IsrChanged {
                partition,
                isr,
                isr_epoch: epoch,
                ..
            } => self.owe(partition, Input::IsrChanged { isr, epoch }),
            Diff::ReplicasChanged {
                partition,
                replicas,
                offline,
                ..
            } => self.owe(partition, Input::ReplicasChanged { replicas, offline }),
            Diff::MetadataVersion { version } => {
                self.tell_version(version);
                self.metadata_changed();
            }
            Diff::BrokerRemoved { broker } => self.broker_left(broker),
            Diff::BrokerAdded { broker } => self.broker_came(broker),
            Diff::TopicGone { .. } | Diff::TopicRecreated { .. } => {
                panic!("{}: the topic is always there: {diff:?}", self.name)
            }
            Diff::EpochRegressed { .. } | Diff::ClusterChanged { .. } => {
                panic!("{}: nothing of this kind happens: {diff:?}", self.name)
            }
            Diff::EndpointChanged { .. }
            | Diff::TopicUnconfirmed { .. }
            | Diff::TopicError { .. }
            | Diff::PartitionsAdded { .. }
            | Diff::RebootstrapStarted { .. }
            | Diff::RebootstrapEnded
            | Diff::HintEndpointDistrusted { .. } => {}
        }
    }

    fn owe(&mut self, partition: TopicPartition, input: Input) {
        self.owed_routes.push_back((partition, input));
    }

    /// The coordinator's part hears of every applied answer.
    fn metadata_changed(&mut self) {
        self.feed_resolver(resolve::Input::MetadataChanged);
        if self.started {
            self.owed.push_back(group::Input::MetadataChanged);
        } else if self.snapshot.version().0 > 0 {
            self.started = true;
            let topics = [crate::plan::TOPIC.into()].into();
            self.owed.push_back(group::Input::Start(topics));
        }
    }

    /// A link ends with its broker, and its breaker and permits with it.
    fn broker_left(&mut self, broker: BrokerId) {
        self.tell(format_args!("broker {broker} is gone"));
        self.links.remove(&broker);
        self.link_due.remove(&broker);
        for (other, share) in self.probe_budget.forget(broker, self.now) {
            self.feed_link(other, broker::Input::ProbeShare(share));
        }
        for wire in self.net.wires_of(broker) {
            if wire.1 != wire::Class::Coordinator {
                self.retired.push_back(wire);
            }
        }
        let classes = [Class::Rack, Class::NoRack, Class::Control];
        let facts = self.brokers.entry(broker);
        facts.addressable = false;
        for class in classes {
            facts.set_link(class, Link::Down);
            facts.set_silent(class, false);
        }
        for class in classes {
            let change = LinkChange::Lost;
            self.tell_concerned(
                broker,
                &Input::LinkChanged {
                    broker,
                    class,
                    change,
                },
            );
        }
    }

    /// One that comes back has a new link, which knows nothing of what was asked before.
    fn broker_came(&mut self, broker: BrokerId) {
        let facts = self.brokers.entry(broker);
        facts.breaker = Breaker::Closed;
        let v10 = std::mem::take(&mut facts.v10);
        self.tell_concerned(broker, &Input::LinkRestarted { broker });
        if v10 {
            self.tell_concerned(broker, &Input::LaneRestored { broker });
        }
    }

    /// What a route that believes in a leadership needs.
    pub(super) fn refresh_for_route(&mut self, partition: TopicPartition, reason: Reason) {
        let Some(slot) = self.slots.get(&partition) else {
            return;
        };
        let leadership = slot.route.leadership();
        let (wants, prefer) = match reason {
            Reason::OutsideIsr => (vec![Want::Topic(partition.topic)], leadership.leader),
            Reason::NotLeader
            | Reason::NotHosted
            | Reason::UnknownLeaderEpoch
            | Reason::LinkLost
            | Reason::UnknownBroker
            | Reason::Subscription
            | Reason::Hint
            | Reason::Contested
            | Reason::Age => {
                let failed = leadership.epoch;
                (vec![Want::Leader { partition, failed }], None)
            }
        };
        self.refresh(reason, wants, prefer);
    }

    pub(super) fn refresh_for_link(&mut self, partitions: Vec<TopicPartition>, reason: Reason) {
        let snapshot = Arc::clone(&self.snapshot);
        let leader = |partition: TopicPartition| {
            let failed = snapshot.partition(&partition).and_then(|row| row.floor);
            Want::Leader { partition, failed }
        };
        let wants = partitions.into_iter().map(leader).collect();
        self.refresh(reason, wants, None);
    }

    pub(super) fn refresh(&mut self, reason: Reason, wants: Vec<Want>, prefer: Option<BrokerId>) {
        self.feed_metadata(cluster::Input::Refresh {
            reason,
            wants,
            prefer,
            waiter: None,
        });
    }
}
