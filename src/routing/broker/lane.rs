//! One lane towards one broker: members, session, and the one Fetch in flight.

use std::sync::Arc;
use std::time::Duration;

use super::appetite::Appetite;
use super::members::{Claim, Members};
use super::output::Ticket;
use super::session::{Form, Outcome, Session};
use super::settings::Settings;
use super::vigil::Vigil;
use crate::budget::{Arrival, Permit};
use crate::ids::{Moment, TopicPartition};
use crate::routing::facts::Class;
use crate::routing::output::Demand;
use crate::routing::stamp::{Lane, Stamp};
use crate::wire::ErrorCode;
use crate::wire::api::fetch::{Request, Response};

/// The Fetch in flight.
#[derive(Clone, Debug)]
struct Flight {
    ticket: Ticket,
    form: Form,
    deadline: Moment,
    permit: Arc<Permit>,
}

/// An answer, charged.
pub(super) struct Settled {
    pub(super) arrival: Arrival,
    /// What had been granted for it.
    pub(super) granted: usize,
}

/// How an answered Fetch is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Landing {
    /// Its rows count.
    Rows,
    /// None of them does; the name goes into a counter.
    Nothing(&'static str),
    /// It is not the Fetch in flight.
    Unknown,
}

/// A lane. [`Lane::V10`] is a mode of the no-rack lane, not a lane of its own.
#[derive(Clone, Debug)]
pub(super) struct FetchLane {
    pub(super) members: Members,
    pub(super) vigil: Vigil,
    class: Class,
    v10: bool,
    by_name: bool,
    session: Session,
    flight: Option<Flight>,
    appetite: Appetite,
    hold_until: Option<Moment>,
    not_before: Option<Moment>,
    idle_since: Option<Moment>,
    /// When it was last told that an answer came.
    told: Option<Moment>,
}

impl FetchLane {
    pub(super) fn new(class: Class, settings: &Settings) -> Self {
        Self {
            members: Members::default(),
            vigil: Vigil::default(),
            class,
            v10: false,
            by_name: false,
            session: Session::new(settings.session_retry),
            flight: None,
            appetite: Appetite::default(),
            hold_until: None,
            not_before: None,
            idle_since: None,
            told: None,
        }
    }

    /// The lane as stamps and byte counters name it.
    pub(super) fn name(&self) -> Lane {
        match (self.class, self.v10) {
            (Class::NoRack, true) => Lane::V10,
            (Class::NoRack, false) => Lane::NoRack,
            (Class::Rack | Class::Control, _) => Lane::Rack,
        }
    }

    pub(super) fn is_v10(&self) -> bool {
        self.v10
    }

    /// Goes to Fetch v10 or back. Versions do not mix within a session.
    pub(super) fn set_v10(&mut self, v10: bool) {
        self.v10 = v10;
        self.session.replace();
    }

    pub(super) fn want(&mut self, partition: &TopicPartition, demand: Demand, next: Ticket) {
        let flight = self.flying();
        let serial = self.session.serial();
        self.members.want(partition, demand, flight, next, serial);
    }

    pub(super) fn withdraw(&mut self, partition: &TopicPartition) {
        let flight = self.flying();
        self.members.take_back(partition, flight, false);
    }

    /// The stamp drained at once, if nothing of the partition is in flight.
    pub(super) fn drain(&mut self, partition: &TopicPartition) -> Option<Stamp> {
        let flight = self.flying();
        self.members.drain(partition, flight)
    }

    /// Whether a connection is needed.
    pub(super) fn has_work(&self) -> bool {
        self.members.wants() > 0
    }

    pub(super) fn is_flying(&self) -> bool {
        self.flight.is_some()
    }

    fn flying(&self) -> Option<Ticket> {
        self.flight.as_ref().map(|flight| flight.ticket)
    }

