//! Liveness: once faults stop and everything is answered, a route reads again soon, and in the end
//! from whom its leader names. No state is left that waits for what nobody owes it.

use std::time::Duration;

use super::desk::stay;
use super::properties::Trial;
use super::steps::{Answer, Call};
use crate::ids::{BrokerId, LeaderEpoch, MetadataVersion, Moment};
use crate::routing::demand::Registered;
use crate::routing::{
    Breaker, Class, Hold, Input, Leadership, Link, LinkChange, Output, Position, Role, State,
};

const BROKERS: [BrokerId; 4] = [BrokerId(1), BrokerId(2), BrokerId(3), BrokerId(4)];
const CLASSES: [Class; 3] = [Class::Rack, Class::NoRack, Class::Control];
/// The replica of our rack.
const NAMED: BrokerId = BrokerId(2);

/// A refusal of the leader is asked about again after a minute, give or take a fifth.
const READS_WITHIN: Duration = Duration::from_secs(75);
/// A full lease and its jitter, a full cooldown, and what is asked in between.
const SETTLES_WITHIN: Duration = Duration::from_secs(900);
/// Time from one round of answers to the next: a long poll, later a slow one.
const SOON: Duration = Duration::from_millis(500);
const LATER: Duration = Duration::from_secs(5);
/// Answers to one round of outputs may call for others, but not for ever.
const TURNS_MAX: usize = 64;

/// A world without faults around a route that has seen many.
struct World<'a> {
    trial: &'a mut Trial,
    owed: Vec<Output>,
    /// Reading fetches answered since the world is well.
    read: usize,
}

/// Panics if the route does not find its way back.
pub(super) fn hold(trial: &mut Trial) {
    let mut world = World {
        trial,
        owed: Vec::new(),
        read: 0,
    };
    world.heal();
    let healed = world.trial.desk.now;
    while world.read == 0 {
        world.round(SOON);
        assert!(world.since(healed) <= READS_WITHIN, "{}", world.tell());
    }
    while !world.is_settled() {
        let pause = if world.since(healed) < READS_WITHIN {
            SOON
        } else {
            LATER
        };
        world.round(pause);
        assert!(world.since(healed) <= SETTLES_WITHIN, "{}", world.tell());
    }
}

