//! Where records without a key go (KIP-480).

use std::collections::BTreeSet;

use nearside::producer::{Input, Record, RecordToken, Settings};

use super::rig::{Rig, TOPIC};

/// Eight partitions with a leader each.
fn rig(settings: Settings) -> Rig {
    let mut rig = Rig::with(settings);
    rig.view.partitions = 8;
    rig.view.leaders = (0..8).map(|index| (index, (1, 5))).collect();
    rig
}

fn append(rig: &mut Rig, key: Option<&'static str>, count: u64) {
    for token in 0..count {
        let mut record = Record::new(TOPIC, "value");
        record.key = key.map(Into::into);
        let token = RecordToken(token);
        rig.input(Input::Append { token, record });
    }
}

/// Partition and record count of every batch sent, with all answered.
fn batches(rig: &mut Rig) -> Vec<(i32, i32)> {
    let mut batches = Vec::new();
    while let Some(sent) = rig.sent.front() {
        let rows = sent.request.partitions.iter();
        batches.extend(rows.map(|row| {
            let count = row.records[57..61].try_into().unwrap();
            (row.partition.0, i32::from_be_bytes(count))
        }));
        rig.answer(0, Some(0));
    }
    batches
}

/// Six lots of three records, each sent when its linger is over.
fn lots(rig: &mut Rig, key: Option<&'static str>) -> Vec<(i32, i32)> {
    let lots = (0..6).flat_map(|_| {
        append(rig, key, 3);
        rig.advance(5);
        batches(rig)
    });
    lots.collect()
}

#[test]
fn each_batch_without_keys_goes_to_another_partition_also_after_a_linger() {
    let mut rig = rig(Settings::default());
    let sent = lots(&mut rig, None);
    assert_eq!(sent.len(), 6, "a lot stays together: {sent:?}");
    assert!(sent.iter().all(|(_, count)| *count == 3), "{sent:?}");
    assert!(sent.windows(2).all(|two| two[0].0 != two[1].0), "{sent:?}");
    let partitions: BTreeSet<_> = sent.iter().map(|(partition, _)| partition).collect();
    assert!(partitions.len() > 2, "{sent:?}");
}

#[test]
fn records_with_a_key_stay_in_their_partition() {
    let sent = lots(&mut rig(Settings::default()), Some("key"));
    let partitions: BTreeSet<_> = sent.iter().map(|(partition, _)| partition).collect();
    assert_eq!((sent.len(), partitions.len()), (6, 1), "{sent:?}");
}

#[test]
fn a_full_batch_moves_on_once() {
    let mut rig = rig(Settings {
        batch_bytes: 200,
        ..Settings::default()
    });
    append(&mut rig, None, 40);
    rig.advance(5);
    let sent = batches(&mut rig);
    assert_eq!(sent.iter().map(|(_, count)| count).sum::<i32>(), 40);
    let most = sent.iter().map(|(_, count)| *count).max().unwrap();
    let part = sent.iter().filter(|(_, count)| *count < most).count();
    assert!(most > 1 && part <= 1, "only the last is not full: {sent:?}");
    let partitions: BTreeSet<_> = sent.iter().map(|(partition, _)| partition).collect();
    assert!(partitions.len() > 2, "{sent:?}");
}

#[test]
fn a_partition_without_a_leader_is_passed_over_if_another_has_one() {
    let mut rig = rig(Settings::default());
    rig.view.leaders.retain(|index, _| [2, 5].contains(index));
    let sent = lots(&mut rig, None);
    assert_eq!(sent.len(), 6, "{sent:?}");
    let partitions: BTreeSet<_> = sent.iter().map(|(partition, _)| *partition).collect();
    assert_eq!(partitions, [2, 5].into(), "{sent:?}");
}
