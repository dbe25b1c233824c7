//! Charges within the share and beyond it, and those who wait.

use super::*;
use crate::budget::OverduePlace;

fn shares() -> (Inflation, Budget) {
    shares_with(1_000)
}

fn shares_with(fetching: usize) -> (Inflation, Budget) {
    let fetching = Budget::new(fetching);
    (Inflation::new(100, fetching.clone()), fetching)
}

type Calls = Arc<AtomicUsize>;

fn counted() -> (Calls, impl FnOnce() + Send + 'static) {
    let count = Calls::default();
    let calls = Arc::clone(&count);
    (count, move || {
        calls.fetch_add(1, Ordering::AcqRel);
    })
}

fn waits(seat: &InflationSeat, bytes: usize) -> (Calls, Turn) {
    let (count, wake) = counted();
    (count, seat.when_room(bytes, wake))
}

fn overdue(seat: &InflationSeat, bytes: usize) -> (Calls, OverduePlace) {
    let (count, wake) = counted();
    (count, seat.when_overdue(bytes, wake))
}

/// A share of 100 bytes, all of it taken, with 10 more beyond it.
fn used_up() -> (Inflation, Budget, [InflationCharge; 2]) {
    used_up_with(1_000)
}

fn used_up_with(fetching: usize) -> (Inflation, Budget, [InflationCharge; 2]) {
    let (inflation, fetching) = shares_with(fetching);
    let seat = inflation.seat();
    let (mut all, mut beyond) = (seat.charge(), seat.charge_next());
    assert!(all.grow(100) && beyond.grow(10));
    (inflation, fetching, [all, beyond])
}

fn calls<const N: usize>(counts: [&Arc<AtomicUsize>; N]) -> [usize; N] {
    counts.map(|count| count.load(Ordering::Acquire))
}

#[test]
fn what_may_stay_compressed_keeps_within_the_share() {
    let (inflation, fetching) = shares();
    let seat = inflation.seat();
    let mut one = seat.charge();
    assert!(one.grow(60) && one.grow(40));
    assert!(!one.grow(1) && !seat.charge().grow(1));
    assert_eq!((inflation.charged(), fetching.charged()), (100, 0));
    assert!(!seat.is_empty());
    drop(one);
    assert_eq!(inflation.charged(), 0);
    assert!(seat.is_empty());
}

#[test]
fn with_the_share_used_up_one_batch_at_a_time_goes_beyond_at_the_cost_of_fetching() {
    let (inflation, fetching) = shares();
    let full = inflation.seat();
    let mut all = full.charge();
    assert!(all.grow(100));
    let (mut one, mut two) = (inflation.seat().charge_next(), full.charge_next());
    assert!(one.grow(30) && one.grow(40));
    assert!(!two.grow(1), "one at a time");
    assert_eq!((one.bytes(), fetching.charged()), (70, 70));
    drop(one);
    assert_eq!(fetching.charged(), 0);
    assert!(two.grow(1), "its turn");
    drop((all, two));
    assert_eq!((inflation.charged(), fetching.charged()), (0, 0));
}

#[test]
fn a_batch_that_outgrows_the_share_goes_on_beyond_it() {
    let (inflation, fetching) = shares();
    let mut one = inflation.seat().charge_next();
    assert!(one.grow(90) && one.grow(90));
    assert_eq!((inflation.charged(), fetching.charged()), (90, 90));
    one.shrink(100);
    assert_eq!((inflation.charged(), fetching.charged()), (80, 0));
    assert_eq!(one.bytes(), 80);
    drop(one);
    assert_eq!((inflation.charged(), fetching.charged()), (0, 0));
}

#[test]
fn who_waits_is_woken_in_turn_when_there_is_room_and_nobody_overtakes() {
    let (inflation, _, [all, beyond]) = used_up();
    let seat = inflation.seat();
    let (first, one) = waits(&seat, 60);
    let (second, two) = waits(&seat, 30);
    assert_eq!(calls([&first, &second]), [0, 0]);
    drop(all);
    assert_eq!(calls([&first, &second]), [1, 1], "90 of 100");
    let (third, three) = waits(&seat, 100);
    assert_eq!(calls([&third]), [1], "room at once");
    drop((beyond, one, two, three));
    assert!(seat.charge().grow(100), "nobody waits any more");
}

