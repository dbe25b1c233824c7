//! Random inputs: no panic, and the invariants of routing.md 19 hold after each.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::desk::{Desk, assigned, error, hint, stay};
use super::laws;
use super::liveness;
use super::replay::replay;
use super::steps::{Answer, BrokerNews, Call, News, Step, step};
use crate::ids::{
    BrokerId, LeaderEpoch, MetadataVersion, Offset, RouteGeneration, TopicId, TopicIncarnation,
};
use crate::invariants::routing as invariants;
use crate::routing::demand::Registered;
use crate::routing::{
    Breaker, Class, Event, Found, Indexed, Input, IsrPolicy, Kind, Lane, Leadership, Link,
    LinkChange, Output, Position, Probe, Role, Source, Stamp, Verdict,
};
use crate::wire::api::fetch::Row;

/// The route under test, and what has to be remembered to judge it.
pub(super) struct Trial {
    pub(super) desk: Desk,
    /// All outputs since somebody took them.
    pub(super) said: Vec<Output>,
    assignment: u64,
    pub(super) version: u64,
    generation: u64,
    probes: BTreeSet<u32>,
    /// The hedge out, and the last one.
    pub(super) hedge: Option<Stamp>,
    last_hedge: Option<Stamp>,
    incarnation: u64,
    delivered: Option<(u64, i64)>,
    pub(super) old: Option<Stamp>,
}

impl Trial {
    fn new(advise: bool) -> Self {
        let desk = Desk::with(|settings| {
            settings.isr = if advise {
                IsrPolicy::Advise
            } else {
                IsrPolicy::Require
            };
        });
        Self {
            generation: desk.route.generation().0,
            desk,
            said: Vec::new(),
            assignment: 1,
            version: 1,
            probes: BTreeSet::new(),
            hedge: None,
            last_hedge: None,
            incarnation: 0,
            delivered: None,
            old: None,
        }
    }

    pub(super) fn run(&mut self, step: Step) {
        match step {
            Step::Answer(kind) => {
                self.old = self.desk.route.standing_demand().map(|demand| demand.stamp);
                self.answer(&kind);
            }
            Step::Late(kind) => self.answer(&kind),
            Step::Probe(kind) => {
                if let Some(stamp) = self.probe() {
                    self.say(Input::ProbeRow {
                        stamp,
                        row: row(&kind),
                    });
                }
            }
            Step::ProbeLost => {
                if let Some(stamp) = self.probe() {
                    self.say(Input::ProbeFailed { stamp });
                }
            }
            Step::Hedge(kind) => {
                if let Some(stamp) = self.hedge.take().or(self.last_hedge) {
                    let row = row(&kind);
                    self.say(Input::HedgeRow { stamp, row });
                    self.index(&kind);
                }
            }
            Step::HedgeLost => {
                if let Some(stamp) = self.hedge.take() {
                    self.say(Input::HedgeFailed { stamp });
                }
            }
            Step::Drained => {
                if let Registered::Draining(demand) = self.desk.route.registered {
                    self.say(Input::Drained {
                        stamp: demand.stamp,
                    });
                }
            }
            Step::Cluster(news) => {
                let input = self.cluster(news);
                self.say(input);
            }
            Step::Host(call) => {
                let input = self.host(&call);
                self.say(input);
            }
            Step::Reassign => {
                self.say(Input::Revoked);
                self.assignment += 1;
                let mut assigned = assigned(self.assignment);
                assigned.incarnation = TopicIncarnation(self.incarnation);
                self.say(Input::Assigned(assigned));
            }
            Step::Pass(ms) => self.pass(Duration::from_millis(ms)),
        }
        self.answer_questions();
    }

    /// Answers the fetch remembered, which may be an old one.
    pub(super) fn answer(&mut self, kind: &Answer) {
        if let Some(stamp) = self.old {
            self.say(Input::Row {
                stamp,
                row: row(kind),
                inconclusive: false,
            });
            self.index(kind);
        }
    }

