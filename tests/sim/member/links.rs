//! Broker machines and connections: what the broker link actor hosts.

use std::sync::Arc;

use nearside::cluster::{self, LinkState, Target};
use nearside::ids::{BrokerId, MetadataVersion, Moment};
use nearside::routing::broker::{self, Broker};
use nearside::routing::{Breaker, Class, Input, Link, LinkChange};
use nearside::wire;

use super::Member;
use super::asking::Purpose;
use crate::net::{LinkNews, News, Wire};

impl Member {
    pub(super) fn feed_link(&mut self, broker: BrokerId, input: broker::Input) {
        let (now, draw) = (self.now, self.draw());
        let settings = &self.link_settings;
        let link = self.links.entry(broker);
        let link = link.or_insert_with(|| Broker::new(broker, Arc::clone(settings)));
        link.handle(input, draw, now);
        self.stirred.insert(broker);
    }

    pub(super) fn tick_links(&mut self) {
        for (broker, link) in &self.links {
            let missed = link.next_deadline().filter(|due| *due < self.now);
            assert!(missed.is_none(), "broker {broker}: slept over {missed:?}");
        }
        let late = self.link_due.iter().filter(|(_, due)| **due <= self.now);
        let late: Vec<BrokerId> = late.map(|(broker, _)| *broker).collect();
        for broker in late {
            self.feed_link(broker, broker::Input::Tick);
        }
    }

    pub(super) fn next_link_output(&mut self) -> Option<(BrokerId, broker::Output)> {
        while let Some(broker) = self.stirred.first().copied() {
            let mut link = self.links.get_mut(&broker);
            if let Some(output) = link.as_mut().and_then(|link| link.poll_output()) {
                return Some((broker, output));
            }
            // What left just now is waited for, so the deadline is asked for last.
            match link.and_then(|link| link.next_deadline()) {
                Some(due) => self.link_due.insert(broker, due),
                None => self.link_due.remove(&broker),
            };
            self.stirred.remove(&broker);
        }
        None
    }

    pub(super) fn on_link(&mut self, broker: BrokerId, output: broker::Output) {
        use broker::Output;
        match output {
            Output::Send {
                class,
                request,
                ticket,
            } => {
                let wire = (broker, wire_class(class));
                self.send(wire, request.into(), Purpose::Fetch(broker, ticket));
            }
            Output::Hangup(class) => self.hang_ups.push_back((broker, wire_class(class))),
            Output::Dial(class) => {
                let (now, draw) = (self.now, self.draw());
                let wire = (broker, wire_class(class));
                self.net.feed(wire, wire::Input::Open, draw, now);
            }
            Output::Silence { class, silent } => {
                self.brokers.entry(broker).set_silent(class, silent);
                if silent {
                    self.tell_concerned(broker, &Input::Silent { broker, class });
                }
            }
            Output::Answered(class) => {
                let now = self.now;
                self.brokers.entry(broker).set_answered(class, now);
            }
            Output::RoundTrip(time) => self.brokers.entry(broker).round_trip = Some(time),
            Output::Probing(need) => {
                for (broker, share) in self.probe_budget.report(broker, need, self.now) {
                    if self.links.contains_key(&broker) {
                        self.feed_link(broker, broker::Input::ProbeShare(share));
                    }
                }
            }
            Output::Quiet(class) => self.tell_concerned(broker, &Input::Quiet { broker, class }),
            Output::Leadership(lot) => self.feed_metadata(cluster::Input::Hints(lot)),
            Output::Refresh { partitions, reason } => self.refresh_for_link(partitions, reason),
            Output::Breaker(view) => {
                self.brokers.entry(broker).breaker = view;
                match view {
                    Breaker::Open(_) => {
                        self.tell_concerned(broker, &Input::BreakerOpened { broker })
                    }
                    Breaker::Closed => {
                        self.tell_concerned(broker, &Input::BreakerClosed { broker })
                    }
                    Breaker::Readmitting => {}
                }
            }
            Output::V10(dropped) => {
                self.brokers.entry(broker).v10 = dropped;
                let news = match dropped {
                    true => Input::LaneDropped { broker },
                    false => Input::LaneRestored { broker },
                };
                self.tell_concerned(broker, &news);
            }
            // The budget of a simulated member grants everything.
            Output::Count(_) | Output::AwaitBudget { .. } => {}
            Output::Row { .. }
            | Output::Drained { .. }
            | Output::ProbeRow { .. }
            | Output::ProbeFailed { .. }
            | Output::HedgeRow { .. }
            | Output::HedgeFailed { .. }
            | Output::Permit(_) => self.owed_routes.extend(output.for_route(broker)),
        }
    }

