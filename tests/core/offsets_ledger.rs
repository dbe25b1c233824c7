//! The completion ledger against a naive one.

use std::collections::BTreeMap;

use nearside::ids::{LeaderEpoch, Offset};
use nearside::invariants;
use nearside::offsets::Ledger;
use proptest::collection::vec;
use proptest::prelude::*;

/// Every offset for itself.
struct Naive {
    finished: BTreeMap<i64, LeaderEpoch>,
    in_hand: BTreeMap<i64, ()>,
    base: i64,
    base_epoch: Option<LeaderEpoch>,
}

impl Naive {
    fn watermark(&self) -> i64 {
        (self.base..)
            .find(|offset| !self.finished.contains_key(offset))
            .unwrap()
    }

    fn epoch(&self) -> Option<LeaderEpoch> {
        self.finished
            .get(&(self.watermark() - 1))
            .copied()
            .or(self.base_epoch)
    }
}

#[derive(Clone, Debug)]
enum Act {
    Start(i64, i64),
    Release(i64, i64),
    Finish(i64, i64),
    Truncate(i64),
}

fn act() -> impl Strategy<Value = Act> {
    let range = || (0_i64..60, 1_i64..8).prop_map(|(from, length)| (from, from + length));
    prop_oneof![
        4 => range().prop_map(|(from, to)| Act::Start(from, to)),
        1 => range().prop_map(|(from, to)| Act::Release(from, to)),
        6 => range().prop_map(|(from, to)| Act::Finish(from, to)),
        1 => (0_i64..60).prop_map(Act::Truncate),
    ]
}

/// Epochs rise with offsets, as they do in a log.
fn epoch_at(offset: i64) -> LeaderEpoch {
    LeaderEpoch(i32::try_from(offset / 10).unwrap())
}

proptest! {
    #[test]
    fn the_ledger_agrees_with_one_that_keeps_every_offset(acts in vec(act(), 1..80)) {
        let mut ledger = Ledger::new(Offset(0), None);
        let mut naive = Naive {
            finished: BTreeMap::new(),
            in_hand: BTreeMap::new(),
            base: 0,
            base_epoch: None,
        };
        for act in acts {
            let generation = ledger.generation();
            match act {
                Act::Start(from, to) => {
                    ledger.start(Offset(from), Offset(to));
                    let fresh = (from..to).filter(|offset| !naive.finished.contains_key(offset));
                    naive.in_hand.extend(fresh.map(|offset| (offset, ())));
                }
                Act::Release(from, to) => {
                    ledger.release(Offset(from), Offset(to));
                    naive.in_hand.retain(|offset, ()| !(from..to).contains(offset));
                }
                Act::Finish(from, to) => {
                    ledger.finish(Offset(from), Offset(to), Some(epoch_at(to - 1)));
                    naive.finished.extend((from..to).map(|offset| (offset, epoch_at(offset))));
                    naive.in_hand.retain(|offset, ()| !(from..to).contains(offset));
                }
                Act::Truncate(at) => {
                    let below = (at > 0).then(|| epoch_at(at - 1));
                    ledger.truncate(Offset(at), below);
                    naive.finished.split_off(&at);
                    naive.in_hand.split_off(&at);
                    if naive.watermark() == at {
                        naive.base_epoch = None;
                    }
                    prop_assert!(ledger.generation() > generation);
                }
            }
            prop_assert_eq!(ledger.watermark(), Offset(naive.watermark()));
            if naive.watermark() > 0 {
                prop_assert_eq!(ledger.leader_epoch(), naive.epoch());
            }
            prop_assert_eq!(ledger.in_hand(), u64::try_from(naive.in_hand.len()).unwrap());
            for offset in 0..70 {
                let finished = offset < naive.watermark() || naive.finished.contains_key(&offset);
                prop_assert_eq!(ledger.is_finished(Offset(offset)), finished);
            }
            prop_assert!(invariants::watermark_is_lowest_incomplete(&ledger));
        }
    }
}

/// runtime.md 18, 23.
#[test]
fn an_empty_compacted_batch_moves_the_watermark_past_its_last_delta() {
    let mut ledger = Ledger::new(Offset(100), Some(LeaderEpoch(2)));
    let (base, last_delta) = (100, 41);
    ledger.finish(
        Offset(base),
        Offset(base + last_delta + 1),
        Some(LeaderEpoch(3)),
    );
    assert_eq!(ledger.watermark(), Offset(142));
    assert_eq!(ledger.leader_epoch(), Some(LeaderEpoch(3)));
}

#[test]
fn a_slow_record_holds_the_watermark_and_its_successors_are_one_run() {
    let mut ledger = Ledger::new(Offset(0), None);
    ledger.start(Offset(0), Offset(10));
    for offset in (1..10).rev() {
        ledger.finish(Offset(offset), Offset(offset + 1), Some(LeaderEpoch(0)));
    }
    assert_eq!(
        (ledger.watermark(), ledger.in_hand(), ledger.span()),
        (Offset(0), 1, 10)
    );
    let runs: Vec<_> = ledger.runs().map(|run| (run.from, run.to)).collect();
    assert_eq!(runs, [(Offset(1), Offset(10))]);
    ledger.finish(Offset(0), Offset(1), Some(LeaderEpoch(0)));
    assert_eq!((ledger.watermark(), ledger.span()), (Offset(10), 0));
}

#[test]
fn holes_are_finished_with_the_record_before_them() {
    let mut ledger = Ledger::new(Offset(0), None);
    // Records 3 and 9 are left of 0..=11: the batch finishes 0..3 when it is read.
    ledger.finish(Offset(0), Offset(3), Some(LeaderEpoch(1)));
    ledger.finish(Offset(3), Offset(9), Some(LeaderEpoch(1)));
    assert_eq!(ledger.watermark(), Offset(9));
    ledger.finish(Offset(9), Offset(12), Some(LeaderEpoch(1)));
    assert_eq!(ledger.watermark(), Offset(12));
}

/// runtime.md L3.
#[test]
fn a_jump_finishes_the_gap_and_a_restart_empties_the_account() {
    let mut ledger = Ledger::new(Offset(10), Some(LeaderEpoch(1)));
    ledger.finish(Offset(30), Offset(40), Some(LeaderEpoch(2)));
    ledger.start(Offset(10), Offset(12));
    ledger.jump(Offset(30));
    assert_eq!((ledger.watermark(), ledger.in_hand()), (Offset(40), 0));
    let before = ledger.generation();
    ledger.restart(Offset(5), None);
    assert_eq!((ledger.watermark(), ledger.span()), (Offset(5), 0));
    assert!(
        ledger.generation() > before,
        "a lower commit is allowed now"
    );
}
