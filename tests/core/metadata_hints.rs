//! Leadership hints and the endpoints they bring (metadata.md 4 and 5).

use nearside::cluster::{
    Counted, Diff, EndpointChange, HintEndpoints, Input, LinkState, Settings, Target,
};
use nearside::ids::{BrokerId, TopicIncarnation};
use nearside::wire::ErrorCode;

use super::metadata_rig::{Reply, Rig, endpoint, endpoint_at, hint, names, t0};

/// metadata.md T1
#[test]
fn a_hint_moves_the_leader_at_once_and_asks_once_for_the_rest() {
    let mut rig = Rig::standard();
    rig.hint(1, vec![hint(2, 6)], vec![endpoint(2)]);
    assert_eq!(rig.leader(), (Some(2), Some(6), true));
    assert_eq!(names(&rig.diffs), ["LeaderChanged"]);
    assert!(rig.sent.is_empty(), "news travels before any request");

    // The same hint with a Produce answer is no news.
    rig.hint_bare(2, 6);
    assert_eq!(names(&rig.diffs), ["LeaderChanged"]);

    let sent = rig.round(&Reply::row_of(2, 6));
    assert_eq!(sent.topics, Some(vec!["t".to_owned()]));
    assert_ne!(
        sent.to,
        Target::Broker(BrokerId(1)),
        "whoever hinted has told all it knows"
    );
    rig.advance_ms(20_000);
    assert_eq!(rig.sent.len(), 1);
}

#[test]
fn a_hint_leaves_the_isr_view_unknown_until_metadata_catches_up() {
    let mut rig = Rig::standard();
    rig.hint_bare(2, 6);
    let row = rig.machine.snapshot().partition(&t0()).unwrap().clone();
    assert_eq!(row.isr_view(), None);
    assert_eq!(row.isr.len(), 3);
    rig.round(&Reply::row_of(2, 6));
    let row = rig.machine.snapshot().partition(&t0()).unwrap().clone();
    assert_eq!(row.isr_view().map(<[_]>::len), Some(3));
    assert_eq!(rig.isrs_told(), [[1, 2, 3]], "the view became known");
}

/// metadata.md T2
#[test]
fn a_hint_at_the_current_epoch_is_never_applied() {
    let mut rig = Rig::standard();
    rig.hint_bare(2, 5);
    assert_eq!(rig.count(Counted::HintConflict), 1);
    let sent = rig.next_request();
    assert_ne!(
        sent.to,
        Target::Broker(BrokerId(1)),
        "another broker settles a conflict"
    );
    rig.answer(&Reply::standard());
    rig.hint_bare(1, 5);
    assert_eq!(rig.count(Counted::HintWithoutNews), 1);
    rig.advance_ms(20_000);
    assert_eq!(rig.sent.len(), 1, "no news is no reason to ask");
    assert_eq!(rig.leader(), (Some(1), Some(5), true));
    assert!(names(&rig.diffs).is_empty());
}

/// metadata.md T3
#[test]
fn a_hint_below_the_floor_is_ignored() {
    let mut rig = Rig::standard();
    rig.hint_bare(2, 4);
    rig.advance_ms(20_000);
    assert_eq!(
        (rig.leader(), rig.sent.len()),
        ((Some(1), Some(5), true), 0)
    );
    assert_eq!(rig.count(Counted::HintWithoutNews), 1);
}

/// metadata.md T5
#[test]
fn a_hint_without_a_leader_raises_the_floor_and_one_without_an_epoch_does_nothing() {
    let mut rig = Rig::standard();
    rig.hint_bare(-1, -1);
    rig.hint_bare(2, -1);
    assert_eq!(rig.leader(), (Some(1), Some(5), true));
    assert_eq!(rig.count(Counted::HintWithoutContent), 2);
    rig.hint_bare(-1, 6);
    assert_eq!(rig.leader(), (None, Some(6), false));
    assert_eq!(rig.leaders_told(), [(None, Some(6))]);
    rig.round(&Reply::row_of(3, 6));
    assert_eq!(rig.leader(), (Some(3), Some(6), true));
}

/// metadata.md T6
#[test]
fn a_hint_without_endpoint_routes_to_a_broker_we_know() {
    let mut rig = Rig::standard();
    rig.hint_bare(2, 6);
    assert_eq!(rig.leader(), (Some(2), Some(6), true));
}

/// metadata.md T7
#[test]
fn a_hint_to_an_unknown_broker_keeps_its_epoch_until_the_address_comes() {
    let mut rig = Rig::standard();
    rig.hint_bare(7, 6);
    assert_eq!(rig.leader(), (Some(7), Some(6), false));
    rig.round(&Reply::row_of(1, 5));
    assert_eq!(
        rig.leader(),
        (Some(7), Some(6), false),
        "the old row is refused"
    );
    assert_eq!(rig.count(Counted::StaleRow), 1);
    rig.forget();

    let listed = Reply::brokers([1, 2, 3, 7]).topic("t", 1).row(0, 7, 6);
    rig.round(&listed);
    assert_eq!(rig.leader(), (Some(7), Some(6), true));
    assert_eq!(rig.leaders_told(), [(Some(7), Some(6))]);
}

