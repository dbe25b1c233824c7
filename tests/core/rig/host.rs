//! The part of the rig that the actors play: carries out outputs, hands in what comes of them.

use std::sync::Arc;

use nearside::cluster::{self, LinkState, Target};
use nearside::group;
use nearside::ids::{BrokerId, Moment, TopicPartition};
use nearside::invariants::routing as invariants;
use nearside::offsets::{resolve, sampler};
use nearside::routing::broker::{self, Broker, Ticket};
use nearside::routing::{self, Class, Input, Link, LinkChange, Output};
use nearside::wire::{self, Request, Token};

use super::Rig;
use super::net::{LinkNews, News, Wire};

/// What a request was sent for.
#[derive(Debug)]
pub(crate) enum Purpose {
    Metadata(cluster::RequestToken),
    Fetch(BrokerId, Ticket),
    Position(group::Token),
    Sample(group::Token),
}

impl Rig {
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        let links = self.links.values().filter_map(Broker::next_deadline);
        let routes = self
            .readers
            .values()
            .filter_map(|reader| reader.route.next_deadline());
        let rest = [self.net.next_deadline(), self.cluster.next_deadline()];
        let rest = rest
            .into_iter()
            .chain([self.metadata.next_deadline(), self.resolver.next_deadline()])
            .chain([self.sampler.next_deadline()])
            .flatten();
        links.chain(routes).chain(rest).min()
    }

    /// Everything that is due now.
    pub(super) fn tick(&mut self) {
        let (now, draw) = (self.now, self.sample());
        self.cluster.advance(now);
        self.net.advance(&mut self.cluster, draw, now);
        if is_due(self.metadata.next_deadline(), now) {
            self.metadata.handle(cluster::Input::Tick, draw, now);
        }
        if is_due(self.resolver.next_deadline(), now) {
            self.resolver_input(resolve::Input::Tick);
        }
        if is_due(self.sampler.next_deadline(), now) {
            self.sampler_input(sampler::Input::Tick);
        }
        for link in self.links.values_mut() {
            if is_due(link.next_deadline(), now) {
                link.handle(broker::Input::Tick, draw, now);
            }
        }
        let partitions: Vec<_> = self.readers.keys().cloned().collect();
        for partition in partitions {
            if is_due(self.readers[&partition].route.next_deadline(), now) {
                self.route_input(&partition, Input::Tick);
            }
        }
        self.settle();
    }

    /// Carries out outputs until nobody has any left.
    pub(super) fn settle(&mut self) {
        for _ in 0..10_000 {
            let (now, draw) = (self.now, self.sample());
            while let Some(output) = self.cluster.poll_output() {
                self.net.take(&output, now);
            }
            self.net.run(&mut self.cluster, draw, now);
            if let Some(news) = self.net.poll() {
                self.on_news(news);
            } else if let Some(output) = self.metadata.poll_output() {
                self.on_metadata(output);
            } else if let Some(output) = self.resolver.poll_output() {
                self.on_resolver(output);
            } else if let Some(output) = self.sampler.poll_output() {
                self.on_sampler(output);
            } else if let Some((broker, output)) = self.next_link_output() {
                self.on_link(broker, output);
            } else {
                self.take_history();
                for partition in std::mem::take(&mut self.touched) {
                    self.readers[&partition].check(now);
                }
                return;
            }
        }
        panic!("the machines talk without end");
    }

    /// Hands a route an input and carries out its outputs.
    pub(super) fn route_input(&mut self, partition: &TopicPartition, input: Input) {
        self.touched.insert(partition.clone());
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let (now, draw) = (self.now, self.sample());
            let reader = self.readers.get_mut(partition).unwrap();
            for output in reader.handle(&input, &self.brokers, draw, now) {
                let reader = self.readers.get_mut(partition).unwrap();
                inputs.extend(reader.note(&output, now));
                self.on_route(partition.clone(), &output);
            }
        }
    }

    fn on_route(&mut self, partition: TopicPartition, output: &Output) {
        match *output {
            Output::Want(_)
            | Output::Withdraw { .. }
            | Output::Drain { .. }
            | Output::Probe { .. }
            | Output::CancelProbe { .. }
            | Output::Hedge { .. }
            | Output::CancelHedge { .. }
            | Output::Dial { .. }
            | Output::DropLane { .. }
            | Output::Cooling { .. } => {
                let (broker, input) = broker::Input::of_route(partition, output).unwrap();
                self.link_input(broker, input);
            }
            Output::Sample { generation } => self.sample_end(partition, generation),
            Output::Refresh(reason) => self.refresh(partition, reason),
            Output::Validate { .. } | Output::Resolve { .. } => self.question(partition, output),
            Output::Deliver(_) | Output::Truncate { .. } | Output::Event(_) | Output::Count(_) => {}
        }
    }

    fn on_link(&mut self, broker: BrokerId, output: broker::Output) {
        match output {
            broker::Output::Send {
                class,
                request,
                ticket,
            } => {
                self.send(
                    (broker, wire_class(class)),
                    request.into(),
                    Purpose::Fetch(broker, ticket),
                );
            }
            broker::Output::Hangup(class) => {
                let (now, draw) = (self.now, self.sample());
                self.net
                    .hang_up((broker, wire_class(class)), &mut self.cluster, draw, now);
            }
            broker::Output::Dial(class) => {
                let (now, draw) = (self.now, self.sample());
                let wire = (broker, wire_class(class));
                self.net.feed(wire, wire::Input::Open, draw, now);
            }
            broker::Output::Row { .. }
            | broker::Output::Drained { .. }
            | broker::Output::ProbeRow { .. }
            | broker::Output::ProbeFailed { .. }
            | broker::Output::HedgeRow { .. }
            | broker::Output::HedgeFailed { .. }
            | broker::Output::Permit(_) => {
                self.permits += usize::from(matches!(output, broker::Output::Permit(_)));
                let (partition, input) = output.for_route(broker).unwrap();
                self.note_served(&partition, &input);
                self.route_input(&partition, input);
            }
            broker::Output::Silence { class, silent } => {
                self.brokers.entry(broker).set_silent(class, silent);
                if silent {
                    self.tell_concerned(broker, &Input::Silent { broker, class });
                }
            }
            broker::Output::Answered(class) => {
                let now = self.now;
                self.brokers.entry(broker).set_answered(class, now);
            }
            broker::Output::RoundTrip(time) => {
                self.brokers.entry(broker).round_trip = Some(time);
            }
            broker::Output::Quiet(class) => {
                self.tell_concerned(broker, &Input::Quiet { broker, class });
            }
            broker::Output::Leadership(lot) => {
                let (now, draw) = (self.now, self.sample());
                self.metadata.handle(cluster::Input::Hints(lot), draw, now);
            }
            broker::Output::Refresh { partitions, reason } => {
                for partition in partitions {
                    self.refresh(partition, reason);
                }
            }
            broker::Output::Breaker(view) => self.on_breaker(broker, view),
            broker::Output::Probing(need) => self.on_probing(broker, need),
            broker::Output::AwaitBudget { .. } => unreachable!("the budget here is unlimited"),
            broker::Output::V10(v10) => self.on_v10(broker, v10),
            broker::Output::Count(count) => self.link_counts.push((broker, count)),
        }
    }

    fn on_probing(&mut self, broker: BrokerId, need: broker::ProbeNeed) {
        for (broker, share) in self.probe_budget.report(broker, need, self.now) {
            self.link_input(broker, broker::Input::ProbeShare(share));
        }
    }

    /// Tells the metadata machine that a leader known by a hint has served.
    fn note_served(&mut self, partition: &TopicPartition, input: &Input) {
        let hinted = self.hinted.get(partition);
        if hinted.is_some_and(|epoch| input.is_served_at(*epoch)) {
            self.hinted.remove(partition);
            let (now, draw) = (self.now, self.sample());
            let served = cluster::Input::LeaderServed(partition.clone());
            self.metadata.handle(served, draw, now);
        }
    }

    fn on_breaker(&mut self, broker: BrokerId, view: routing::Breaker) {
        self.brokers.entry(broker).breaker = view;
        match view {
            routing::Breaker::Open(_) => {
                self.tell_concerned(broker, &Input::BreakerOpened { broker });
            }
            routing::Breaker::Closed => {
                self.tell_concerned(broker, &Input::BreakerClosed { broker });
            }
            routing::Breaker::Readmitting => {}
        }
    }

    fn on_v10(&mut self, broker: BrokerId, v10: bool) {
        self.brokers.entry(broker).v10 = v10;
        let input = match v10 {
            true => Input::LaneDropped { broker },
            false => Input::LaneRestored { broker },
        };
        self.tell_concerned(broker, &input);
    }

    fn on_news(&mut self, news: News) {
        match news {
            News::Completed(wire, completion) => self.on_completed(wire, completion),
            News::Link(news) => self.on_link_news(news),
            News::Throttled((broker, _), until) => {
                self.link_input(broker, broker::Input::Muted(until));
                self.tell_concerned(broker, &Input::Throttled { broker, until });
            }
        }
    }

    fn on_link_news(&mut self, news: LinkNews) {
        match (news.link, news.change) {
            (Link::Ready, _) => self.on_ready(news),
            (Link::Down, Some(change)) => self.on_lost(news.wire, false, change),
            (Link::Down, None) => self.on_lost(news.wire, true, LinkChange::Lost),
            (Link::Dialling, _) => {}
        }
    }

    fn on_ready(&mut self, news: LinkNews) {
        let (broker, class) = (news.wire.0, routing_class(news.wire.1));
        let fetch_version = news.fetch_version.unwrap();
        let facts = self.brokers.entry(broker);
        facts.fetch_version = Some(fetch_version);
        facts.fetch_min = news.fetch_min;
        facts.set_link(class, Link::Ready);
        self.control_changed(broker, class, LinkState::Ready);
        self.link_input(
            broker,
            broker::Input::LinkReady {
                class,
                fetch_version,
            },
        );
        let change = LinkChange::Ready;
        self.tell_concerned(
            broker,
            &Input::LinkChanged {
                broker,
                class,
                change,
            },
        );
    }

    fn on_lost(&mut self, (broker, class): Wire, idle: bool, change: LinkChange) {
        let class = routing_class(class);
        self.brokers.entry(broker).set_link(class, Link::Down);
        let state = match change {
            LinkChange::Failed => LinkState::Failed,
            LinkChange::Lost | LinkChange::Ready => LinkState::Lost,
        };
        self.control_changed(broker, class, state);
        self.link_input(broker, broker::Input::LinkLost { class, idle });
        if !idle {
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

    fn control_changed(&mut self, broker: BrokerId, class: Class, state: LinkState) {
        if class == Class::Control {
            let (now, draw) = (self.now, self.sample());
            let target = Target::Broker(broker);
            self.metadata
                .handle(cluster::Input::LinkChanged { target, state }, draw, now);
        }
    }

    pub(super) fn tell_concerned(&mut self, broker: BrokerId, input: &Input) {
        let concerned = self
            .readers
            .iter()
            .filter(|(_, reader)| reader.route.concerns(broker));
        let concerned: Vec<_> = concerned.map(|(partition, _)| partition.clone()).collect();
        for partition in concerned {
            self.route_input(&partition, input.clone());
        }
    }

    pub(super) fn link_input(&mut self, broker: BrokerId, input: broker::Input) {
        let (now, draw) = (self.now, self.sample());
        let settings = &self.link_settings;
        let link = self.links.entry(broker);
        let link = link.or_insert_with(|| Broker::new(broker, Arc::clone(settings)));
        link.handle(input, draw, now);
    }

    fn next_link_output(&mut self) -> Option<(BrokerId, broker::Output)> {
        let outputs = self.links.iter_mut();
        let mut outputs = outputs.filter_map(|(broker, link)| Some((*broker, link.poll_output()?)));
        outputs.next()
    }

    pub(super) fn send(&mut self, wire: Wire, request: Request, purpose: Purpose) {
        let (now, draw) = (self.now, self.sample());
        let view = self.metadata.snapshot();
        let lawful = invariants::asks_leaders_only(&request, wire.0, &**view);
        assert!(lawful, "I11: {request:?} to {}", wire.0);
        self.next_token += 1;
        self.purposes.insert(self.next_token, purpose);
        self.net
            .request(wire, Token(self.next_token), request, draw, now);
    }
}

fn is_due(deadline: Option<Moment>, now: Moment) -> bool {
    deadline.is_some_and(|due| due <= now)
}

fn wire_class(class: Class) -> wire::Class {
    match class {
        Class::Rack => wire::Class::FetchRack,
        Class::NoRack => wire::Class::FetchNoRack,
        Class::Control => wire::Class::Control,
    }
}

fn routing_class(class: wire::Class) -> Class {
    match class {
        wire::Class::FetchRack => Class::Rack,
        wire::Class::FetchNoRack => Class::NoRack,
        wire::Class::Control | wire::Class::Produce | wire::Class::Coordinator => Class::Control,
    }
}