    /// Tells the routes that a broker's news may concern, as the fleet does.
    pub(super) fn tell_concerned(&mut self, broker: BrokerId, input: &Input) {
        let slots = self.slots.iter();
        let concerned = slots.filter(|(_, slot)| slot.route.concerns(broker));
        let told = concerned.map(|(partition, _)| (partition.clone(), input.clone()));
        self.owed_routes.extend(told);
    }

    /// Tells the routes that wait for one of a new version of the metadata.
    pub(super) fn tell_version(&mut self, version: MetadataVersion) {
        let slots = self.slots.iter();
        let watching = slots.filter(|(_, slot)| slot.route.watches_versions());
        let input = Input::MetadataVersion(version);
        let told = watching.map(|(partition, _)| (partition.clone(), input.clone()));
        self.owed_routes.extend(told);
    }

    pub(super) fn on_news(&mut self, news: News) {
        match news {
            News::Completed(wire, completion) => self.completed(wire, completion),
            News::Link(news) => self.on_link_news(news),
            News::Throttled(wire, until) => self.muted(wire, until),
        }
    }

    /// Data and control connections of a broker share its mute (KIP-219).
    fn muted(&mut self, (broker, by): Wire, until: Moment) {
        if by == wire::Class::Coordinator {
            return;
        }
        self.mutes.insert(broker, until);
        let (now, draw) = (self.now, self.draw());
        for wire in self.net.wires_of(broker) {
            if wire.1 != by && wire.1 != wire::Class::Coordinator {
                self.net.feed(wire, wire::Input::Mute { until }, draw, now);
            }
        }
        self.feed_link(broker, broker::Input::Muted(until));
        self.tell_concerned(broker, &Input::Throttled { broker, until });
    }

    /// Facts first, then those whom they concern.
    fn on_link_news(&mut self, news: LinkNews) {
        let (broker, class) = news.wire;
        let Some(class) = routing_class(class) else {
            return;
        };
        let facts = self.brokers.entry(broker);
        facts.set_link(class, news.link);
        facts.fetch_version = news.fetch_version.or(facts.fetch_version);
        facts.fetch_min = news.fetch_min.or(facts.fetch_min);
        if class == Class::Control {
            self.control_changed(broker, state_of(news));
        }
        match (news.link, news.change) {
            (Link::Ready, Some(LinkChange::Ready)) => {
                let fetch_version = news.fetch_version.unwrap();
                self.feed_link(
                    broker,
                    broker::Input::LinkReady {
                        class,
                        fetch_version,
                    },
                );
            }
            (Link::Down, change) => {
                let idle = change.is_none();
                self.feed_link(broker, broker::Input::LinkLost { class, idle });
            }
            (Link::Dialling | Link::Ready, _) => {}
        }
        if let Some(change) = news.change {
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

    fn control_changed(&mut self, broker: BrokerId, state: LinkState) {
        let index = usize::try_from(broker.0 - 1).unwrap();
        for target in [Target::Bootstrap(index), Target::Broker(broker)] {
            self.feed_metadata(cluster::Input::LinkChanged { target, state });
        }
    }
}

fn state_of(news: LinkNews) -> LinkState {
    match (news.link, news.change) {
        (Link::Ready, _) => LinkState::Ready,
        (Link::Dialling, _) => LinkState::Connecting,
        (Link::Down, Some(LinkChange::Lost)) => LinkState::Lost,
        (Link::Down, Some(LinkChange::Failed)) => LinkState::Failed,
        (Link::Down, Some(LinkChange::Ready) | None) => LinkState::Idle,
    }
}

pub(super) fn wire_class(class: Class) -> wire::Class {
    match class {
        Class::Rack => wire::Class::FetchRack,
        Class::NoRack => wire::Class::FetchNoRack,
        Class::Control => wire::Class::Control,
    }
}

fn routing_class(class: wire::Class) -> Option<Class> {
    match class {
        wire::Class::FetchRack => Some(Class::Rack),
        wire::Class::FetchNoRack => Some(Class::NoRack),
        wire::Class::Control => Some(Class::Control),
        wire::Class::Produce | wire::Class::Coordinator => None,
    }
}
