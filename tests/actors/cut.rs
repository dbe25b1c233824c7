//! A client cut off from one broker, while the cluster is well.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearside::fleet::{BoxFuture, Stream, Transport};
use nearside::ids::{Offset, TopicPartition};
use nearside::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::stage::{Stage, pass, run, start, until};

/// What stands between the client and one broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Nothing.
    Open,
    /// No packet passes in either direction; connections stay open.
    Silent,
    /// Connections end, and new ones are refused.
    Refused,
}

/// The stage's transport, with a way to one broker that can be blocked.
#[derive(Debug)]
struct Cut {
    inner: Arc<dyn Transport>,
    broker: u8,
    way: watch::Sender<Way>,
}

impl Cut {
    fn new(stage: &Stage, broker: u8) -> Arc<Self> {
        let way = watch::Sender::new(Way::Open);
        Arc::new(Self {
            inner: stage.transport(),
            broker,
            way,
        })
    }

    fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

impl Transport for Cut {
    fn resolve(&self, host: String, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        self.inner.resolve(host, port)
    }

    fn dial(&self, address: SocketAddr) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let concerned = match address {
            SocketAddr::V4(v4) => v4.ip().octets()[3] + 1 == self.broker,
            SocketAddr::V6(_) => false,
        };
        let dial = self.inner.dial(address);
        if !concerned {
            return dial;
        }
        let mut way = self.way.subscribe();
        Box::pin(async move {
            let now = *way
                .wait_for(|way| *way != Way::Silent)
                .await
                .expect("sender lives");
            if now == Way::Refused {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let far = dial.await?;
            let (near, middle) = tokio::io::duplex(256 * 1024);
            tokio::spawn(relay(middle, far, way));
            let near: Box<dyn Stream> = Box::new(near);
            Ok(near)
        })
    }
}

/// Carries bytes between two ends while the way is open, and ends both when it is refused.
async fn relay(near: impl Stream, far: Box<dyn Stream>, mut way: watch::Receiver<Way>) {
    let (near_read, near_write) = tokio::io::split(near);
    let (far_read, far_write) = tokio::io::split(far);
    tokio::select! {
        () = carry(near_read, far_write, way.clone()) => {}
        () = carry(far_read, near_write, way.clone()) => {}
        _ = way.wait_for(|way| *way == Way::Refused) => {}
    }
}

async fn carry(
    mut from: impl tokio::io::AsyncRead + Unpin,
    mut to: impl tokio::io::AsyncWrite + Unpin,
    mut way: watch::Receiver<Way>,
) {
    let mut chunk = vec![0; 16 * 1024];
    loop {
        let Ok(count) = from.read(&mut chunk).await else {
            return;
        };
        // What is under way when the packets vanish arrives when they pass again.
        if way.wait_for(|way| *way != Way::Silent).await.is_err() || count == 0 {
            return;
        }
        if to.write_all(&chunk[..count]).await.is_err() {
            return;
        }
    }
}

/// What a handler saw, and when.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Seen>>);

type Seen = BTreeMap<TopicPartition, Vec<(i64, Instant)>>;

impl Diary {
    fn subscription(&self, topic: &str) -> Subscription {
        let diary = self.clone();
        Subscription::topics([topic]).handler(handler_fn(move |message: Message<Raw>, _| {
            let at = TopicPartition::new(message.topic().clone(), message.partition());
            let mut seen = diary.0.lock().expect("no panic while noting");
            let entry = (message.offset().0, Instant::now());
            seen.entry(at).or_default().push(entry);
            async { Ok(Outcome::Done) }
        }))
    }

    fn count(&self) -> usize {
        self.0
            .lock()
            .expect("no panic")
            .values()
            .map(Vec::len)
            .sum()
    }

    fn offsets(&self, at: &TopicPartition) -> Vec<i64> {
        let seen = self.0.lock().expect("no panic");
        let entries = seen.get(at).map(Vec::as_slice).unwrap_or_default();
        entries.iter().map(|(offset, _)| *offset).collect()
    }

