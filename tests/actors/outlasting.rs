//! Requests that outlast the session they were sent in (KIP-368).

use std::sync::Arc;
use std::time::Duration;

use nearside::embedded::{Api, GroupPhase, GroupView, Sasl};
use nearside::ids::{BrokerId, Offset, TopicPartition};
use nearside::prelude::*;
use nearside::secret::Secret;
use tokio::sync::Semaphore;

use crate::stage::{Builder, Seen, Stage, run, start, until_hashed};

const SESSION: Duration = Duration::from_secs(20);

fn guarded() -> Stage {
    let sasl = Sasl {
        session_max: Some(SESSION),
        ..Sasl::user("bob", Secret::new("correct horse"))
    };
    Stage::with(|settings| settings.sasl = Some(sasl))
}

fn known(builder: Builder) -> Builder {
    builder
        .property("security.protocol", "SASL_PLAINTEXT")
        .property("sasl.mechanism", "PLAIN")
        .property("sasl.username", "bob")
        .property("sasl.password", "correct horse")
        .property("wire.sasl.plain.allow.cleartext", "true")
        // Every member gives everything back before it joins again.
        .property("partition.assignment.strategy", "range")
}

/// Handles nothing before the semaphore opens.
fn held(gate: &Arc<Semaphore>, seen: &Seen) -> Subscription {
    let (gate, seen) = (Arc::clone(gate), seen.clone());
    Subscription::topics(["orders"]).handler(handler_fn(move |message: Message<Raw>, _| {
        let (gate, seen) = (Arc::clone(&gate), seen.clone());
        async move {
            let _turn = gate.acquire().await;
            seen.note(&message);
            Ok(Outcome::Done)
        }
    }))
}

fn group(stage: &Stage) -> GroupView {
    let view = stage.cluster().with(|cluster| cluster.group(&"g".into()));
    view.expect("somebody has joined")
}

fn at_coordinator(stage: &Stage, api: Api) -> u64 {
    let broker = BrokerId(stage.coordinator("g"));
    stage
        .cluster()
        .with(|cluster| cluster.requests(broker, api))
}

async fn pass_by(time: Duration) {
    let end = tokio::time::Instant::now() + time;
    until_hashed("time passes", || tokio::time::Instant::now() >= end).await;
}

/// wire.md A24
#[test]
fn a_join_that_outlasts_its_session_keeps_the_member_its_id_and_its_generation() {
    run(async {
        let stage = guarded();
        stage.topic("orders", 2);
        for partition in 0..2 {
            stage.produce("orders", partition, 10);
        }
        let (gate, seen) = (Arc::new(Semaphore::new(0)), Seen::default());
        let slow = start(known(stage.fleet("g", "a", held(&gate, &seen)))).await;
        until_hashed("the first is a member", || {
            slow.report().partitions.len() == 2
        })
        .await;
        let joiner = start(known(stage.fleet("g", "b", seen.noting("orders")))).await;
        until_hashed("it waits for the first to join again", || {
            let group = group(&stage);
            group.phase == GroupPhase::PreparingRebalance && group.members.len() == 2
        })
        .await;
        let before = group(&stage);
        let (joins, connections) = (
            at_coordinator(&stage, Api::JoinGroup),
            at_coordinator(&stage, Api::ApiVersions),
        );
        // The first may take a minute for the record in hand.
        pass_by(2 * SESSION).await;
        assert_eq!(group(&stage).phase, GroupPhase::PreparingRebalance);
        let opened = at_coordinator(&stage, Api::ApiVersions) - connections;
        assert_eq!(
            opened, 2,
            "one more connection, which asks before and after SASL"
        );
        gate.add_permits(Semaphore::MAX_PERMITS);
        until_hashed("both are members", || {
            joiner.report().partitions.len() == 1 && slow.report().partitions.len() == 1
        })
        .await;
        let after = group(&stage);
        assert_eq!(after.members, before.members);
        assert_eq!(after.generation, before.generation + 1);
        let (id, generation) = joiner.report().member.expect("a member");
        assert!(before.members.contains(&id));
        assert_eq!(generation.0, after.generation);
        pass_by(10 * SESSION).await;
        assert_eq!(
            group(&stage),
            after,
            "nothing rebalances, session after session"
        );
        assert_eq!(
            at_coordinator(&stage, Api::JoinGroup),
            joins + 1,
            "the first joined again, and nobody else"
        );
        joiner.stop(Duration::from_secs(20)).await;
        slow.stop(Duration::from_secs(20)).await;
        for partition in 0..2 {
            let at = TopicPartition::new("orders", partition);
            assert_eq!(seen.offsets(&at), (0..10).collect::<Vec<_>>());
            assert_eq!(stage.committed("g", &at), Some(Offset(10)));
        }
    });
}
