//! What of a partition is finished, and how far it is fetched; as the partition's cell keeps it.

use nearside::ids::{LeaderEpoch, Moment, Offset, TopicPartition};
use nearside::offsets::Ledger;
use nearside::routing::{self, Position};

use super::{Member, Note};

/// Ledger and cursor.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) ledger: Ledger,
    /// Next offset to fetch.
    pub(crate) fetch_end: Offset,
    /// The ledger moved since it was last shown to the commit plan.
    pub(crate) moved: bool,
}

impl Account {
    pub(crate) fn finish(&mut self, from: Offset, to: Offset, epoch: Option<LeaderEpoch>) {
        let epoch = epoch.or(self.ledger.leader_epoch());
        self.ledger.finish(from, to, epoch);
        self.moved = true;
    }
}

/// How a position moved.
enum Move {
    Began,
    Back { from: Offset },
    Ahead,
}

impl Member {
    /// Keeps the account in step with the route's fetch end. Returns the seek that a position which
    /// moved back may call for.
    pub(super) fn follow_position(
        &mut self,
        partition: &TopicPartition,
        indexing: bool,
    ) -> Option<routing::Input> {
        let now = self.now;
        let slot = self.slots.get_mut(partition)?;
        match slot.route.position() {
            Position::Ready | Position::Validating => {}
            Position::Unset | Position::Resolving | Position::Halted => return None,
        }
        let to = slot.route.fetch_end();
        if slot.account.as_ref().map(|account| account.fetch_end) == Some(to) {
            return None;
        }
        match move_to(slot, to, indexing, now) {
            Move::Began => {
                let partition = partition.clone();
                self.notes.push(Note::Started { partition, at: to });
                None
            }
            Move::Ahead => None,
            Move::Back { from } => {
                let partition = partition.clone();
                self.notes.push(Note::WentBack {
                    partition: partition.clone(),
                    from,
                    to,
                });
                self.rewind(&partition, to)
            }
        }
    }

    /// The queue is dropped and what is in hand is fenced. Records between the watermark and the
    /// new position were in that queue, so reading goes on at the lower of the two.
    fn rewind(&mut self, partition: &TopicPartition, to: Offset) -> Option<routing::Input> {
        let slot = self.slots.get(partition)?;
        let (epoch, ledger) = (slot.epoch, &slot.account.as_ref()?.ledger);
        let (offset, leader_epoch) = (ledger.watermark(), ledger.leader_epoch());
        self.feed_host(nearside::handler::Input::Rewind {
            partition: partition.clone(),
            epoch,
        });
        (offset < to).then_some(routing::Input::Seek {
            offset,
            epoch: leader_epoch,
        })
    }
}

fn move_to(slot: &mut super::Slot, to: Offset, indexing: bool, now: Moment) -> Move {
    let epoch = slot.route.fetched_epoch();
    match &mut slot.account {
        None => {
            slot.fed_at = now;
            slot.account = Some(Account {
                ledger: Ledger::new(to, epoch),
                fetch_end: to,
                moved: true,
            });
            Move::Began
        }
        Some(account) if to < account.fetch_end => {
            let from = account.fetch_end;
            let at = to.min(account.ledger.watermark());
            account.ledger.restart(at, epoch.filter(|_| at == to));
            account.fetch_end = to;
            account.moved = true;
            Move::Back { from }
        }
        Some(account) => {
            if !indexing {
                // The gap that a reset jumps is finished (runtime.md L2).
                account.finish(account.fetch_end, to, None);
            }
            account.fetch_end = to;
            Move::Ahead
        }
    }
}