impl World<'_> {
    /// All links are Ready, nobody is silent, offline or out of sync, and somebody leads. An epoch
    /// that is known does not rise: that would let the route begin anew.
    fn heal(&mut self) {
        for (broker, rack) in BROKERS.into_iter().zip(["a", "b", "c", "d"]) {
            let facts = self.trial.desk.brokers.entry(broker);
            facts.rack = Some(rack.into());
            facts.addressable = true;
            facts.fetch_version = Some(17);
            facts.breaker = Breaker::Closed;
            for class in CLASSES {
                facts.set_link(class, Link::Ready);
                facts.set_silent(class, false);
            }
        }
        self.say(Input::ReplicasChanged {
            replicas: BROKERS.into(),
            offline: [].into(),
        });
        for broker in BROKERS {
            self.say(Input::BreakerClosed { broker });
            for class in CLASSES {
                self.link_ready(broker, class);
            }
        }
        if self.trial.desk.route.gates.gone {
            let recreated = self.trial.host(&Call::Recreated);
            self.say(recreated);
        }
        self.lead();
        self.say(Input::Resume);
        self.say(Input::Room(true));
        if self.trial.desk.route.position() == Position::Halted {
            let offset = self.trial.desk.route.fetch_end();
            self.say(Input::Seek {
                offset,
                epoch: None,
            });
        }
    }

    fn lead(&mut self) {
        let route = &self.trial.desk.route;
        let known = route.leadership();
        let epoch = Some(known.epoch.unwrap_or(LeaderEpoch(5)));
        if route.cluster.lost || !known.addressable || known.leader.is_none() {
            self.say(Input::LeaderChanged(Leadership {
                leader: known.leader.or(Some(BrokerId(1))),
                epoch,
                addressable: true,
            }));
        }
        self.say(Input::IsrChanged {
            isr: BROKERS.into(),
            epoch,
        });
    }

    /// The leader names the replica of our rack, unless that is itself.
    fn named(&self) -> Option<BrokerId> {
        Some(NAMED).filter(|named| self.trial.desk.route.leadership().leader != Some(*named))
    }

    fn is_settled(&self) -> bool {
        match (*self.trial.desk.route.state(), self.named()) {
            (State::Leader, None) => true,
            (
                State::Follower {
                    broker,
                    hold: Hold::Full(_) | Hold::Trial(_),
                },
                Some(named),
            ) => broker == named,
            (State::Leader, Some(_))
            | (State::Follower { .. } | State::Parked | State::Forced { .. }, _) => false,
        }
    }

    /// Everything asked for is answered, then time passes.
    fn round(&mut self, pause: Duration) {
        self.answer_fetch();
        self.answer_probe();
        if self.trial.hedge.is_some() {
            self.run(|trial| trial.run(super::steps::Step::HedgeLost));
        }
        for _ in 0..TURNS_MAX {
            if self.owed.is_empty() {
                break;
            }
            for output in std::mem::take(&mut self.owed) {
                self.carry_out(&output);
            }
        }
        assert!(self.owed.is_empty(), "asks without end: {}", self.tell());
        let end = self.trial.desk.now + pause;
        while let Some(due) = self.due_by(end) {
            self.trial.desk.now = self.trial.desk.now.max(due);
            self.say(Input::Tick);
        }
        self.trial.desk.now = end;
        self.trial.desk.tape.lines.clear();
    }

    fn due_by(&self, end: Moment) -> Option<Moment> {
        let due = self.trial.desk.route.next_deadline();
        due.filter(|due| *due <= end)
    }

    fn answer_fetch(&mut self) {
        let route = &self.trial.desk.route;
        if let Registered::Draining(demand) = route.registered {
            return self.say(Input::Drained {
                stamp: demand.stamp,
            });
        }
        let Some(stamp) = route.standing_demand().map(|demand| demand.stamp) else {
            return;
        };
        let now = self.trial.desk.now;
        let facts = self.trial.desk.brokers.entry(stamp.broker);
        facts.set_answered(Class::of(stamp.lane), now);
        let hints = stamp.role == Role::Leader && Class::of(stamp.lane) == Class::Rack;
        let kind = match self.named().filter(|_| hints) {
            Some(named) => Answer::Hint(named.0),
            None => Answer::Records,
        };
        self.read += 1;
        self.trial.old = Some(stamp);
        self.run(|trial| trial.answer(&kind));
    }

    fn answer_probe(&mut self) {
        if let Some(stamp) = self.trial.probe() {
            let row = crate::wire::api::fetch::Row {
                preferred_read_replica: self.named(),
                ..stay()
            };
            self.say(Input::ProbeRow { stamp, row });
        }
    }

    fn carry_out(&mut self, output: &Output) {
        match *output {
            Output::Dial { broker, class } => self.link_ready(broker, class),
            // A closed breaker answers those who ask for a permit at once.
            Output::Cooling {
                broker,
                fault: None,
            } => self.say(Input::Readmitted { broker }),
            Output::DropLane { broker } => {
                self.trial.desk.brokers.entry(broker).v10 = true;
                self.say(Input::LaneDropped { broker });
            }
            Output::Sample { generation } => {
                let leader_end = self.trial.desk.route.fetch_end();
                self.say(Input::Sampled {
                    generation,
                    leader_end,
                });
            }
            Output::Refresh(_) => {
                self.trial.version += 1;
                self.say(Input::MetadataVersion(MetadataVersion(self.trial.version)));
            }
            Output::Want(_)
            | Output::Withdraw { .. }
            | Output::Drain { .. }
            | Output::Probe { .. }
            | Output::CancelProbe { .. }
            | Output::Hedge { .. }
            | Output::CancelHedge { .. }
            | Output::Resolve { .. }
            | Output::Validate { .. }
            | Output::Deliver(_)
            | Output::Truncate { .. }
            | Output::Cooling { .. }
            | Output::Event(_)
            | Output::Count(_) => {}
        }
    }

    fn link_ready(&mut self, broker: BrokerId, class: Class) {
        let change = LinkChange::Ready;
        self.say(Input::LinkChanged {
            broker,
            class,
            change,
        });
    }

    fn say(&mut self, input: Input) {
        self.run(|trial| trial.say(input));
    }

    /// Does something to the route, and notes what it asks for.
    fn run(&mut self, act: impl FnOnce(&mut Trial)) {
        act(self.trial);
        self.trial.answer_questions();
        self.owed.append(&mut self.trial.said);
    }

    fn since(&self, then: Moment) -> Duration {
        self.trial.desk.now.since(then)
    }

    fn tell(&self) -> String {
        format!("{:#?}", self.trial.desk.route)
    }
}
