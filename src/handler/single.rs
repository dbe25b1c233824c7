//! Working through a stint record by record.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::handler::erased::{BoxFuture, ErasedHandler, Pool};
use crate::handler::message::{Message, Origin};
use crate::handler::stint::{Cause, Failure, Place, Stint, StintEnd, Verdict};
use crate::handler::tether::Leave;
use crate::handler::work::Work;
use crate::handler::{
    BlockingHandler, Classify, Codec, Context, DecodeError, HandlerError, MessageHandler, Outcome,
};
use crate::records::{Record, RecordCursor, Records};

/// A handler of single records with its codec.
pub(crate) struct Single<C, H> {
    pub(crate) codec: C,
    pub(crate) handler: H,
    pub(crate) classify: Option<Arc<dyn Classify>>,
}

/// The two kinds of handlers of single records, made alike.
pub(crate) trait Handle<T>: Send + Sync + 'static {
    const POOL: Pool;

    fn handle(
        &self,
        message: Message<T>,
        context: Context,
    ) -> impl Future<Output = Result<Outcome, HandlerError>> + Send;

    fn ready(&self) -> impl Future<Output = Result<(), HandlerError>> + Send;
}

/// A [`MessageHandler`].
pub(crate) struct Asynchronous<H>(pub(crate) H);

impl<T, H: MessageHandler<T>> Handle<T> for Asynchronous<H> {
    const POOL: Pool = Pool::Handler;

    #[inline]
    fn handle(
        &self,
        message: Message<T>,
        context: Context,
    ) -> impl Future<Output = Result<Outcome, HandlerError>> + Send {
        self.0.handle(message, context)
    }

    fn ready(&self) -> impl Future<Output = Result<(), HandlerError>> + Send {
        self.0.ready()
    }
}

/// A [`BlockingHandler`].
pub(crate) struct Blocking<H>(pub(crate) H);

impl<T: Send, H: BlockingHandler<T>> Handle<T> for Blocking<H> {
    const POOL: Pool = Pool::Blocking;

    async fn handle(&self, message: Message<T>, context: Context) -> Result<Outcome, HandlerError> {
        self.0.handle(message, context)
    }

    async fn ready(&self) -> Result<(), HandlerError> {
        self.0.ready()
    }
}

impl<C, H> ErasedHandler for Single<C, H>
where
    C: Codec,
    H: Handle<C::Value>,
{
    fn pool(&self) -> Pool {
        H::POOL
    }

    fn ready(self: Arc<Self>) -> BoxFuture<'static, Result<(), HandlerError>> {
        Box::pin(async move { self.handler.ready().await })
    }

    fn start(self: Arc<Self>, stint: Stint) -> BoxFuture<'static, StintEnd> {
        Box::pin(async move { self.work(&stint).await })
    }
}

impl<C, H> Single<C, H>
where
    C: Codec,
    H: Handle<C::Value>,
{
    async fn work(&self, stint: &Stint) -> StintEnd {
        let mut work = Work::begin(stint, H::POOL == Pool::Blocking);
        let mut place = Place {
            batches: 0,
            cursor: stint.start,
        };
        if work.leave() != Leave::GoOn {
            return work.end(place, Verdict::Well);
        }
        for origin in &stint.origins {
            if let Some(verdict) = self.work_batch(&mut work, origin, &mut place.cursor).await {
                return work.end(place, verdict);
            }
            place = Place {
                batches: place.batches + 1,
                cursor: None,
            };
        }
        work.end(place, Verdict::Well)
    }

    /// Works through one batch, keeping `cursor` behind the last finished record. `None` at its
    /// end.
    async fn work_batch(
        &self,
        work: &mut Work<'_>,
        origin: &Arc<Origin>,
        cursor: &mut Option<RecordCursor>,
    ) -> Option<Verdict> {
        let mut records = match *cursor {
            Some(cursor) => origin.view.records_from(cursor),
            None => origin.view.records(),
        };
        let verdict = self.work_records(work, origin, &mut records, cursor).await;
        work.note_odd_nulls(records.odd_nulls());
        verdict
    }

    #[inline]
    async fn work_records(
        &self,
        work: &mut Work<'_>,
        origin: &Arc<Origin>,
        records: &mut Records<'_>,
        cursor: &mut Option<RecordCursor>,
    ) -> Option<Verdict> {
        let mut at = records.cursor();
        while let Some(record) = records.next() {
            let record = match record {
                Ok(record) => record,
                Err(error) => return Some(Verdict::Unreadable(error)),
            };
            if let Err(verdict) = self.work_record(work, origin, at, &record).await {
                return Some(verdict);
            }
            at = records.cursor();
            *cursor = Some(at);
            match work.finish(1).await {
                Leave::GoOn => {}
                Leave::End => return Some(Verdict::Well),
                Leave::Late => return Some(Verdict::Late),
            }
        }
        None
    }

    #[inline]
    async fn work_record(
        &self,
        work: &mut Work<'_>,
        origin: &Arc<Origin>,
        at: RecordCursor,
        record: &Record<'_>,
    ) -> Result<(), Verdict> {
        let context = work.context(record.offset);
        let (attempt, classify) = (work.attempt_number(), self.classify.as_deref());
        let unit = async {
            let value = self
                .codec
                .decode(record.key, record.value, record.headers)
                .map_err(|error| undecodable(&error))?;
            let message = Message::new(Arc::clone(origin), at, record, value);
            let result = self.handler.handle(message, context).await;
            result.or_else(|error| judge(&error, attempt, classify))
        };
        match work.attempt(unit).await {
            Ok(Ok(Outcome::Done)) => Ok(()),
            Ok(Ok(outcome)) => Err(unfinished(work, outcome)),
            Ok(Err(failure)) | Err(failure) => Err(Verdict::Failed(timed_out(work, failure))),
        }
    }
}

impl<C, H> fmt::Debug for Single<C, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handler<{}>", std::any::type_name::<H>())
    }
}

/// What becomes of a record that does not decode (runtime.md H1).
pub(crate) fn undecodable(error: &DecodeError) -> Failure {
    let cause = match error {
        DecodeError::Malformed(_) => Cause::Malformed,
        DecodeError::Transient(_) => Cause::Transient,
    };
    Failure::new(cause, error)
}

/// What becomes of a handler's error: the classifier's word, or the default rules.
pub(crate) fn judge(
    error: &HandlerError,
    attempt: u32,
    classify: Option<&dyn Classify>,
) -> Result<Outcome, Failure> {
    match classify {
        Some(classify) => Ok(classify.classify(error, attempt)),
        None => Err(Failure::of(error)),
    }
}

/// The verdict on a record whose outcome leaves it unfinished.
pub(crate) fn unfinished(work: &Work<'_>, outcome: Outcome) -> Verdict {
    match outcome {
        Outcome::Retry { after } => {
            let asked = Failure {
                after,
                ..Failure::new(Cause::Asked, "the handler asked for a retry")
            };
            Verdict::Failed(timed_out(work, asked))
        }
        Outcome::Stop { reason } => Verdict::Stop(reason),
        Outcome::Done => Verdict::Well,
    }
}

/// An attempt that ends after it was cancelled has met its deadline, unless it still got its work
/// done.
pub(crate) fn timed_out(work: &Work<'_>, failure: Failure) -> Failure {
    if work.is_cancelled() && failure.cause != Cause::Panic {
        Failure {
            cause: Cause::Deadline,
            after: None,
            ..failure
        }
    } else {
        failure
    }
}
