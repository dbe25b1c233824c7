//! Random inputs: no panic, and the invariants of routing.md 19 hold after each.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::desk::{Desk, assigned, error, hint, stay};
use super::replay::replay;
use crate::ids::{
    BrokerId, LeaderEpoch, MetadataVersion, Offset, PositionGeneration, RouteGeneration,
};
use crate::invariants::routing as invariants;
use crate::routing::demand::Registered;
use crate::routing::{
    Breaker, Class, Event, Found, Indexed, Input, IsrPolicy, Kind, Lane, Leadership, Link,
    LinkChange, Output, Position, Probe, Role, Source, Stamp, Verdict,
};
use crate::wire::api::fetch::Row;

/// One thing that happens to the route under test.
#[derive(Clone, Debug)]
enum Step {
    Answer(Answer),
    Probe(Answer),
    ProbeLost,
    Late(Answer),
    Drained,
    Cluster(News),
    Host(Call),
    Reassign,
    Pass(u64),
}

/// What metadata and links tell.
#[derive(Clone, Debug)]
enum News {
    Leader {
        broker: i32,
        rises: bool,
        known: bool,
    },
    LeaderLost,
    Isr(Vec<i32>),
    Offline(i32),
    Version,
    Link {
        broker: i32,
        ready: bool,
    },
    Breaker {
        broker: i32,
        opens: bool,
    },
    Restarted(i32),
    Throttle(i32),
}

/// What the host of the partition asks for.
#[derive(Clone, Debug)]
enum Call {
    Permit(i32),
    Seek(i64),
    Pause,
    Resume,
    Room(bool),
    Hedge,
    Frozen,
    Gone,
    Silent,
}

#[derive(Clone, Debug)]
enum Answer {
    Stay,
    Hint(i32),
    Records,
    Corrupt,
    Error(i16),
}

fn broker() -> impl Strategy<Value = i32> {
    1..=4_i32
}

fn kind() -> impl Strategy<Value = Answer> {
    prop_oneof![
        4 => Just(Answer::Stay),
        4 => broker().prop_map(Answer::Hint),
        4 => Just(Answer::Records),
        1 => Just(Answer::Corrupt),
        4 => prop::sample::select(vec![-1, 1, 2, 3, 6, 29, 35, 56, 70, 74, 75, 76, 78, 100, 999])
            .prop_map(Answer::Error),
    ]
}

