//! A ready connection: writing, answers, throttles.

use std::time::Duration;

use bytes::Bytes;

use super::link::{Entry, Pending, Reply, correlation_of, split_frame};
use super::output::{Event, Outcome, Output, RequestError, RequestFailure};
use super::settings::Class;
use super::state::{ReauthStep, State};
use super::{At, Connection, Reason, Timer};
use crate::ids::Moment;
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Flaw, Malformed, Oddities};
use crate::wire::error::DecodeError;
use crate::wire::message::Response;

/// Malformed answers within `MALFORMED_WINDOW` that end our trust (D9).
const MALFORMED_MAX: usize = 3;
/// See `MALFORMED_MAX`.
const MALFORMED_WINDOW: Duration = Duration::from_secs(60);

impl Connection {
    /// Writes queued requests as far as the class, the mute and a pending join allow.
    pub(super) fn flush(&mut self, now: Moment) {
        while self.may_write(now) {
            let Some(pending) = self.queue.pop_front() else {
                break;
            };
            self.write(pending, now);
        }
        self.rest(now);
    }

    fn may_write(&self, now: Moment) -> bool {
        let Some(link) = &self.link else {
            return false;
        };
        let ready = matches!(self.state, State::Ready { .. });
        let joins = |entry: &Entry| matches!(entry.api, ApiKey::JoinGroup | ApiKey::SyncGroup);
        ready
            && self.muted_until <= now
            && link.entries.len() < self.class.in_flight_max()
            && !(self.class == Class::Coordinator && link.entries.iter().any(joins))
    }

    fn write(&mut self, pending: Pending, now: Moment) {
        let version = match self.versions.pick(&pending.request) {
            Ok(version) => version,
            Err(error) => return self.refuse(&pending, RequestFailure::Unsupported(error)),
        };
        match self.encode(version, &pending.request) {
            Ok((head, bytes)) => self.send(head, bytes, Reply::Caller(pending), now),
            Err(error) => self.refuse(&pending, RequestFailure::Encode(error)),
        }
    }

    /// Runs the idle clock while nothing is queued or in flight.
    fn rest(&mut self, now: Moment) {
        if self.queue.is_empty() && self.in_flight() == 0 {
            self.set(Timer::Idle, now + self.settings.idle);
        } else {
            self.clear(&[Timer::Idle]);
        }
    }

    pub(super) fn on_written(&mut self, bytes: u64, now: Moment) {
        if let Some(link) = &mut self.link {
            link.written(bytes, now);
        }
    }

    pub(super) fn on_frame(&mut self, frame: &Bytes, at: At) {
        let Some(link) = &mut self.link else {
            return;
        };
        link.heard = true;
        let awaited = link.entries.front().map(|entry| entry.correlation);
        if awaited.is_none() || awaited != correlation_of(frame) {
            return self.break_off(Reason::Desynchronised, &RequestFailure::Desynchronised, at);
        }
        let Some(entry) = link.entries.pop_front() else {
            return;
        };
        match split_frame(frame, entry.api, entry.version) {
            Ok((_, tags, body)) => self.answered(entry, &body, tags, at),
            Err(flaw) => self.answer_malformed(entry, flaw, at),
        }
    }

    fn answered(&mut self, entry: Entry, body: &Bytes, tags: u32, at: At) {
        let sent_at = entry.sent_at();
        let Entry {
            api,
            version,
            reply,
            ..
        } = entry;
        let pending = match reply {
            Reply::Setup => return self.setup_answered((api, version), body, tags, at),
            Reply::Caller(pending) => pending,
        };
        match Response::decode(api, version, body) {
            Ok((response, mut oddities)) => {
                oddities.unknown_tags = oddities.unknown_tags.saturating_add(tags);
                if let Some(error) = self.too_odd(version, &response, oddities) {
                    return self.bad_answer(&pending, version, error, at);
                }
                let round_trip = at.now.since(sent_at);
                self.good_answer(&pending, version, response, round_trip, at);
                self.report(api, oddities);
            }
            Err(error) => self.bad_answer(&pending, version, error, at),
        }
    }