    /// The longest time without a record of `at` between two moments.
    fn longest_gap(&self, at: &TopicPartition, from: Instant, to: Instant) -> Duration {
        let seen = self.0.lock().expect("no panic");
        let times = seen[at].iter().map(|(_, when)| *when);
        let mut last = from;
        let mut longest = Duration::ZERO;
        for when in times.filter(|when| *when > from && *when < to).chain([to]) {
            longest = longest.max(when - last);
            last = when;
        }
        longest
    }
}

const PARTITIONS: i32 = 6;

fn partitions() -> impl Iterator<Item = TopicPartition> {
    (0..PARTITIONS).map(|index| TopicPartition::new("orders", index))
}

/// A group whose coordinator is on this broker, or on another one.
fn group(stage: &Stage, broker: i32, on_it: bool) -> String {
    let names = (0..100).map(|n| format!("g{n}"));
    let mut fitting = names.filter(|name| (stage.coordinator(name) == broker) == on_it);
    fitting
        .next()
        .expect("a hundred names spread over three brokers")
}

/// Produces to every partition ten times a second.
async fn busy(stage: &Stage, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        for index in 0..PARTITIONS {
            stage.produce("orders", index, 1);
        }
        pass(Duration::from_millis(100)).await;
    }
}

/// Runs a fleet of rack b, cuts it off from broker 2, which it reads everything from, and heals.
/// No partition may stand still for longer than `gap_max`, and all go back.
fn cut_off_from_the_nearest(way: Way, coordinator: bool, gap_max: Duration) {
    run(async move {
        let stage = Stage::new();
        stage.topic("orders", u32::try_from(PARTITIONS).expect("few"));
        let group = group(&stage, 2, coordinator);
        let cut = Cut::new(&stage, 2);
        let diary = Diary::default();
        let fleet = stage
            .fleet(&group, "b", diary.subscription("orders"))
            .transport(Arc::clone(&cut) as Arc<dyn Transport>);
        let fleet = start(fleet).await;
        busy(&stage, Duration::from_secs(4)).await;
        let broker_of = |at: &TopicPartition| {
            let report = fleet.report();
            let row = report.partitions.iter().find(|row| row.partition == *at);
            row.and_then(|row| row.broker).map(|broker| broker.0)
        };
        for at in partitions() {
            assert_eq!(broker_of(&at), Some(2), "{at}");
        }
        let led: Vec<_> = (0..PARTITIONS)
            .filter(|index| stage.leader("orders", *index) == Some(2))
            .collect();
        assert!((1..PARTITIONS as usize).contains(&led.len()), "{led:?}");

        let from = Instant::now();
        cut.set(way);
        busy(&stage, Duration::from_secs(15)).await;
        let to = Instant::now();
        let served = stage.record_bytes(2);
        cut.set(Way::Open);
        for at in partitions() {
            let gap = diary.longest_gap(&at, from, to);
            assert!(gap <= gap_max, "{at} stood still for {gap:?}");
            assert_ne!(broker_of(&at), Some(2), "{at}");
        }
        busy(&stage, Duration::from_secs(30)).await;
        for at in partitions() {
            assert_eq!(broker_of(&at), Some(2), "{at} is read nearby again");
        }
        assert!(stage.record_bytes(2) > served);

        let written = |at: &TopicPartition| stage.end("orders", at.partition.0);
        let total: i64 = partitions().map(|at| written(&at)).sum();
        until("everything is read", || {
            diary.count() >= usize::try_from(total).expect("small")
        })
        .await;
        fleet.stop(Duration::from_secs(20)).await;
        for at in partitions() {
            let end = written(&at);
            assert_eq!(diary.offsets(&at), (0..end).collect::<Vec<_>>(), "{at}");
            assert_eq!(stage.committed(&group, &at), Some(Offset(end)));
        }
    });
}

/// routing.md S41 and S42, over whole fleets: the nearest broker leads some partitions and follows
/// in others when its packets vanish.
#[test]
fn a_silent_broker_holds_its_partitions_up_for_one_hedge_deadline() {
    cut_off_from_the_nearest(Way::Silent, false, Duration::from_millis(2_700));
}

#[test]
fn a_silent_broker_that_coordinates_the_group_holds_reading_up_no_longer() {
    cut_off_from_the_nearest(Way::Silent, true, Duration::from_millis(2_700));
}

#[test]
fn a_broker_that_refuses_connections_holds_its_partitions_up_for_half_a_second() {
    cut_off_from_the_nearest(Way::Refused, false, Duration::from_millis(620));
}