/// metadata.md T8
#[test]
fn a_hinted_port_replaces_one_endpoint_and_touches_no_other() {
    let mut rig = Rig::standard();
    rig.hint(1, vec![hint(2, 6)], vec![endpoint_at(2, "kafka-2", 19092)]);
    let changed: Vec<_> = rig
        .diffs
        .iter()
        .filter(|d| matches!(d, Diff::EndpointChanged { .. }))
        .collect();
    let [
        Diff::EndpointChanged {
            broker, new, kind, ..
        },
    ] = changed[..]
    else {
        panic!("one endpoint changes: {changed:?}")
    };
    assert_eq!(
        (broker.0, new.port, *kind),
        (2, 19092, EndpointChange::Address)
    );
    assert_eq!(
        names(&rig.diffs),
        ["EndpointChanged", "LeaderChanged"],
        "endpoints come first"
    );

    // A broker that does not know epoch 6 yet does not know the new port either.
    rig.round(&Reply::row_of(1, 5));
    assert_eq!(
        rig.machine
            .snapshot()
            .broker(BrokerId(2))
            .unwrap()
            .endpoint
            .port,
        19092
    );
    // One that does is believed.
    rig.round(&Reply::row_of(2, 6));
    assert_eq!(
        rig.machine
            .snapshot()
            .broker(BrokerId(2))
            .unwrap()
            .endpoint
            .port,
        9092
    );
}

/// metadata.md T12
#[test]
fn a_hinted_leader_keeps_its_address_while_metadata_lags() {
    let mut rig = Rig::standard();
    rig.hint(1, vec![hint(7, 6)], vec![endpoint(7)]);
    assert_eq!(names(&rig.diffs), ["BrokerAdded", "LeaderChanged"]);
    rig.round(&Reply::row_of(1, 5));
    assert_eq!(rig.leader(), (Some(7), Some(6), true));
    assert!(rig.machine.snapshot().broker(BrokerId(7)).unwrap().unlisted);
}

/// metadata.md T11
#[test]
fn a_late_hint_about_an_earlier_life_of_the_topic_is_dropped() {
    let mut rig = Rig::standard();
    rig.want(nearside::cluster::Reason::NotHosted, 5);
    rig.round(&Reply::brokers(1..=3).topic("t", 2).row(0, 1, 0));
    assert_eq!(names(&rig.diffs)[0], "TopicRecreated");
    assert_eq!(rig.leader(), (Some(1), Some(0), true));

    rig.hint_bare(2, 37);
    assert_eq!(rig.count(Counted::HintOfOtherIncarnation), 1);
    let nameless = nearside::cluster::Hint {
        topic_id: None,
        ..hint(2, 37)
    };
    rig.hint(1, vec![nameless.clone()], vec![]);
    assert_eq!(
        rig.count(Counted::HintOfOtherIncarnation),
        2,
        "the incarnation alone tells it"
    );
    for epoch in [1, 2] {
        rig.want(nearside::cluster::Reason::NotLeader, epoch - 1);
        rig.round(&Reply::brokers(1..=3).topic("t", 2).row(0, 2, epoch));
        assert_eq!(rig.leader(), (Some(2), Some(epoch), true));
    }
    let current = nearside::cluster::Hint {
        incarnation: TopicIncarnation(1),
        ..nameless
    };
    rig.hint(
        1,
        vec![nearside::cluster::Hint {
            epoch: Some(3.into()),
            ..current
        }],
        vec![],
    );
    assert_eq!(rig.leader(), (Some(2), Some(3), true));
}

/// metadata.md T13
#[test]
fn a_hint_on_a_code_that_carries_none_is_ignored() {
    let mut rig = Rig::standard();
    for code in [3, 56, 0] {
        let odd = nearside::cluster::Hint {
            code: ErrorCode(code),
            ..hint(2, 6)
        };
        rig.hint(1, vec![odd], vec![endpoint_at(2, "elsewhere", 1)]);
    }
    assert_eq!(rig.count(Counted::HintOnOtherCode), 3);
    assert!(
        names(&rig.diffs).is_empty(),
        "not even the endpoint is taken"
    );
    let fenced = nearside::cluster::Hint {
        code: ErrorCode::FENCED_LEADER_EPOCH,
        ..hint(2, 6)
    };
    rig.hint(1, vec![fenced], vec![]);
    assert_eq!(rig.leader(), (Some(2), Some(6), true));
}

