//! Whether a lane is silent: how long its connection or its answer has been awaited.

use std::time::Duration;

use super::settings::Settings;
use crate::ids::Moment;

/// What a vigil has to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alert {
    /// No byte came for longer than the broker may hold a Fetch.
    Quiet,
    /// The lane went silent (`true`), or has spoken again.
    Silence(bool),
}

/// Waits for one lane. Each deadline is set by what begins the wait and taken by what ends it.
#[derive(Clone, Debug, Default)]
pub(super) struct Vigil {
    silent: bool,
    /// When a connection that partitions wait for must be Ready.
    connection: Option<Moment>,
    /// When the answer must have come (hedge deadline, routing.md 2).
    answer: Option<Moment>,
    /// When the next byte of the answer must have come.
    byte: Option<Moment>,
}

impl Vigil {
    /// Whether the lane is silent.
    pub(super) fn is_silent(&self) -> bool {
        self.silent
    }

    /// A Fetch was written.
    pub(super) fn sent(&mut self, settings: &Settings, now: Moment) {
        self.answer = Some(now + settings.max_wait + settings.hedge);
        self.byte = Some(now + settings.max_wait + QUIET);
    }

    /// Bytes of the answer came in.
    pub(super) fn progress(&mut self, settings: &Settings, now: Moment) {
        self.answer = self.answer.map(|due| due.max(now + settings.hedge));
        self.byte = self
            .byte
            .map(|due| due.max(now + settings.max_wait + QUIET));
    }

    /// The Fetch in flight was answered.
    pub(super) fn answered(&mut self) -> Option<Alert> {
        self.unanswered();
        self.speak()
    }

    /// No answer will come any more.
    pub(super) fn unanswered(&mut self) {
        self.answer = None;
        self.byte = None;
    }

    /// The connection is Ready: whatever was not answered was so on another one.
    pub(super) fn connected(&mut self) -> Option<Alert> {
        self.connection = None;
        self.speak()
    }

    /// Partitions wait, and the connection is not Ready. A mute is no reason to count.
    pub(super) fn await_connection(&mut self, settings: &Settings, from: Moment) {
        if !self.silent {
            self.connection
                .get_or_insert_with(|| from + settings.refuge);
        }
    }

    /// Nobody waits and nothing is in flight: the lane owes nothing, so it cannot be silent. Who
    /// comes back to it gives it another try.
    pub(super) fn rest(&mut self) -> Option<Alert> {
        self.connection = None;
        self.speak()
    }

    /// A mute moves all deadlines (R40).
    pub(super) fn extend(&mut self, mute: Duration) {
        for due in [&mut self.connection, &mut self.answer, &mut self.byte] {
            *due = due.map(|due| due + mute);
        }
    }

    /// Takes the deadlines that passed.
    pub(super) fn tick(&mut self, now: Moment) -> Vec<Alert> {
        let mut alerts = Vec::new();
        let passed = |due: &mut Moment| *due <= now;
        if self.byte.take_if(passed).is_some() {
            alerts.push(Alert::Quiet);
        }
        let late = [self.connection.take_if(passed), self.answer.take_if(passed)];
        if late.iter().any(Option::is_some) && !self.silent {
            self.silent = true;
            alerts.push(Alert::Silence(true));
        }
        alerts
    }

    pub(super) fn next_deadline(&self) -> Option<Moment> {
        [self.connection, self.answer, self.byte]
            .into_iter()
            .flatten()
            .min()
    }

    fn speak(&mut self) -> Option<Alert> {
        std::mem::take(&mut self.silent).then_some(Alert::Silence(false))
    }
}

/// On top of `fetch.max.wait.ms`: time without a byte until links to possible refuges are dialled
/// (routing.md 8.4).
const QUIET: Duration = Duration::from_millis(500);
