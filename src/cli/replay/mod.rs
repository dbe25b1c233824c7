//! `nearside replay`: why a consumer read from where it did.

mod story;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::cli::exit::Failure;
use crate::ids::TopicPartition;
use crate::routing::trace::{Decision, Line, Player};

use story::Story;

/// Replays a recorded routing trace and explains every decision. Record one with
/// `nearside consume --route-trace FILE`.
///
/// Each input is fed to the route machine again. A decision that does not come out as recorded is
/// shown, and the exit code is 1 then.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ReplayOptions {
    /// The trace.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only this partition; may be repeated.
    #[arg(short, long = "partition", value_name = "TOPIC/N")]
    partitions: Vec<Place>,
    /// Leave out what happened earlier, in seconds since the trace began.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    from: Option<Duration>,
    /// Leave out what happened later, in seconds since the trace began.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    to: Option<Duration>,
    /// Show the steps that decided nothing as well.
    #[arg(short, long)]
    all: bool,
}

/// A partition as the command line names it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Place(TopicPartition);

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.rsplit_once('/').and_then(|(topic, number)| {
            let number: i32 = number.parse().ok().filter(|number| *number >= 0)?;
            (!topic.is_empty()).then(|| TopicPartition::new(topic, number))
        });
        parsed
            .map(Self)
            .ok_or_else(|| "a partition is written TOPIC/N, such as orders/3".to_owned())
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Replays the trace and tells it.
///
/// # Errors
/// Code 2 for a file that is no whole trace, with its line; code 1 if a decision came out
/// otherwise than recorded.
pub(super) fn run(options: &ReplayOptions, out: &mut dyn Write) -> Result<(), Failure> {
    match replay(options, out) {
        // Nobody reads our output any more, as in `nearside replay ... | head`.
        Err(Stop::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(Stop::Output(error)) => Err(Failure::running(format!(
            "cannot write the output: {error}"
        ))),
        Err(Stop::Failed(failure)) => Err(failure),
        Ok(()) => Ok(()),
    }
}

/// Why a replay ends early.
enum Stop {
    Output(io::Error),
    Failed(Failure),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

fn replay(options: &ReplayOptions, out: &mut dyn Write) -> Result<(), Stop> {
    let name = options.file.display();
    let unreadable = |error: &io::Error| Failure::usage(format!("cannot read {name}: {error}"));
    let file = File::open(&options.file).map_err(|error| unreadable(&error))?;
    let mut story = Story::new(options.all);
    let mut player = None;
    let mut there = BTreeSet::new();
    for (index, text) in BufReader::new(file).lines().enumerate() {
        let last = index + 1;
        let at = |error: &dyn std::fmt::Display| Failure::usage(format!("{name}:{last}: {error}"));
        let text = text.map_err(|error| {
            if error.kind() == io::ErrorKind::InvalidData {
                at(&"not text, so not a route trace")
            } else {
                unreadable(&error)
            }
        })?;
        let line = Line::decode(&text).map_err(|error| at(&error))?;
        match (&mut player, line) {
            (None, Line::Header(header)) => {
                player = Some(Player::new(*header).map_err(|error| at(&error))?);
            }
            (None, _) => return Err(at(&"a trace begins with a header line").into()),
            (Some(player), line) => {
                if let Line::Route { partition, .. } = &line {
                    there.insert(partition.clone());
                }
                let decision = player.play(line).map_err(|error| at(&error))?;
                if let Some(decision) = decision.filter(|decision| options.wants(decision)) {
                    story.tell(&decision, last, out)?;
                }
            }
        }
    }
    options.find_partitions(&there, &name.to_string())?;
    let Some(player) = player else {
        let text = format!("{name} is empty; a trace begins with a header line");
        return Err(Failure::usage(text).into());
    };
    story.end(&player, out)?;
    Ok(story.verdict(&name.to_string())?)
}

impl ReplayOptions {
    /// Refuses a partition that the trace does not tell of.
    fn find_partitions(&self, there: &BTreeSet<TopicPartition>, name: &str) -> Result<(), Failure> {
        let missing = self
            .partitions
            .iter()
            .find(|place| !there.contains(&place.0));
        let Some(Place(TopicPartition { topic, partition })) = missing else {
            return Ok(());
        };
        let listed = there.iter().take(LISTED_MAX);
        let mut listed: Vec<_> = listed
            .map(|at| format!("{}/{}", at.topic, at.partition))
            .collect();
        match there.len().saturating_sub(LISTED_MAX) {
            0 if there.is_empty() => listed.push("none".to_owned()),
            0 => {}
            more => listed.push(format!("{more} more")),
        }
        let listed = listed.join(", ");
        Err(Failure::usage(format!(
            "{name} tells nothing of {topic}/{partition}; its partitions: {listed}"
        )))
    }

    /// A difference is wanted wherever it is.
    fn wants(&self, decision: &Decision) -> bool {
        let ours = |place: &Place| place.0 == decision.partition;
        let listed = self.partitions.is_empty() || self.partitions.iter().any(ours);
        let from = self.from.is_none_or(|from| decision.at >= from);
        let to = self.to.is_none_or(|to| decision.at <= to);
        decision.difference.is_some() || (listed && from && to)
    }
}

/// Partitions that a refusal lists.
const LISTED_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_a_topic_and_a_number() {
        let place = |text: &str| text.parse::<Place>().map(|place| place.0);
        assert_eq!(place("orders/3"), Ok(TopicPartition::new("orders", 3)));
        assert_eq!(place("a/b/0"), Ok(TopicPartition::new("a/b", 0)));
        for wrong in ["orders", "orders/", "/3", "orders/-1", "orders/x"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn seconds_have_a_fraction_and_no_sign() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1_500)));
        assert!(seconds("-1").is_err());
        assert!(seconds("soon").is_err());
    }
}
