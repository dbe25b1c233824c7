//! When to ask: one request at a time, urgent needs in company, failures elsewhere, silence on a
//! curve (metadata.md 8).

use std::collections::{BTreeSet, VecDeque};

use super::input::Waiter;
use super::needs::{Needs, Yield};
use super::output::{RequestToken, Target};
use super::settings::Settings;
use crate::ids::{BrokerId, Draw, Moment, TopicName};

/// The clockwork of refreshes.
#[derive(Debug, Default)]
pub(super) struct Refresh {
    pub(super) needs: Needs,
    /// Whose view is the freshest for what is wanted.
    pub(super) prefer: Option<BrokerId>,
    /// Whose view has been found wanting.
    pub(super) avoid: Option<Target>,
    /// Who was asked last.
    pub(super) last: Option<Target>,
    waiters: Vec<(u64, Waiter)>,
    /// Orders questions and requests that happen at the same moment.
    sequence: u64,
    flight: Option<Flight>,
    given_up: VecDeque<Flight>,
    urgent_at: Option<Moment>,
    period_at: Option<Moment>,
    /// When the refresh that is still missing became due.
    due_since: Option<Moment>,
    sent_at: Option<Moment>,
    fruitless: u32,
    failures: u32,
}

/// A request that is out.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) token: RequestToken,
    pub(super) to: Target,
    /// The names asked for; `None` if all were.
    pub(super) topics: Option<BTreeSet<TopicName>>,
    sequence: u64,
    deadline: Moment,
    /// Whether it asks for everything subscribed.
    full: bool,
}

/// A request to be sent.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) to: Target,
    pub(super) topics: Option<BTreeSet<TopicName>>,
    pub(super) full: bool,
}

impl Refresh {
    /// Something new is wanted: ask after the debounce, together with whatever else comes up.
    pub(super) fn hurry(&mut self, settings: &Settings, now: Moment) {
        let mut at = now + settings.debounce;
        if let Some(sent) = self.sent_at.filter(|_| self.fruitless > 0) {
            // While answers bring nothing, new needs do not outrun the first step of the curve.
            at = at.max(sent + settings.no_progress.plain(0));
        }
        self.urgent_at = Some(self.urgent_at.map_or(at, |set| set.min(at)));
    }

    /// Everything subscribed is to be asked for at `at`, or earlier if that was planned.
    pub(super) fn plan_full(&mut self, at: Moment) {
        self.period_at = Some(self.period_at.map_or(at, |set| set.min(at)));
    }

    pub(super) fn wait(&mut self, waiter: Waiter) {
        self.sequence += 1;
        self.waiters.push((self.sequence, waiter));
    }

    /// Whether a request is to be sent now, and if so whether for everything.
    pub(super) fn is_due(&mut self, now: Moment) -> Option<bool> {
        let passed = |at: Option<Moment>| at.is_some_and(|at| at <= now);
        let (urgent, period) = (passed(self.urgent_at), passed(self.period_at));
        if urgent || period {
            self.due_since.get_or_insert(now);
        }
        (self.flight.is_none() && (urgent || period)).then(|| period || self.needs.is_empty())
    }

    pub(super) fn send(&mut self, plan: Plan, settings: &Settings, now: Moment) -> RequestToken {
        self.sequence += 1;
        let token = RequestToken(self.sequence);
        self.urgent_at = None;
        // Whom to prefer and to avoid holds for one question.
        self.prefer = None;
        self.avoid = None;
        self.last = Some(plan.to);
        self.sent_at = Some(now);
        self.flight = Some(Flight {
            token,
            to: plan.to,
            topics: plan.topics,
            sequence: self.sequence,
            deadline: now + settings.attempt,
            full: plan.full,
        });
        token
    }

