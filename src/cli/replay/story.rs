//! Prints decisions as a story: what came in, what was decided, why, and what follows.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::cli::exit::Failure;
use crate::ids::TopicPartition;
use crate::routing::trace::{Decision, Player};

/// The story so far.
pub(super) struct Story {
    all: bool,
    /// Steps that decided nothing since the last one that did, per partition.
    quiet: BTreeMap<TopicPartition, u64>,
    partitions: u64,
    differences: u64,
    first: Option<String>,
}

impl Story {
    pub(super) fn new(all: bool) -> Self {
        Self {
            all,
            quiet: BTreeMap::new(),
            partitions: 0,
            differences: 0,
            first: None,
        }
    }

    /// Tells one decision, which stands in line `line` of the trace.
    pub(super) fn tell(
        &mut self,
        decision: &Decision,
        line: usize,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let quiet = match self.quiet.get_mut(&decision.partition) {
            Some(quiet) => quiet,
            None => {
                self.partitions += 1;
                self.quiet.entry(decision.partition.clone()).or_default()
            }
        };
        if decision.quiet && !self.all && decision.difference.is_none() {
            *quiet += 1;
            return Ok(());
        }
        let before = std::mem::take(quiet);
        tell_quiet(&decision.partition, before, out)?;
        tell_decision(decision, out)?;
        if let Some(difference) = &decision.difference {
            self.differences += 1;
            let text = format!(
                "line {line}: {} was {}, is {} now",
                difference.what, difference.recorded, difference.replayed
            );
            writeln!(out, "{MARGIN}! otherwise than recorded, {text}")?;
            writeln!(
                out,
                "{MARGIN}! later steps of this machine are not replayed"
            )?;
            self.first.get_or_insert(text);
        }
        Ok(())
    }

    /// Tells how the replay as a whole went.
    pub(super) fn end(&mut self, player: &Player, out: &mut dyn Write) -> io::Result<()> {
        for (partition, quiet) in std::mem::take(&mut self.quiet) {
            tell_quiet(&partition, quiet, out)?;
        }
        let (steps, partitions) = (player.steps(), self.partitions);
        let played = steps - player.skipped();
        writeln!(
            out,
            "{steps} steps, {played} replayed; {partitions} partitions shown"
        )?;
        if player.dropped() > 0 {
            let lost = player.dropped();
            writeln!(
                out,
                "{lost} steps were not recorded: the writer could not keep up"
            )?;
        }
        if !player.is_complete() {
            writeln!(
                out,
                "the trace has no end line: its recording was not stopped in order"
            )?;
        }
        if self.differences == 0 {
            writeln!(out, "every replayed decision came out as recorded")?;
        }
        out.flush()
    }

    /// Whether everything came out as recorded.
    pub(super) fn verdict(self, name: &str) -> Result<(), Failure> {
        match self.first {
            None => Ok(()),
            Some(first) => Err(Failure::running(format!(
                "{name}: {} machines decided otherwise than recorded; {first}",
                self.differences
            ))),
        }
    }
}

fn tell_quiet(partition: &TopicPartition, steps: u64, out: &mut dyn Write) -> io::Result<()> {
    if steps > 0 {
        writeln!(
            out,
            "{:>11} {partition}: {steps} steps decided nothing",
            "..."
        )?;
    }
    Ok(())
}

fn tell_decision(decision: &Decision, out: &mut dyn Write) -> io::Result<()> {
    let seconds = decision.at.as_secs_f64();
    writeln!(
        out,
        "{seconds:>9.3} s {}: {}",
        decision.partition, decision.came
    )?;
    let rules = match decision.rules.as_slice() {
        [] => String::new(),
        rules => format!("  [{}]", rules.join(" ")),
    };
    writeln!(out, "{MARGIN}{}{rules}", decision.decided)?;
    if !decision.why.is_empty() {
        writeln!(out, "{MARGIN}because {}", decision.why.join("; "))?;
    }
    if !decision.follows.is_empty() {
        writeln!(out, "{MARGIN}then {}", decision.follows.join("; "))?;
    }
    Ok(())
}

/// What a step is told in stands right of its time.
const MARGIN: &str = "            ";