    /// What a strict connection minds about an answer that decodes.
    fn too_odd(
        &self,
        version: i16,
        response: &Response,
        oddities: Oddities,
    ) -> Option<DecodeError> {
        let throttle = response.throttle() > self.settings.throttle_max;
        let place = oddities.place().map(|place| (place, Flaw::Odd));
        let throttle = throttle.then_some(("throttle_time_ms", Flaw::OutOfRange));
        let (field, flaw) = place.or(throttle).filter(|_| self.settings.strict)?;
        let malformed = Malformed { field, at: 0, flaw };
        Some(DecodeError::new(response.api(), version, malformed))
    }

    /// The same for an answer of the setup. A refusal may come in another version.
    fn setup_too_odd(
        &self,
        (api, version): (ApiKey, i16),
        body: &Bytes,
        tags: u32,
    ) -> Option<DecodeError> {
        if !self.settings.strict || !body.starts_with(&[0, 0]) {
            return None;
        }
        let (response, mut oddities) = Response::decode(api, version, body).ok()?;
        oddities.unknown_tags = oddities.unknown_tags.saturating_add(tags);
        self.too_odd(version, &response, oddities)
    }

    fn setup_answered(&mut self, (api, version): (ApiKey, i16), body: &Bytes, tags: u32, at: At) {
        if let Some(error) = self.setup_too_odd((api, version), body, tags) {
            if matches!(api, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate) {
                return self.exchange_malformed(error, at);
            }
            return self.setup_malformed(error, at);
        }
        match api {
            ApiKey::ApiVersions => self.versions_answered(body, at),
            ApiKey::SaslHandshake => self.handshake_answered(version, body, at),
            ApiKey::SaslAuthenticate => self.token_answered(version, body, at),
            ApiKey::Produce
            | ApiKey::Fetch
            | ApiKey::ListOffsets
            | ApiKey::Metadata
            | ApiKey::OffsetCommit
            | ApiKey::OffsetFetch
            | ApiKey::FindCoordinator
            | ApiKey::JoinGroup
            | ApiKey::Heartbeat
            | ApiKey::LeaveGroup
            | ApiKey::SyncGroup
            | ApiKey::CreateTopics
            | ApiKey::InitProducerId
            | ApiKey::OffsetForLeaderEpoch
            | ApiKey::DescribeConfigs
            | ApiKey::ConsumerGroupHeartbeat => {}
        }
    }

    fn good_answer(
        &mut self,
        pending: &Pending,
        version: i16,
        response: Response,
        round_trip: Duration,
        at: At,
    ) {
        let api = response.api();
        let throttle = response.throttle();
        let rolled_back = response.is_version_refusal();
        self.complete(
            pending.token,
            api,
            Some(version),
            Ok(response),
            Some(round_trip),
        );
        self.proven();
        self.throttled(throttle, at);
        if rolled_back {
            return self.break_off(Reason::RolledBack(api), &RequestFailure::Disconnected, at);
        }
        self.go_on(at);
    }

    fn report(&mut self, api: ApiKey, oddities: Oddities) {
        if oddities != Oddities::default() {
            self.emit(Event::Odd { api, oddities });
        }
    }

    /// What one answer allows next.
    fn go_on(&mut self, at: At) {
        match self.state {
            State::Ready { .. } => self.flush(at.now),
            State::Reauth {
                step: ReauthStep::Drain,
            } => self.continue_reauth(at),
            State::Draining { reason } if self.in_flight() == 0 => self.close_for_good(reason),
            State::Draining { .. }
            | State::Idle
            | State::Resolving
            | State::Connecting { .. }
            | State::Tls { .. }
            | State::Versions { .. }
            | State::Handshake
            | State::Authenticate { .. }
            | State::Reauth { .. }
            | State::Backoff { .. }
            | State::Closed { .. } => {}
        }
    }

