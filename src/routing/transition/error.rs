//! R23 to R27: error rows, judged by the role the broker had when it was asked.

use crate::backoff::Backoff;
use crate::cluster;
use crate::ids::{BrokerId, Moment};
use crate::routing::codes::{FollowerAnswer, LeaderAnswer, follower_answer, leader_answer};
use crate::routing::cooldown::Fault;
use crate::routing::event::{Event, Halt, Reason};
use crate::routing::output::{Count, Output, Resolve};
use crate::routing::route::{Context, Route};
use crate::routing::stamp::{Role, Stamp};
use crate::routing::state::{State, Until, Why};
use crate::routing::timer::Timer;
use crate::wire::ErrorCode;
use crate::wire::api::fetch::Row;

impl Route {
    pub(in crate::routing) fn on_row_error(
        &mut self,
        stamp: &Stamp,
        row: &Row,
        in_position: bool,
        context: Context<'_>,
    ) {
        match stamp.role {
            Role::Leader => self.on_leader_error(stamp, row.error, in_position, context),
            Role::Follower => self.on_follower_error(stamp, row, in_position, context),
        }
    }

    /// R23, R24, R26, R27 at the leader: stay and wait, or stop.
    fn on_leader_error(
        &mut self,
        stamp: &Stamp,
        error: ErrorCode,
        in_position: bool,
        context: Context<'_>,
    ) {
        match leader_answer(error) {
            LeaderAnswer::OutOfRange if in_position => self.ask_for_range(),
            LeaderAnswer::OutOfRange => {}
            LeaderAnswer::Session => self.back_off_error(context),
            LeaderAnswer::Corrupt => self.on_corrupt(stamp, context),
            LeaderAnswer::Stale(reason) => {
                self.emit(Output::Refresh(reason));
                self.back_off(self.settings.leader_backoff, context);
            }
            LeaderAnswer::Rolled => self.back_off(self.settings.leader_backoff, context),
            LeaderAnswer::Refused => {
                self.absolve_suspect(Fault::Authorization);
                self.tell(error);
                self.back_off(self.settings.authorization_backoff, context);
            }
            LeaderAnswer::Unreadable => {
                self.absolve_suspect(Fault::Version);
                self.tell(error);
                self.halt(Halt::Compression);
            }
            LeaderAnswer::Fenced => self.fence(context),
            LeaderAnswer::Behind => {
                self.retry.behind = self.retry.behind.saturating_add(1);
                if self.retry.behind >= BEHIND_MAX {
                    self.retry.behind = 0;
                    self.emit(Output::Refresh(cluster::Reason::UnknownLeaderEpoch));
                }
                self.back_off(self.settings.leader_backoff, context);
            }
            LeaderAnswer::NotYet => self.back_off(self.settings.leader_backoff, context),
            LeaderAnswer::ServerError => self.back_off_error(context),
            LeaderAnswer::Unknown => {
                self.count(Count::UnknownCode(error.0));
                self.back_off_error(context);
            }
        }
    }

    /// R24 to R27 at a follower.
    fn on_follower_error(
        &mut self,
        stamp: &Stamp,
        row: &Row,
        in_position: bool,
        context: Context<'_>,
    ) {
        let broker = stamp.broker;
        match follower_answer(row.error) {
            FollowerAnswer::OutOfRange if in_position => {
                self.on_follower_range(broker, row, context)
            }
            FollowerAnswer::OutOfRange => {}
            FollowerAnswer::Session => self.back_off_error(context),
            FollowerAnswer::Corrupt => self.on_corrupt(stamp, context),
            FollowerAnswer::Cool(fault, refresh) => {
                if fault == Fault::UnknownCode {
                    self.count(Count::UnknownCode(row.error.0));
                }
                if fault == Fault::Version {
                    self.retry.suspect = Some(broker);
                }
                self.cool_and_leave(broker, fault, context);
                if let Some(reason) = refresh {
                    self.emit(Output::Refresh(reason));
                }
            }
            FollowerAnswer::Refused => {
                self.cool_and_leave(broker, Fault::Authorization, context);
                self.retry.suspect = Some(broker);
            }
            FollowerAnswer::Fenced => {
                self.change(State::Leader, Reason::LeaderChanged, context);
                self.fence(context);
            }
            FollowerAnswer::NotYet => self.on_follower_lags(broker, context),
            FollowerAnswer::ServerError => self.on_follower_server_error(broker, context),
        }
    }

    /// R26: the same offset is fetched at the leader, whose answer counts. The broker's log start,
    /// if it gave one ahead of us, tells when it will be in range again.
    fn on_follower_range(&mut self, broker: BrokerId, row: &Row, context: Context<'_>) {
        self.cool(broker, Fault::Range, context);
        if let Some(start) = row.log_start.filter(|start| *start > self.fetch_end) {
            self.ledger.note_log_start(broker, start);
        }
        self.leave(broker, Reason::Cooldown(Fault::Range), context);
    }

