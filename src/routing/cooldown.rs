//! The cooldown ledger of one partition: which brokers it leaves alone, why and until when
//! (routing.md 9.1).

use std::time::Duration;

use super::settings::{CooldownBases, CooldownPolicy, Settings};
use crate::ids::{BrokerId, Draw, Moment, Offset};

/// Why a replica cools for a partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fault {
    /// Refused, reset, timed out, listed offline.
    Transport,
    /// It says it is no replica of this partition (3, 5, 6, 8, 9, 100, 103).
    NotReplica,
    /// Its log directory failed (56).
    Storage,
    /// A code this client does not know.
    UnknownCode,
    /// Our offset is out of its range, or it alone claims a divergence.
    Range,
    /// It lost a hedge or stands still.
    Slow,
    /// Unknown server error three times in ten seconds.
    ServerError,
    /// Its copy is corrupt and the leader's is not.
    Corruption,
    /// It refuses the topic and the leader does not.
    Authorization,
    /// Its Fetch is too old, or it cannot serve the compression in use.
    Version,
}

/// How the cooldowns of one reason grow.
enum Growth {
    /// From this base, doubling.
    Doubling(Duration),
    /// Always the same; the maximum unless given.
    Flat(Option<Duration>),
}

impl Fault {
    /// All reasons.
    pub const ALL: [Self; 10] = [
        Self::Transport,
        Self::NotReplica,
        Self::Storage,
        Self::UnknownCode,
        Self::Range,
        Self::Slow,
        Self::ServerError,
        Self::Corruption,
        Self::Authorization,
        Self::Version,
    ];

    /// Its name in events and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::NotReplica => "not_replica",
            Self::Storage => "storage",
            Self::UnknownCode => "unknown_code",
            Self::Range => "range",
            Self::Slow => "slow",
            Self::ServerError => "server_error",
            Self::Corruption => "corruption",
            Self::Authorization => "authorization",
            Self::Version => "version",
        }
    }

    /// Whether it tells something about the broker as a whole, and so feeds the breaker.
    pub const fn concerns_the_broker(self) -> bool {
        matches!(self, Self::Transport | Self::Slow)
    }

    const fn growth(self, bases: &CooldownBases) -> Growth {
        match self {
            Self::Transport => Growth::Doubling(bases.transport),
            Self::NotReplica => Growth::Doubling(bases.not_replica),
            Self::Storage => Growth::Doubling(bases.storage),
            Self::UnknownCode => Growth::Doubling(bases.unknown_code),
            Self::Range => Growth::Doubling(bases.range),
            Self::Slow => Growth::Doubling(bases.slow),
            Self::ServerError => Growth::Doubling(bases.server_error),
            Self::Corruption => Growth::Flat(bases.corruption),
            Self::Authorization => Growth::Flat(bases.authorization),
            Self::Version => Growth::Flat(bases.version),
        }
    }
}

/// One reason for which one broker was left alone. Kept after its end, since the next one grows
/// from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    broker: BrokerId,
    fault: Fault,
    step: u32,
    started: Moment,
    until: Moment,
    /// Reading may go on at the broker from this offset, as it said itself.
    log_start: Option<Offset>,
}

/// The cooldowns of one partition. Empty, it owns no memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ledger {
    entries: Vec<Entry>,
}

impl Ledger {
    /// Starts the next cooldown of `broker` for `fault` and returns its end.
    pub(super) fn start(
        &mut self,
        broker: BrokerId,
        fault: Fault,
        settings: &Settings,
        draw: Draw,
        now: Moment,
    ) -> Moment {
        let step = self
            .find(broker, fault)
            .map_or(0, |entry| entry.step.saturating_add(1));
        let until = now + length(fault, step, settings, draw);
        self.entries
            .retain(|entry| (entry.broker, entry.fault) != (broker, fault));
        self.entries.push(Entry {
            broker,
            fault,
            step,
            started: now,
            until,
            log_start: None,
        });
        until
    }

    /// Remembers the log start that `broker` reported with its out-of-range answer.
    pub(super) fn note_log_start(&mut self, broker: BrokerId, log_start: Offset) {
        for entry in &mut self.entries {
            if (entry.broker, entry.fault) == (broker, Fault::Range) {
                entry.log_start = Some(log_start);
            }
        }
    }

    /// When `broker` stops cooling; `None` if it does not cool.
    pub(super) fn until(&self, broker: BrokerId, now: Moment) -> Option<Moment> {
        let ends = self.entries.iter().filter(|entry| entry.broker == broker);
        ends.map(|entry| entry.until)
            .filter(|until| *until > now)
            .max()
    }

