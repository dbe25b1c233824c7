//! The producing client against embedded brokers.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};

use super::*;
use crate::actors::IoInput;
use crate::embedded::listener::Serving;
use crate::embedded::{Cluster, Settings};
use crate::ids::{BrokerId, TopicPartition};
use crate::producer::Record;

/// Drives the client until so many records are acknowledged.
async fn acked(client: &mut Client, io: &mut UnboundedReceiver<IoInput>, records: u64) {
    while client.findings.acked < records {
        let due = client.next_deadline().unwrap_or(LOOK_INTERVAL);
        tokio::select! {
            Some(input) = io.recv() => client.io(input),
            () = sleep(due) => client.tick(),
        }
    }
}

/// The batch is sent again while nobody else leads yet, and waits for a connection to a broker that
/// is gone.
#[tokio::test]
async fn a_batch_that_waits_for_a_dead_leader_goes_to_the_next_one_once_there_is_one() {
    lose_the_leader(|cluster| cluster.kill(LEADER)).await;
}

/// Connections stay open, no dial fails and no hint comes.
#[tokio::test]
async fn a_batch_whose_leader_stands_still_goes_to_the_next_one_once_there_is_one() {
    lose_the_leader(|cluster| cluster.freeze(LEADER)).await;
}

/// Writes a record, loses the leader, and writes another in time.
async fn lose_the_leader(lose: impl FnOnce(&mut Cluster)) {
    let settings = Settings {
        broker_session: Duration::from_secs(2),
        ..Settings::default().on_loopback(None)
    };
    let serving = Serving::listen(settings).await.unwrap();
    let handle = serving.handle();
    let replicas = vec![LEADER, BrokerId(2), BrokerId(3)];
    handle
        .with(|cluster| cluster.create_topic_on("t", &[replicas]))
        .unwrap();
    let config = Config::from_pairs([("bootstrap.servers", handle.bootstrap().as_str())]).unwrap();
    let writing = async {
        let (mut client, mut io) = Client::new(&config, "t".into()).unwrap();
        client.append(RecordToken(1), Record::new("t", "before"));
        acked(&mut client, &mut io, 1).await;
        handle.with(lose);
        client.append(RecordToken(2), Record::new("t", "after"));
        // Far below request.timeout.ms, far above the election.
        let in_time = timeout(Duration::from_secs(15), acked(&mut client, &mut io, 2)).await;
        assert!(in_time.is_ok(), "not written within 15 s");
    };
    LocalSet::new().run_until(writing).await;
    let at = TopicPartition::new("t", 0);
    let view = handle.with(|cluster| cluster.partition(&at)).unwrap();
    assert_ne!(view.leader, Some(LEADER));
}

const LEADER: BrokerId = BrokerId(1);
