//! The breaker of one broker: many partitions failing together are one fault (routing.md 9.2).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::settings::Settings;
use crate::ids::{Draw, Moment, TopicPartition};
use crate::routing::facts::Breaker as View;

/// What the breaker wants done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// Its state, for the facts.
    Changed(View),
    /// Dial the broker, or take it as dialled if a connection stands.
    Dial,
    /// This partition may probe.
    Permit(TopicPartition),
}

#[derive(Clone, Debug)]
enum State {
    Closed,
    Open {
        until: Moment,
        dialled: bool,
    },
    Readmitting {
        quota: usize,
        next: Moment,
        clean_since: Moment,
    },
}

/// The breaker. It governs follower routes only.
#[derive(Clone, Debug)]
pub(super) struct Breaker {
    state: State,
    step: u32,
    /// Who failed within the window.
    recent: VecDeque<(Moment, TopicPartition)>,
    /// Who waits for a permit, in a fixed order that differs from broker to broker.
    waiting: BTreeMap<u64, TopicPartition>,
    /// Who joined them during a readmission: served after them, and no reason to prolong it.
    late: BTreeMap<u64, TopicPartition>,
    /// The most that waited there since nobody did.
    late_peak: usize,
    actions: VecDeque<Action>,
}

impl Breaker {
    pub(super) fn new() -> Self {
        Self {
            state: State::Closed,
            step: 0,
            recent: VecDeque::new(),
            waiting: BTreeMap::new(),
            late: BTreeMap::new(),
            late_peak: 0,
            actions: VecDeque::new(),
        }
    }

    pub(super) fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// A partition left the broker for a fault of the broker's; `routed` partitions are still
    /// routed there.
    pub(super) fn failed(
        &mut self,
        partition: TopicPartition,
        routed: usize,
        settings: &Settings,
        draw: Draw,
        now: Moment,
    ) {
        if let State::Open { .. } = self.state {
            // Many follow when a broker is lost, and none of them can open it any further.
            return self.wait(partition);
        }
        let window = settings.breaker_window;
        self.recent
            .retain(|(at, who)| now.since(*at) < window && *who != partition);
        self.recent.push_back((now, partition.clone()));
        let failed = self.recent.len();
        let trips = match self.state {
            State::Closed => trips(failed, routed + failed, settings),
            State::Open { .. } => false,
            State::Readmitting { .. } => failed >= READMIT_FAILURES,
        };
        match &mut self.state {
            State::Closed | State::Open { .. } => {}
            State::Readmitting { clean_since, .. } => {
                *clean_since = now;
                self.wait(partition);
            }
        }
        if trips {
            for (_, partition) in std::mem::take(&mut self.recent) {
                self.wait(partition);
            }
            self.open(settings, draw, now);
        }
    }

    /// A partition waits for a permit; a closed breaker gives it at once.
    pub(super) fn queue(&mut self, partition: TopicPartition) {
        match self.state {
            State::Closed => self.actions.push_back(Action::Permit(partition)),
            State::Open { .. } | State::Readmitting { .. } => self.wait(partition),
        }
    }

    /// A connection of the broker is Ready: that is as good as a dial of our own.
    pub(super) fn reached(&mut self, settings: &Settings, now: Moment) {
        match self.state {
            State::Closed | State::Readmitting { .. } => {}
            State::Open { .. } => {
                let quota = quota(self.waiting.len(), settings.breaker_readmit_ratio);
                self.state = State::Readmitting {
                    quota,
                    next: now,
                    clean_since: now,
                };
                self.recent.clear();
                self.actions.push_back(Action::Changed(View::Readmitting));
                self.tick(settings, now);
            }
        }
    }

    /// A dial failed.
    pub(super) fn unreached(&mut self, settings: &Settings, draw: Draw, now: Moment) {
        match self.state {
            State::Closed | State::Readmitting { .. } | State::Open { dialled: false, .. } => {}
            State::Open { dialled: true, .. } => self.open(settings, draw, now),
        }
    }

