//! Names that lead elsewhere: known brokers are given up and the bootstrap names asked anew.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nearside::embedded::{Api, ConnectionId, Effect, Link, Rule, Seen as Request};
use nearside::fleet::{BoxFuture, FleetHandle, StopReason, Stream, Transport};
use nearside::ids::{BrokerId, Offset, TopicPartition};

use crate::stage::{Seen, Stage, pass, run, start, until};

/// One bootstrap name in front of one of two clusters.
#[derive(Debug)]
struct Names {
    clusters: [Arc<dyn Transport>; 2],
    behind: AtomicUsize,
    asked: AtomicUsize,
    first: String,
}

impl Names {
    fn new(clusters: [&Stage; 2]) -> Arc<Self> {
        let bootstrap = clusters[0].cluster().bootstrap();
        let first = bootstrap.split(',').next().expect("an address");
        Arc::new(Self {
            clusters: clusters.map(Stage::transport),
            behind: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            first: first.split(':').next().expect("a host").to_owned(),
        })
    }

    /// How often the bootstrap name was resolved.
    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    fn now(&self) -> &Arc<dyn Transport> {
        &self.clusters[self.behind.load(Ordering::Relaxed)]
    }
}

impl Transport for Names {
    fn resolve(&self, host: String, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        if host != "bootstrap" {
            return self.now().resolve(host, port);
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.now().resolve(self.first.clone(), port)
    }

    fn dial(&self, address: SocketAddr) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        self.now().dial(address)
    }
}

async fn reading(stage: &Stage, names: &Arc<Names>, seen: &Seen) -> FleetHandle {
    stage.topic("orders", 3);
    let bootstrap = stage.cluster().bootstrap();
    let port = bootstrap.split(',').next().expect("an address");
    let port = port.rsplit(':').next().expect("a port");
    let fleet = stage
        .fleet("g", "b", seen.noting("orders"))
        .bootstrap(&format!("bootstrap:{port}"))
        .transport(Arc::clone(names) as Arc<dyn Transport>);
    let fleet = start(fleet).await;
    (0..3).for_each(|partition| stage.produce("orders", partition, 10));
    until("the first records are seen", || seen.len() == 30).await;
    until("they are committed", || {
        (0..3).all(|one| stage.committed("g", &orders(one)) == Some(Offset(10)))
    })
    .await;
    fleet
}

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

/// Connections that carried requests since the last time.
fn connections(stage: &Stage) -> BTreeSet<ConnectionId> {
    let seen = stage
        .cluster()
        .with(nearside::embedded::Cluster::take_history);
    seen.iter().map(|one| one.connection).collect()
}

/// Session epochs of the first Fetch in a session, over each connection.
fn first_epochs<'a>(seen: impl Iterator<Item = &'a Request>) -> BTreeSet<i32> {
    let mut first = BTreeMap::new();
    for one in seen {
        if let Some(fetch) = one.fetch.as_ref().filter(|it| it.session_epoch >= 0) {
            first.entry(one.connection).or_insert(fetch.session_epoch);
        }
    }
    first.into_values().collect()
}

/// The next Metadata answer orders clients to begin anew (KIP-1102).
fn order_anew(stage: &Stage) {
    stage.cluster().with(|cluster| {
        cluster.inject(Rule::error(129).on(Api::Metadata).times(1));
        let at = orders(0);
        let to = (1..=3)
            .map(BrokerId)
            .find(|id| cluster.partition(&at).expect("there").leader != Some(*id));
        cluster
            .move_leader(&at, to.expect("three brokers"))
            .expect("in sync");
    });
}

