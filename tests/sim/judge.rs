//! Judges a run: what was written against what was handled.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nearside::embedded::Cluster;
use nearside::ids::{AssignmentEpoch, Moment, Offset, TopicPartition};
use nearside::routing::Reason;

use crate::gaps::{Gaps, Longest};
use crate::member::{Handled, Note};
use crate::plan::{GROUP, Plan};

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// The longest times without records that could have been had.
    pub(crate) longest: Longest,
    /// The longest time from the end of all faults to the first record written after it.
    pub(crate) recovery: Duration,
    pub(crate) records: usize,
    pub(crate) repeated: usize,
    pub(crate) reroutes: usize,
    pub(crate) resets: usize,
}

/// Everything known of one run.
pub(crate) struct Judge {
    heal_at: Moment,
    books: BTreeMap<TopicPartition, Book>,
    pub(crate) gaps: Gaps,
    reroutes: BTreeMap<(usize, TopicPartition), Vec<(Moment, String)>>,
    report: Report,
}

/// What is known of one partition.
#[derive(Default)]
struct Book {
    sequence: u64,
    /// Written, not yet committed: offset, sequence, when.
    pending: Vec<(i64, u64, Moment)>,
    /// Committed by the cluster, by offset.
    written: BTreeMap<i64, (u64, Moment)>,
    handled: BTreeSet<i64>,
    /// The highest high watermark seen.
    high: i64,
    log_start: i64,
    /// The group's commit; it never falls.
    commit: i64,
    /// The group's commit when the last owner lost the partition.
    floor: i64,
    /// The last offset each assignment handled.
    last: BTreeMap<(String, AssignmentEpoch), i64>,
    /// When the first record written after the end of all faults was handled.
    recovered: Option<Duration>,
}

impl Judge {
    pub(crate) fn new(plan: &Plan) -> Self {
        let books = plan.topic().into_iter();
        Self {
            heal_at: plan.heal_at,
            books: books.map(|one| (one, Book::default())).collect(),
            gaps: Gaps::default(),
            reroutes: BTreeMap::new(),
            report: Report::default(),
        }
    }

    pub(crate) fn next_sequence(&self, partition: &TopicPartition) -> u64 {
        self.books[partition].sequence
    }

    pub(crate) fn produced(
        &mut self,
        partition: &TopicPartition,
        first: Offset,
        count: u64,
        now: Moment,
    ) {
        let book = self.books.get_mut(partition).unwrap();
        // What an election cut off was never committed.
        book.pending.retain(|(offset, ..)| *offset < first.0);
        for (offset, sequence) in (first.0..).zip(book.sequence..book.sequence + count) {
            book.pending.push((offset, sequence, now));
        }
        book.sequence += count;
    }

    /// Takes in what the cluster committed, kept and expired.
    pub(crate) fn look(&mut self, cluster: &Cluster, _now: Moment) {
        for (partition, book) in &mut self.books {
            book.look(partition, cluster);
        }
    }

    pub(crate) fn handled(&mut self, one: &Handled, cluster: &Cluster, now: Moment) {
        let (partition, offset) = (&one.partition, one.offset.0);
        let book = self.books.get_mut(partition).unwrap();
        if offset >= book.high {
            book.look(partition, cluster);
        }
        let Some((sequence, at)) = book.written.get(&offset) else {
            panic!("{partition} {offset} was handled and never committed by the cluster");
        };
        let told = u64::from_be_bytes(one.value.as_slice().try_into().unwrap());
        assert_eq!(told, *sequence, "{partition} {offset} is another record");
        if *at >= self.heal_at && book.recovered.is_none() {
            book.recovered = Some(now.since(*at));
        }
        let owner = (one.member.clone(), one.epoch);
        let last = book.last.insert(owner, offset);
        assert!(
            last.is_none_or(|last| last < offset),
            "{partition}: {last:?} then {offset} in one assignment of {}",
            one.member
        );
        self.report.records += 1;
        if !book.handled.insert(offset) {
            self.report.repeated += 1;
        }
    }

    pub(crate) fn note(&mut self, member: usize, note: &Note, cluster: &Cluster, now: Moment) {
        match note {
            Note::Started { partition, at } => self.started(partition, at.0, cluster),
            Note::Ended { partition } => {
                self.lost(partition, cluster);
                let key = (member, partition.clone());
                self.gaps.forget(&key);
                self.reroutes.remove(&key);
            }
            Note::Reset {
                partition,
                from,
                to,
            } => self.reset(partition, from.0, to.0, cluster),
            Note::WentBack {
                partition,
                from,
                to,
            } => panic!("{partition} went back from {from} to {to}"),
            Note::Halted { partition } => panic!("{partition} stands still for good"),
            Note::Rerouted { partition, reason } => {
                self.report.reroutes += 1;
                let key = (member, partition.clone());
                let reroutes = self.reroutes.entry(key).or_default();
                // An assignment begins with one, which is no unrest.
                if *reason != Reason::Assigned.name() {
                    reroutes.push((now, reason.clone()));
                }
            }
        }
    }

