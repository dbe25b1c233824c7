//! What the rig asks the cluster for metadata, and what the answers say to routes.

use nearside::cluster::{self, Diff, LeaderSource, Target, Want};
use nearside::group::NoAnswer;
use nearside::ids::{BrokerId, TopicPartition};
use nearside::offsets::{resolve, sampler};
use nearside::routing::{Input, Leadership, broker};
use nearside::wire::{self, Completion, Response};

use super::host::Purpose;
use super::net::Wire;
use super::{Reader, Rig};

impl Rig {
    pub(super) fn on_completed(&mut self, (broker, class): Wire, completion: Completion) {
        if let (wire::Class::Control, Ok(_), Some(time)) =
            (class, &completion.result, completion.round_trip)
        {
            self.link_input(broker, broker::Input::RoundTrip(time));
        }
        let purpose = self.purposes.remove(&completion.token.0).unwrap();
        let (now, draw) = (self.now, self.sample());
        match (purpose, completion.result) {
            (Purpose::Metadata(token), Ok(Response::Metadata(answer))) => {
                let answer = Box::new(answer);
                self.metadata
                    .handle(cluster::Input::Response { token, answer }, draw, now);
            }
            (Purpose::Metadata(token), _) => {
                self.metadata
                    .handle(cluster::Input::Failed { token }, draw, now);
            }
            (Purpose::Fetch(broker, ticket), Ok(Response::Fetch(response))) => {
                self.link_input(broker, broker::Input::Answered { ticket, response });
            }
            (Purpose::Fetch(broker, ticket), _) => {
                self.link_input(broker, broker::Input::Failed { ticket });
            }
            (Purpose::Position(token), result) => self.on_position(token, result),
            (Purpose::Sample(token), result) => {
                let result = result.map_err(NoAnswer::from);
                self.sampler_input(sampler::Input::Answer { token, result });
            }
        }
    }

    pub(super) fn on_metadata(&mut self, output: cluster::Output) {
        match output {
            cluster::Output::SendMetadata { to, request, token } => {
                let broker = match to {
                    Target::Bootstrap(index) => BrokerId(i32::try_from(index).unwrap() + 1),
                    Target::Broker(broker) => broker,
                };
                let wire = (broker, wire::Class::Control);
                self.send(wire, request.into(), Purpose::Metadata(token));
            }
            cluster::Output::Publish(snapshot) => {
                for known in snapshot.brokers() {
                    let facts = self.brokers.entry(known.id);
                    facts.rack = known.rack.clone();
                    facts.addressable = true;
                }
                self.resolver_input(resolve::Input::MetadataChanged);
            }
            cluster::Output::Diff(diff) => self.on_diff(diff),
            cluster::Output::WaiterDone(_)
            | cluster::Output::Rebootstrap
            | cluster::Output::Counted(_) => {}
        }
    }

    pub(super) fn on_diff(&mut self, diff: Diff) {
        match diff {
            Diff::LeaderChanged {
                partition,
                leader,
                epoch,
                addressable,
                source,
                ..
            } => {
                match (source, epoch) {
                    (LeaderSource::Hint(_), Some(epoch)) => {
                        self.hinted.insert(partition.clone(), epoch);
                    }
                    (_, _) => drop(self.hinted.remove(&partition)),
                }
                let leadership = Leadership {
                    leader,
                    epoch,
                    addressable,
                };
                self.tell(&partition, Input::LeaderChanged(leadership));
            }
            Diff::LeaderLost { partition, .. } => self.tell(&partition, Input::LeaderLost),
            Diff::IsrChanged {
                partition,
                isr,
                isr_epoch,
                ..
            } => {
                self.tell(
                    &partition,
                    Input::IsrChanged {
                        isr,
                        epoch: isr_epoch,
                    },
                );
            }
            Diff::ReplicasChanged {
                partition,
                replicas,
                offline,
                ..
            } => {
                self.tell(&partition, Input::ReplicasChanged { replicas, offline });
            }
            Diff::MetadataVersion { version } => {
                let watching = |reader: &Reader| reader.route.watches_versions();
                let readers = self.readers.iter().filter(|(_, reader)| watching(reader));
                let watching: Vec<_> = readers.map(|(partition, _)| partition.clone()).collect();
                for partition in watching {
                    self.tell(&partition, Input::MetadataVersion(version));
                }
            }
            Diff::EndpointChanged { .. }
            | Diff::BrokerAdded { .. }
            | Diff::BrokerRemoved { .. }
            | Diff::TopicRecreated { .. }
            | Diff::TopicUnconfirmed { .. }
            | Diff::TopicGone { .. }
            | Diff::TopicError { .. }
            | Diff::PartitionsAdded { .. }
            | Diff::EpochRegressed { .. }
            | Diff::RebootstrapStarted { .. }
            | Diff::RebootstrapEnded
            | Diff::ClusterChanged { .. }
            | Diff::HintEndpointDistrusted { .. } => {}
        }
    }

    pub(super) fn tell(&mut self, partition: &TopicPartition, input: Input) {
        if self.readers.contains_key(partition) {
            self.route_input(partition, input);
        }
    }

    pub(super) fn refresh(&mut self, partition: TopicPartition, reason: cluster::Reason) {
        let (now, draw) = (self.now, self.sample());
        let leadership = self.readers[&partition].route.leadership();
        let prefer = leadership
            .leader
            .filter(|_| reason == cluster::Reason::OutsideIsr);
        let wants = vec![Want::Leader {
            partition,
            failed: None,
        }];
        let input = cluster::Input::Refresh {
            reason,
            wants,
            prefer,
            waiter: None,
        };
        self.metadata.handle(input, draw, now);
    }
}