#[test]
fn an_endpoint_without_an_accepted_hint_is_not_taken() {
    let mut rig = Rig::standard();
    rig.hint(1, vec![hint(2, 4)], vec![endpoint_at(2, "elsewhere", 1)]);
    rig.hint(1, vec![hint(2, 6)], vec![endpoint_at(3, "elsewhere", 1)]);
    assert_eq!(names(&rig.diffs), ["LeaderChanged"]);
}

#[test]
fn hints_that_go_in_circles_are_distrusted_for_a_minute() {
    let mut rig = Rig::standard();
    rig.hint_bare(2, 6);
    rig.hint_bare(2, 6);
    assert_eq!(rig.count(Counted::HintDistrusted), 0);
    rig.hint_bare(2, 6);
    rig.hint_bare(3, 7);
    assert_eq!(rig.count(Counted::HintDistrusted), 2);
    assert_eq!(rig.leader(), (Some(2), Some(6), true));
    rig.round(&Reply::row_of(2, 6));
    rig.advance_ms(60_000);
    rig.hint_bare(3, 7);
    assert_eq!(rig.leader(), (Some(3), Some(7), true));
}

#[test]
fn a_leader_that_serves_ends_the_suspicion_of_a_circle() {
    let mut rig = Rig::standard();
    for _ in 0..5 {
        rig.hint_bare(2, 6);
        rig.input(Input::LeaderServed(t0()));
    }
    assert_eq!(rig.count(Counted::HintDistrusted), 0);
}

#[test]
fn known_hosts_takes_only_hosts_of_metadata_or_a_suffix() {
    let settings = Settings {
        hint_endpoints: HintEndpoints::KnownHosts,
        hint_suffixes: vec![".kafka.example".into()],
        ..Settings::default()
    };
    let mut rig = Rig::with(settings, &Reply::standard());
    rig.hint(1, vec![hint(2, 6)], vec![endpoint_at(2, "elsewhere", 1)]);
    assert_eq!(rig.count(Counted::HintEndpointRefused), 1);
    assert_eq!(
        rig.leader(),
        (Some(2), Some(6), true),
        "the leader is taken, the address is not"
    );
    rig.hint(
        1,
        vec![hint(3, 7)],
        vec![endpoint_at(3, "b3.kafka.example", 9092)],
    );
    rig.hint(1, vec![hint(1, 8)], vec![endpoint_at(1, "kafka-2", 9093)]);
    let hosts: Vec<_> = rig
        .machine
        .snapshot()
        .brokers()
        .map(|b| b.endpoint.to_string())
        .collect();
    assert_eq!(
        hosts,
        ["kafka-2:9093", "kafka-2:9092", "b3.kafka.example:9092"]
    );
}

/// metadata.md T23
#[test]
fn a_hinted_address_that_refuses_twice_gives_way_to_the_listed_one() {
    let mut rig = Rig::standard();
    rig.hint(1, vec![hint(2, 6)], vec![endpoint_at(2, "leaked", 1)]);
    rig.link(2, LinkState::Failed);
    assert_eq!(
        rig.machine
            .snapshot()
            .broker(BrokerId(2))
            .unwrap()
            .endpoint
            .port,
        1
    );
    rig.link(2, LinkState::Connecting);
    rig.link(2, LinkState::Failed);
    let broker = rig.machine.snapshot().broker(BrokerId(2)).unwrap().clone();
    assert_eq!(broker.endpoint.to_string(), "kafka-2:9092");
    assert!(names(&rig.diffs).contains(&"HintEndpointDistrusted"));
    rig.hint(1, vec![hint(2, 7)], vec![endpoint_at(2, "leaked", 1)]);
    assert_eq!(
        rig.count(Counted::HintEndpointRefused),
        1,
        "later hints go by id only"
    );
}

#[test]
fn a_broker_that_restarts_keeps_its_last_known_rack() {
    let mut rig = Rig::standard();
    let mut bounced = Reply::standard().edit(|row| row.offline = vec![BrokerId(3)]);
    bounced.0.brokers[2].rack = None;
    rig.want(nearside::cluster::Reason::NotLeader, 4);
    rig.round(&bounced);
    let rack = |rig: &Rig| {
        rig.machine
            .snapshot()
            .broker(BrokerId(3))
            .unwrap()
            .rack
            .clone()
    };
    assert_eq!(rack(&rig), Some("r3".into()));
    let mut moved = Reply::standard();
    moved.0.brokers[2].rack = Some("r9".into());
    rig.forget();
    rig.want(nearside::cluster::Reason::NotLeader, 4);
    rig.round(&moved);
    assert_eq!(rack(&rig), Some("r9".into()));
    let kind = |diff: &Diff| {
        let Diff::EndpointChanged { kind, .. } = diff else {
            return None;
        };
        Some(*kind)
    };
    let kinds: Vec<_> = rig.diffs.iter().filter_map(kind).collect();
    assert_eq!(kinds, [EndpointChange::Rack]);
}
