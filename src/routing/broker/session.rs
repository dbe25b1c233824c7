//! The fetch session of one lane (KIP-227), as far as both sides agreed on it.

use std::time::Duration;

use crate::ids::Moment;
use crate::wire::ErrorCode;

/// Where a session stands. It advances by good answers only: a request that got none did not
/// happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// None yet: create one.
    Fresh,
    /// The broker keeps this one; the epoch is that of the next request.
    Open { id: i32, epoch: i32 },
    /// Replace this one with a full request.
    Replace { id: i32 },
    /// No session until then: the broker has no slot, or keeps losing ours.
    Sessionless { until: Moment },
}

/// How a request takes part in the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Form {
    pub(super) id: i32,
    pub(super) epoch: i32,
    /// Whether every member is in the request; otherwise only what changed.
    pub(super) full: bool,
}

/// What an answer did to the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// The rows count.
    Good,
    /// No row counts; the next request starts over. The name goes into a counter.
    Restart(&'static str),
}

/// The session machine.
#[derive(Clone, Debug)]
pub(super) struct Session {
    state: State,
    /// Raised whenever the broker's view of the members is void; a member belongs to one serial.
    serial: u64,
    /// The next request starts over, whatever is answered until then.
    stale: bool,
    /// 70 within the last minute: when the first came, and how many.
    lost: (Moment, u8),
    retry: Duration,
}

impl Session {
    pub(super) fn new(retry: Duration) -> Self {
        Self {
            state: State::Fresh,
            serial: 1,
            stale: false,
            lost: (Moment::ZERO, 0),
            retry,
        }
    }

    /// Names the present view of the members; it never comes back once void.
    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    /// The form of the next request.
    pub(super) fn form(&mut self, now: Moment) -> Form {
        if let State::Sessionless { until } = self.state
            && now >= until
        {
            self.state = State::Fresh;
        }
        if std::mem::take(&mut self.stale) {
            self.replace();
        }
        match self.state {
            State::Fresh => Form {
                id: 0,
                epoch: 0,
                full: true,
            },
            State::Open { id, epoch } => Form {
                id,
                epoch,
                full: false,
            },
            State::Replace { id } => Form {
                id,
                epoch: 0,
                full: true,
            },
            State::Sessionless { .. } => Form {
                id: 0,
                epoch: -1,
                full: true,
            },
        }
    }

    /// Whether the broker keeps a session of ours.
    pub(super) fn is_kept(&self) -> bool {
        match self.state {
            State::Open { .. } | State::Replace { .. } => true,
            State::Fresh | State::Sessionless { .. } => false,
        }
    }

    /// The form of the good-bye, if the broker keeps a session.
    pub(super) fn good_bye(&mut self) -> Option<Form> {
        let id = match self.state {
            State::Open { id, .. } | State::Replace { id } => id,
            State::Fresh | State::Sessionless { .. } => return None,
        };
        self.restart(State::Fresh);
        Some(Form {
            id,
            epoch: -1,
            full: false,
        })
    }

    /// Judges an answer by its top-level code and session id.
    pub(super) fn answered(
        &mut self,
        form: Form,
        code: ErrorCode,
        id: i32,
        now: Moment,
    ) -> Outcome {
        match code {
            ErrorCode::NONE if form.epoch == -1 => {
                // Without a session the broker remembers nobody.
                self.serial += 1;
                Outcome::Good
            }
            ErrorCode::NONE if form.full && id == 0 => {
                self.restart(State::Sessionless {
                    until: now + self.retry,
                });
                Outcome::Good
            }
            ErrorCode::NONE if form.full => {
                self.state = State::Open { id, epoch: 1 };
                Outcome::Good
            }
            ErrorCode::NONE => {
                self.state = State::Open {
                    id: form.id,
                    epoch: next_epoch(form.epoch),
                };
                Outcome::Good
            }
            ErrorCode::FETCH_SESSION_ID_NOT_FOUND => {
                self.forgotten(now);
                Outcome::Restart("session_not_found")
            }
            ErrorCode::INVALID_FETCH_SESSION_EPOCH => {
                self.replace();
                Outcome::Restart("session_epoch")
            }
            ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR => {
                self.replace();
                Outcome::Restart("topic_ids")
            }
            // A number, not an enum: whatever else a broker says of the whole request, no row of it
            // counts.
            ErrorCode(_) => {
                self.replace();
                Outcome::Restart("error")
            }
        }
    }

    /// No answer came, or the broker disagrees about the members: start over with a full request.
    pub(super) fn replace(&mut self) {
        let state = match self.state {
            State::Open { id, .. } | State::Replace { id } => State::Replace { id },
            State::Fresh => State::Fresh,
            State::Sessionless { until } => State::Sessionless { until },
        };
        self.restart(state);
    }