/// It would be inflated in vain, again and again.
#[test]
fn what_is_larger_than_the_share_is_not_woken_while_another_is_beyond_it() {
    let (inflation, _, [all, beyond]) = used_up();
    let seat = inflation.seat();
    let (large, turn) = waits(&seat, 110);
    drop(all);
    assert_eq!(calls([&large]), [0], "all of the share is free");
    drop(beyond);
    assert_eq!(calls([&large]), [1]);
    turn.take();
    assert!(seat.charge_next().in_turn().grow(110));
}

#[test]
fn the_end_of_the_one_beyond_wakes_one_other() {
    let (inflation, _, [all, beyond]) = used_up();
    let seat = inflation.seat();
    let (first, one) = waits(&seat, 60);
    let (second, _two) = waits(&seat, 30);
    drop(beyond);
    assert_eq!(calls([&first, &second]), [1, 0]);
    assert!(!seat.charge_next().grow(10), "not before those who wait");
    one.take();
    let mut next = seat.charge_next().in_turn();
    assert!(next.grow(60));
    drop(next);
    assert_eq!(calls([&second]), [1], "the turn was given back");
    drop(all);
}

#[test]
fn who_leaves_is_forgotten_and_no_longer_stands_before_those_who_fit() {
    let (inflation, _) = shares();
    let seat = inflation.seat();
    let (mut most, mut some) = (seat.charge(), seat.charge_next());
    assert!(most.grow(80) && some.grow(30));
    let (first, one) = waits(&seat, 60);
    let (second, _two) = waits(&seat, 10);
    assert_eq!(
        calls([&first, &second]),
        [0, 0],
        "20 are free, 60 are wanted"
    );
    drop(one);
    assert_eq!(calls([&first, &second]), [0, 1]);
    assert!(seat.charge().grow(10), "nobody waits any more");
}

#[test]
fn who_leaves_after_it_was_woken_passes_its_turn_on() {
    let (inflation, _, [all, beyond]) = used_up();
    let seat = inflation.seat();
    let (first, one) = waits(&seat, 60);
    let (second, _two) = waits(&seat, 60);
    drop(beyond);
    assert_eq!(calls([&first, &second]), [1, 0]);
    drop(one);
    assert_eq!(calls([&second]), [1]);
    drop(all);
}

#[test]
fn those_who_are_overdue_open_one_after_the_other() {
    let (inflation, fetching, stuck) = used_up();
    let seats = [inflation.seat(), inflation.seat()];
    let (first, one) = overdue(&seats[0], 50);
    let (second, two) = overdue(&seats[1], 50);
    assert_eq!(calls([&first, &second]), [1, 0]);
    let mut open = one.charge();
    assert!(open.grow(50));
    assert_eq!(fetching.charged(), 60);
    assert!(!seats[0].charge_next().grow(1), "that turn is another's");
    drop(one);
    assert_eq!(calls([&second]), [1], "the first is inflated");
    assert!(two.charge().grow(50));
    drop((open, two, stuck));
    assert_eq!((inflation.charged(), fetching.charged()), (0, 0));
}

#[test]
fn those_who_are_overdue_hold_at_most_what_fetching_has_or_one_batch() {
    let (inflation, fetching, _stuck) = used_up_with(100);
    let mut open = Vec::new();
    for _ in 0..50 {
        let (count, place) = overdue(&inflation.seat(), 40);
        if calls([&count]) == [1] {
            let mut charge = place.charge();
            assert!(charge.grow(40));
            open.push(charge);
        }
    }
    assert_eq!((open.len(), fetching.charged()), (2, 10 + 80));
    let (count, place) = overdue(&inflation.seat(), 15);
    assert_eq!(calls([&count]), [1], "20 are left");
    let mut more = place.charge();
    assert!(more.grow(15) && !more.grow(15), "its size is known by now");
    drop((more, place));
    let (count, place) = overdue(&inflation.seat(), 300);
    assert_eq!(calls([&count]), [0]);
    drop(open);
    assert_eq!(calls([&count]), [1], "alone");
    let mut alone = place.charge();
    assert!(alone.grow(50) && alone.grow(250));
    drop(alone);
    assert_eq!(fetching.charged(), 10);
}

#[test]
fn a_place_in_the_line_that_is_left_is_the_next_ones() {
    let (inflation, _, _stuck) = used_up();
    let seat = inflation.seat();
    let (_, one) = overdue(&seat, 50);
    let (second, two) = overdue(&seat, 50);
    let (third, _three) = overdue(&seat, 50);
    drop(two);
    assert_eq!(calls([&second, &third]), [0, 0], "the first is at it");
    drop(one);
    assert_eq!(calls([&second, &third]), [0, 1]);
}
