//! Random inputs: no panic, and the invariants of routing.md 19 hold after each.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::desk::{Desk, assigned, error, hint, stay};
use crate::ids::{BrokerId, LeaderEpoch, MetadataVersion, Offset};
use crate::invariants::routing as invariants;
use crate::routing::{
    Breaker, Class, Count, Event, Found, Indexed, Input, IsrPolicy, Link, LinkChange, Output,
    Source, Verdict,
};
use crate::wire::api::fetch::Row;

/// One thing that happens to the route under test.
#[derive(Clone, Debug)]
enum Step {
    Answer(Kind),
    Probe(Kind),
    ProbeLost,
    Late(Kind),
    Drained,
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
    Permit(i32),
    Seek(i64),
    Pause(bool),
    Room(bool),
    Throttle(i32),
    Reassign,
    Later(&'static str),
    Pass(u64),
}

#[derive(Clone, Debug)]
enum Kind {
    Stay,
    Hint(i32),
    Records,
    Corrupt,
    Error(i16),
}

fn broker() -> impl Strategy<Value = i32> {
    1..=4_i32
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => Just(Kind::Stay),
        4 => broker().prop_map(Kind::Hint),
        4 => Just(Kind::Records),
        1 => Just(Kind::Corrupt),
        4 => prop::sample::select(vec![-1, 1, 2, 3, 6, 29, 35, 56, 70, 74, 75, 76, 78, 100, 999])
            .prop_map(Kind::Error),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => kind().prop_map(Step::Answer),
        5 => kind().prop_map(Step::Probe),
        1 => Just(Step::ProbeLost),
        2 => kind().prop_map(Step::Late),
        6 => Just(Step::Drained),
        3 => (broker(), any::<bool>(), any::<bool>())
            .prop_map(|(broker, rises, known)| Step::Leader { broker, rises, known }),
        1 => Just(Step::LeaderLost),
        3 => prop::collection::vec(broker(), 0..4).prop_map(Step::Isr),
        1 => broker().prop_map(Step::Offline),
        2 => Just(Step::Version),
        4 => (broker(), any::<bool>()).prop_map(|(broker, ready)| Step::Link { broker, ready }),
        2 => (broker(), any::<bool>()).prop_map(|(broker, opens)| Step::Breaker { broker, opens }),
        2 => broker().prop_map(Step::Permit),
        1 => (0..2_000_i64).prop_map(Step::Seek),
        2 => any::<bool>().prop_map(Step::Pause),
        2 => any::<bool>().prop_map(Step::Room),
        1 => broker().prop_map(Step::Throttle),
        1 => Just(Step::Reassign),
        1 => prop::sample::select(vec!["hedge", "frozen", "gone", "silent"]).prop_map(Step::Later),
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
    old: Option<crate::routing::Stamp>,
}

impl Trial {
    fn run(&mut self, step: Step) {
        match step {
            Step::Answer(kind) => {
                if let Some(stamp) = self.desk.route.standing_demand().map(|demand| demand.stamp) {
                    self.old = Some(stamp);
                    let row = row(&kind);
                    self.say(Input::Row {
                        stamp,
                        row,
                        inconclusive: false,
                    });
                    self.index(&kind);
                }
            }
            Step::Late(kind) => {
                if let Some(stamp) = self.old {
                    let row = row(&kind);
                    self.say(Input::Row {
                        stamp,
                        row,
                        inconclusive: false,
                    });
                    self.index(&kind);
                }
            }
            Step::Drained => {
                if let crate::routing::demand::Registered::Draining(demand) =
                    self.desk.route.registered
                {
                    self.say(Input::Drained {
                        stamp: demand.stamp,
                    });
                }
            }
            Step::Pass(ms) => self.pass(Duration::from_millis(ms)),
            other => self.happen(other),
        }
        self.answer_questions();
    }

