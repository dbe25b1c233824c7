//! A route on a desk: brokers 1, 2, 3 in racks a, b, c, 1 leads at epoch 5, everybody in sync and
//! reachable.

use std::sync::Arc;
use std::time::Duration;

use super::replay::Tape;
use crate::ids::{
    AssignmentEpoch, BrokerId, Draw, LeaderEpoch, MetadataVersion, Moment, Offset, TopicIncarnation,
};
use crate::invariants::routing::Step;
use crate::routing::{
    Assigned, Brokers, Class, Demand, Event, Indexed, Input, Leadership, Link, LinkChange, Output,
    Reason, Route, Settings, State, Why,
};
use crate::wire::ErrorCode;
use crate::wire::api::TopicRef;
use crate::wire::api::fetch::{Aborted, Row};

pub(super) const B1: BrokerId = BrokerId(1);
pub(super) const B2: BrokerId = BrokerId(2);
pub(super) const B3: BrokerId = BrokerId(3);

/// A route and what it said last.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    pub(super) route: Route,
    pub(super) brokers: Brokers,
    pub(super) now: Moment,
    /// Outputs of the last input.
    pub(super) said: Vec<Output>,
    /// Everything since the start, as a trace would hold it.
    pub(super) tape: Tape,
}

impl Desk {
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    /// Assigned at offset 100, epoch unknown.
    pub(super) fn with(edit: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings {
            client_rack: Some("b".into()),
            ..Settings::default()
        };
        edit(&mut settings);
        let mut desk = Self {
            route: Route::new(Arc::new(settings)),
            brokers: Brokers::new(),
            now: Moment::from_ms(1_000_000),
            said: Vec::new(),
            tape: Tape::default(),
        };
        for (id, rack) in [(B1, "a"), (B2, "b"), (B3, "c")] {
            let facts = desk.brokers.entry(id);
            facts.rack = Some(rack.into());
            facts.addressable = true;
            facts.fetch_version = Some(17);
            for class in [Class::Rack, Class::NoRack, Class::Control] {
                facts.set_link(class, Link::Ready);
            }
        }
        desk.input(Input::Assigned(assigned(1)));
        desk
    }

    /// Reading from 2 under a full lease.
    pub(super) fn following() -> Self {
        Self::following_with(|_| {})
    }

    pub(super) fn following_with(edit: impl FnOnce(&mut Settings)) -> Self {
        let mut desk = Self::with(edit);
        desk.row(hint(2));
        assert_eq!(desk.route.state().follower(), Some(B2));
        desk
    }

    pub(super) fn input(&mut self, input: Input) {
        let draw = Draw(self.now.0).split();
        let mut taken = self.tape.begin(&input, &self.brokers, (draw, self.now));
        let (before, given) = (self.route.clone(), input.clone());
        self.route.handle(input, &self.brokers, draw, self.now);
        self.said = std::iter::from_fn(|| self.route.poll_output()).collect();
        let step = Step {
            before: &before,
            input: &given,
            brokers: &self.brokers,
            draw,
            now: self.now,
            outputs: &self.said,
            after: &self.route,
        };
        assert_eq!(step.broken(), None, "{step:#?}");
        self.said.iter().for_each(|output| taken.gave(output));
        taken.end(&self.route);
        self.tape.lines.extend(taken.lines());
    }

    /// The standing fetch is answered.
    pub(super) fn row(&mut self, row: Row) {
        let stamp = self.demand().stamp;
        self.input(Input::Row {
            stamp,
            row,
            inconclusive: false,
        });
    }

    /// The standing fetch is answered with an error.
    pub(super) fn error(&mut self, code: i16) {
        self.row(error(code));
    }

    /// The standing fetch is answered with records, which end at `end`.
    pub(super) fn records(&mut self, end: i64) {
        self.row(Row {
            records: vec![0; 10].into(),
            ..stay()
        });
        let epoch = Some(LeaderEpoch(5));
        self.input(Input::Indexed(Indexed::Advanced {
            fetch_end: Offset(end),
            epoch,
        }));
    }

    /// The probe in flight is answered.
    pub(super) fn probed(&mut self, row: Row) {
        let stamp = self.probe().stamp;
        self.input(Input::ProbeRow { stamp, row });
    }

    /// The fetch in flight ends without a row.
    pub(super) fn drained(&mut self) {
        let crate::routing::demand::Registered::Draining(demand) = self.route.registered else {
            panic!("nothing drains: {:?}", self.route.registered);
        };
        self.input(Input::Drained {
            stamp: demand.stamp,
        });
    }

    /// The fetch in flight, if one is, ends without a row.
    pub(super) fn land(&mut self) {
        if let crate::routing::demand::Registered::Draining(_) = self.route.registered {
            self.drained();
        }
    }

    pub(super) fn link(&mut self, broker: BrokerId, class: Class, change: LinkChange) {
        let link = match change {
            LinkChange::Ready => Link::Ready,
            LinkChange::Lost | LinkChange::Failed => Link::Down,
        };
        self.brokers.entry(broker).set_link(class, link);
        self.input(Input::LinkChanged {
            broker,
            class,
            change,
        });
    }