    /// Whether `broker` cools, and every step it cools for is half over.
    pub(super) fn is_half_over(&self, broker: BrokerId, now: Moment) -> bool {
        let half_over = |entry: &Entry| {
            let length = entry.until.since(entry.started);
            now.since(entry.started) >= length / 2
        };
        let cooling = |entry: &&Entry| entry.broker == broker && entry.until > now;
        self.is_cooling(broker, now) && self.entries.iter().filter(cooling).all(half_over)
    }

    /// `broker` is tried although it cools. A further fault is the next step.
    pub(super) fn cut_short(&mut self, broker: BrokerId, now: Moment) {
        let cooling = |entry: &&mut Entry| entry.broker == broker;
        for entry in self.entries.iter_mut().filter(cooling) {
            entry.until = entry.until.min(now);
        }
    }

    /// The latest end of all.
    pub(super) fn latest(&self) -> Option<Moment> {
        self.entries.iter().map(|entry| entry.until).max()
    }

    /// Whether `broker` cools.
    pub(super) fn is_cooling(&self, broker: BrokerId, now: Moment) -> bool {
        self.until(broker, now).is_some()
    }

    /// The breaker readmitted the partition: what concerned the broker as a whole ends.
    pub(super) fn readmit(&mut self, broker: BrokerId, settings: &Settings, now: Moment) {
        self.end(settings, now, |entry| {
            entry.broker == broker && entry.fault.concerns_the_broker()
        });
    }

    /// The partition's metadata row changed: "not a replica" may be over, though not within its
    /// first second.
    pub(super) fn row_changed(&mut self, settings: &Settings, now: Moment) {
        if settings.cooldown_policy == CooldownPolicy::Fixed {
            return;
        }
        for entry in &mut self.entries {
            if entry.fault == Fault::NotReplica {
                let earliest = (entry.started + Duration::from_secs(1)).max(now);
                entry.until = entry.until.min(earliest);
            }
        }
    }

    /// The fetch end reached `offset`: brokers whose log starts there or below are in range again.
    pub(super) fn position_reached(&mut self, offset: Offset, settings: &Settings, now: Moment) {
        self.end(settings, now, |entry| {
            entry.fault == Fault::Range && entry.log_start.is_some_and(|start| start <= offset)
        });
    }

    /// The link to `broker` negotiated its versions anew.
    pub(super) fn renegotiated(&mut self, broker: BrokerId, settings: &Settings, now: Moment) {
        self.end(settings, now, |entry| {
            entry.broker == broker && entry.fault == Fault::Version
        });
    }

    /// `broker` became the leader: it has to be read, whatever it did as a follower.
    pub(super) fn leads(&mut self, broker: BrokerId) {
        self.forgive(broker);
    }

    /// `fault` was not the fault of `broker`: the leader does the same.
    pub(super) fn absolve(&mut self, broker: BrokerId, fault: Fault) {
        self.entries
            .retain(|entry| (entry.broker, entry.fault) != (broker, fault));
    }

    /// `broker` was read without a fault for long enough: its next cooldown starts small again.
    pub(super) fn forgive(&mut self, broker: BrokerId) {
        self.entries.retain(|entry| entry.broker != broker);
    }

    /// Who has a record here, cooling or not.
    pub(super) fn brokers(&self) -> impl Iterator<Item = BrokerId> + '_ {
        self.entries.iter().map(|entry| entry.broker)
    }

    /// Whether `broker` has a record here, cooling or not.
    pub(super) fn remembers(&self, broker: BrokerId) -> bool {
        self.entries.iter().any(|entry| entry.broker == broker)
    }

    fn find(&self, broker: BrokerId, fault: Fault) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|entry| (entry.broker, entry.fault) == (broker, fault))
    }

    fn end(&mut self, settings: &Settings, now: Moment, which: impl Fn(&Entry) -> bool) {
        if settings.cooldown_policy == CooldownPolicy::Fixed {
            return;
        }
        for entry in self.entries.iter_mut().filter(|entry| which(entry)) {
            entry.until = entry.until.min(now);
        }
    }
}

/// Length of step `step`: half to whole of the doubled base, so that no draw retries a broken
/// broker at once.
fn length(fault: Fault, step: u32, settings: &Settings, draw: Draw) -> Duration {
    let max = settings.cooldown_max;
    if settings.cooldown_policy == CooldownPolicy::Fixed {
        return max;
    }
    match fault.growth(&settings.cooldown_bases) {
        Growth::Flat(given) => given.map_or(max, |given| given.clamp(SHORTEST, max.max(SHORTEST))),
        Growth::Doubling(base) => {
            let plain = base
                .max(SHORTEST)
                .saturating_mul(2_u32.saturating_pow(step.min(31)))
                .min(max);
            plain.mul_f64(draw.uniform(0.5, 1.0))
        }
    }
}