    /// The next request, if one is due: demand stands, none is in flight, and those whose rows went
    /// out last have wanted again, withdrawn, or had their time.
    pub(super) fn next_request(
        &mut self,
        ticket: Ticket,
        settings: &Settings,
        now: Moment,
    ) -> Option<Request> {
        let held = self.members.is_owed() && self.hold_until.is_some_and(|until| now < until);
        let waiting = self.not_before.is_some_and(|moment| now < moment);
        if self.flight.is_some() || !self.has_work() || held || waiting {
            return None;
        }
        let permit = self.permit(settings, now)?;
        self.hold_until = None;
        self.not_before = None;
        self.idle_since = None;
        if self.members.by_name() != self.by_name {
            self.by_name = self.members.by_name();
            self.session.replace();
        }
        let form = self.session.form(now);
        let serial = self.session.serial();
        let (partitions, forgotten) = match form.full {
            true => (self.members.all(serial), Vec::new()),
            false => self.members.changes(serial),
        };
        let deadline = now + settings.max_wait + settings.fetch_timeout;
        let max_bytes = i32::try_from(permit.bytes()).unwrap_or(settings.max_bytes);
        self.flight = Some(Flight {
            ticket,
            form,
            deadline,
            permit: Arc::new(permit),
        });
        self.vigil.sent(settings, now);
        Some(Request {
            session_id: form.id,
            session_epoch: form.epoch,
            partitions,
            forgotten,
            rack: settings.rack.clone().filter(|_| self.class == Class::Rack),
            isolation: settings.isolation,
            max_wait: settings.max_wait,
            min_bytes: settings.min_bytes,
            max_bytes,
            version_limit: self.version_limit(),
        })
    }

    /// The right to be answered: for what all demands may bring, as far as one request may.
    fn permit(&mut self, settings: &Settings, now: Moment) -> Option<Permit> {
        let most = usize::try_from(settings.max_bytes).unwrap_or(0);
        let want = self.members.bytes().min(most);
        self.appetite.permit(want, &settings.budget, now)
    }

    /// What the host is to wait for, if the budget had too little.
    pub(super) fn take_wanted_bytes(&mut self) -> Option<usize> {
        self.appetite.take_wanted()
    }

    /// The budget has more.
    pub(super) fn on_budget(&mut self) {
        self.appetite.woken();
    }

    /// Leaves the budget to others if nothing is to be fetched.
    pub(super) fn rest(&mut self) {
        if self.flight.is_none() && !self.has_work() {
            self.appetite.rest();
        }
    }

    /// The permit of the Fetch in flight, settled to the bytes that came.
    pub(super) fn settle(&self, bytes: usize) -> Option<Settled> {
        let permit = Arc::clone(&self.flight.as_ref()?.permit);
        let granted = permit.bytes();
        permit.settle(bytes);
        let arrival = Arrival::new(permit);
        Some(Settled { arrival, granted })
    }

    /// The good-bye of an unused session.
    pub(super) fn good_bye(&mut self, settings: &Settings) -> Option<Request> {
        self.idle_since = None;
        let form = self.session.good_bye()?;
        Some(Request {
            session_id: form.id,
            session_epoch: form.epoch,
            partitions: Vec::new(),
            forgotten: Vec::new(),
            rack: None,
            isolation: settings.isolation,
            max_wait: Duration::ZERO,
            min_bytes: 0,
            max_bytes: settings.max_bytes,
            version_limit: self.version_limit(),
        })
    }

    /// Judges an answer. Rows, if they count, are to be claimed before
    /// [`close_flight`](Self::close_flight).
    pub(super) fn answered(&mut self, ticket: Ticket, response: &Response, now: Moment) -> Landing {
        let flight = self.flight.as_ref();
        let Some(form) = flight
            .filter(|flight| flight.ticket == ticket)
            .map(|flight| flight.form)
        else {
            return Landing::Unknown;
        };
        let silent = response.row_count() == 0 && !response.throttle.is_zero();
        if form.full && form.epoch == 0 && silent && response.error.0 == 0 {
            self.session.create_again();
            return Landing::Nothing("throttled");
        }
        match self
            .session
            .answered(form, response.error, response.session_id, now)
        {
            Outcome::Good => Landing::Rows,
            Outcome::Restart(cause) => {
                if cause == "error" {
                    let rolled = response.error == ErrorCode::UNSUPPORTED_VERSION;
                    let pause = if rolled { ROLLED_PAUSE } else { ERROR_PAUSE };
                    self.not_before = Some(now + pause);
                }
                Landing::Nothing(cause)
            }
        }
    }

    /// An answer came that says something about every member. True if that is to be told: not more
    /// often than watchdogs care.
    pub(super) fn tells_answer(&mut self, now: Moment) -> bool {
        let due = self.told.is_none_or(|told| now.since(told) >= TELL_EVERY);
        if due {
            self.told = Some(now);
        }
        due
    }

    /// Whose row is this?
    pub(super) fn claim(
        &mut self,
        partition: &TopicPartition,
        ticket: Ticket,
        filled: bool,
    ) -> Claim {
        self.members.claim(partition, ticket, filled)
    }

    /// The client begins anew, and so does its session.
    pub(super) fn renew_session(&mut self) {
        self.session.renew();
    }

