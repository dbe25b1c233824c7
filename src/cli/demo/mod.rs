//! `nearside demo`: a fleet at work, with faults, that ends with a proof.
//!
//! An embedded cluster of three brokers in three racks, three members, one per rack. While records
//! flow, a broker that only follows dies and comes back, and leaders move.

mod feed;
mod members;
mod screen;
mod script;
mod stage;
mod summary;
mod table;
mod tally;

use std::io::Write;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::cli::exit::Failure;
use crate::cli::signal;

use feed::Feed;
use members::Members;
use screen::Screen;
use script::{Script, Step, WIND_DOWN};
use stage::Stage;
use summary::Summary;
use table::Picture;

/// Starts an embedded cluster and a fleet, feeds records, lets things fail, and counts.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct DemoOptions {
    /// A file whose lines become the records; default: a bundled sample.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Records written per second.
    #[arg(long, value_name = "RECORDS", default_value_t = 2_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=200_000))]
    rate: u32,
}

/// Runs the demo.
///
/// # Errors
/// A [`Failure`] if the file cannot be read, something does not start, or the counts prove nothing.
pub(super) async fn run(
    options: &DemoOptions,
    out: &mut (dyn Write + Send),
) -> Result<(), Failure> {
    let mut feed = Feed::open(options.file.as_deref(), options.rate)?;
    let stage = Stage::build().await?;
    let mut members = Members::start(&stage.bootstrap()).await?;
    let mut screen = Screen::new(out);
    let mut script = Script::default();
    let mut ticks = interval(FRAME);
    // A late frame is left out: time on the screen is real time.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let started = ticks.tick().await;
    let mut fed_until = None;
    let mut interrupted = false;
    // One for the whole run: a signal between two waits would be lost.
    let mut asked_to_stop = pin!(signal::asked_to_stop());
    loop {
        let elapsed = tokio::select! {
            // First, so that it listens before the first picture.
            biased;
            () = &mut asked_to_stop => {
                interrupted = true;
                break;
            }
            now = ticks.tick() => now.duration_since(started),
        };
        if let Some(step) = script.due(elapsed) {
            members.tell(stage.perform(step)?);
            if step == Step::EndFeeding {
                fed_until = Some(elapsed);
            }
        }
        if fed_until.is_none() {
            stage.write(&mut feed, elapsed)?;
        }
        members.listen();
        let picture = picture(&stage, &members, feed.written(), elapsed);
        screen.show(&picture)?;
        let over = fed_until.is_some_and(|end| {
            picture.handled >= picture.produced || elapsed.saturating_sub(end) > WIND_DOWN
        });
        if over {
            break;
        }
    }
    let (same_zone_bytes, cross_zone_bytes) = members.stop(STOP_TIME).await;
    // What was cut short proves nothing, either way.
    if interrupted {
        screen.say("interrupted")?;
        return Ok(());
    }
    let summary = Summary {
        written: feed.written(),
        totals: members.totals(),
        committed: stage.committed(),
        same_zone_bytes,
        cross_zone_bytes,
    };
    screen.end(&summary)?;
    if summary.is_proof() {
        Ok(())
    } else {
        Err(Failure::running("the demo did not prove its point"))
    }
}

fn picture(stage: &Stage, members: &Members, produced: u64, elapsed: Duration) -> Picture {
    let rows = members.rows(stage);
    Picture {
        elapsed,
        produced,
        handled: members.totals().records,
        rows,
        members: members.lines(),
        news: members.news(),
    }
}

const FRAME: Duration = Duration::from_millis(100);
const STOP_TIME: Duration = Duration::from_secs(10);
