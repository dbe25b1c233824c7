//! Carries out what the metadata machine decided.

use std::sync::Arc;

use super::{ClusterNews, MetadataActor};
use crate::actors::broker::{Answer, Exchange, LinkLot};
use crate::actors::partition::Lot;
use crate::actors::supervise::Command;
use crate::cluster::{Diff, Input, Output, RebootstrapReason, RequestToken, Snapshot, Target};
use crate::error::{Error, ErrorKind};
use crate::fleet::{Event, StopReason};
use crate::ids::BrokerId;
use crate::routing::broker::{self, ProbeNeed, ProbeShare};
use crate::wire::api::metadata::Request;
use crate::wire::{Class, DrainReason, ErrorCode, Response};

impl MetadataActor {
    pub(super) fn drain_outputs(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::SendMetadata { to, request, token } => self.send(to, request, token),
                Output::Publish(snapshot) => self.publish(snapshot),
                Output::Diff(diff) => self.diff(diff),
                Output::Rebootstrap => self.rebootstrap(),
                // Nobody asks with a waiter: those who wait listen for the snapshot.
                Output::WaiterDone(_) => {}
                Output::Counted(counted) => {
                    let what = format!("{counted:?}");
                    metrics::counter!("nearside_metadata_total", "what" => what).increment(1);
                }
            }
        }
    }

    /// The end of a Metadata request.
    pub(super) fn answered(&mut self, answer: Answer) {
        let Some(token) = self.asked.remove(&answer.token) else {
            return;
        };
        match answer.completion.result {
            Ok(Response::Metadata(response)) => {
                self.feed(Input::Response {
                    token,
                    answer: Box::new(response),
                });
            }
            Ok(_) => self.feed(Input::Failed { token }),
            Err(error) => {
                tracing::debug!(from = ?answer.from, %error, "metadata request failed");
                self.feed(Input::Failed { token });
            }
        }
    }

    /// Tells the links what each may probe from now on.
    pub(super) fn share_probes(&mut self, broker: BrokerId, need: ProbeNeed) {
        let shares = self.probes.report(broker, need, self.now());
        self.tell_shares(shares);
    }

    fn tell_shares(&self, shares: Vec<(BrokerId, ProbeShare)>) {
        for (broker, share) in shares {
            let lot = LinkLot::Asks(vec![broker::Input::ProbeShare(share)]);
            if let Some(link) = self.links.directory.link(Target::Broker(broker)) {
                // A link that misses its share asks again.
                drop(link.try_send(lot));
            }
        }
    }

    fn send(&mut self, to: Target, request: Request, token: RequestToken) {
        self.ensure_link(to);
        self.last_token += 1;
        let exchange = Exchange {
            class: Class::Control,
            request: request.into(),
            token: self.last_token,
            reply: self.me.clone(),
        };
        self.asked.insert(self.last_token, token);
        let sent = self
            .links
            .directory
            .link(to)
            .is_some_and(|link| link.try_send(LinkLot::Exchange(exchange)).is_ok());
        if !sent {
            self.asked.remove(&self.last_token);
            self.owed.push_back(Input::Failed { token });
        }
    }

    fn publish(&mut self, snapshot: Arc<Snapshot>) {
        for broker in snapshot.brokers() {
            let (endpoint, rack) = (broker.endpoint.clone(), broker.rack.clone());
            self.links.ensure(Target::Broker(broker.id), endpoint, rack);
        }
        self.published.store(snapshot);
    }

    fn diff(&mut self, diff: Diff) {
        match &diff {
            Diff::BrokerRemoved { broker } => {
                self.links.remove(Target::Broker(*broker));
                let shares = self.probes.forget(*broker, self.now());
                self.tell_shares(shares);
            }
            Diff::TopicError { topic, code, .. } => {
                let missing = *code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
                let error = if missing {
                    "does not exist".to_owned()
                } else {
                    code.to_string()
                };
                self.telemetry.emit(Event::TopicError {
                    topic: topic.clone(),
                    error,
                    denied: *code == ErrorCode::TOPIC_AUTHORIZATION_FAILED,
                });
            }
            Diff::PartitionsAdded { topic, .. } => self.telemetry.note_topic(topic),
            Diff::ClusterChanged { old, new } => {
                let text = format!("the addresses lead to cluster {new}, it was {old}");
                let reason = StopReason::Fatal(Error::new(ErrorKind::Unreachable, text));
                drop(self.commands.send(Command::Stop {
                    reason,
                    deadline: None,
                }));
            }
            Diff::RebootstrapStarted { reason } => {
                let reason = match reason {
                    RebootstrapReason::NothingReachable => "nothing_reachable",
                    RebootstrapReason::Overdue => "overdue",
                    RebootstrapReason::Asked => "asked",
                    RebootstrapReason::EmptyBrokerList => "empty_broker_list",
                };
                metrics::counter!("nearside_wire_rebootstraps_total", "reason" => reason)
                    .increment(1);
            }
            Diff::LeaderChanged { .. }
            | Diff::LeaderLost { .. }
            | Diff::IsrChanged { .. }
            | Diff::ReplicasChanged { .. }
            | Diff::EndpointChanged { .. }
            | Diff::BrokerAdded { .. }
            | Diff::TopicRecreated { .. }
            | Diff::TopicUnconfirmed { .. }
            | Diff::TopicGone { .. }
            | Diff::EpochRegressed { .. }
            | Diff::MetadataVersion { .. }
            | Diff::RebootstrapEnded
            | Diff::HintEndpointDistrusted { .. } => {}
        }
        self.diffs.push(diff);
    }

    /// Sends what changed in this turn: one lot per data thread, then the control thread's
    /// listeners.
    pub(super) fn publish_diffs(&mut self) {
        if self.diffs.is_empty() {
            return;
        }
        let diffs: Arc<[Diff]> = std::mem::take(&mut self.diffs).into();
        let snapshot = Arc::clone(self.machine.snapshot());
        let anew = |diff: &Diff| matches!(diff, Diff::RebootstrapStarted { .. });
        let rebootstrap = diffs.iter().any(anew);
        let (for_threads, shared) = (Arc::clone(&snapshot), Arc::clone(&diffs));
        self.threads()
            .post_all(|| Lot::Diffs(Arc::clone(&for_threads), Arc::clone(&shared)));
        for listener in &mut self.listeners {
            listener.post(ClusterNews {
                snapshot: Arc::clone(&snapshot),
                rebootstrap,
            });
        }
    }

    /// Every connection ends; the transport resolves the bootstrap names anew when they are
    /// dialled.
    fn rebootstrap(&mut self) {
        self.links
            .tell_all(|| LinkLot::Drain(DrainReason::Rebootstrap));
        let endpoints = self.machine.bootstrap().to_vec();
        self.owed.push_back(Input::Resolved(endpoints));
    }
}
