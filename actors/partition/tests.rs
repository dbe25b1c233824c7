//! A partition actor without a thread of its own: what it does to its cell and asks of its host.

use std::rc::Rc;
use std::sync::{Arc, Mutex};

use actix::prelude::*;
use bytes::Bytes;

use super::letters::LetterEnd;
use super::messages::Lot;
use super::{Account, Cell, PartitionActor, Parts, Progress, Thread, ThreadParts};
use crate::actors::clock::Clock;
use crate::actors::directory::Directory;
use crate::actors::handler::HostRequest;
use crate::actors::placement::Placement;
use crate::actors::status::PartitionStatus;
use crate::actors::supervise::DeathWatch;
use crate::actors::telemetry::Telemetry;
use crate::budget::Inflation;
use crate::cluster::Snapshot;
use crate::ids::{AssignmentEpoch, Generation, Offset, TopicPartition};
use crate::records::{BatchError, BatchPolicy, Corruption, Place, RawBatch, ReadSettings};
use crate::routing::{self, Assigned};

/// Takes whatever the actor sends, and keeps what is for the handler host.
struct Receiver(Arc<Mutex<Vec<HostRequest>>>);

impl Actor for Receiver {
    type Context = Context<Self>;
}

impl Handler<Lot> for Receiver {
    type Result = ();

    fn handle(&mut self, _: Lot, _: &mut Self::Context) {}
}

impl Handler<HostRequest> for Receiver {
    type Result = ();

    fn handle(&mut self, request: HostRequest, _: &mut Self::Context) {
        self.0.lock().expect("no panic").push(request);
    }
}

/// An actor whose partition stands at an offset, and what stands around it.
struct Desk {
    actor: PartitionActor,
    progress: Arc<Progress>,
    host: Addr<Receiver>,
    requests: Arc<Mutex<Vec<HostRequest>>>,
}

impl Desk {
    fn at(offset: i64, policy: BatchPolicy) -> Self {
        let requests = Arc::default();
        let host = Receiver(Arc::clone(&requests)).start();
        let parts = ThreadParts {
            clock: Clock::start(),
            telemetry: Telemetry::new(),
            routing: Arc::new(routing::Settings::default()),
            reading: ReadSettings::default(),
            policy,
            read_committed: true,
            inflation: Inflation::unlimited(),
            directory: Arc::new(Directory::new(Placement::single())),
            trace: None,
        };
        let thread = Thread::new(parts, host.clone().recipient());
        thread.set_host(host.clone().recipient());
        let (progress, epoch) = (Arc::new(Progress::new()), AssignmentEpoch(1));
        let cell = Cell::new(epoch, Arc::clone(&progress));
        let ticket = cell.next_incarnation();
        cell.write(ticket, |slot| {
            *slot = Some(Account::new(Offset(offset), None));
        });
        let partition = TopicPartition::new("orders", 0);
        let (deaths, _) = tokio::sync::mpsc::unbounded_channel();
        let actor = PartitionActor::new(Parts {
            assigned: Assigned::by(&Snapshot::default(), &partition, epoch, None),
            watch: DeathWatch::new(partition.clone(), ticket, deaths),
            status: Arc::new(PartitionStatus::new(Arc::clone(&progress))),
            partition,
            cell,
            thread: Rc::new(thread),
            ticket,
        });
        Self {
            actor,
            progress,
            host,
            requests,
        }
    }

    fn finished_below(&self) -> Offset {
        self.progress.read().expect("a known position").offset
    }

    /// What the host was asked for so far.
    async fn requests(&self) -> Vec<HostRequest> {
        let last = HostRequest::Generation(Generation(1));
        self.host.send(last).await.expect("it lives");
        let mut requests = std::mem::take(&mut *self.requests.lock().expect("no panic"));
        requests.pop();
        requests
    }

    fn events(&self) -> usize {
        self.actor.thread.telemetry.recent_events().len()
    }
}

/// A record that cannot be read at the start of the batch `100..120`.
fn bad_record() -> BatchError {
    let at = Place {
        position: Offset(100),
        base: Offset(100),
        next: Some(Offset(120)),
        size: 500,
    };
    let reason = Corruption::Field;
    BatchError::Corrupt { at, reason }
}

#[test]
fn a_bad_record_told_before_the_log_changed_below_it_is_no_verdict_on_the_new_log() {
    System::new().block_on(async {
        for policy in [BatchPolicy::Skip, BatchPolicy::Halt] {
            let mut desk = Desk::at(50, policy);
            let seen_by_host = desk.actor.cell.rewinds();
            desk.actor.cell.rewind();
            let owed = desk.actor.owed.len();
            desk.actor.judge_handed(&bad_record(), seen_by_host);
            assert_eq!(desk.finished_below(), Offset(50), "{policy:?}");
            assert_eq!(desk.actor.owed.len(), owed, "no seek and no halt");
            assert_eq!(desk.events(), 0, "{policy:?}");
        }
    });
}