/// A cooldown without any length would retry a broken broker within the same moment.
const SHORTEST: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    const B: BrokerId = BrokerId(2);

    fn settings() -> Settings {
        Settings::default()
    }

    #[test]
    fn cooldowns_double_between_half_and_whole_of_their_step() {
        let mut ledger = Ledger::default();
        let mut now = Moment::ZERO;
        for step in 0..12_u32 {
            let until = ledger.start(B, Fault::Transport, &settings(), Draw(u64::from(step)), now);
            let whole = Duration::from_secs(1 << step).min(Duration::from_secs(300));
            let length = until.since(now);
            assert!(
                length >= whole / 2 && length <= whole,
                "step {step}: {length:?}"
            );
            assert!(ledger.is_cooling(B, now) && !ledger.is_cooling(B, until));
            now = until;
        }
        ledger.forgive(B);
        let until = ledger.start(B, Fault::Transport, &settings(), Draw(u64::MAX), now);
        assert!(until.since(now) <= Duration::from_secs(1));
    }

    #[test]
    fn flat_reasons_last_exactly_the_maximum() {
        for fault in [Fault::Corruption, Fault::Authorization, Fault::Version] {
            let until = Ledger::default().start(B, fault, &settings(), Draw(1), Moment::ZERO);
            assert_eq!(until, Moment::from_ms(300_000));
        }
    }

    #[test]
    fn a_length_of_your_own_is_kept_within_the_maximum() {
        let own = Settings {
            cooldown_bases: CooldownBases {
                storage: Duration::from_secs(2),
                slow: Duration::from_secs(900),
                version: Some(Duration::from_secs(7)),
                corruption: Some(Duration::from_secs(900)),
                ..CooldownBases::default()
            },
            ..settings()
        };
        let length = |fault, draw| {
            let until = Ledger::default().start(B, fault, &own, Draw(draw), Moment::ZERO);
            until.as_ms()
        };
        assert_eq!(length(Fault::Storage, 0), 1_000);
        assert_eq!(length(Fault::Slow, 0), 150_000);
        for draw in [0, u64::MAX] {
            assert_eq!(length(Fault::Version, draw), 7_000);
            assert_eq!(length(Fault::Corruption, draw), 300_000);
        }
    }

    #[test]
    fn no_cooldown_outlasts_the_maximum_and_fixed_ones_never_end_early() {
        let fixed = Settings {
            cooldown_policy: CooldownPolicy::Fixed,
            ..settings()
        };
        let mut ledger = Ledger::default();
        for fault in Fault::ALL {
            for _ in 0..3 {
                let until = ledger.start(B, fault, &fixed, Draw(9), Moment::ZERO);
                assert_eq!(until, Moment::from_ms(300_000));
            }
        }
        let now = Moment::from_ms(5_000);
        ledger.readmit(B, &fixed, now);
        ledger.row_changed(&fixed, now);
        ledger.renegotiated(B, &fixed, now);
        assert_eq!(ledger.until(B, now), Some(Moment::from_ms(300_000)));
    }

    #[test]
    fn not_a_replica_ends_with_the_next_row_but_not_within_a_second() {
        let mut ledger = Ledger::default();
        let long = Draw(u64::MAX);
        for _ in 0..4 {
            ledger.start(B, Fault::NotReplica, &settings(), long, Moment::ZERO);
        }
        ledger.row_changed(&settings(), Moment::from_ms(200));
        assert_eq!(
            ledger.until(B, Moment::from_ms(200)),
            Some(Moment::from_ms(1_000))
        );
    }

    #[test]
    fn a_broker_is_in_range_again_once_the_position_reached_its_log_start() {
        let mut ledger = Ledger::default();
        ledger.start(B, Fault::Range, &settings(), Draw(u64::MAX), Moment::ZERO);
        ledger.note_log_start(B, Offset(500));
        let now = Moment::from_ms(10);
        ledger.position_reached(Offset(499), &settings(), now);
        assert!(ledger.is_cooling(B, now));
        ledger.position_reached(Offset(500), &settings(), now);
        assert!(!ledger.is_cooling(B, now));
    }

    #[test]
    fn a_permit_ends_only_what_concerns_the_broker() {
        let mut ledger = Ledger::default();
        ledger.start(B, Fault::Transport, &settings(), Draw(1), Moment::ZERO);
        ledger.readmit(B, &settings(), Moment::from_ms(1));
        assert!(!ledger.is_cooling(B, Moment::from_ms(1)));
        ledger.start(B, Fault::Corruption, &settings(), Draw(1), Moment::ZERO);
        ledger.readmit(B, &settings(), Moment::from_ms(1));
        assert!(ledger.is_cooling(B, Moment::from_ms(1)));
    }
}
