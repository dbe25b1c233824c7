//! What connections do, as metrics (wire.md 15).

use crate::actors::oddities;
use crate::ids::Moment;
use crate::wire::{Class, Event, PortMixup, Reason, StateName};

/// Counts what one connection does, and that it is there.
#[derive(Debug)]
pub(super) struct Meter {
    class: &'static str,
    state: StateName,
    /// When the attempt to set it up began.
    began: Option<Moment>,
}

impl Meter {
    /// A connection that nobody needs yet.
    pub(super) fn new(class: Class) -> Self {
        let meter = Self {
            class: class_label(class),
            state: StateName::Idle,
            began: None,
        };
        meter.stand(1.0);
        meter
    }

    /// Something happened to it.
    pub(super) fn note(&mut self, event: &Event, now: Moment) {
        match event {
            Event::Transition { from, to, reason } => self.moved(*from, *to, reason, now),
            Event::Odd { api, oddities } => {
                let api = api.to_string();
                if oddities.trailing_bytes > 0 {
                    metrics::counter!("nearside_wire_trailing_bytes_total", "api" => api.clone())
                        .increment(oddities.trailing_bytes as u64);
                }
                if oddities.unknown_tags > 0 {
                    metrics::counter!("nearside_wire_unknown_tags_total", "api" => api)
                        .increment(oddities.unknown_tags.into());
                }
                oddities::of_repeated_rows(oddities.duplicates);
            }
            Event::Malformed(error) => {
                let api = error.api.to_string();
                metrics::counter!("nearside_wire_malformed_total", "api" => api).increment(1);
            }
            Event::Throttled { time } => {
                metrics::histogram!("nearside_wire_throttle_seconds", "class" => self.class)
                    .record(time.as_secs_f64());
            }
            Event::ThrottleCut { .. } => oddities::of_throttle(),
            Event::NameDisliked | Event::StaleAddresses { .. } => {}
        }
    }

    /// A second connection is to take over before the session of this one ends.
    pub(super) fn twin_wanted(&self) {
        self.renewed("twin");
    }

    fn moved(&mut self, from: StateName, to: StateName, reason: &Reason, now: Moment) {
        self.stand(-1.0);
        self.state = to;
        self.stand(1.0);
        self.judge(reason);
        match (from, to) {
            (StateName::Reauth, StateName::Ready) => self.renewed("renewed"),
            (StateName::Reauth, StateName::Backoff) => self.renewed("failed"),
            (
                StateName::Idle | StateName::Backoff,
                StateName::Resolving | StateName::Connecting,
            ) => {
                self.began = Some(now);
            }
            (_, StateName::Ready) => {
                if let Some(began) = self.began.take() {
                    metrics::histogram!("nearside_wire_setup_seconds", "class" => self.class)
                        .record(now.since(began).as_secs_f64());
                }
            }
            (
                _,
                StateName::Idle
                | StateName::Resolving
                | StateName::Connecting
                | StateName::Tls
                | StateName::VersionsPre
                | StateName::Handshake
                | StateName::Authenticate
                | StateName::VersionsPost
                | StateName::Reauth
                | StateName::Draining
                | StateName::Backoff
                | StateName::Closed,
            ) => {}
        }
    }

    /// Counts why it moves, where that is a fault of its own kind.
    fn judge(&self, reason: &Reason) {
        match reason {
            Reason::Trust(_) => {
                metrics::counter!("nearside_wire_auth_failures_total", "class" => self.class)
                    .increment(1);
            }
            Reason::Mixup(mixup) => {
                let seen = mixup_label(*mixup);
                metrics::counter!("nearside_wire_port_mixup_total", "seen" => seen).increment(1);
            }
            Reason::Desynchronised => {
                metrics::counter!("nearside_wire_desynchronised_total", "class" => self.class)
                    .increment(1);
            }
            Reason::Requested
            | Reason::Progress
            | Reason::SetUp
            | Reason::WaitOver
            | Reason::Unused
            | Reason::Drain(_)
            | Reason::Reauthentication
            | Reason::Resolve(_)
            | Reason::Dial(_)
            | Reason::Lost(_)
            | Reason::SetupTimeout
            | Reason::RequestTimeout(_)
            | Reason::Frame(_)
            | Reason::Malformed(_)
            | Reason::Unsupported(_)
            | Reason::VersionsRefused(_)
            | Reason::RolledBack(_) => {}
        }
    }