    /// The request named by `token`, wherever it stands, and whether it was still awaited.
    pub(super) fn take(&mut self, token: RequestToken) -> Option<(Flight, bool)> {
        if let Some(flight) = self.flight.take_if(|flight| flight.token == token) {
            return Some((flight, true));
        }
        let index = self
            .given_up
            .iter()
            .position(|flight| flight.token == token)?;
        self.given_up.remove(index).map(|flight| (flight, false))
    }

    /// Gives the awaited request up if its time is over, and returns who was asked. Its answer is
    /// still merged if it comes.
    pub(super) fn give_up(&mut self, now: Moment) -> Option<Target> {
        let flight = self.flight.take_if(|flight| flight.deadline <= now)?;
        let to = flight.to;
        self.abandon(flight);
        Some(to)
    }

    /// Stops awaiting the request that is out.
    pub(super) fn abandon_flight(&mut self) {
        if let Some(flight) = self.flight.take() {
            self.abandon(flight);
        }
    }

    /// No answer: another broker at once, twice, then along the curve.
    pub(super) fn failed(&mut self, to: Target, settings: &Settings, draw: Draw, now: Moment) {
        self.avoid = Some(to);
        let pause = match self.failures.checked_sub(RETRIES_AT_ONCE) {
            None => std::time::Duration::ZERO,
            Some(step) => settings.no_progress.delay(step, draw),
        };
        self.failures = self.failures.saturating_add(1);
        let at = now + pause;
        // The period stays due; the pause holds for it as well.
        if self.period_at.is_some_and(|period| period <= at) {
            self.period_at = Some(at);
        }
        self.urgent_at = Some(at);
    }

    /// An answer was merged and brought `yielded`. Returns who waited for it.
    pub(super) fn answered(
        &mut self,
        flight: &Flight,
        yielded: Yield,
        settings: &Settings,
        draw: Draw,
        now: Moment,
    ) -> Vec<Waiter> {
        self.failures = 0;
        self.due_since = None;
        if flight.full {
            let share = draw.split().uniform(0.9, 1.0);
            self.period_at = Some(now + settings.age_max.max(settings.debounce).mul_f64(share));
        }
        match yielded {
            Yield::NothingWanted => {}
            Yield::Progress => {
                self.fruitless = 0;
                if !self.needs.is_empty() {
                    self.hurry(settings, now);
                }
            }
            Yield::Nothing => {
                let at = now + settings.no_progress.delay(self.fruitless, draw);
                self.urgent_at = Some(self.urgent_at.map_or(at, |set| set.min(at)));
                self.fruitless = self.fruitless.saturating_add(1);
                self.avoid = Some(flight.to);
            }
        }
        let (done, left): (Vec<_>, Vec<_>) = self
            .waiters
            .drain(..)
            .partition(|(asked, _)| *asked < flight.sequence);
        self.waiters = left;
        if !self.waiters.is_empty() {
            self.hurry(settings, now);
        } else if self.needs.is_empty() {
            self.urgent_at = None;
        }
        done.into_iter().map(|(_, waiter)| waiter).collect()
    }

    pub(super) const fn due_since(&self) -> Option<Moment> {
        self.due_since
    }

    /// Starts over: everything is to be asked for now.
    pub(super) fn restart(&mut self, now: Moment) {
        self.abandon_flight();
        self.failures = 0;
        self.fruitless = 0;
        self.avoid = None;
        self.prefer = None;
        self.last = None;
        self.urgent_at = None;
        self.period_at = Some(now);
        self.due_since = None;
    }

    /// When something is to be done next.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        match &self.flight {
            Some(flight) => Some(flight.deadline),
            None => [self.urgent_at, self.period_at].into_iter().flatten().min(),
        }
    }

    fn abandon(&mut self, flight: Flight) {
        if self.given_up.len() >= GIVEN_UP_MAX {
            self.given_up.pop_front();
        }
        self.given_up.push_back(flight);
    }
}

/// Failures in a row that are followed by another attempt without a pause.
const RETRIES_AT_ONCE: u32 = 2;
/// Requests whose late answers are still merged.
const GIVEN_UP_MAX: usize = 8;
