//! Records in and out.

use nearside::ids::{GroupId, TopicPartition};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::run::{cluster, command, end, run};

#[tokio::test]
async fn what_is_produced_is_consumed_in_order() {
    let cluster = cluster().await;
    let bootstrap = cluster.handle().bootstrap();
    let lines: String = (0..3_000)
        .map(|number| format!("k{}:{number}\n", number % 7))
        .collect();
    let produced = run(&format!("produce -b {bootstrap} -t orders -K :"), &lines).await;
    assert_eq!((produced.code, produced.error.as_str()), (Some(0), ""));
    let consumed = run(
        &format!("consume -b {bootstrap} -t orders -e -f %k:%s\\n"),
        "",
    )
    .await;
    assert_eq!((consumed.code, consumed.error.as_str()), (Some(0), ""));
    let of_key = |text: &str, key: &str| -> Vec<String> {
        text.lines()
            .filter(|line| line.starts_with(key))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(consumed.out.lines().count(), 3_000);
    for key in ["k0:", "k1:", "k2:", "k3:", "k4:", "k5:", "k6:"] {
        assert_eq!(
            of_key(&consumed.out, key),
            of_key(&lines, key),
            "order of {key}"
        );
    }
}

#[tokio::test]
async fn a_count_is_met_exactly_and_a_closed_pipe_is_no_failure() {
    let cluster = cluster().await;
    let bootstrap = cluster.handle().bootstrap();
    let lines = "line\n".repeat(500);
    run(&format!("produce -b {bootstrap} -t orders"), &lines).await;
    let counted = run(&format!("consume -b {bootstrap} -t orders -c 7"), "").await;
    assert_eq!((counted.code, counted.out.lines().count()), (Some(0), 7));
    let mut child = command(&format!("consume -b {bootstrap} -t orders"))
        .spawn()
        .unwrap();
    // Nobody reads.
    drop(child.stdout.take());
    let closed = end(child).await;
    assert_eq!((closed.code, closed.error.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn a_lone_record_shows_at_once_and_sigterm_commits_what_was_printed() {
    let cluster = cluster().await;
    let handle = cluster.handle();
    let words = format!(
        "consume -b {} -t orders -g billing -o beginning",
        handle.bootstrap()
    );
    let mut child = command(&words).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let partition = TopicPartition::new("orders", 1);
    for text in ["one", "two"] {
        let record = nearside::embedded::Record::of(text);
        handle
            .with(|cluster| cluster.produce(&partition, &[record]))
            .unwrap();
        // The next record is written only after this one was printed.
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some(text));
    }
    let pid = child.id().unwrap().to_string();
    let killed = tokio::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status()
        .await;
    assert!(killed.unwrap().success());
    let ended = end(child).await;
    assert_eq!((ended.code, ended.error.as_str()), (Some(0), ""));
    let group = GroupId::from("billing");
    let committed = handle.with(|cluster| cluster.committed(&group, &partition).cloned());
    assert_eq!(committed.map(|committed| committed.offset.0), Some(2));
}

#[tokio::test]
async fn json_goes_through_both_commands_unchanged() {
    let cluster = cluster().await;
    let handle = cluster.handle();
    let bootstrap = handle.bootstrap();
    handle
        .with(|cluster| cluster.create_topic("copy", 3, 3))
        .unwrap();
    let line =
        r#"{"key":"k","value":{"hex":"ff00"},"headers":[["a","1"],["a",null]],"partition":2}"#;
    run(&format!("produce -b {bootstrap} -t orders --json"), line).await;
    let first = run(&format!("consume -b {bootstrap} -t orders -e --json"), "").await;
    let copied = run(
        &format!("produce -b {bootstrap} -t copy --json"),
        &first.out,
    )
    .await;
    assert_eq!(copied.code, Some(0), "{copied:?}");
    let second = run(&format!("consume -b {bootstrap} -t copy -e --json"), "").await;
    assert!(
        first
            .out
            .contains(r#""headers":[["a","1"],["a",null]],"key":"k","value":{"hex":"ff00"}"#)
    );
    assert_eq!(second.out, first.out.replace("orders", "copy"));
}

#[tokio::test]
async fn a_command_per_record_sees_the_value_and_its_place() {
    let cluster = cluster().await;
    let bootstrap = cluster.handle().bootstrap();
    run(
        &format!("produce -b {bootstrap} -t orders -p 1"),
        "one\ntwo\n",
    )
    .await;
    let mut consume = command(&format!("consume -b {bootstrap} -t orders -e --exec"));
    consume.arg("echo $KAFKA_TOPIC/$KAFKA_PARTITION/$KAFKA_OFFSET $(cat)");
    let ended = end(consume.spawn().unwrap()).await;
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "orders/1/0 one\norders/1/1 two\n")
    );
}

#[tokio::test]
async fn a_count_counts_the_commands_that_succeed() {
    let cluster = cluster().await;
    let bootstrap = cluster.handle().bootstrap();
    for partition in 0..3 {
        let words = format!("produce -b {bootstrap} -t orders -p {partition}");
        run(&words, "one\ntwo\n").await;
    }
    // The first attempt at every record fails, and the others wait for their turn.
    let marks = std::env::temp_dir().join(format!("nearside-turns-{}", std::process::id()));
    std::fs::create_dir_all(&marks).unwrap();
    let mut consume = command(&format!("consume -b {bootstrap} -t orders -c 2 --exec"));
    consume.env("MARKS", &marks).arg(
        "mark=$MARKS/$KAFKA_PARTITION-$KAFKA_OFFSET; \
         if [ -e $mark ]; then cat; echo; else : > $mark; exit 1; fi",
    );
    let ended = end(consume.spawn().unwrap()).await;
    std::fs::remove_dir_all(&marks).unwrap();
    assert_eq!((ended.code, ended.error.as_str()), (Some(0), ""));
    assert_eq!(ended.out.lines().count(), 2, "{ended:?}");
}