    /// Starts over with the next request (metadata.md 9).
    pub(super) fn renew(&mut self) {
        self.stale = true;
    }

    /// An empty answer under a throttle says nothing about a full request: create the session anew
    /// (KIP-219).
    pub(super) fn create_again(&mut self) {
        self.restart(State::Fresh);
    }

    fn forgotten(&mut self, now: Moment) {
        let (first, count) = self.lost;
        self.lost = match now.since(first) < Duration::from_secs(60) {
            true => (first, count.saturating_add(1)),
            false => (now, 1),
        };
        let state = match self.lost.1 > LOST_MAX {
            true => State::Sessionless {
                until: now + self.retry,
            },
            false => State::Fresh,
        };
        self.restart(state);
    }

    fn restart(&mut self, state: State) {
        self.state = state;
        self.serial += 1;
    }
}

/// After the largest epoch comes 1: 0 would create a session.
fn next_epoch(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(1)
}

/// So many lost sessions per minute are a broker without room for us.
const LOST_MAX: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Moment = Moment::from_ms(100_000);

    fn session() -> Session {
        Session::new(Duration::from_secs(600))
    }

    fn open(session: &mut Session) {
        let form = session.form(T0);
        assert_eq!(
            session.answered(form, ErrorCode::NONE, 77, T0),
            Outcome::Good
        );
    }

    #[test]
    fn a_session_is_created_and_continued() {
        let mut session = session();
        assert_eq!(
            session.form(T0),
            Form {
                id: 0,
                epoch: 0,
                full: true
            }
        );
        open(&mut session);
        let form = session.form(T0);
        assert_eq!(
            form,
            Form {
                id: 77,
                epoch: 1,
                full: false
            }
        );
        session.answered(form, ErrorCode::NONE, 77, T0);
        assert_eq!(
            session.form(T0),
            Form {
                id: 77,
                epoch: 2,
                full: false
            }
        );
        assert_eq!(next_epoch(i32::MAX), 1);
    }

    #[test]
    fn a_lost_answer_replaces_the_session_and_voids_its_members() {
        let mut session = session();
        open(&mut session);
        let serial = session.serial();
        session.replace();
        assert_eq!(
            session.form(T0),
            Form {
                id: 77,
                epoch: 0,
                full: true
            }
        );
        assert!(session.serial() > serial);
    }

    /// metadata.md 9
    #[test]
    fn a_renewed_session_starts_over_once_what_is_in_flight_is_answered() {
        let mut session = session();
        open(&mut session);
        let form = session.form(T0);
        session.renew();
        session.answered(form, ErrorCode::NONE, 77, T0);
        let anew = session.form(T0);
        assert_eq!((anew.id, anew.epoch, anew.full), (77, 0, true));
        session.answered(anew, ErrorCode::NONE, 78, T0);
        let next = session.form(T0);
        assert_eq!((next.id, next.epoch, next.full), (78, 1, false), "once");
    }

    /// metadata.md T24
    #[test]
    fn a_broker_without_a_slot_is_asked_without_sessions_for_ten_minutes() {
        let mut session = session();
        let form = session.form(T0);
        assert_eq!(
            session.answered(form, ErrorCode::NONE, 0, T0),
            Outcome::Good
        );
        assert_eq!(
            session.form(T0),
            Form {
                id: 0,
                epoch: -1,
                full: true
            }
        );
        let later = T0 + Duration::from_secs(600);
        assert_eq!(
            session.form(later),
            Form {
                id: 0,
                epoch: 0,
                full: true
            }
        );
    }

    /// metadata.md T24
    #[test]
    fn a_forgotten_session_is_created_anew_and_given_up_after_three_in_a_minute() {
        let mut session = session();
        for _ in 0..3 {
            open(&mut session);
            let form = session.form(T0);
            session.answered(form, ErrorCode::FETCH_SESSION_ID_NOT_FOUND, 0, T0);
            assert_eq!(
                session.form(T0),
                Form {
                    id: 0,
                    epoch: 0,
                    full: true
                }
            );
        }
        open(&mut session);
        let form = session.form(T0);
        session.answered(form, ErrorCode::FETCH_SESSION_ID_NOT_FOUND, 0, T0);
        assert_eq!(session.form(T0).epoch, -1);
    }

    /// metadata.md T24
    #[test]
    fn a_wrong_epoch_or_topic_id_replaces_the_session() {
        for code in [71, 106, 4711] {
            let mut session = session();
            open(&mut session);
            let form = session.form(T0);
            let outcome = session.answered(form, ErrorCode(code), 0, T0);
            assert!(matches!(outcome, Outcome::Restart(_)), "{code}");
            assert_eq!(
                session.form(T0),
                Form {
                    id: 77,
                    epoch: 0,
                    full: true
                }
            );
        }
    }
}