/// wire.md A17 (b)
#[test]
fn a_broker_that_orders_a_new_start_costs_no_record_and_every_connection() {
    run(async {
        let stage = Stage::new();
        let names = Names::new([&stage, &stage]);
        let seen = Seen::default();
        let fleet = reading(&stage, &names, &seen).await;
        let before = connections(&stage);
        pass(Duration::from_secs(5)).await;
        let busy = connections(&stage);
        assert!(busy.is_subset(&before) && !busy.is_empty());
        assert_eq!(names.asked(), 1);

        order_anew(&stage);
        until("the name is resolved anew", || names.asked() == 2).await;
        pass(Duration::from_secs(5)).await;
        let is_open = |id: &ConnectionId| stage.cluster().with(|cluster| cluster.is_open(*id));
        assert!(!before.iter().any(is_open), "those of the names, too");
        let since = stage
            .cluster()
            .with(nearside::embedded::Cluster::take_history);
        let later = since.iter().filter(|one| !before.contains(&one.connection));
        assert_eq!(first_epochs(later), BTreeSet::from([0]), "sessions are new");
        (0..3).for_each(|partition| stage.produce("orders", partition, 10));
        until("the rest is seen", || seen.len() == 60).await;
        pass(Duration::from_secs(10)).await;
        let after = connections(&stage);
        assert!(!after.is_empty());
        assert!(before.is_disjoint(&after), "{before:?} {after:?}");
        assert_eq!(names.asked(), 2, "once");
        fleet.stop(Duration::from_secs(20)).await;
        for partition in 0..3 {
            let all: Vec<_> = (0..20).collect();
            assert_eq!(seen.offsets(&orders(partition)), all);
            let committed = stage.committed("g", &orders(partition));
            assert_eq!(committed, Some(Offset(20)));
        }
    });
}

/// wire.md A17 (a)
#[test]
fn names_that_lead_to_another_cluster_end_the_fleet_before_anything_is_read_there() {
    run(async {
        let stage = Stage::new();
        let other = Stage::with(|cluster| cluster.cluster_id = "another".to_owned());
        other.topic("orders", 3);
        (0..3).for_each(|partition| other.produce("orders", partition, 100));
        let names = Names::new([&stage, &other]);
        let seen = Seen::default();
        let fleet = reading(&stage, &names, &seen).await;
        names.behind.store(1, Ordering::Relaxed);
        order_anew(&stage);
        let stopped = fleet.stopped().await;
        let StopReason::Fatal(error) = &stopped.reason else {
            panic!("{:?}", stopped.reason)
        };
        assert!(
            error.to_string().contains("lead to cluster another"),
            "{error}"
        );
        assert_eq!(seen.len(), 30, "nothing of the other cluster");
        assert_eq!(other.requests(Api::Fetch), 0);
        assert_eq!(other.requests(Api::OffsetCommit), 0);
        for partition in 0..3 {
            let at = orders(partition);
            assert_eq!(other.committed("g", &at), None);
            assert_eq!(stage.committed("g", &at), Some(Offset(10)));
        }
    });
}

/// wire.md A16
#[test]
fn only_a_cluster_that_refuses_us_altogether_sends_us_back_to_the_names() {
    run(async {
        let stage = Stage::new();
        let names = Names::new([&stage, &stage]);
        let seen = Seen::default();
        let fleet = reading(&stage, &names, &seen).await;
        assert_eq!(names.asked(), 1);

        let quiet = Rule::new(Effect::Throttle(Duration::from_secs(10)));
        let quiet = stage.cluster().with(|cluster| cluster.inject(quiet));
        pass(Duration::from_secs(30)).await;
        assert_eq!(names.asked(), 1, "a muted cluster is there");
        stage.cluster().with(|cluster| cluster.withdraw(quiet));
        pass(Duration::from_secs(10)).await;

        let all = |link| {
            stage.cluster().with(|cluster| {
                (1..=3).for_each(|id| cluster.set_link(BrokerId(id), link));
            });
        };
        all(Link::Silent);
        pass(Duration::from_secs(10)).await;
        assert_eq!(names.asked(), 1, "one with every connection full is there");
        all(Link::Open);
        pass(Duration::from_secs(60)).await;
        assert_eq!(names.asked(), 1);

        all(Link::Refused);
        pass(Duration::from_secs(10)).await;
        let during = names.asked();
        assert!((2..20).contains(&during), "asked {during} times");
        all(Link::Open);
        (0..3).for_each(|partition| stage.produce("orders", partition, 10));
        until("the rest is seen", || seen.len() == 60).await;
        pass(Duration::from_secs(30)).await;
        assert!(names.asked() <= during + 2, "it is over");
        fleet.stop(Duration::from_secs(20)).await;
        for partition in 0..3 {
            let all: Vec<_> = (0..20).collect();
            assert_eq!(seen.offsets(&orders(partition)), all);
        }
    });
}