    fn renewed(&self, outcome: &'static str) {
        let class = self.class;
        metrics::counter!("nearside_wire_reauth_total", "class" => class, "outcome" => outcome)
            .increment(1);
    }

    /// One connection more, or less, in this state.
    fn stand(&self, difference: f64) {
        let state = state_label(self.state);
        metrics::gauge!("nearside_wire_connections", "class" => self.class, "state" => state)
            .increment(difference);
    }
}

/// A connection that is gone stands nowhere.
impl Drop for Meter {
    fn drop(&mut self) {
        self.stand(-1.0);
    }
}

const fn class_label(class: Class) -> &'static str {
    match class {
        Class::Control => "control",
        Class::FetchRack => "fetch_rack",
        Class::FetchNoRack => "fetch_no_rack",
        Class::Produce => "produce",
        Class::Coordinator => "coordinator",
    }
}

const fn state_label(state: StateName) -> &'static str {
    match state {
        StateName::Idle => "idle",
        StateName::Resolving => "resolving",
        StateName::Connecting => "connecting",
        StateName::Tls => "tls",
        StateName::VersionsPre => "versions_pre",
        StateName::Handshake => "handshake",
        StateName::Authenticate => "authenticate",
        StateName::VersionsPost => "versions_post",
        StateName::Ready => "ready",
        StateName::Reauth => "reauth",
        StateName::Draining => "draining",
        StateName::Backoff => "backoff",
        StateName::Closed => "closed",
    }
}

const fn mixup_label(mixup: PortMixup) -> &'static str {
    match mixup {
        PortMixup::Tls => "tls",
        PortMixup::Http => "http",
        PortMixup::HangUp => "hang_up",
        PortMixup::Plaintext => "plaintext",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use metrics::{
        Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    };

    use super::*;
    use crate::wire::{ApiKey, DecodeError, Flaw, Oddities};

    /// Which counters were touched.
    #[derive(Default)]
    struct Touched(Mutex<Vec<String>>);

    impl Recorder for Touched {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            let labels = key.labels().map(metrics::Label::value);
            let labels = labels.collect::<Vec<_>>().join(",");
            let name = key.name().trim_start_matches("nearside_wire_");
            self.0.lock().unwrap().push(format!("{name} {labels}"));
            Counter::noop()
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    fn touched(event: &Event) -> Vec<String> {
        let touched = Touched::default();
        metrics::with_local_recorder(&touched, || {
            Meter::new(Class::FetchRack).note(event, Moment::ZERO);
        });
        touched.0.into_inner().unwrap()
    }

    #[test]
    fn what_an_answer_holds_besides_is_counted_by_its_api() {
        let (trailing, unknown) = ("trailing_bytes_total Fetch", "unknown_tags_total Fetch");
        for (trailing_bytes, unknown_tags, expected) in [
            (1, 0, &[trailing][..]),
            (0, 2, &[unknown]),
            (7, 3, &[trailing, unknown]),
            (0, 0, &[]),
        ] {
            let oddities = Oddities {
                trailing_bytes,
                unknown_tags,
                duplicates: 0,
            };
            let api = ApiKey::Fetch;
            assert_eq!(touched(&Event::Odd { api, oddities }), expected);
        }
    }

    /// wire.md 7 D7
    #[test]
    fn repeated_rows_and_silences_beyond_belief_are_counted() {
        let oddities = Oddities {
            duplicates: 2,
            ..Oddities::default()
        };
        let api = ApiKey::Metadata;
        let repeated = touched(&Event::Odd { api, oddities });
        assert_eq!(repeated, ["oddities_total repeated_row"]);
        let asked = std::time::Duration::from_secs(86_400);
        let cut = touched(&Event::ThrottleCut { asked });
        assert_eq!(cut, ["oddities_total throttle"]);
    }

    #[test]
    fn answers_that_break_the_protocol_are_counted() {
        let error = DecodeError {
            api: ApiKey::Metadata,
            version: 12,
            field: "brokers",
            at: 4,
            flaw: Flaw::CountTooLarge,
        };
        assert_eq!(
            touched(&Event::Malformed(error)),
            ["malformed_total Metadata"]
        );
        let lost_count = Event::Transition {
            from: StateName::Ready,
            to: StateName::Backoff,
            reason: Reason::Desynchronised,
        };
        assert_eq!(touched(&lost_count), ["desynchronised_total fetch_rack"]);
    }
}