    /// A new assignment begins where the group's commit stands, never before what was committed
    /// when the last owner lost the partition, and never behind a record nobody handled.
    fn started(&mut self, partition: &TopicPartition, at: i64, cluster: &Cluster) {
        let book = self.books.get_mut(partition).unwrap();
        book.look(partition, cluster);
        assert!(
            at >= book.floor,
            "{partition} begins at {at}, {} was committed before",
            book.floor
        );
        book.nothing_skipped(partition, 0, at);
    }

    /// Only retention moves a position.
    fn reset(&mut self, partition: &TopicPartition, from: i64, to: i64, cluster: &Cluster) {
        self.report.resets += 1;
        let book = self.books.get_mut(partition).unwrap();
        book.look(partition, cluster);
        assert!(
            from < to && to <= book.log_start,
            "{partition} was reset from {from} to {to}, its log starts at {}",
            book.log_start
        );
    }

    /// The owner of a partition is no more.
    pub(crate) fn lost(&mut self, partition: &TopicPartition, cluster: &Cluster) {
        let book = self.books.get_mut(partition).unwrap();
        book.look(partition, cluster);
        book.floor = book.commit;
    }

    /// A member is no more.
    pub(crate) fn gone(&mut self, member: usize) {
        self.gaps.gone(member);
        self.reroutes.retain(|(of, _), _| *of != member);
    }

    /// The end of a run: everything is settled.
    pub(crate) fn finish(mut self, cluster: &Cluster, now: Moment) -> Report {
        for (partition, book) in &mut self.books {
            book.look(partition, cluster);
            let leader = cluster.partition(partition).unwrap().leader;
            assert!(
                leader.is_some(),
                "nobody leads {partition}: no reader can be judged"
            );
            let end = book.high;
            book.nothing_skipped(partition, 0, end);
            assert_eq!(book.commit, end, "{partition} is not committed to its end");
            let recovered = book.recovered;
            let recovered = recovered.unwrap_or_else(|| panic!("{partition} never came back"));
            self.report.recovery = self.report.recovery.max(recovered);
        }
        assert!(
            self.report.recovery <= RECOVERY_MAX,
            "records flowed again only after {:?}",
            self.report.recovery
        );
        self.report.longest = self.gaps.longest();
        let restless = self.restless();
        assert!(restless.is_none(), "no rest until {now:?}: {restless:?}");
        self.report
    }

    /// A partition whose route went on changing long after everything was healed.
    fn restless(&self) -> Option<String> {
        let calm_from = self.heal_at + CALM_AFTER;
        let mut whose = self.reroutes.iter();
        whose.find_map(|((member, partition), reroutes)| {
            let late = reroutes.iter().filter(|(at, _)| *at > calm_from);
            let late: Vec<_> = late.collect();
            (late.len() > REROUTES_MAX).then(|| format!("{partition} of m{member}: {late:?}"))
        })
    }
}

impl Book {
    fn look(&mut self, partition: &TopicPartition, cluster: &Cluster) {
        let view = cluster.partition(partition).unwrap();
        self.high = self.high.max(view.high_watermark.0);
        self.log_start = self.log_start.max(view.log_start.0);
        let high = self.high;
        for (offset, sequence, at) in self.pending.extract_if(.., |one| one.0 < high) {
            self.written.insert(offset, (sequence, at));
        }
        let commit = cluster.committed(&GROUP.into(), partition);
        let commit = commit.map_or(0, |commit| commit.offset.0);
        assert!(
            commit >= self.commit,
            "the commit of {partition} fell from {} to {commit}",
            self.commit
        );
        self.commit = commit;
    }

    /// Every committed record of the range was handled, or retention has passed it.
    fn nothing_skipped(&self, partition: &TopicPartition, from: i64, to: i64) {
        let range = from.max(self.log_start)..to.max(self.log_start);
        let missing = self
            .written
            .range(range)
            .find(|(offset, _)| !self.handled.contains(offset));
        assert!(missing.is_none(), "{partition} lost {missing:?}");
    }
}

/// Bound on the time from the end of all faults to records of every partition: a session that runs
/// out, a rebalance, and whatever cools or backs off meanwhile.
const RECOVERY_MAX: Duration = Duration::from_secs(30);
/// What was cooling, dialled or probed when the faults ended needs a moment to come to rest.
const CALM_AFTER: Duration = Duration::from_secs(10);
/// Route changes of one partition in the calm after that.
const REROUTES_MAX: usize = 3;

/// Metadata from before an election costs a new owner three changes: the elected leader, the wait
/// before its predecessor is followed (routing.md H9), and that.
#[test]
fn a_partition_assigned_in_the_calm_may_still_find_its_place() {
    let plan = Plan::new(1);
    let cluster = Cluster::new(plan.cluster());
    let mut judge = Judge::new(&plan);
    let partition = plan.topic().remove(0);
    let now = plan.heal_at + CALM_AFTER + Duration::from_secs(1);
    let mut reroute = |reason: Reason| {
        let (partition, reason) = (partition.clone(), reason.name());
        let note = Note::Rerouted { partition, reason };
        judge.note(0, &note, &cluster, now);
        judge.restless().is_some()
    };
    for reason in [
        Reason::Assigned,
        Reason::LeaderChanged,
        Reason::Refuge,
        Reason::HintAdopted,
    ] {
        assert!(!reroute(reason), "{reason:?}");
    }
    assert!(reroute(Reason::LeaderChanged), "one more is unrest");
}