fn news() -> impl Strategy<Value = News> {
    prop_oneof![
        3 => (broker(), any::<bool>(), any::<bool>())
            .prop_map(|(broker, rises, known)| News::Leader { broker, rises, known }),
        1 => Just(News::LeaderLost),
        3 => prop::collection::vec(broker(), 0..4).prop_map(News::Isr),
        1 => broker().prop_map(News::Offline),
        2 => Just(News::Version),
        4 => (broker(), any::<bool>()).prop_map(|(broker, ready)| News::Link { broker, ready }),
        2 => (broker(), any::<bool>()).prop_map(|(broker, opens)| News::Breaker { broker, opens }),
        1 => broker().prop_map(News::Restarted),
        1 => broker().prop_map(News::Throttle),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        2 => broker().prop_map(Call::Permit),
        1 => (0..2_000_i64).prop_map(Call::Seek),
        1 => Just(Call::Pause),
        2 => Just(Call::Resume),
        3 => any::<bool>().prop_map(Call::Room),
        1 => prop::sample::select(vec![Call::Hedge, Call::Frozen, Call::Gone, Call::Silent]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => kind().prop_map(Step::Answer),
        5 => kind().prop_map(Step::Probe),
        1 => Just(Step::ProbeLost),
        2 => kind().prop_map(Step::Late),
        6 => Just(Step::Drained),
        16 => news().prop_map(Step::Cluster),
        8 => call().prop_map(Step::Host),
        1 => Just(Step::Reassign),
        6 => (0..20_000_u64).prop_map(Step::Pass),
        1 => (0..700_000_u64).prop_map(Step::Pass),
    ]
}

/// The route under test, and what has to be remembered to judge it.
struct Trial {
    desk: Desk,
    assignment: u64,
    version: u64,
    generation: u64,
    probes: BTreeSet<u32>,
    delivered: Option<(u64, i64)>,
    old: Option<Stamp>,
}

impl Trial {
    fn run(&mut self, step: Step) {
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
            Step::Host(call) => self.say(host(&call)),
            Step::Reassign => {
                self.say(Input::Revoked);
                self.assignment += 1;
                self.say(Input::Assigned(assigned(self.assignment)));
            }
            Step::Pass(ms) => self.pass(Duration::from_millis(ms)),
        }
        self.answer_questions();
    }

    /// Answers the fetch remembered, which may be an old one.
    fn answer(&mut self, kind: &Answer) {
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
                Input::IsrChanged {
                    isr,
                    epoch: Some(epoch),
                }
            }
            News::Offline(broker) => {
                let replicas = [1, 2, 3, 4].map(BrokerId).into();
                Input::ReplicasChanged {
                    replicas,
                    offline: [BrokerId(broker)].into(),
                }
            }
            News::Version => {
                self.version += 1;
                Input::MetadataVersion(MetadataVersion(self.version))
            }
            News::Link { broker, ready } => {
                let (link, change) = match ready {
                    true => (Link::Ready, LinkChange::Ready),
                    false => (Link::Down, LinkChange::Lost),
                };
                let (broker, class) = (BrokerId(broker), Class::Rack);
                self.desk.brokers.entry(broker).set_link(class, link);
                Input::LinkChanged {
                    broker,
                    class,
                    change,
                }
            }
            News::Breaker { broker, opens } => {
                let broker = BrokerId(broker);
                let until = self.desk.now + Duration::from_secs(1);
                let facts = self.desk.brokers.entry(broker);
                facts.breaker = if opens {
                    Breaker::Open(until)
                } else {
                    Breaker::Closed
                };
                match opens {
                    true => Input::BreakerOpened { broker },
                    false => Input::Readmitted { broker },
                }
            }
            News::Restarted(broker) => Input::LinkRestarted {
                broker: BrokerId(broker),
            },
            News::Throttle(broker) => {
                let until = self.desk.now + Duration::from_secs(1);
                Input::Throttled {
                    broker: BrokerId(broker),
                    until,
                }
            }
        }
    }

    fn probe(&self) -> Option<Stamp> {
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
    fn answer_questions(&mut self) {
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
    }

    fn say(&mut self, input: Input) {
        self.desk.input(input);
        let said = self.desk.said.clone();
        for output in &said {
            self.judge(output);
        }
        assert_eq!(self.desk.route.generation().0, self.generation, "I15");
        // I4, I5, I6, I12
        assert!(
            invariants::demand_is_lawful(&self.desk.route, self.desk.now),
            "{:#?}",
            self.desk.route
        );
    }
}

fn host(call: &Call) -> Input {
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
        Call::Hedge => Input::Silent {
            broker: BrokerId(2),
            class: Class::Rack,
        },
        Call::Frozen => Input::Sampled {
            generation: PositionGeneration(1),
            leader_end: Offset(1),
        },
        Call::Gone => Input::TopicGone,
        Call::Silent => Input::Silent {
            broker: BrokerId(1),
            class: Class::Rack,
        },
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
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_inputs_breaks_an_invariant(
        steps in prop::collection::vec(step(), 1..120),
        advise in any::<bool>(),
    ) {
        let desk = Desk::with(|settings| {
            settings.isr = if advise { IsrPolicy::Advise } else { IsrPolicy::Require };
        });
        let generation = desk.route.generation().0;
        let mut trial = Trial {
            desk,
            assignment: 1,
            version: 1,
            generation,
            probes: BTreeSet::new(),
            delivered: None,
            old: None,
        };
        for step in steps {
            trial.run(step);
        }
        // I1, by way of the text of a trace.
        let differences = replay(&trial.desk).into_iter().filter_map(|one| one.difference);
        prop_assert_eq!(differences.collect::<Vec<_>>(), []);
    }
}
