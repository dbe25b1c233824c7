//! What signals do to `produce`, and what becomes of the processes of `consume --exec`.

use std::time::Duration;

use nearside::embedded::listener::{Handle, Serving};
use nearside::embedded::{Api, Effect, Record, Rule};
use nearside::ids::TopicPartition;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{sleep, timeout};

use crate::ending::signal;
use crate::run::{cluster, command, end};

/// `produce` with its input open.
fn produce(cluster: &Serving, linger_ms: u32) -> (Child, ChildStdin) {
    let bootstrap = cluster.handle().bootstrap();
    let batches = format!("-X batch.size=1000 -X linger.ms={linger_ms}");
    let words = format!("produce -b {bootstrap} -t orders -p 1 {batches}");
    let mut produce = command(&words).spawn().unwrap();
    let input = produce.stdin.take().unwrap();
    (produce, input)
}

/// From now on batches are written, and nobody learns it.
fn acknowledge_late(cluster: &Serving) {
    let late = Rule::new(Effect::Delay(Duration::from_secs(3_600))).on(Api::Produce);
    cluster.handle().with(|cluster| cluster.inject(late));
}

async fn until_written(handle: &Handle, records: i64) {
    let at = TopicPartition::new("orders", 1);
    let written = || handle.with(|cluster| cluster.partition(&at).unwrap().log_end.0);
    let all = async {
        while written() < records {
            sleep(POLL).await;
        }
    };
    let in_time = timeout(PATIENCE, all).await;
    assert!(in_time.is_ok(), "{} of {records} written", written());
}

#[tokio::test]
async fn a_signal_behind_the_end_of_the_input_ends_produce_and_tells_what_is_in_doubt() {
    let cluster = cluster().await;
    let (produce, mut input) = produce(&cluster, 60_000);
    // A full batch does not linger, and the second one goes once the first is acknowledged.
    let full = format!("{}\n", "x".repeat(1_000));
    for written in 1..=2 {
        input.write_all(full.as_bytes()).await.unwrap();
        until_written(cluster.handle(), written).await;
    }
    acknowledge_late(&cluster);
    // One that is not full goes at the end of the input: the log proves that it was seen.
    input.write_all(b"three\n").await.unwrap();
    drop(input);
    until_written(cluster.handle(), 3).await;
    signal(&produce, "TERM").await;
    let ended = end(produce).await;
    ended.assert_failure(1, " of 3 records were not acknowledged");
}

#[tokio::test]
async fn a_second_signal_ends_produce_while_its_input_is_open() {
    let cluster = cluster().await;
    acknowledge_late(&cluster);
    let (produce, mut input) = produce(&cluster, 0);
    input.write_all(b"one\ntwo\n").await.unwrap();
    until_written(cluster.handle(), 2).await;
    // One of each kind, since two of the same may come as one.
    signal(&produce, "INT").await;
    signal(&produce, "TERM").await;
    let ended = end(produce).await;
    ended.assert_failure(1, "2 of 2 records were not acknowledged");
    drop(input);
}

#[tokio::test]
async fn a_first_signal_ends_produce_in_order_while_its_input_is_open() {
    let cluster = cluster().await;
    let (produce, mut input) = produce(&cluster, 0);
    input.write_all(b"one\ntwo\n").await.unwrap();
    until_written(cluster.handle(), 2).await;
    signal(&produce, "INT").await;
    let ended = end(produce).await;
    assert_eq!((ended.code, ended.error.as_str()), (Some(0), ""));
    drop(input);
}

#[tokio::test]
async fn no_process_of_a_command_outlives_its_attempt() {
    let cluster = cluster().await;
    let at = TopicPartition::new("orders", 1);
    let one = [Record::of("one")];
    cluster
        .handle()
        .with(|cluster| cluster.produce(&at, &one))
        .unwrap();
    let bootstrap = cluster.handle().bootstrap();
    let words = format!("consume -b {bootstrap} -t orders -X handler.deadline.ms=1000 --exec");
    let mut consume = command(&words);
    let mut consume = consume.arg("sleep 7919 & echo $!; wait").spawn().unwrap();
    let mut pids = BufReader::new(consume.stdout.take().unwrap()).lines();
    let first = pids.next_line().await.unwrap().unwrap();
    let second = pids.next_line().await.unwrap().unwrap();
    until_gone(&first).await;
    signal(&consume, "INT").await;
    signal(&consume, "TERM").await;
    end(consume).await;
    until_gone(&second).await;
    while let Some(later) = pids.next_line().await.unwrap() {
        until_gone(&later).await;
    }
}

/// Waits until a process has ended, be it that nobody has asked for its status yet.
async fn until_gone(pid: &str) {
    let gone = async {
        loop {
            let listed = Command::new("ps").args(["-o", "stat=", "-p", pid]).output();
            let state = String::from_utf8(listed.await.unwrap().stdout).unwrap();
            if state.is_empty() || state.starts_with('Z') {
                return;
            }
            sleep(POLL).await;
        }
    };
    let in_time = timeout(PATIENCE, gone).await;
    assert!(in_time.is_ok(), "process {pid} still runs");
}

const POLL: Duration = Duration::from_millis(20);
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(15);
