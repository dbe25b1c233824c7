//! Runs `consume`: a fleet of one member that prints.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::cli::consume::exec::{Groups, Turns};
use crate::cli::consume::printer::Printer;
use crate::cli::consume::quota::Quota;
use crate::cli::consume::watch::{hopeless_start, partition_failed, reached_end};
use crate::cli::consume::{ConsumeOptions, exec};
use crate::cli::exit::Failure;
use crate::fleet::{Fleet, FleetHandle, Stopped};
use crate::handler::{
    Batch, BatchOutcome, Context, HandlerError, Message, Outcome, Raw, Subscription, batch_fn,
    handler_fn,
};

/// Why the command ends by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Ending {
    /// As many records as were wanted.
    Count,
    /// The end of every partition.
    AtEnd,
    /// Nobody reads our output any more, as in `nearside consume ... | head`.
    OutputClosed,
    /// The output cannot be written.
    OutputFailed(String),
}

/// Consumes until a signal, the end or the count.
///
/// # Errors
/// A [`Failure`] with its exit code; see the command's documentation.
pub(in crate::cli) async fn run(options: &ConsumeOptions) -> Result<(), Failure> {
    let groups = Arc::new(Groups::new());
    let result = consume(options, &groups).await;
    groups.end();
    result
}

async fn consume(options: &ConsumeOptions, groups: &Arc<Groups>) -> Result<(), Failure> {
    let (config, group) = options.config()?;
    let patience = Duration::from_secs(options.connection.connect_timeout);
    let deadline = config.lifecycle.stop;
    let topics = options.literal_topics();
    let (ending, mut ended) = watch::channel(None);
    let subscription = subscription(options, groups, ending.clone())?;
    let mut fleet = Fleet::builder(group).config(config).subscribe(subscription);
    if let Some(start) = options.start_at() {
        fleet = fleet.start_at(start);
    }
    if let Some(file) = &options.route_trace {
        fleet = fleet.route_trace(file);
    }
    let fleet = fleet.start().await?;
    let stopped = tokio::select! {
        stopped = fleet.run_until_signal() => stopped,
        () = wait_for_ending(&mut ended) => stop(&fleet, deadline).await,
        failure = hopeless_start(&fleet, &topics, patience) => {
            stop(&fleet, Duration::ZERO).await;
            return Err(failure);
        }
        failure = partition_failed(&fleet) => {
            stop(&fleet, deadline).await;
            return Err(failure);
        }
        () = reached_end(&fleet, &topics), if options.exit_at_end => {
            ending.send_replace(Some(Ending::AtEnd));
            stop(&fleet, deadline).await
        }
    };
    let ending = ended.borrow_and_update().clone();
    conclude(ending, stopped)
}

/// Resolves when a handler says that the command ends.
async fn wait_for_ending(ended: &mut watch::Receiver<Option<Ending>>) {
    // What it returns locks the value: kept over the stop, it would block the handlers that the
    // stop waits for.
    drop(ended.wait_for(Option::is_some).await);
}

/// Stops the fleet; a signal meanwhile cuts it short.
async fn stop(fleet: &FleetHandle, deadline: Duration) -> Stopped {
    tokio::select! {
        stopped = fleet.stop(deadline) => Stopped::clone(&stopped),
        stopped = fleet.run_until_signal() => stopped,
    }
}

fn conclude(ending: Option<Ending>, stopped: Stopped) -> Result<(), Failure> {
    match ending {
        Some(Ending::OutputFailed(error)) => Err(Failure::running(format!(
            "cannot write the output: {error}"
        ))),
        // The handler's `Stop` that goes with these is no error.
        Some(Ending::Count | Ending::OutputClosed) => Ok(()),
        Some(Ending::AtEnd) | None => Ok(stopped.into_result()?),
    }
}

fn subscription(
    options: &ConsumeOptions,
    groups: &Arc<Groups>,
    ending: watch::Sender<Option<Ending>>,
) -> Result<Subscription, Failure> {
    let subscription = options.subscription()?;
    if let Some(command) = &options.exec {
        let commands = Arc::new(Commands {
            command: command.as_str().into(),
            turns: Turns::new(options.count),
            groups: Arc::clone(groups),
            ending,
        });
        return Ok(subscription.handler(handler_fn(
            move |message: Message<Raw>, context: Context| {
                let commands = Arc::clone(&commands);
                async move { commands.execute(&message, &context).await }
            },
        )));
    }
    let quota = Quota::new(options.count);
    let printer = Arc::new(Printer::new(options.layout()?, Box::new(io::stdout())));
    Ok(
        subscription.handler(batch_fn(move |batch: Batch<Raw>, _: Context| {
            let outcome = print(&printer, &quota, &ending, &batch);
            async move { Ok(outcome) }
        })),
    )
}

/// What runs a command per record.
struct Commands {
    command: Box<str>,
    turns: Turns,
    groups: Arc<Groups>,
    ending: watch::Sender<Option<Ending>>,
}

impl Commands {
    /// Runs the command for one record, if as many have not succeeded yet.
    async fn execute(
        &self,
        message: &Message<Raw>,
        context: &Context,
    ) -> Result<Outcome, HandlerError> {
        let turn = tokio::select! {
            turn = self.turns.next() => turn,
            () = context.cancelled() => {
                return Err(HandlerError::retryable("cancelled before its turn came"));
            }
        };
        let Some(turn) = turn else {
            self.ending.send_replace(Some(Ending::Count));
            return Ok(Outcome::stop("as many as were wanted"));
        };
        exec::run(&self.command, message, &self.groups).await?;
        if turn.used() {
            self.ending.send_replace(Some(Ending::Count));
        }
        Ok(Outcome::Done)
    }
}

/// Prints what is wanted of one batch. A full pipe blocks the thread, which is what back-pressure
/// means here.
fn print(
    printer: &Printer,
    quota: &Quota,
    ending: &watch::Sender<Option<Ending>>,
    batch: &Batch<Raw>,
) -> BatchOutcome {
    let share = quota.take(batch.len());
    let records = batch.records().take(share.records);
    if let Err(error) = printer.print(batch.topic().as_str(), batch.partition().0, records) {
        let closed = error.kind() == io::ErrorKind::BrokenPipe;
        let why = if closed {
            Ending::OutputClosed
        } else {
            Ending::OutputFailed(error.to_string())
        };
        ending.send_replace(Some(why));
        return BatchOutcome::All(Outcome::stop("the output is closed"));
    }
    if share.last {
        ending.send_replace(Some(Ending::Count));
    }
    BatchOutcome::UpTo {
        done: share.records,
        then: Outcome::stop("as many as were wanted"),
    }
}