    fn happen(&mut self, step: Step) {
        let now = self.desk.now;
        let epoch = self.desk.route.leadership().epoch.unwrap_or(LeaderEpoch(5));
        let input = match step {
            Step::Probe(kind) => match self.probe() {
                Some(stamp) => Input::ProbeRow {
                    stamp,
                    row: row(&kind),
                },
                None => return,
            },
            Step::ProbeLost => match self.probe() {
                Some(stamp) => Input::ProbeFailed { stamp },
                None => return,
            },
            Step::Leader {
                broker,
                rises,
                known,
            } => Input::LeaderChanged(crate::routing::Leadership {
                leader: known.then_some(BrokerId(broker)),
                epoch: Some(LeaderEpoch(epoch.0 + i32::from(rises))),
                addressable: known,
            }),
            Step::LeaderLost => Input::LeaderLost,
            Step::Isr(members) => {
                let isr = members.into_iter().map(BrokerId).collect();
                Input::IsrChanged {
                    isr,
                    epoch: Some(epoch),
                }
            }
            Step::Offline(broker) => {
                let replicas = [1, 2, 3, 4].map(BrokerId).into();
                Input::ReplicasChanged {
                    replicas,
                    offline: [BrokerId(broker)].into(),
                }
            }
            Step::Version => {
                self.version += 1;
                Input::MetadataVersion(MetadataVersion(self.version))
            }
            Step::Link { broker, ready } => {
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
            Step::Breaker { broker, opens } => {
                let broker = BrokerId(broker);
                self.desk.brokers.entry(broker).breaker = match opens {
                    true => Breaker::Open(now + Duration::from_secs(1)),
                    false => Breaker::Closed,
                };
                match opens {
                    true => Input::BreakerOpened { broker },
                    false => Input::Readmitted { broker },
                }
            }
            Step::Permit(broker) => Input::Readmitted {
                broker: BrokerId(broker),
            },
            Step::Seek(offset) => Input::Seek {
                offset: Offset(offset),
                epoch: None,
            },
            Step::Pause(true) => Input::Pause,
            Step::Pause(false) => Input::Resume,
            Step::Room(room) => Input::Room(room),
            Step::Throttle(broker) => {
                let until = now + Duration::from_secs(1);
                Input::Throttled {
                    broker: BrokerId(broker),
                    until,
                }
            }
            Step::Reassign => {
                self.say(Input::Revoked);
                self.assignment += 1;
                Input::Assigned(assigned(self.assignment))
            }
            Step::Later("hedge") => Input::HedgeDeadline {
                broker: BrokerId(2),
            },
            Step::Later("frozen") => Input::FrozenSampled {
                leader_end: Offset(1),
            },
            Step::Later("gone") => Input::TopicGone,
            Step::Later(_) => Input::LeaderSilent,
            Step::Answer(_) | Step::Late(_) | Step::Drained | Step::Pass(_) => return,
        };
        self.say(input);
    }

    fn probe(&self) -> Option<crate::routing::Stamp> {
        let crate::routing::Probe::InFlight(id, _) = self.desk.route.probe() else {
            return None;
        };
        let (broker, _) = self.desk.route.probed?;
        let (lane, role) = (crate::routing::Lane::Rack, crate::routing::Role::Leader);
        Some(
            self.desk
                .route
                .stamp(broker, lane, role, crate::routing::Kind::Probe(id)),
        )
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

    fn index(&mut self, kind: &Kind) {
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
            Kind::Corrupt => Indexed::Corrupt,
            Kind::Stay | Kind::Hint(_) | Kind::Records | Kind::Error(_) => {
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
            crate::routing::Position::Validating => {
                self.say(Input::Validated {
                    generation,
                    verdict: Verdict::Agrees,
                });
            }
            crate::routing::Position::Resolving => {
                let offset = self.desk.route.fetch_end();
                let found = Found::Offset {
                    offset,
                    epoch: None,
                    source: Source::Inside,
                };
                self.say(Input::Resolved { generation, found });
            }
            crate::routing::Position::Unset
            | crate::routing::Position::Ready
            | crate::routing::Position::Halted => {}
        }
    }

    fn say(&mut self, input: Input) {
        self.desk.input(input);
        let said = self.desk.said.clone();
        for output in &said {
            match output {
                Output::Event(Event::RoutingChange(change)) => {
                    // I15
                    let last = crate::ids::RouteGeneration(self.generation);
                    assert!(invariants::generation_follows(last, change.generation));
                    self.generation = change.generation.0;
                }
                Output::Probe { question, .. } => {
                    // I2: a new probe means the last one is answered, failed or cancelled.
                    let crate::routing::Kind::Probe(id) = question.stamp.kind else {
                        panic!("{question:?}")
                    };
                    assert!(self.probes.insert(id.0), "a probe number is used once");
                }
                Output::Count(Count::NotYet(_)) => {}
                _ => {}
            }
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

fn row(kind: &Kind) -> Row {
    match kind {
        Kind::Stay => stay(),
        Kind::Hint(broker) => hint(*broker),
        Kind::Records | Kind::Corrupt => Row {
            records: vec![0; 10].into(),
            ..stay()
        },
        Kind::Error(code) => error(*code),
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
    }
}
