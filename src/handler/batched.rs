//! Working through a stint batch by batch.

use std::fmt;
use std::sync::Arc;

use crate::handler::batch::{Batch, Piece};
use crate::handler::erased::{BoxFuture, ErasedHandler, Pool};
use crate::handler::single::{timed_out, undecodable, unfinished};
use crate::handler::stint::{Cause, Failure, Place, Stint, StintEnd, Verdict};
use crate::handler::tether::Leave;
use crate::handler::work::Work;
use crate::handler::{BatchHandler, BatchOutcome, Classify, Codec, HandlerError, Outcome};
use crate::ids::Offset;
use crate::records::Records;

/// A handler of batches with its codec.
pub(crate) struct Batched<C, H> {
    pub(crate) codec: C,
    pub(crate) handler: H,
    pub(crate) classify: Option<Arc<dyn Classify>>,
}

impl<C, H> ErasedHandler for Batched<C, H>
where
    C: Codec,
    H: BatchHandler<C::Value>,
{
    fn pool(&self) -> Pool {
        Pool::Handler
    }

    fn ready(self: Arc<Self>) -> BoxFuture<'static, Result<(), HandlerError>> {
        Box::pin(async move { self.handler.ready().await })
    }

    fn start(self: Arc<Self>, stint: Stint) -> BoxFuture<'static, StintEnd> {
        Box::pin(async move { self.work(&stint).await })
    }
}

impl<C, H> Batched<C, H>
where
    C: Codec,
    H: BatchHandler<C::Value>,
{
    async fn work(&self, stint: &Stint) -> StintEnd {
        let mut work = Work::begin(stint, false);
        let mut place = Place {
            batches: 0,
            cursor: stint.start,
        };
        if work.leave() != Leave::GoOn {
            return work.end(place, Verdict::Well);
        }
        loop {
            let mut odd_nulls = 0;
            let cutting = async { self.cut(stint, place, &mut odd_nulls) };
            let cut = work.attempt(cutting).await;
            work.note_odd_nulls(odd_nulls);
            let cut = match cut {
                Ok(Ok(Some(cut))) => cut,
                Ok(Ok(None)) => return work.end(place, Verdict::Well),
                Ok(Err(verdict)) => return work.end(place, verdict),
                Err(panic) => return work.end(place, Verdict::Failed(panic)),
            };
            let (records, behind) = (cut.batch.len(), cut.behind);
            let (done, verdict) = self.handle(&mut work, cut.batch).await;
            place = if done == records {
                behind
            } else {
                stint.advance(place, done)
            };
            let leave = work.finish(u32::try_from(done).unwrap_or(u32::MAX)).await;
            let verdict = match (leave, verdict) {
                (Leave::Late, _) => Verdict::Late,
                (_, Some(verdict)) => verdict,
                (Leave::End, None) => Verdict::Well,
                (Leave::GoOn, None) => continue,
            };
            return work.end(place, verdict);
        }
    }

    /// Handles one batch: how many of its records are finished, and what is wrong with the next
    /// one.
    async fn handle(
        &self,
        work: &mut Work<'_>,
        batch: Batch<C::Value>,
    ) -> (usize, Option<Verdict>) {
        let (records, context) = (batch.len(), work.context(batch.first_offset()));
        let (attempt, classify) = (work.attempt_number(), self.classify.as_deref());
        let unit = async {
            match (self.handler.handle(batch, context).await, classify) {
                (Ok(outcome), _) => Ok(outcome),
                (Err(error), Some(classify)) => Ok(classify.classify(&error, attempt).into()),
                (Err(error), None) => Err(Failure::of(&error)),
            }
        };
        let settled = match work.attempt(unit).await {
            Ok(Ok(outcome)) => settle(outcome, records),
            Ok(Err(failure)) | Err(failure) => Err(failure),
        };
        match settled {
            Ok((done, None)) => (done, None),
            Ok((done, Some(outcome))) => (done, Some(unfinished(work, outcome))),
            Err(failure) => (0, Some(Verdict::Failed(timed_out(work, failure)))),
        }
    }

    /// Cuts and decodes the next batch behind `place`; `None` at the end of the stint.
    ///
    /// A record that does not decode, or cannot be read, ends the batch before it; the next batch
    /// begins with it and fails alone (H3).
    fn cut(
        &self,
        stint: &Stint,
        place: Place,
        odd_nulls: &mut u32,
    ) -> Result<Option<Cut<C::Value>>, Verdict> {
        let mut cutting = Cutting::new(stint, place);
        for (index, origin) in stint.origins.iter().enumerate().skip(place.batches) {
            let cursor = if index == place.batches {
                place.cursor
            } else {
                None
            };
            let mut records = match cursor {
                Some(cursor) => origin.view.records_from(cursor),
                None => origin.view.records(),
            };
            cutting.open(Piece {
                origin: Arc::clone(origin),
                start: records.cursor(),
                count: 0,
            });
            let went_on = self.cut_records(&mut cutting, index, &mut records);
            *odd_nulls = odd_nulls.saturating_add(records.odd_nulls());
            if !went_on? {
                break;
            }
            cutting.behind = Place {
                batches: index + 1,
                cursor: None,
            };
        }
        Ok(cutting.finish())
    }

    /// Takes the records of one fetched batch; `false` if the cut is complete before its end.
    fn cut_records(
        &self,
        cutting: &mut Cutting<'_, C::Value>,
        index: usize,
        records: &mut Records<'_>,
    ) -> Result<bool, Verdict> {
        while let Some(record) = records.next() {
            let decoded = record.map_err(Verdict::Unreadable).and_then(|record| {
                let value = self.codec.decode(record.key, record.value, record.headers);
                let value = value.map_err(|error| Verdict::Failed(undecodable(&error)))?;
                Ok((record, value))
            });
            match decoded {
                Ok((record, value)) => cutting.push(record.offset, record.payload_bytes(), value),
                Err(verdict) if cutting.values.is_empty() => return Err(verdict),
                Err(_) => return Ok(false),
            }
            cutting.behind = Place {
                batches: index,
                cursor: Some(records.cursor()),
            };
            if cutting.is_full() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<C, H> fmt::Debug for Batched<C, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handler<{}>", std::any::type_name::<H>())
    }
}

/// A batch and the place behind it.
struct Cut<T> {
    batch: Batch<T>,
    behind: Place,
}

/// A batch being cut.
struct Cutting<'a, T> {
    stint: &'a Stint,
    pieces: Vec<Piece>,
    values: Vec<T>,
    bytes: usize,
    first: Option<Offset>,
    last: Offset,
    behind: Place,
}