    pub(super) fn isr(&mut self, members: &[i32]) {
        let isr = members.iter().copied().map(BrokerId).collect();
        self.input(Input::IsrChanged {
            isr,
            epoch: Some(LeaderEpoch(5)),
        });
    }

    pub(super) fn leads(&mut self, leader: Option<BrokerId>, epoch: i32) {
        let epoch = Some(LeaderEpoch(epoch));
        let addressable = leader.is_some();
        self.input(Input::LeaderChanged(Leadership {
            leader,
            epoch,
            addressable,
        }));
    }

    /// Time passes; what falls due is told.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut said = Vec::new();
        while let Some(due) = self.route.next_deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.input(Input::Tick);
            said.append(&mut self.said);
        }
        self.now = end;
        self.said = said;
    }

    pub(super) fn demand(&self) -> Demand {
        *self.route.standing_demand().expect("a fetch stands")
    }

    /// The probe asked for by the last input.
    pub(super) fn probe(&self) -> Demand {
        let probes = self.said.iter().filter_map(|output| {
            let Output::Probe { question, .. } = output else {
                return None;
            };
            Some(*question)
        });
        probes.last().expect("a probe was asked for")
    }

    pub(super) fn asked_probe(&self) -> bool {
        self.said
            .iter()
            .any(|output| matches!(output, Output::Probe { .. }))
    }

    pub(super) fn refreshed(&self) -> bool {
        self.said
            .iter()
            .any(|output| matches!(output, Output::Refresh(_)))
    }

    pub(super) fn resolves(&self) -> bool {
        self.said
            .iter()
            .any(|output| matches!(output, Output::Resolve { .. }))
    }

    pub(super) fn validates(&self) -> bool {
        self.said
            .iter()
            .any(|output| matches!(output, Output::Validate { .. }))
    }

    pub(super) fn dialled(&self, broker: BrokerId) -> bool {
        self.said.contains(&Output::Dial {
            broker,
            class: Class::Rack,
        })
    }

    /// The lane falls silent, or speaks again.
    pub(super) fn silent(&mut self, broker: BrokerId, class: Class, silent: bool) {
        self.brokers.entry(broker).set_silent(class, silent);
        if silent {
            self.input(Input::Silent { broker, class });
        }
    }

    /// The hedge asked for by the last input.
    pub(super) fn hedge(&self) -> Option<Demand> {
        let hedges = self.said.iter().filter_map(|output| {
            let Output::Hedge { question } = output else {
                return None;
            };
            Some(*question)
        });
        hedges.last()
    }

    /// Leader 1 is silent on the lane that serves, and refuge `to` is taken.
    pub(super) fn on_refuge() -> Self {
        let mut desk = Self::new();
        desk.silent(B1, Class::Rack, true);
        assert_eq!(desk.reasons(), [Reason::Refuge]);
        desk
    }

    pub(super) fn told(&self, event: &Event) -> bool {
        self.said.contains(&Output::Event(event.clone()))
    }

    pub(super) fn reasons(&self) -> Vec<Reason> {
        let changes = self.said.iter().filter_map(|output| {
            let Output::Event(Event::RoutingChange(change)) = output else {
                return None;
            };
            Some(change.reason)
        });
        changes.collect()
    }

    pub(super) fn why(&self) -> Option<Why> {
        self.route.state().why()
    }

    pub(super) fn follower(&self) -> Option<BrokerId> {
        self.route.state().follower()
    }

    pub(super) fn at_leader(&self) -> bool {
        *self.route.state() == State::Leader
    }
}

pub(super) fn assigned(assignment: u64) -> Assigned {
    let leader = Some(B1);
    let epoch = Some(LeaderEpoch(5));
    Assigned {
        partition: crate::ids::TopicPartition::new("orders", 0),
        assignment: AssignmentEpoch(assignment),
        incarnation: TopicIncarnation(0),
        topic_id: None,
        leadership: Leadership {
            leader,
            epoch,
            addressable: true,
        },
        isr: [B1, B2, B3].into(),
        isr_epoch: epoch,
        replicas: [B1, B2, B3].into(),
        version: MetadataVersion(1),
        position: Some((Offset(100), None)),
        paused: false,
    }
}

/// An empty row without a hint, at a log of 100 to 1000.
pub(super) fn stay() -> Row {
    Row {
        topic: TopicRef::Name("orders".into()),
        partition: 0.into(),
        error: ErrorCode::NONE,
        high_watermark: Some(Offset(1_000)),
        last_stable_offset: Some(Offset(1_000)),
        log_start: Some(Offset(0)),
        preferred_read_replica: None,
        diverging_epoch: None,
        current_leader: None,
        aborted: Aborted::default(),
        records: Vec::new().into(),
    }
}

pub(super) fn hint(broker: i32) -> Row {
    Row {
        preferred_read_replica: Some(BrokerId(broker)),
        ..stay()
    }
}

pub(super) fn error(code: i16) -> Row {
    Row {
        error: ErrorCode(code),
        high_watermark: None,
        last_stable_offset: None,
        log_start: None,
        ..stay()
    }
}