    pub(super) fn tick(&mut self, settings: &Settings, now: Moment) {
        match &mut self.state {
            State::Closed => {}
            State::Open { until, dialled } => {
                if *until <= now && !*dialled {
                    *dialled = true;
                    self.actions.push_back(Action::Dial);
                }
            }
            State::Readmitting {
                quota,
                next,
                clean_since,
            } if *next <= now => {
                *next = now + Duration::from_secs(1);
                let (count, clean) = (*quota, now.since(*clean_since) >= settings.breaker_clean);
                let some_wait = !self.waiting.is_empty();
                if some_wait {
                    *clean_since = now;
                }
                self.permit(count, settings);
                if clean && !some_wait {
                    self.close();
                }
            }
            State::Readmitting { .. } => {}
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Moment> {
        match self.state {
            State::Closed | State::Open { dialled: true, .. } => None,
            State::Open {
                until,
                dialled: false,
            } => Some(until),
            State::Readmitting { next, .. } => Some(next),
        }
    }

    /// Those who came late are as many as they are, whoever waited when this began: a tenth of
    /// them, too, gets a permit each second.
    fn permit(&mut self, quota_then: usize, settings: &Settings) {
        let count = match self.waiting.is_empty() {
            true => quota_then.max(quota(self.late_peak, settings.breaker_readmit_ratio)),
            false => quota_then,
        };
        for _ in 0..count {
            let next = self.waiting.pop_first().or_else(|| self.late.pop_first());
            if let Some((_, partition)) = next {
                self.actions.push_back(Action::Permit(partition));
            }
        }
        if self.late.is_empty() {
            self.late_peak = 0;
        }
    }

    fn close(&mut self) {
        self.state = State::Closed;
        self.step = 0;
        self.actions.push_back(Action::Changed(View::Closed));
        let late = std::mem::take(&mut self.late).into_values();
        self.actions.extend(late.map(Action::Permit));
    }

    /// Opens, or opens again one step higher on the transport ladder.
    fn open(&mut self, settings: &Settings, draw: Draw, now: Moment) {
        let steps = 2_u32.saturating_pow(self.step.min(31));
        let plain = settings.cooldown_base.max(STEP_MIN).saturating_mul(steps);
        let length = plain
            .min(settings.cooldown_max)
            .mul_f64(draw.uniform(0.5, 1.0));
        let until = now + length;
        self.step = self.step.saturating_add(1);
        self.state = State::Open {
            until,
            dialled: false,
        };
        self.recent.clear();
        self.waiting.append(&mut self.late);
        self.actions.push_back(Action::Changed(View::Open(until)));
    }

    fn wait(&mut self, partition: TopicPartition) {
        let order = order(&partition);
        match self.state {
            State::Closed | State::Open { .. } => {
                self.waiting.insert(order, partition);
            }
            State::Readmitting { .. } if self.waiting.contains_key(&order) => {}
            State::Readmitting { .. } => {
                self.late.insert(order, partition);
                self.late_peak = self.late_peak.max(self.late.len());
            }
        }
    }
}

/// 3 partitions, or half of those routed to the broker if that is 2 or more.
fn trips(failed: usize, routed: usize, settings: &Settings) -> bool {
    #[expect(
        clippy::cast_precision_loss,
        reason = "partition counts fit an f64 exactly"
    )]
    let share = failed as f64 / routed.max(1) as f64;
    failed >= settings.breaker_partitions
        || (failed >= RATIO_MIN && share >= settings.breaker_ratio)
}

fn quota(waiting: usize, ratio: f64) -> usize {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a fraction of a partition count"
    )]
    let share = (waiting as f64 * ratio).ceil() as usize;
    share.max(1)
}

/// A fixed hash order (FNV-1a): the same on every run, unlike the order of names.
fn order(partition: &TopicPartition) -> u64 {
    let index = partition.partition.0.to_be_bytes();
    let bytes = partition.topic.as_str().bytes().chain(index);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Draw(hash).split().0
}