    /// The connection has proven good: the failure count returns to zero (C2).
    pub(super) fn proven(&mut self) {
        if let State::Ready { stable } = &mut self.state {
            *stable = true;
        }
        self.failures = 0;
        self.clear(&[Timer::Stable]);
    }

    fn answer_malformed(&mut self, entry: Entry, flaw: Malformed, at: At) {
        let error = DecodeError::new(entry.api, entry.version, flaw);
        match entry.reply {
            Reply::Caller(pending) => self.bad_answer(&pending, entry.version, error, at),
            Reply::Setup => self.setup_malformed(error, at),
        }
    }

    /// An answer of the setup is malformed: the attempt has failed.
    pub(super) fn setup_malformed(&mut self, error: DecodeError, at: At) {
        match self.count_malformed(error, at.now) {
            Some(why) => self.distrust(why, at),
            None => self.setup_failed(Reason::Malformed(error), at),
        }
    }

    fn bad_answer(&mut self, pending: &Pending, version: i16, error: DecodeError, at: At) {
        let failure = RequestFailure::Malformed(error);
        let result = Err(RequestError {
            outcome: Outcome::Unknown,
            reason: failure,
        });
        self.complete(pending.token, error.api, Some(version), result, None);
        match self.count_malformed(error, at.now) {
            Some(why) => self.distrust(why, at),
            None => self.break_off(Reason::Malformed(error), &RequestFailure::Disconnected, at),
        }
    }

    /// Counts a malformed answer; the third of a node within a minute costs our trust, and this is
    /// why (D9).
    pub(super) fn count_malformed(&mut self, error: DecodeError, now: Moment) -> Option<String> {
        self.emit(Event::Malformed(error));
        self.note_malformed(now, now);
        let many = self.malformed_at.len() >= MALFORMED_MAX;
        many.then(|| format!("{MALFORMED_MAX} malformed answers, the last: {error}"))
    }

    /// Remembers a malformed answer, here or on another connection of the node.
    pub(super) fn note_malformed(&mut self, at: Moment, now: Moment) {
        self.malformed_at.push_back(at);
        self.malformed_at
            .retain(|at| now.since(*at) <= MALFORMED_WINDOW);
        if self.malformed_at.len() > MALFORMED_MAX {
            self.malformed_at.pop_front();
        }
    }

    /// Honours a throttle: this connection, and unless it is a coordinator's, the broker's others
    /// (KIP-219).
    pub(super) fn throttled(&mut self, asked: Duration, at: At) {
        if asked.is_zero() {
            return;
        }
        let throttle = asked.min(self.settings.throttle_max);
        if throttle < asked {
            self.emit(Event::ThrottleCut { asked });
        }
        self.emit(Event::Throttled { time: throttle });
        let until = at.now + throttle;
        self.mute(until, at.now);
        if self.class != Class::Coordinator {
            self.outputs.push_back(Output::Throttled { until });
        }
    }

    pub(super) fn on_mute(&mut self, until: Moment, at: At) {
        if self.class != Class::Coordinator {
            let longest = at.now + self.settings.throttle_max;
            self.mute(until.min(longest), at.now);
        }
    }

    /// Holds writes until `until`, which never moves back, and gives every request that much more
    /// time.
    fn mute(&mut self, until: Moment, now: Moment) {
        let extra = until.since(self.muted_until.max(now));
        if extra.is_zero() {
            return;
        }
        self.muted_until = until;
        self.set(Timer::Mute, until);
        for pending in &mut self.queue {
            pending.deadline = pending.deadline + extra;
        }
        for entry in self.link.iter_mut().flat_map(|link| &mut link.entries) {
            if let Reply::Caller(pending) = &mut entry.reply {
                pending.deadline = pending.deadline + extra;
            }
        }
    }
}
