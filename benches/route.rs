//! Cost of one row through the route machine, and through the link machine of its broker.
//!
//! A row stands for a fetched batch set of up to a megabyte, so a microsecond here is a nanosecond
//! per record of 100 bytes.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use nearside::ids::{
    AssignmentEpoch, BrokerId, Draw, LeaderEpoch, MetadataVersion, Moment, Offset, TopicIncarnation,
};
use nearside::routing::{
    Assigned, Brokers, Class, Indexed, Input, Leadership, Link, Output, Route, Settings,
};
use nearside::wire::ErrorCode;
use nearside::wire::api::TopicRef;
use nearside::wire::api::fetch::{Aborted, Row};

fn row(hint: Option<BrokerId>, records: &bytes::Bytes) -> Row {
    Row {
        topic: TopicRef::Name("orders".into()),
        partition: 0.into(),
        error: ErrorCode::NONE,
        high_watermark: Some(Offset(1 << 40)),
        last_stable_offset: Some(Offset(1 << 40)),
        log_start: Some(Offset(0)),
        preferred_read_replica: hint,
        diverging_epoch: None,
        current_leader: None,
        aborted: Aborted::default(),
        records: records.clone(),
    }
}

/// A route that reads from follower 2.
fn following(brokers: &mut Brokers) -> Route {
    for id in [1, 2] {
        let facts = brokers.entry(BrokerId(id));
        facts.addressable = true;
        facts.fetch_version = Some(17);
        facts.set_link(Class::Rack, Link::Ready);
    }
    let settings = Settings {
        client_rack: Some("b".into()),
        ..Settings::default()
    };
    let mut route = Route::new(Arc::new(settings));
    let epoch = Some(LeaderEpoch(5));
    let leadership = Leadership {
        leader: Some(BrokerId(1)),
        epoch,
        addressable: true,
    };
    let assigned = Assigned {
        partition: nearside::ids::TopicPartition::new("orders", 0),
        assignment: AssignmentEpoch(1),
        incarnation: TopicIncarnation(0),
        topic_id: None,
        leadership,
        isr: [BrokerId(1), BrokerId(2)].into(),
        isr_epoch: epoch,
        replicas: [BrokerId(1), BrokerId(2)].into(),
        version: MetadataVersion(1),
        position: Some((Offset(0), None)),
        paused: false,
    };
    route.handle(Input::Assigned(assigned), brokers, Draw(1), Moment::ZERO);
    let stamp = route
        .standing_demand()
        .expect("reads from the leader")
        .stamp;
    let row = row(Some(BrokerId(2)), &bytes::Bytes::new());
    let input = Input::Row {
        stamp,
        row,
        inconclusive: false,
    };
    route.handle(input, brokers, Draw(1), Moment::ZERO);
    while route.poll_output().is_some() {}
    assert_eq!(route.state().follower(), Some(BrokerId(2)));
    route
}

fn follower_row(criterion: &mut Criterion) {
    let mut brokers = Brokers::new();
    let mut route = following(&mut brokers);
    let records = bytes::Bytes::from(vec![0; 1_024]);
    let mut end = 0;
    criterion.bench_function("follower row, delivered and wanted again", |bencher| {
        bencher.iter(|| {
            let stamp = route.standing_demand().expect("reads on").stamp;
            let input = Input::Row {
                stamp,
                row: row(None, &records),
                inconclusive: false,
            };
            route.handle(black_box(input), &brokers, Draw(1), Moment::ZERO);
            end += 10;
            let epoch = Some(LeaderEpoch(5));
            let indexed = Indexed::Advanced {
                fetch_end: Offset(end),
                epoch,
            };
            route.handle(Input::Indexed(indexed), &brokers, Draw(1), Moment::ZERO);
            let wants = std::iter::from_fn(|| route.poll_output());
            wants
                .filter(|output| matches!(output, Output::Want(_)))
                .count()
        });
    });
}

fn empty_row(criterion: &mut Criterion) {
    let mut brokers = Brokers::new();
    let mut route = following(&mut brokers);
    let nothing = bytes::Bytes::new();
    criterion.bench_function("follower row, empty", |bencher| {
        bencher.iter(|| {
            let stamp = route.standing_demand().expect("reads on").stamp;
            let input = Input::Row {
                stamp,
                row: row(None, &nothing),
                inconclusive: true,
            };
            route.handle(black_box(input), &brokers, Draw(1), Moment::ZERO);
            std::iter::from_fn(|| route.poll_output()).count()
        });
    });
}

criterion_group!(benches, follower_row, empty_row);
criterion_main!(benches);
