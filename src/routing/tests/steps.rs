//! What can happen to a route, drawn at random.

use proptest::prelude::*;

use crate::routing::Class;

/// One thing that happens to the route under test.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Answer(Answer),
    Probe(Answer),
    ProbeLost,
    Hedge(Answer),
    HedgeLost,
    Late(Answer),
    Drained,
    Cluster(News),
    Host(Call),
    Reassign,
    Pass(u64),
}

/// What metadata and links tell.
#[derive(Clone, Debug)]
pub(super) enum News {
    Leader {
        broker: i32,
        rises: bool,
        known: bool,
    },
    LeaderLost,
    Isr(Vec<i32>),
    Offline(i32),
    Version,
    Broker(i32, BrokerNews),
}

/// What the link to one broker tells.
#[derive(Clone, Copy, Debug)]
pub(super) enum BrokerNews {
    Link { class: Class, ready: bool },
    Breaker { opens: bool },
    Silence { class: Class, silent: bool },
    Answered,
    Quiet,
    Restarted,
    Throttle,
}

/// What the host of the partition asks for.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Permit(i32),
    Seek(i64),
    Pause,
    Resume,
    Room(bool),
    Sampled(i64),
    Unanswered,
    Recreated,
    Gone,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Stay,
    Hint(i32),
    Records,
    Corrupt,
    Error(i16),
}

fn broker() -> impl Strategy<Value = i32> {
    1..=4_i32
}

fn class() -> impl Strategy<Value = Class> {
    prop_oneof![
        4 => Just(Class::Rack),
        2 => Just(Class::NoRack),
        1 => Just(Class::Control),
    ]
}

fn kind() -> impl Strategy<Value = Answer> {
    prop_oneof![
        4 => Just(Answer::Stay),
        4 => broker().prop_map(Answer::Hint),
        4 => Just(Answer::Records),
        1 => Just(Answer::Corrupt),
        4 => prop::sample::select(vec![-1, 1, 2, 3, 6, 29, 35, 56, 70, 74, 75, 76, 78, 100, 999])
            .prop_map(Answer::Error),
    ]
}

fn news() -> impl Strategy<Value = News> {
    prop_oneof![
        3 => (broker(), any::<bool>(), any::<bool>())
            .prop_map(|(broker, rises, known)| News::Leader { broker, rises, known }),
        1 => Just(News::LeaderLost),
        3 => prop::collection::vec(broker(), 0..4).prop_map(News::Isr),
        1 => broker().prop_map(News::Offline),
        2 => Just(News::Version),
        17 => (broker(), broker_news()).prop_map(|(broker, news)| News::Broker(broker, news)),
    ]
}

fn broker_news() -> impl Strategy<Value = BrokerNews> {
    prop_oneof![
        4 => (class(), any::<bool>()).prop_map(|(class, ready)| BrokerNews::Link { class, ready }),
        2 => any::<bool>().prop_map(|opens| BrokerNews::Breaker { opens }),
        6 => (class(), any::<bool>())
            .prop_map(|(class, silent)| BrokerNews::Silence { class, silent }),
        2 => Just(BrokerNews::Answered),
        1 => Just(BrokerNews::Quiet),
        1 => Just(BrokerNews::Restarted),
        1 => Just(BrokerNews::Throttle),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        2 => broker().prop_map(Call::Permit),
        1 => (0..2_000_i64).prop_map(Call::Seek),
        1 => Just(Call::Pause),
        2 => Just(Call::Resume),
        3 => any::<bool>().prop_map(Call::Room),
        1 => (0..2_000_i64).prop_map(Call::Sampled),
        1 => Just(Call::Unanswered),
        1 => prop::sample::select(vec![Call::Recreated, Call::Gone]),
    ]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => kind().prop_map(Step::Answer),
        5 => kind().prop_map(Step::Probe),
        1 => Just(Step::ProbeLost),
        5 => kind().prop_map(Step::Hedge),
        1 => Just(Step::HedgeLost),
        2 => kind().prop_map(Step::Late),
        6 => Just(Step::Drained),
        16 => news().prop_map(Step::Cluster),
        8 => call().prop_map(Step::Host),
        1 => Just(Step::Reassign),
        6 => (0..20_000_u64).prop_map(Step::Pass),
        1 => (0..700_000_u64).prop_map(Step::Pass),
    ]
}
