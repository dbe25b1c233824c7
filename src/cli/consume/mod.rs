//! `nearside consume`: the everyday consumer.

mod exec;
mod format;
mod json;
mod printer;
mod quota;
mod row;
mod run;
mod start;
mod watch;

use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;

use crate::cli::exit::Failure;
use crate::cli::options::{ConnectionOptions, refuse_contradictions};
use crate::config::Config;
use crate::fleet::StartAt;
use crate::handler::{Subscription, SubscriptionBuilder};
use crate::ids::TopicName;

use format::Format;
use printer::Layout;
use start::Start;

pub(super) use run::run;

/// Reads topics and prints their records, or runs a command for each.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ConsumeOptions {
    #[command(flatten)]
    connection: ConnectionOptions,
    /// A topic; may be repeated. One that begins with `^` is a pattern over all topics.
    #[arg(short, long = "topic", value_name = "TOPIC", required = true)]
    topics: Vec<String>,
    /// The consumer group. Without one a group of this run only is used, which starts at the
    /// beginning.
    #[arg(short, long, value_name = "GROUP")]
    group: Option<String>,
    /// Where to start: beginning, end or stored without a committed offset; an offset, or s@ with
    /// milliseconds since 1970, whatever is committed.
    #[arg(short, long, value_name = "WHERE")]
    offset: Option<Start>,
    /// How to print a record; kcat's tokens: %t %p %o %k %K %s %S %T %h, \n \t \xNN.
    #[arg(short, long, value_name = "FORMAT", default_value = "%s\\n")]
    format: String,
    /// Print each record as one line of JSON.
    #[arg(long, conflicts_with_all = ["format", "exec"])]
    json: bool,
    /// Run this shell command per record, with the value as its input, instead of printing.
    #[arg(long, value_name = "COMMAND", conflicts_with = "format")]
    exec: Option<String>,
    /// Exit when the end of every partition is reached.
    #[arg(short = 'e', long = "exit")]
    exit_at_end: bool,
    /// Exit after this many records.
    #[arg(short, long, value_name = "RECORDS")]
    count: Option<u64>,
    /// Our rack; records are read from replicas in it.
    #[arg(long, value_name = "RACK")]
    rack: Option<String>,
    /// Write down every routing decision, for `nearside replay`.
    #[arg(long, value_name = "FILE")]
    route_trace: Option<PathBuf>,
}

impl ConsumeOptions {
    /// The configuration and the group.
    fn config(&self) -> Result<(Config, String), Failure> {
        let start = match (self.offset, &self.group) {
            (Some(start), _) => Some(start),
            (None, None) => Some(Start::Beginning),
            (None, Some(_)) => None,
        };
        let mut defaults = vec![
            ("client.id", "nearside-consume"),
            ("max.poll.records", "2000"),
        ];
        if let Some(start) = start {
            defaults.push(("auto.offset.reset", start.reset_policy()));
        }
        let mut config = self.connection.config(&defaults)?;
        for (key, value) in [("group.id", &self.group), ("client.rack", &self.rack)] {
            if let Some(value) = value {
                config.set(key, value)?;
            }
        }
        config.require_bootstrap()?;
        refuse_contradictions(&config)?;
        let group = match config.show("group.id").filter(|group| !group.is_empty()) {
            Some(group) => group,
            // Nobody else is in a group of this name.
            None => format!("nearside-consume-{:016x}", RandomState::new().hash_one(())),
        };
        Ok((config, group))
    }

    /// Where to start whatever is committed.
    fn start_at(&self) -> Option<StartAt> {
        self.offset.and_then(Start::start_at)
    }

    fn layout(&self) -> Result<Layout, Failure> {
        if self.json {
            Ok(Layout::Json)
        } else {
            Format::parse(&self.format).map(Layout::Format)
        }
    }

    /// The topics that are named; a pattern names none.
    fn literal_topics(&self) -> Vec<TopicName> {
        let literal = self.topics.iter().filter(|topic| !topic.starts_with('^'));
        literal.map(|topic| topic.as_str().into()).collect()
    }

    fn subscription(&self) -> Result<SubscriptionBuilder, Failure> {
        match self.topics.as_slice() {
            [pattern] if pattern.starts_with('^') => Ok(Subscription::pattern(pattern)),
            topics if topics.iter().any(|topic| topic.starts_with('^')) => Err(Failure::usage(
                "a pattern cannot be combined with other topics; write one pattern",
            )),
            topics => Ok(Subscription::topics(topics.iter().map(String::as_str))),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::exit::Exit;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        consume: ConsumeOptions,
    }

    fn parse(line: &str) -> ConsumeOptions {
        let words = std::iter::once("consume").chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().consume
    }

    #[test]
    fn options_become_properties() {
        let options =
            parse("-b kafka:9092 -t a -t b -g billing -o end --rack b -X fetch.min.bytes=7");
        let (config, group) = options.config().unwrap();
        assert_eq!(group, "billing");
        let shown = |key| config.show(key).unwrap();
        assert_eq!(shown("bootstrap.servers"), "kafka:9092");
        assert_eq!(shown("auto.offset.reset"), "latest");
        assert_eq!(shown("client.rack"), "b");
        assert_eq!(shown("fetch.min.bytes"), "7");
    }

    #[test]
    fn without_a_group_each_run_has_its_own_and_starts_at_the_beginning() {
        let options = parse("-b kafka:9092 -t a");
        let (config, group) = options.config().unwrap();
        assert!(group.starts_with("nearside-consume-"));
        assert_ne!(group, options.config().unwrap().1);
        assert_eq!(
            config.show("auto.offset.reset").as_deref(),
            Some("earliest")
        );
    }

    #[test]
    fn wrong_calls_are_usage_errors() {
        let exit = |failure: Failure| failure.exit;
        assert_eq!(
            parse("-t a").config().map_err(exit).unwrap_err(),
            Exit::Usage
        );
        let typo = parse("-b k:1 -t a -X sesion.timeout.ms=1")
            .config()
            .unwrap_err();
        assert!(
            typo.message.contains("did you mean `session.timeout.ms`?"),
            "{typo}"
        );
        assert_eq!(
            parse("-t ^a -t b").subscription().map(drop).map_err(exit),
            Err(Exit::Usage)
        );
        assert_eq!(
            parse("-t a -f %q").layout().map(drop).map_err(exit),
            Err(Exit::Usage)
        );
    }

    #[test]
    fn a_topic_with_a_caret_is_a_pattern() {
        let pattern = parse("-t ^orders-.*").subscription().unwrap();
        assert!(format!("{pattern:?}").contains("Pattern(\"^orders-.*\")"));
    }
}