/// The ratio alone opens the breaker from so many partitions on.
const RATIO_MIN: usize = 2;
/// No ladder starts below this.
const STEP_MIN: Duration = Duration::from_millis(1);
/// So many failures within the window end a readmission.
const READMIT_FAILURES: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn partition(index: i32) -> TopicPartition {
        TopicPartition::new("orders", index)
    }

    fn actions(breaker: &mut Breaker) -> Vec<Action> {
        std::iter::from_fn(|| breaker.poll()).collect()
    }

    fn opened(count: i32) -> Breaker {
        let mut breaker = Breaker::new();
        for index in 0..count {
            breaker.failed(
                partition(index),
                0,
                &Settings::default(),
                Draw(1),
                Moment::ZERO,
            );
        }
        actions(&mut breaker);
        for index in 0..count {
            breaker.queue(partition(index));
        }
        breaker
    }

    #[test]
    fn one_partition_among_many_opens_nothing() {
        let mut breaker = Breaker::new();
        breaker.failed(partition(0), 0, &Settings::default(), Draw(1), Moment::ZERO);
        breaker.failed(
            partition(1),
            9,
            &Settings::default(),
            Draw(1),
            Moment::from_ms(1),
        );
        assert_eq!(actions(&mut breaker), []);
        breaker.failed(
            partition(2),
            90,
            &Settings::default(),
            Draw(1),
            Moment::from_ms(2),
        );
        assert!(matches!(
            actions(&mut breaker)[..],
            [Action::Changed(View::Open(_))]
        ));
    }

    #[test]
    fn half_of_a_few_opens_it_and_old_failures_do_not_count() {
        let mut breaker = Breaker::new();
        breaker.failed(partition(0), 3, &Settings::default(), Draw(1), Moment::ZERO);
        breaker.failed(
            partition(1),
            2,
            &Settings::default(),
            Draw(1),
            Moment::from_ms(5_000),
        );
        assert_eq!(actions(&mut breaker), []);
        breaker.failed(
            partition(2),
            2,
            &Settings::default(),
            Draw(1),
            Moment::from_ms(5_001),
        );
        assert!(matches!(
            actions(&mut breaker)[..],
            [Action::Changed(View::Open(_))]
        ));
    }

    #[test]
    fn a_failed_dial_waits_twice_as_long() {
        let settings = Settings::default();
        let mut breaker = opened(3);
        let mut lengths = Vec::new();
        let mut now = Moment::ZERO;
        for _ in 0..4 {
            let until = breaker.next_deadline().expect("an open breaker dials");
            lengths.push(until.since(now).as_millis());
            breaker.tick(&settings, until);
            assert_eq!(actions(&mut breaker), [Action::Dial]);
            breaker.unreached(&settings, Draw(1), until);
            actions(&mut breaker);
            now = until;
        }
        assert_eq!(lengths, [500, 1_000, 2_000, 4_000]);
    }

    #[test]
    fn a_tenth_of_those_who_wait_is_readmitted_each_second() {
        let settings = Settings::default();
        let mut breaker = opened(25);
        let mut now = Moment::from_ms(1_000);
        breaker.reached(&settings, now);
        let mut permitted = BTreeSet::new();
        for second in 0..9 {
            let permits: Vec<_> = actions(&mut breaker)
                .into_iter()
                .filter_map(|action| match action {
                    Action::Permit(partition) => Some(partition),
                    Action::Changed(_) | Action::Dial => None,
                })
                .collect();
            assert!(permits.len() <= 3, "second {second}: {permits:?}");
            permitted.extend(permits);
            now = now + Duration::from_secs(1);
            breaker.tick(&settings, now);
        }
        assert_eq!(permitted.len(), 25);
        for _ in 0..61 {
            now = now + Duration::from_secs(1);
            breaker.tick(&settings, now);
        }
        assert!(actions(&mut breaker).contains(&Action::Changed(View::Closed)));
    }

    #[test]
    fn whoever_asks_again_and_again_keeps_no_readmission_from_its_end() {
        let settings = Settings::default();
        let mut breaker = opened(3);
        breaker.reached(&settings, Moment::ZERO);
        let mut permits = 0;
        for second in 1..=70 {
            if second % 30 == 0 {
                breaker.queue(partition(9));
            }
            breaker.tick(&settings, Moment::from_ms(second * 1_000));
            let said = actions(&mut breaker);
            permits += usize::from(said.contains(&Action::Permit(partition(9))));
            if said.contains(&Action::Changed(View::Closed)) {
                assert_eq!(permits, 2);
                return;
            }
        }
        panic!("it never closes");
    }

    /// Refuge seekers come when their leader falls silent, long after the broker came back.
    #[test]
    fn many_who_come_late_are_readmitted_as_fast_as_many_who_waited() {
        let settings = Settings::default();
        let mut breaker = opened(3);
        breaker.reached(&settings, Moment::ZERO);
        (1..=5).for_each(|second| breaker.tick(&settings, Moment::from_ms(second * 1_000)));
        actions(&mut breaker);
        (100..200).for_each(|index| breaker.queue(partition(index)));
        for second in 6..=15 {
            breaker.tick(&settings, Moment::from_ms(second * 1_000));
            assert_eq!(actions(&mut breaker).len(), 10, "second {second}");
        }
        breaker.tick(&settings, Moment::from_ms(16_000));
        assert_eq!(actions(&mut breaker), []);
    }

    #[test]
    fn a_failure_while_readmitting_starts_the_minute_anew() {
        let settings = Settings::default();
        let mut breaker = opened(3);
        breaker.reached(&settings, Moment::ZERO);
        let at = |second: u64| Moment::from_ms(second * 1_000);
        for second in 1..=80 {
            if second == 30 {
                breaker.failed(partition(0), 5, &settings, Draw(1), at(second));
            }
            breaker.tick(&settings, at(second));
        }
        assert!(!actions(&mut breaker).contains(&Action::Changed(View::Closed)));
        (81..=91).for_each(|second| breaker.tick(&settings, at(second)));
        assert!(actions(&mut breaker).contains(&Action::Changed(View::Closed)));
    }

    #[test]
    fn two_failures_while_readmitting_open_it_again() {
        let settings = Settings::default();
        let mut breaker = opened(10);
        breaker.reached(&settings, Moment::from_ms(1_000));
        actions(&mut breaker);
        breaker.failed(partition(0), 5, &settings, Draw(1), Moment::from_ms(1_100));
        assert_eq!(actions(&mut breaker), []);
        breaker.failed(partition(1), 5, &settings, Draw(1), Moment::from_ms(1_200));
        assert!(matches!(
            actions(&mut breaker)[..],
            [Action::Changed(View::Open(_))]
        ));
    }
}
