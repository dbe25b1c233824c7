//! Why a consumer read from where it did: a trace, and what is made of it.

use std::path::{Path, PathBuf};

use nearside::embedded::{Api, Record, Rule};
use nearside::ids::TopicPartition;

use crate::run::{Ended, cluster, run};

/// A trace file of one test, gone with it.
struct Trace(PathBuf);

impl Trace {
    fn new(name: &str) -> Self {
        let name = format!("nearside-trace-{}-{name}.jsonl", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }

    fn rewrite(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }

    async fn replay(&self, options: &str) -> Ended {
        run(&format!("replay {} {options}", self.0.display()), "").await
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

/// Reads three partitions from rack b. The replica there fails once for `orders-0`, which 1 leads.
async fn consume_with_a_fault(trace: &Path) {
    let cluster = cluster().await;
    let handle = cluster.handle();
    let failing = TopicPartition::new("orders", 0);
    for partition in 0..3 {
        let partition = TopicPartition::new("orders", partition);
        let records = ["a secret", "another"].map(Record::of);
        handle
            .with(|cluster| cluster.produce(&partition, &records))
            .unwrap();
    }
    let fault = Rule::error(56).on(Api::Fetch).at(2).of(failing).times(1);
    handle.with(|cluster| cluster.inject(fault));
    let words = format!(
        "consume -b {} -t orders --rack b -e --route-trace {}",
        handle.bootstrap(),
        trace.display()
    );
    let consumed = run(&words, "").await;
    assert_eq!(consumed.code, Some(0), "{consumed:?}");
    assert_eq!(consumed.out.lines().count(), 6, "{consumed:?}");
}

#[tokio::test]
async fn a_replay_explains_the_adopted_hint_and_the_cooldown() {
    let trace = Trace::new("explains");
    consume_with_a_fault(&trace.0).await;
    assert!(
        !trace.text().contains("secret"),
        "records are no part of a trace"
    );
    let told = trace.replay("--partition orders/0").await;
    assert_eq!((told.code, told.error.as_str()), (Some(0), ""), "{told:?}");
    let parts = [
        "orders-0: leader 1 sends no records and recommends broker 2",
        "read from follower 2 in b instead of leader 1 in a",
        "H13] because",
        "orders-0: follower 2 answers KAFKA_STORAGE_ERROR (56)",
        "read from leader 1 in a without naming our rack instead of follower 2 in b",
        "(broker 2 is left alone) [R25]",
        "because a faulty replica is left alone for a while and the leader serves",
        "every replayed decision came out as recorded",
    ];
    let story = told.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut rest = story.as_str();
    for part in parts {
        let found = rest.find(part);
        let found = found.unwrap_or_else(|| panic!("`{part}` is missing, or earlier, in {story}"));
        rest = &rest[found..];
    }
    assert!(!told.out.contains("orders-1"), "{}", told.out);
    let whole = trace.replay("").await;
    for partition in ["orders-0", "orders-1", "orders-2"] {
        assert!(whole.out.contains(partition), "{}", whole.out);
    }
    let missing = trace.replay("-p orders/9").await;
    let text = "tells nothing of orders/9; its partitions: orders/0, orders/1, orders/2";
    missing.assert_failure(2, text);
    let nothing = trace.replay("--from 86400").await;
    assert_eq!(nothing.code, Some(0));
    assert!(!nothing.out.contains("orders-"), "{}", nothing.out);
}

#[tokio::test]
async fn a_trace_cut_in_the_middle_of_a_line_names_the_line() {
    let trace = Trace::new("cut");
    consume_with_a_fault(&trace.0).await;
    let text = trace.text();
    let last = text.lines().count();
    trace.rewrite(&text[..text.len() - 5]);
    let told = trace.replay("").await;
    told.assert_failure(
        2,
        &format!(":{last}: the trace is cut off in the middle of this line"),
    );
    assert!(
        told.out.contains("orders-0"),
        "what came before is told: {told:?}"
    );
    // Cut between two lines, as by a killed consumer, it is whole as far as it goes.
    let end = text.trim_end().rfind('\n').unwrap();
    trace.rewrite(&text[..=end]);
    let told = trace.replay("").await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.out.contains("the trace has no end line"), "{told:?}");
}

#[tokio::test]
async fn a_trace_that_was_changed_does_not_come_out_as_recorded() {
    let trace = Trace::new("changed");
    consume_with_a_fault(&trace.0).await;
    let text = trace.text();
    assert!(text.contains(r#""hint":2"#), "{text}");
    trace.rewrite(&text.replacen(r#""hint":2"#, r#""hint":3"#, 1));
    let told = trace.replay("").await;
    told.assert_failure(1, "decided otherwise than recorded; line ");
    assert!(
        told.out.contains("! otherwise than recorded, line "),
        "{told:?}"
    );
    let gap: Vec<&str> = text.lines().collect();
    let step = gap
        .iter()
        .rposition(|line| line.contains(r#"{"step""#))
        .unwrap();
    let without: String = gap
        .iter()
        .enumerate()
        .filter(|(index, _)| *index != step)
        .map(|(_, line)| format!("{line}\n"))
        .collect();
    trace.rewrite(&without);
    trace
        .replay("")
        .await
        .assert_failure(2, "the end line counts");
}

#[tokio::test]
async fn a_file_that_is_no_trace_is_refused() {
    let trace = Trace::new("foreign");
    trace.rewrite("{\"level\":\"info\"}\n");
    let told = trace.replay("").await;
    told.assert_failure(2, ".jsonl:1: not a line of a route trace");
    trace.rewrite("{\"dropped\":1}\n");
    let told = trace.replay("").await;
    told.assert_failure(2, ".jsonl:1: a trace begins with a header line");
    trace.rewrite("");
    trace.replay("").await.assert_failure(2, "is empty");
    let missing = run("replay no/such.jsonl", "").await;
    missing.assert_failure(2, "cannot read no/such.jsonl");
    let unwritable = run(
        "consume -b 127.0.0.1:1 -t orders --route-trace no/such/folder/trace.jsonl",
        "",
    )
    .await;
    unwritable.assert_failure(1, "cannot write the route trace no/such/folder/trace.jsonl");
}