    /// R24: a replica that lags behind metadata or log gets a second in all, then the leader serves
    /// for a while.
    fn on_follower_lags(&mut self, broker: BrokerId, context: Context<'_>) {
        let since = *self.retry.not_yet_since.get_or_insert(context.now);
        let end = since + self.settings.not_yet_max;
        if context.now < end {
            let delay = self
                .settings
                .not_yet_backoff
                .delay(self.retry.failures, context.draw);
            self.retry.failures = self.retry.failures.saturating_add(1);
            self.timers
                .set(Timer::Backoff, (context.now + delay).min(end));
            return;
        }
        if self.on_refuge() {
            return self.cool_and_leave(broker, Fault::Slow, context);
        }
        let why = Why::NotYet(broker);
        let until = Until::At(context.now + self.settings.not_yet_hold);
        let state = State::Forced {
            why,
            until,
            resume: self.state.hold(),
        };
        self.change(state, Reason::Hold(why), context);
    }

    fn on_follower_server_error(&mut self, broker: BrokerId, context: Context<'_>) {
        let (since, count) = match self.retry.server_errors {
            Some((since, count)) if context.now.since(since) < SERVER_ERROR_WINDOW => {
                (since, count)
            }
            Some(_) | None => (context.now, 0),
        };
        if count.saturating_add(1) >= SERVER_ERRORS_MAX {
            return self.cool_and_leave(broker, Fault::ServerError, context);
        }
        self.retry.server_errors = Some((since, count.saturating_add(1)));
        self.back_off_error(context);
    }

    /// R27: our epoch is old. Nothing is fetched until a newer leader is known and has validated
    /// the position.
    pub(in crate::routing) fn fence(&mut self, context: Context<'_>) {
        self.gates.fenced = true;
        self.retry.fenced = self.retry.fenced.saturating_add(1);
        self.emit(Output::Refresh(cluster::Reason::NotLeader));
        self.back_off(self.settings.leader_backoff, context);
    }

    /// Q for an offset the leader refuses (routing.md 11, right column).
    pub(in crate::routing) fn ask_for_range(&mut self) {
        self.gates.refused = Some(self.fetch_end);
        self.resolve(Resolve::OutOfRange {
            offset: self.fetch_end,
            epoch: self.fetched_epoch,
        });
    }

    fn absolve_suspect(&mut self, fault: Fault) {
        if let Some(suspect) = self.retry.suspect.take() {
            self.ledger.absolve(suspect, fault);
        }
    }

    /// Surfaces a refusal of the leader once, until it serves again.
    fn tell(&mut self, code: ErrorCode) {
        if self.retry.told != Some(code) {
            self.retry.told = Some(code);
            self.emit(Output::Event(Event::Refused { code }));
        }
    }

    pub(in crate::routing) fn back_off_error(&mut self, context: Context<'_>) {
        self.back_off(self.settings.error_backoff, context);
    }

    fn back_off(&mut self, schedule: Backoff, context: Context<'_>) {
        let delay = schedule.delay(self.retry.failures, context.draw);
        self.retry.failures = self.retry.failures.saturating_add(1);
        self.timers.set(Timer::Backoff, context.now + delay);
    }

    /// A backoff is over. While our epoch is fenced, only metadata can help: ask again. If it knows
    /// no newer epoch time after time, the broker that fenced us was wrong: fetch again, slowly.
    pub(in crate::routing) fn on_backoff_over(&mut self, context: Context<'_>) {
        if self.gates.fenced && self.retry.fenced < FENCED_MAX {
            self.fence(context);
        } else {
            self.gates.fenced = false;
        }
    }

    /// Moves what waits for an answer of a muted broker (R40).
    pub(in crate::routing) fn on_throttled(
        &mut self,
        broker: BrokerId,
        until: Moment,
        context: Context<'_>,
    ) {
        let mute = until.since(context.now);
        if self.hedge.out.is_some_and(|(asked, _)| asked == broker) {
            self.timers.postpone(Timer::Hedge, mute);
        }
        if self.served.is_none_or(|(served, _)| served != broker) {
            return;
        }
        for timer in OF_THE_SERVING_LINK {
            self.timers.postpone(timer, mute);
        }
        self.watch.postpone(mute);
        if let Some(since) = &mut self.retry.not_yet_since {
            *since = *since + mute;
        }
        if let Some((since, _)) = &mut self.retry.empty {
            *since = *since + mute;
        }
    }
}

/// What waits for an answer of the broker that serves.
const OF_THE_SERVING_LINK: [Timer; 6] = [
    Timer::Flight,
    Timer::Trust,
    Timer::Starve,
    Timer::Quiet,
    Timer::Stuck,
    Timer::Grace,
];
/// 75 so often in a row at the leader: perhaps it is we who are wrong.
const BEHIND_MAX: u8 = 3;
/// So many refreshes without a newer epoch: there is none.
const FENCED_MAX: u8 = 16;
/// -1 so often within the window: the follower cools.
const SERVER_ERRORS_MAX: u8 = 3;
/// Window of `SERVER_ERRORS_MAX`.
const SERVER_ERROR_WINDOW: std::time::Duration = std::time::Duration::from_secs(10);