    /// Brings the facts up to date and makes the input that tells of it.
    fn cluster(&mut self, news: News) -> Input {
        let epoch = self.desk.route.leadership().epoch.unwrap_or(LeaderEpoch(5));
        match news {
            News::Leader {
                broker,
                rises,
                known,
            } => Input::LeaderChanged(Leadership {
                leader: known.then_some(BrokerId(broker)),
                epoch: Some(LeaderEpoch(epoch.0 + i32::from(rises))),
                addressable: known,
            }),
            News::LeaderLost => Input::LeaderLost,
            News::Isr(members) => {
                let isr = members.into_iter().map(BrokerId).collect();
                let epoch = Some(epoch);
                Input::IsrChanged { isr, epoch }
            }
            News::Offline(broker) => {
                let replicas = [1, 2, 3, 4].map(BrokerId).into();
                let offline = [BrokerId(broker)].into();
                Input::ReplicasChanged { replicas, offline }
            }
            News::Version => {
                self.version += 1;
                Input::MetadataVersion(MetadataVersion(self.version))
            }
            News::Broker(broker, news) => self.broker(BrokerId(broker), news),
        }
    }

    fn broker(&mut self, broker: BrokerId, news: BrokerNews) -> Input {
        let now = self.desk.now;
        let until = now + Duration::from_secs(1);
        let facts = self.desk.brokers.entry(broker);
        match news {
            BrokerNews::Link { class, ready } => {
                let (link, change) = match ready {
                    true => (Link::Ready, LinkChange::Ready),
                    false => (Link::Down, LinkChange::Lost),
                };
                facts.set_link(class, link);
                Input::LinkChanged {
                    broker,
                    class,
                    change,
                }
            }
            BrokerNews::Breaker { opens: true } => {
                facts.breaker = Breaker::Open(until);
                Input::BreakerOpened { broker }
            }
            BrokerNews::Breaker { opens: false } => {
                facts.breaker = Breaker::Closed;
                Input::BreakerClosed { broker }
            }
            BrokerNews::Silence { class, silent } => {
                facts.set_silent(class, silent);
                // An end of a silence is a fact without an input of its own.
                match silent && class != Class::Control {
                    true => Input::Silent { broker, class },
                    false => Input::Tick,
                }
            }
            BrokerNews::Answered => {
                facts.set_answered(Class::Rack, now);
                facts.set_answered(Class::NoRack, now);
                Input::Tick
            }
            BrokerNews::Quiet => {
                let class = Class::Rack;
                Input::Quiet { broker, class }
            }
            BrokerNews::Restarted => Input::LinkRestarted { broker },
            BrokerNews::Throttle => Input::Throttled { broker, until },
        }
    }

    pub(super) fn probe(&self) -> Option<Stamp> {
        let Probe::InFlight(id, _) = self.desk.route.probe() else {
            return None;
        };
        let (broker, _) = self.desk.route.probed?;
        let (lane, role) = (Lane::Rack, Role::Leader);
        Some(self.desk.route.stamp(broker, lane, role, Kind::Probe(id)))
    }

    fn pass(&mut self, time: Duration) {
        let end = self.desk.now + time;
        for _ in 0..10_000 {
            let due = self.desk.route.next_deadline().filter(|due| *due <= end);
            let Some(due) = due else {
                self.desk.now = end;
                return;
            };
            self.desk.now = self.desk.now.max(due);
            self.say(Input::Tick);
        }
        panic!("deadlines without end: {:?}", self.desk.route);
    }

    fn index(&mut self, kind: &Answer) {
        if !self
            .desk
            .said
            .iter()
            .any(|output| matches!(output, Output::Deliver(_)))
        {
            return;
        }
        let end = self.desk.route.fetch_end().0;
        let indexed = match kind {
            Answer::Corrupt => Indexed::Corrupt,
            Answer::Stay | Answer::Hint(_) | Answer::Records | Answer::Error(_) => {
                // I13: what is delivered follows what was, within a position generation.
                let generation = self.desk.route.position_generation().0;
                let last = self.delivered.filter(|(of, _)| *of == generation);
                let last = last.map(|(_, offset)| Offset(offset));
                assert!(invariants::delivery_advances(last, Offset(end)));
                self.delivered = Some((generation, end + 4));
                let fetch_end = Offset(end + 5);
                Indexed::Advanced {
                    fetch_end,
                    epoch: self.desk.route.leadership().epoch,
                }
            }
        };
        self.say(Input::Indexed(indexed));
    }