#[test]
fn a_bad_record_of_the_log_as_it_is_now_is_passed_with_its_batch() {
    System::new().block_on(async {
        let mut desk = Desk::at(100, BatchPolicy::Skip);
        desk.actor.cell.rewind();
        let seen_by_host = desk.actor.cell.rewinds();
        desk.actor.judge_handed(&bad_record(), seen_by_host);
        assert_eq!(desk.finished_below(), Offset(120));
        let seek = desk.actor.owed.back();
        assert!(
            matches!(
                seek,
                Some(routing::Input::Seek {
                    offset: Offset(120),
                    ..
                })
            ),
            "{seek:?}"
        );
        assert_eq!(desk.events(), 1);
    });
}

#[test]
fn a_partition_that_halts_leaves_nothing_in_the_queues_and_a_new_life_meets_the_batch_again() {
    System::new().block_on(async {
        let mut desk = Desk::at(100, BatchPolicy::Halt);
        let cell = desk.actor.cell.clone();
        cell.write(desk.actor.ticket, |slot| {
            let account = slot.as_mut().expect("known");
            (account.fetch_end, account.delivered) = (Offset(300), Offset(300));
        });
        desk.actor.judge_handed(&bad_record(), cell.rewinds());
        let requests = desk.requests().await;
        assert!(
            matches!(requests.as_slice(), [HostRequest::Rewind { .. }]),
            "{requests:?}"
        );
        assert_eq!(cell.rewinds(), 1, "as often as the host was told");
        assert_eq!(desk.finished_below(), Offset(100));
        assert!(!desk.actor.opening.is_empty(), "not everything has gone on");
        cell.next_incarnation();
        let account = cell.account().clone().expect("known");
        assert_eq!(
            (account.fetch_end, account.delivered),
            (Offset(100), Offset(100))
        );
    });
}

/// A partition that waits for the letter of the batch `100..120`, and the number of the letter.
fn waiting_for_a_letter() -> (Desk, u64) {
    let mut desk = Desk::at(100, BatchPolicy::DeadLetterRaw);
    desk.actor.opening.halt();
    let raw = RawBatch {
        bytes: Bytes::from_static(&[0; 61]),
        next: Offset(120),
    };
    desk.actor.post(&bad_record(), raw);
    let number = desk.actor.cell.letter().expect("waits");
    desk.actor.owed.clear();
    (desk, number)
}

/// Where the position is to go, and whether reading goes on.
fn owed(desk: &Desk) -> (Vec<Offset>, bool) {
    let seeks = desk.actor.owed.iter().filter_map(|input| {
        let routing::Input::Seek { offset, .. } = input else {
            return None;
        };
        Some(*offset)
    });
    let goes_on = |input: &routing::Input| matches!(input, routing::Input::Resume);
    (seeks.collect(), desk.actor.owed.iter().any(goes_on))
}

#[test]
fn reading_goes_on_behind_a_batch_whose_letter_is_written() {
    System::new().block_on(async {
        let (mut desk, number) = waiting_for_a_letter();
        let written = || LetterEnd::Written { to: Offset(120) };
        desk.actor.letter_ended(number + 1, written());
        assert_eq!(owed(&desk), (vec![], false), "an end of another letter");
        desk.actor.letter_ended(number, written());
        assert_eq!(owed(&desk), (vec![Offset(120)], true));
        assert!(desk.actor.opening.is_empty(), "it takes batches in again");
    });
}

#[test]
fn an_end_on_its_way_to_a_partition_that_moved_back_skips_nothing() {
    System::new().block_on(async {
        let (mut desk, number) = waiting_for_a_letter();
        assert!(desk.actor.cell.take_letter(number).is_some());
        desk.actor.position_moved(Offset(60), false);
        assert_eq!(owed(&desk), (vec![], true), "it does not stand still");
        desk.actor
            .letter_ended(number, LetterEnd::Written { to: Offset(120) });
        assert_eq!(owed(&desk), (vec![], true));
        assert_eq!(desk.finished_below(), Offset(60));
    });
}

#[test]
fn a_batch_to_be_kept_is_sought_only_until_the_position_moves_elsewhere() {
    System::new().block_on(async {
        let mut desk = Desk::at(130, BatchPolicy::DeadLetterRaw);
        let rewinds = desk.actor.cell.rewinds();
        desk.actor.judge_handed(&bad_record(), rewinds);
        desk.actor.position_moved(Offset(100), false);
        assert!(desk.actor.sought.is_some(), "it is where it was to go");
        desk.actor.position_moved(Offset(60), false);
        assert!(desk.actor.sought.is_none());
    });
}
