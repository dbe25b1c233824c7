//! Runs `consume`: a fleet of one member that prints.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::cli::consume::printer::Printer;
use crate::cli::consume::quota::{Quota, Share};
use crate::cli::consume::{ConsumeOptions, exec};
use crate::cli::exit::Failure;
use crate::cli::guard::{Signs, TOPIC_ANSWERS, judge};
use crate::fleet::{Event, Fleet, FleetHandle, Stopped};
use crate::handler::{
    Batch, BatchOutcome, Context, Message, Outcome, Raw, Subscription, batch_fn, handler_fn,
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
    let (config, group) = options.config()?;
    let patience = Duration::from_secs(options.connection.connect_timeout);
    let deadline = config.lifecycle.stop;
    let (ending, mut ended) = watch::channel(None);
    let subscription = subscription(options, ending.clone())?;
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
        failure = watch_start(&fleet, patience) => {
            stop(&fleet, Duration::ZERO).await;
            return Err(failure);
        }
        () = reached_end(&fleet), if options.exit_at_end => {
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
    ending: watch::Sender<Option<Ending>>,
) -> Result<Subscription, Failure> {
    let quota = Arc::new(Quota::new(options.count));
    let subscription = options.subscription()?;
    if let Some(command) = &options.exec {
        let command: Arc<str> = command.as_str().into();
        return Ok(subscription.handler(handler_fn(
            move |message: Message<Raw>, context: Context| {
                let (command, quota) = (Arc::clone(&command), Arc::clone(&quota));
                let ending = ending.clone();
                async move {
                    // A retry belongs to the share its first attempt took.
                    let share = if context.attempt() == 1 {
                        quota.take(1)
                    } else {
                        Share::RETRY
                    };
                    if share.records == 0 {
                        return Ok(Outcome::stop("as many as were wanted"));
                    }
                    exec::run(&command, &message).await?;
                    if share.last || quota.is_used_up() {
                        ending.send_replace(Some(Ending::Count));
                    }
                    Ok(Outcome::Done)
                }
            },
        )));
    }
    let printer = Arc::new(Printer::new(options.layout()?, Box::new(io::stdout())));
    Ok(
        subscription.handler(batch_fn(move |batch: Batch<Raw>, _: Context| {
            let outcome = print(&printer, &quota, &ending, &batch);
            async move { Ok(outcome) }
        })),
    )
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

/// Resolves with a failure if the start proves hopeless. Once something was read or an end was
/// reached it waits for ever: from then on the fleet retries whatever happens.
async fn watch_start(fleet: &FleetHandle, patience: Duration) -> Failure {
    let mut ticks = interval(LOOK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looks = 0_u32;
    loop {
        ticks.tick().await;
        let report = fleet.report();
        let began = report.totals.records_finished > 0
            || report
                .partitions
                .iter()
                .any(|partition| partition.lag == Some(0));
        if began {
            std::future::pending::<()>().await;
        }
        let (topic_error, topic_denied) = last_topic_error(fleet).unzip();
        let signs = Signs {
            elapsed: LOOK_INTERVAL * looks,
            connected: fleet.has_connected(),
            connection_error: fleet.connection_error(),
            topic_error,
            topic_denied: topic_denied.unwrap_or_default(),
            // A fleet tells of a missing topic after as many.
            topic_answers: TOPIC_ANSWERS,
        };
        if let Some(failure) = judge(&signs, patience) {
            return failure;
        }
        looks = looks.saturating_add(1);
    }
}

/// What was told last of a topic that cannot be read, and whether a permission is missing.
fn last_topic_error(fleet: &FleetHandle) -> Option<(String, bool)> {
    let events = fleet.recent_events();
    events.iter().rev().find_map(|numbered| {
        let Event::TopicError {
            topic,
            error,
            denied,
        } = &numbered.event
        else {
            return None;
        };
        Some((format!("topic `{topic}`: {error}"), *denied))
    })
}

/// Resolves when every partition that is assigned has been read to its end.
async fn reached_end(fleet: &FleetHandle) {
    let mut ticks = interval(LOOK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let assigned = fleet
            .recent_events()
            .iter()
            .any(|numbered| matches!(numbered.event, Event::Assigned { .. }));
        let report = fleet.report();
        if assigned
            && report
                .partitions
                .iter()
                .all(|partition| partition.lag == Some(0))
        {
            return;
        }
    }
}

const LOOK_INTERVAL: Duration = Duration::from_millis(100);