    /// The broker sent a row of a partition its session does not hold: the two views differ.
    pub(super) fn distrust(&mut self) {
        self.session.replace();
    }

    /// The answer is read: the lane holds for those who got rows. Returns the drains that ended
    /// without one.
    pub(super) fn close_flight(
        &mut self,
        rows_counted: bool,
        settings: &Settings,
        now: Moment,
    ) -> Vec<(TopicPartition, Stamp)> {
        if let Some(flight) = self.flight.take()
            && flight.form.full
            && rows_counted
        {
            self.members.discard_missing(flight.ticket);
        }
        if self.members.is_owed() {
            self.hold_until = Some(now + settings.max_wait);
        }
        self.members.landed()
    }

    /// No answer will come: the request did not happen.
    fn failed(&mut self) -> Vec<(TopicPartition, Stamp)> {
        self.idle_since = None;
        self.vigil.unanswered();
        if self.flight.take().is_some() {
            self.session.replace();
        }
        self.members.landed()
    }

    /// The request was refused although its connection lives: the next one would be, too.
    pub(super) fn refused(&mut self, now: Moment) -> Vec<(TopicPartition, Stamp)> {
        self.not_before = Some(now + ERROR_PAUSE);
        self.failed()
    }

    /// The connection ended; what was refused on it may be taken on the next.
    pub(super) fn disconnected(&mut self) -> Vec<(TopicPartition, Stamp)> {
        self.not_before = None;
        self.failed()
    }

    /// Whether the Fetch in flight is this one.
    pub(super) fn flies(&self, ticket: Ticket) -> bool {
        self.flying() == Some(ticket)
    }

    /// The mute moves the deadline of the Fetch in flight, and what else would be done meanwhile.
    pub(super) fn extend(&mut self, mute: Duration) {
        self.vigil.extend(mute);
        for due in [&mut self.not_before, &mut self.idle_since] {
            *due = due.map(|due| due + mute);
        }
        self.prolong(mute);
    }

    /// The Fetch in flight is given up this much later.
    pub(super) fn prolong(&mut self, time: Duration) {
        if let Some(flight) = &mut self.flight {
            flight.deadline = flight.deadline + time;
        }
    }

    /// Whether the Fetch in flight is overdue.
    pub(super) fn is_overdue(&self, now: Moment) -> bool {
        let flight = self.flight.as_ref();
        flight.is_some_and(|flight| flight.deadline <= now)
    }

    /// Ends a hold that lasted its full time. True if somebody lost its place in the session by it.
    pub(super) fn end_hold(&mut self, now: Moment) -> bool {
        let over = self.hold_until.is_some_and(|until| until <= now);
        if over {
            self.hold_until = None;
            let owed = self.members.is_owed();
            self.members.release_owing();
            return owed;
        }
        false
    }

    /// Notes that nothing is to be fetched. True once that has lasted long enough to close the
    /// session.
    pub(super) fn is_abandoned(&mut self, settings: &Settings, now: Moment) -> bool {
        if self.has_work() || self.flight.is_some() || !self.session.is_kept() {
            self.idle_since = None;
            return false;
        }
        let since = *self.idle_since.get_or_insert(now);
        now.since(since) >= settings.no_rack_idle
    }

    /// A pause that is over waits for something else, and is no deadline any more.
    pub(super) fn next_deadline(&self, settings: &Settings, now: Moment) -> Option<Moment> {
        let hold = self.hold_until.filter(|_| self.members.is_owed());
        let flight = self.flight.as_ref().map(|flight| flight.deadline);
        let pause = self.not_before.filter(|end| self.has_work() && *end > now);
        let idle = self.idle_since.map(|since| since + settings.no_rack_idle);
        let vigil = self.vigil.next_deadline();
        let hunger = self.appetite.next_deadline().filter(|_| self.has_work());
        [hold, flight, pause, idle, vigil, hunger]
            .into_iter()
            .flatten()
            .min()
    }

    /// Highest version its requests may use.
    pub(super) fn version_limit(&self) -> Option<i16> {
        match (self.v10, self.by_name) {
            (true, _) => Some(HINTLESS),
            (false, true) => Some(NAMED),
            (false, false) => None,
        }
    }
}

/// Highest Fetch version without client metadata, hence without hints (F5).
const HINTLESS: i16 = 10;
/// Highest Fetch version that names topics.
const NAMED: i16 = 12;
/// How often a lane that answers is told of.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// Pause after a refused request, or a top-level error that is none of the session's.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
/// Pause of a broker that does not know a version it has just agreed to.
const ROLLED_PAUSE: Duration = Duration::from_secs(1);
