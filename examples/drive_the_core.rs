//! The route machine by hand: no actor, no socket, no clock.
//!
//! `cargo run --example drive_the_core` plays a morning in the life of one partition: its leader
//! recommends a replica in our rack, the replica dies, comes back, and the leadership moves. Every
//! line is an input, an output or a state; time and chance are arguments, so the example prints the
//! same on every run. It needs the core alone (`--no-default-features`).
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nearside::ids::{
    AssignmentEpoch, BrokerId, Draw, LeaderEpoch, MetadataVersion, Moment, Offset,
    TopicIncarnation, TopicPartition,
};
use nearside::routing::{
    Assigned, Brokers, Class, Event, Indexed, Input, Leadership, Link, LinkChange, Output, Route,
    Settings, Stamp, Verdict,
};
use nearside::wire::ErrorCode;
use nearside::wire::api::TopicRef;
use nearside::wire::api::fetch::{Aborted, Row};

const LEADER: BrokerId = BrokerId(1);
const NEAR: BrokerId = BrokerId(3);

fn main() {
    let mut play = Play::new();

    play.feed("the partition is ours", assigned());
    let hint = play.answer(|row| row.preferred_read_replica = Some(NEAR));
    play.feed("the leader sends no records but a hint: broker 3", hint);
    let records = play.answer(|row| row.records = Bytes::from_static(b"three encoded records"));
    play.feed("broker 3 sends records", records);
    play.feed("the host has indexed them", indexed(3));

    let late = play.asked();
    play.link(NEAR, Link::Down);
    play.feed("the connection to broker 3 breaks", lost(NEAR));
    let late = Input::Row {
        stamp: late,
        row: row(|row| row.records = Bytes::from_static(b"too late")),
        inconclusive: false,
    };
    play.feed("a row that was still on its way comes in", late);

    play.link(NEAR, Link::Ready);
    play.wait("broker 3 is back, and its cooldown over");
    let last = play.asked();
    let hint = play.answer_probe(|row| row.preferred_read_replica = Some(NEAR));
    play.feed("the leader recommends broker 3 again", hint);
    play.feed(
        "the last fetch at the leader is over",
        Input::Drained { stamp: last },
    );

    play.feed("the leader moves to broker 2", leads(BrokerId(2), 8));
    let agrees = Input::Validated {
        generation: play.route.position_generation(),
        verdict: Verdict::Agrees,
    };
    play.feed("the new leader's log agrees with what was read", agrees);
}

/// A route, what it is told of the brokers, and the time.
struct Play {
    route: Route,
    brokers: Brokers,
    probe: Option<Stamp>,
    now: Moment,
}

impl Play {
    fn new() -> Self {
        let settings = Settings {
            client_rack: Some("c".into()),
            ..Settings::default()
        };
        let mut brokers = Brokers::new();
        for (id, rack) in [(1, "a"), (2, "b"), (3, "c")] {
            let facts = brokers.entry(BrokerId(id));
            facts.rack = Some(rack.into());
            facts.addressable = true;
            for class in [Class::Rack, Class::NoRack, Class::Control] {
                facts.set_link(class, Link::Ready);
            }
        }
        Self {
            route: Route::new(Arc::new(settings)),
            brokers,
            probe: None,
            now: Moment::ZERO,
        }
    }

    /// Hands one input in and prints what comes of it.
    fn feed(&mut self, words: &str, input: Input) {
        println!("\n{:>6} ms  {words}", self.now.as_ms());
        self.route
            .handle(input, &self.brokers, Draw(self.now.0), self.now);
        while let Some(output) = self.route.poll_output() {
            println!("           -> {}", describe(&output));
            if let Output::Probe { question, .. } = output {
                self.probe = Some(question.stamp);
            }
        }
        println!("           == {:?}", self.route.state());
        self.now = self.now + Duration::from_millis(20);
    }

    /// Lets time pass up to the next deadline.
    fn wait(&mut self, words: &str) {
        if let Some(deadline) = self.route.next_deadline() {
            self.now = deadline;
            self.feed(words, Input::Tick);
        }
    }

    fn link(&mut self, broker: BrokerId, link: Link) {
        for class in [Class::Rack, Class::NoRack, Class::Control] {
            self.brokers.entry(broker).set_link(class, link);
        }
    }

    /// The stamp of the fetch that is in flight.
    fn asked(&self) -> Stamp {
        let demand = self.route.standing_demand();
        demand.expect("the route wants records").stamp
    }

    /// The answer to that fetch.
    fn answer(&self, edit: impl FnOnce(&mut Row)) -> Input {
        Input::Row {
            stamp: self.asked(),
            row: row(edit),
            inconclusive: false,
        }
    }

    /// The answer to the last question whom the leader recommends.
    fn answer_probe(&self, edit: impl FnOnce(&mut Row)) -> Input {
        Input::ProbeRow {
            stamp: self.probe.expect("the leader was asked"),
            row: row(edit),
        }
    }
}

/// Broker 1 leads, all three are in sync, and reading starts at offset 0.
fn assigned() -> Input {
    let all: Arc<[BrokerId]> = [1, 2, 3].map(BrokerId).into();
    Input::Assigned(Assigned {
        partition: TopicPartition::new("orders", 0),
        assignment: AssignmentEpoch(1),
        incarnation: TopicIncarnation(1),
        topic_id: None,
        leadership: leadership(LEADER, 7),
        isr: Arc::clone(&all),
        isr_epoch: Some(LeaderEpoch(7)),
        replicas: all,
        version: MetadataVersion(1),
        position: Some((Offset(0), None)),
        paused: false,
    })
}

fn leadership(leader: BrokerId, epoch: i32) -> Leadership {
    Leadership {
        leader: Some(leader),
        epoch: Some(LeaderEpoch(epoch)),
        addressable: true,
    }
}

fn leads(leader: BrokerId, epoch: i32) -> Input {
    Input::LeaderChanged(leadership(leader, epoch))
}

fn lost(broker: BrokerId) -> Input {
    Input::LinkChanged {
        broker,
        class: Class::Rack,
        change: LinkChange::Lost,
    }
}

fn indexed(end: i64) -> Input {
    Input::Indexed(Indexed::Advanced {
        fetch_end: Offset(end),
        epoch: Some(LeaderEpoch(7)),
    })
}

/// A row without an error and without records, changed by `edit`.
fn row(edit: impl FnOnce(&mut Row)) -> Row {
    let mut row = Row {
        topic: TopicRef::Name("orders".into()),
        partition: 0.into(),
        error: ErrorCode::NONE,
        high_watermark: Some(Offset(3)),
        last_stable_offset: Some(Offset(3)),
        log_start: Some(Offset(0)),
        preferred_read_replica: None,
        diverging_epoch: None,
        current_leader: None,
        aborted: Aborted::default(),
        records: Bytes::new(),
    };
    edit(&mut row);
    row
}

/// The outputs of this play in a few words; the others as they are.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is not spelled out here is printed as it is"
)]
fn describe(output: &Output) -> String {
    match output {
        Output::Want(demand) => format!(
            "fetch offset {} from broker {} ({:?} lane)",
            demand.stamp.offset, demand.stamp.broker, demand.stamp.lane
        ),
        Output::Probe { question, wish } => format!(
            "ask leader {} whom it recommends ({})",
            question.stamp.broker,
            wish.name()
        ),
        Output::Deliver(delivery) => format!("hand on {} bytes", delivery.records.len()),
        Output::Event(Event::RoutingChange(change)) => format!("now read so: {:?}", change.reason),
        other => format!("{other:?}"),
    }
}