impl<'a, T> Cutting<'a, T> {
    fn new(stint: &'a Stint, place: Place) -> Self {
        Self {
            stint,
            pieces: Vec::new(),
            values: Vec::new(),
            bytes: 0,
            first: None,
            last: Offset::default(),
            behind: place,
        }
    }

    fn open(&mut self, piece: Piece) {
        self.pieces.push(piece);
    }

    #[inline]
    fn push(&mut self, offset: Offset, bytes: usize, value: T) {
        self.values.push(value);
        self.bytes = self.bytes.saturating_add(bytes);
        self.first.get_or_insert(offset);
        self.last = offset;
        if let Some(piece) = self.pieces.last_mut() {
            piece.count += 1;
        }
    }

    fn is_full(&self) -> bool {
        let limits = &self.stint.limits;
        self.values.len() >= limits.unit_records || self.bytes >= limits.unit_bytes
    }

    fn finish(self) -> Option<Cut<T>> {
        let batch = Batch {
            assignment: Arc::clone(self.stint.tether.assignment()),
            pieces: self.pieces,
            values: self.values,
            first: self.first?,
            last: self.last,
        };
        Some(Cut {
            batch,
            behind: self.behind,
        })
    }
}

/// How many of `records` are finished, and the outcome of the next one if it is not.
fn settle(outcome: BatchOutcome, records: usize) -> Result<(usize, Option<Outcome>), Failure> {
    let broken = |text: String| Err(Failure::new(Cause::Permanent, &text));
    match outcome {
        BatchOutcome::All(Outcome::Done) => Ok((records, None)),
        BatchOutcome::All(outcome) => Ok((0, Some(outcome))),
        BatchOutcome::UpTo { done, .. } if done > records => broken(format!(
            "the handler says that {done} of {records} records are done"
        )),
        BatchOutcome::UpTo { done, .. } if done == records => Ok((done, None)),
        BatchOutcome::UpTo {
            done,
            then: Outcome::Done,
        } => Ok((done + 1, None)),
        BatchOutcome::UpTo { done, then } => Ok((done, Some(then))),
        BatchOutcome::Each(outcomes) if outcomes.len() != records => broken(format!(
            "the handler gave {} outcomes for {records} records",
            outcomes.len()
        )),
        BatchOutcome::Each(outcomes) => {
            let mut outcomes = outcomes.into_iter().enumerate();
            let unfinished = outcomes.find(|(_, outcome)| *outcome != Outcome::Done);
            Ok(unfinished.map_or((records, None), |(done, outcome)| (done, Some(outcome))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_behind_the_first_unfinished_one_are_ignored() {
        let each = vec![Outcome::Done, Outcome::retry(), Outcome::Done];
        assert_eq!(
            settle(BatchOutcome::Each(each), 3).unwrap(),
            (1, Some(Outcome::retry()))
        );
        assert_eq!(
            settle(BatchOutcome::Each(vec![Outcome::Done; 3]), 3).unwrap(),
            (3, None)
        );
    }

    #[test]
    fn a_finished_head_moves_the_batch() {
        let up_to = |done, then| settle(BatchOutcome::UpTo { done, then }, 3).unwrap();
        assert_eq!(up_to(2, Outcome::retry()), (2, Some(Outcome::retry())));
        assert_eq!(up_to(1, Outcome::Done), (2, None));
        assert_eq!(up_to(3, Outcome::retry()), (3, None));
    }

    #[test]
    fn a_count_that_does_not_fit_is_a_permanent_error() {
        for outcome in [
            BatchOutcome::UpTo {
                done: 4,
                then: Outcome::Done,
            },
            BatchOutcome::Each(vec![Outcome::Done; 2]),
        ] {
            assert_eq!(settle(outcome, 3).unwrap_err().cause, Cause::Permanent);
        }
    }
}
