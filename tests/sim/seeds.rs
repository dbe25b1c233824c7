//! Runs seeds, one or many, and reports.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::gaps::Gap;
use crate::judge::Report;
use crate::trail::Trail;
use crate::world::World;

/// The run of one seed; what happened last is printed if it fails.
fn run(seed: u64, trail: &Trail) -> Option<Report> {
    let outcome = catch_unwind(AssertUnwindSafe(|| World::new(seed, trail.clone()).run()));
    if outcome.is_err() {
        let shown = number("TRAIL").unwrap_or(60);
        let lines = trail.lines(usize::try_from(shown).unwrap());
        eprintln!(
            "{}\nseed {seed} failed; SEED={seed} runs it again",
            lines.join("\n")
        );
    }
    outcome.ok()
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}")),
    )
}

/// The run of `SEED`, or of seed 1.
#[test]
fn one_seed() {
    let seed = number("SEED").unwrap_or(1);
    let trail = Trail::default();
    let report = run(seed, &trail).expect("the run holds");
    if std::env::var("TRAIL").is_ok() {
        eprintln!("{}", trail.lines(usize::MAX).join("\n"));
    }
    println!("seed {seed}: {report:#?}");
}

#[test]
fn a_seed_runs_the_same_way_twice() {
    let digest = || {
        let trail = Trail::default();
        let report = run(7, &trail).expect("the run holds");
        (trail.digest(), report.records, report.longest.owed)
    };
    assert_eq!(digest(), digest());
}

/// `SEEDS` seeds from `FROM` on, on two threads.
#[test]
fn many_seeds() {
    let count = number("SEEDS").unwrap_or(500);
    let from = number("FROM").unwrap_or(1_000);
    let next = AtomicU64::new(from);
    let results = Mutex::new((Vec::new(), Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from + count {
                break;
            }
            let report = run(seed, &Trail::default());
            let mut results = results.lock().unwrap();
            match report {
                Some(report) => results.0.push((seed, report)),
                None => results.1.push(seed),
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let (reports, mut failed) = results.into_inner().unwrap();
    tell(&reports);
    failed.sort_unstable();
    assert!(
        failed.is_empty(),
        "{} seeds failed: {failed:?}",
        failed.len()
    );
}

fn tell(reports: &[(u64, Report)]) {
    let longest = reports.iter().max_by_key(|(_, one)| one.recovery);
    let sum = |of: fn(&Report) -> usize| reports.iter().map(|(_, one)| of(one)).sum::<usize>();
    println!(
        "{} seeds: {} records handled, {} again, {} route changes, {} resets by retention",
        reports.len(),
        sum(|one| one.records),
        sum(|one| one.repeated),
        sum(|one| one.reroutes),
        sum(|one| one.resets),
    );
    tell_slowest("slowest gap", reports, |one| &one.longest.owed);
    tell_slowest("longest hung dial", reports, |one| &one.longest.dialling);
    tell_slowest("slowest gap of a reader behind others", reports, |one| {
        &one.longest.behind
    });
    if let Some((seed, report)) = longest {
        println!("slowest recovery {:?}: SEED={seed}", report.recovery);
    }
}

fn tell_slowest(what: &str, reports: &[(u64, Report)], of: fn(&Report) -> &Gap) {
    let slowest = reports.iter().max_by_key(|(_, one)| of(one).length);
    if let Some((seed, report)) = slowest {
        let Gap { length, at, place } = of(report);
        println!("{what} {length:?} at {at:?}, {place}: SEED={seed}");
    }
}
