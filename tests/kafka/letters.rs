//! Dead letters on a real cluster.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use libtest_mimic::{Failed, Trial};
use nearside::cli::kafka::{Cluster, ProduceLoad, until};
use nearside::fleet::Stopped;
use nearside::ids::{Offset, PartitionIndex};
use nearside::prelude::*;
use nearside::records::{BatchSet, BatchView, BatchWriter, Compression, NewRecord, ReadSettings};
use nearside::wire::ErrorCode;
use nearside::wire::api::produce;
use tokio::runtime::Runtime;

use crate::client::{Client, ask};
use crate::groups::committed;
use crate::journal::Journal;
use crate::lab::{Lab, Outcome as Verdict, trials};
use crate::reader;

pub(crate) fn trials(lab: &Arc<Lab>) -> Vec<Trial> {
    trials![lab;
        a_batch_that_comes_to_too_much_is_a_dead_letter_before_what_follows_is_committed,
    ]
}

const TOPIC: &str = "bombed";
const LETTERS: &str = "bombed.dead-letter";
const GROUP: &str = "bombed-readers";
/// Records on either side of the bomb, which is one record.
const RECORDS: u64 = 100;

/// wire.md 8.6
fn a_batch_that_comes_to_too_much_is_a_dead_letter_before_what_follows_is_committed(
    cluster: &mut Cluster,
) -> Verdict {
    cluster.create_topic(TOPIC, 1)?;
    cluster.create_topic(LETTERS, 1)?;
    cluster.produce(&ProduceLoad::numbered(TOPIC, RECORDS))?;
    plant(cluster)?;
    cluster.produce(&ProduceLoad::numbered(TOPIC, RECORDS))?;

    let journal = Arc::<Journal>::default();
    let noted = Arc::clone(&journal);
    let handler = handler_fn(move |message: Message<Raw>, _| {
        noted.note(&message);
        std::future::ready(Ok(Outcome::Done))
    });
    let runtime = Runtime::new()?;
    let fleet = Fleet::builder(GROUP)
        .bootstrap(&cluster.bootstrap())
        .property("auto.offset.reset", "earliest")
        .property("wire.batch.inflated.max.bytes", "65536")
        .property("wire.batch.policy", "dead_letter_raw")
        .subscribe(Subscription::topics([TOPIC]).handler(handler));
    let fleet = runtime.block_on(fleet.start())?;
    until(
        "all others handled",
        Duration::from_secs(60),
        || match journal.handled() {
            handled if handled == 2 * RECORDS => Ok(()),
            handled => Err(format!("{handled}, {:?}", fleet.connection_error())),
        },
    )?;
    let stopped = runtime.block_on(fleet.stop(Duration::from_secs(20)));
    Stopped::clone(&stopped).into_result()?;
    assert_eq!(committed(cluster, GROUP, TOPIC)?[&0], 201);

    let planted = batch_at(cluster, TOPIC, Offset(100))?;
    let letter = batch_at(cluster, LETTERS, Offset(0))?;
    let record = letter.records().next().ok_or("an empty letter")??;
    assert_eq!(record.value, planted.raw().map(|raw| &raw[..]));
    assert_eq!(record.key, None);
    let headers = record.headers.iter().collect::<Result<Vec<_>, _>>()?;
    let told = |name: &str| {
        let header = headers.iter().find(|header| header.key == name.as_bytes());
        header.and_then(|header| header.value)
    };
    assert_eq!(told("nearside.origin.offset"), Some(&b"100"[..]));
    assert_eq!(told("nearside.reason"), Some(&b"poison"[..]));
    Ok(())
}

/// A batch of one record that the broker takes, and that comes to more than we inflate.
fn plant(cluster: &Cluster) -> Verdict {
    let mut writer = BatchWriter::new(Compression::Gzip);
    writer.push(&NewRecord {
        timestamp: 1_700_000_000_000,
        value: Some(&[0; 200_000]),
        ..NewRecord::default()
    })?;
    let request = produce::Request {
        transactional_id: None,
        transactions_v2: false,
        acks: produce::Acks::All,
        timeout: Duration::from_secs(10),
        partitions: vec![produce::Partition {
            topic: TOPIC.into(),
            topic_id: None,
            partition: PartitionIndex(0),
            records: writer.seal()?,
        }],
    };
    let mut leader = Client::new(cluster.address(1)?);
    let answer = ask!(leader, Produce, request);
    assert_eq!(answer.partitions[0].error, ErrorCode::NONE);
    Ok(())
}

/// The batch that begins at `offset`, as its leader sends it.
fn batch_at(cluster: &Cluster, topic: &str, offset: Offset) -> Result<BatchView, Failed> {
    let mut leader = cluster.connect(1)?;
    let row = reader::fetch(&mut leader, topic, 0, offset)?;
    let records: Bytes = row.records.unwrap_or_default();
    let mut batches = BatchSet::new(records, offset, ReadSettings::default());
    Ok(batches.next().ok_or("nothing there")??)
}