    /// The coordinator actor answers at once.
    pub(super) fn answer_questions(&mut self) {
        let generation = self.desk.route.position_generation();
        match self.desk.route.position() {
            Position::Validating => {
                self.say(Input::Validated {
                    generation,
                    verdict: Verdict::Agrees,
                });
            }
            Position::Resolving => {
                let offset = self.desk.route.fetch_end();
                let found = Found::Offset {
                    offset,
                    epoch: None,
                    source: Source::Inside,
                };
                self.say(Input::Resolved { generation, found });
            }
            Position::Unset | Position::Ready | Position::Halted => {}
        }
    }

    pub(super) fn host(&mut self, call: &Call) -> Input {
        match call {
            Call::Permit(broker) => Input::Readmitted {
                broker: BrokerId(*broker),
            },
            Call::Seek(offset) => Input::Seek {
                offset: Offset(*offset),
                epoch: None,
            },
            Call::Pause => Input::Pause,
            Call::Resume => Input::Resume,
            Call::Room(room) => Input::Room(*room),
            Call::Sampled(end) => Input::Sampled {
                generation: self.desk.route.position_generation(),
                leader_end: Offset(*end),
            },
            Call::Unanswered => Input::Unanswered {
                generation: self.desk.route.position_generation(),
            },
            Call::Recreated => {
                self.incarnation += 1;
                Input::TopicRecreated {
                    incarnation: TopicIncarnation(self.incarnation),
                    id: TopicId(uuid::Uuid::from_u128(self.incarnation.into())),
                }
            }
            Call::Gone => Input::TopicGone,
        }
    }

    fn judge(&mut self, output: &Output) {
        if let Output::Event(Event::RoutingChange(change)) = output {
            // I15
            let last = RouteGeneration(self.generation);
            assert!(invariants::generation_follows(last, change.generation));
            self.generation = change.generation.0;
        }
        if let Output::Probe { question, .. } = output {
            // I2: a new probe means the last one is answered, failed or cancelled.
            let Kind::Probe(id) = question.stamp.kind else {
                panic!("{question:?}")
            };
            assert!(self.probes.insert(id.0), "a probe number is used once");
        }
        if let Output::Hedge { question } = output {
            assert_eq!(self.hedge, None, "I2: one hedge in flight");
            self.hedge = Some(question.stamp);
            self.last_hedge = self.hedge;
        }
        if let Output::CancelHedge { .. } = output {
            self.hedge = None;
        }
    }

    pub(super) fn say(&mut self, input: Input) {
        let before = self.desk.clone();
        let heard = input.clone();
        self.desk.input(input);
        let said = self.desk.said.clone();
        for output in &said {
            self.judge(output);
        }
        self.said.extend(said);
        assert_eq!(self.desk.route.generation().0, self.generation, "I15");
        // I4, I5, I6, I12
        assert!(
            invariants::demand_is_lawful(&self.desk.route, self.desk.now),
            "{:#?}",
            self.desk.route
        );
        laws::hold(&before, &heard, &self.desk);
    }
}

fn row(kind: &Answer) -> Row {
    match kind {
        Answer::Stay => stay(),
        Answer::Hint(broker) => hint(*broker),
        Answer::Records | Answer::Corrupt => Row {
            records: vec![0; 10].into(),
            ..stay()
        },
        Answer::Error(code) => error(*code),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_inputs_breaks_an_invariant(
        steps in prop::collection::vec(step(), 1..120),
        advise in any::<bool>(),
    ) {
        let mut trial = Trial::new(advise);
        for step in steps {
            trial.run(step);
        }
        // I1, by way of the text of a trace.
        let differences = replay(&trial.desk).into_iter().filter_map(|one| one.difference);
        prop_assert_eq!(differences.collect::<Vec<_>>(), []);
    }

    #[test]
    fn after_any_sequence_of_inputs_a_route_finds_its_way_back(
        steps in prop::collection::vec(step(), 1..60),
        advise in any::<bool>(),
    ) {
        let mut trial = Trial::new(advise);
        for step in steps {
            trial.run(step);
        }
        trial.desk.tape.lines.clear();
        liveness::hold(&mut trial);
    }
}
