//! When `consume` ends by itself, and what it says then.

use nearside::embedded::{GroupPhase, Record, encode_batch};
use nearside::ids::{GroupId, TopicPartition};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::run::{cluster, command, end, run};

#[tokio::test]
async fn a_missing_topic_is_no_end_even_beside_one_that_is_read() {
    let cluster = cluster().await;
    let bootstrap = cluster.handle().bootstrap();
    let words = format!("consume -b {bootstrap} -e -t ordres");
    let (alone, beside) = tokio::join!(async { run(&words, "").await }, async {
        run(&format!("{words} -t orders"), "").await
    },);
    alone.assert_failure(1, "ordres");
    beside.assert_failure(1, "ordres");
}

#[tokio::test]
async fn a_member_without_partitions_waits_for_its_turn() {
    let cluster = cluster().await;
    let handle = cluster.handle();
    handle
        .with(|cluster| cluster.create_topic("bills", 1, 3))
        .unwrap();
    handle
        .with(|cluster| {
            cluster.produce(&TopicPartition::new("bills", 0), &[Record::of("unhandled")])
        })
        .unwrap();
    let words = format!(
        "consume -b {} -t bills -g billing -o beginning",
        handle.bootstrap()
    );
    let group = GroupId::from("billing");
    let members = |count: usize| {
        let (handle, group) = (handle.clone(), group.clone());
        async move {
            loop {
                let view = handle.with(|cluster| cluster.group(&group));
                if view.is_some_and(|view| {
                    view.members.len() == count && view.phase == GroupPhase::Stable
                }) {
                    return;
                }
                sleep(POLL).await;
            }
        }
    };
    // It has the partition, and never gets its record done.
    let first = command(&format!("{words} --exec false")).spawn().unwrap();
    members(1).await;
    let second = command(&format!("{words} -e")).spawn().unwrap();
    members(2).await;
    signal(&first, "TERM").await;
    let (_, second) = tokio::join!(end(first), end(second));
    assert_eq!(
        (second.code, second.out.as_str(), second.error.as_str()),
        (Some(0), "unhandled\n", "")
    );
}

#[tokio::test]
async fn committed_offsets_that_are_not_there_end_it() {
    let cluster = cluster().await;
    let words = format!(
        "consume -b {} -t orders -g billing -o stored",
        cluster.handle().bootstrap()
    );
    let ended = run(&words, "").await;
    ended.assert_failure(1, "orders-");
    ended.assert_failure(1, "auto.offset.reset=none");
}

#[tokio::test]
async fn a_batch_with_a_bad_checksum_ends_it_behind_what_is_sound() {
    let cluster = cluster().await;
    let handle = cluster.handle();
    let partition = TopicPartition::new("orders", 1);
    let mut damaged = encode_batch(&[Record::of("damaged")]).to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    handle
        .with(|cluster| {
            cluster.produce(&partition, &[Record::of("sound")])?;
            cluster.append(&partition, damaged.into())
        })
        .unwrap();
    let words = format!("consume -b {} -t orders -e", handle.bootstrap());
    let ended = run(&words, "").await;
    // The fleet logs it as well.
    let last = ended.error.lines().last().unwrap();
    let told = last.starts_with("error: orders-1: ") && last.contains("checksum");
    assert!(told, "{ended:?}");
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), "sound\n"));
}

#[tokio::test]
async fn a_demo_that_is_interrupted_has_not_failed() {
    let mut demo = command("demo").spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    // From the first picture on signals are heard.
    assert!(lines.next_line().await.unwrap().is_some());
    signal(&demo, "INT").await;
    let mut last = String::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        last = line;
    }
    let ended = end(demo).await;
    assert_eq!((ended.code, ended.error.as_str()), (Some(0), ""));
    assert_eq!(last, "interrupted");
}

/// Sends a signal by its name.
pub(crate) async fn signal(child: &Child, name: &str) {
    let pid = child.id().unwrap().to_string();
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &pid])
        .status()
        .await;
    assert!(sent.unwrap().success());
}

const POLL: std::time::Duration = std::time::Duration::from_millis(20);
