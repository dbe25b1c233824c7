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
            "{steps} steps, {played} replayed; partitions shown: {partitions}"
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
    let plural = if steps == 1 { "" } else { "s" };
    match steps {
        0 => Ok(()),
        steps => writeln!(
            out,
            "        ... {partition}: {steps} step{plural} decided nothing"
        ),
    }
}

fn tell_decision(decision: &Decision, out: &mut dyn Write) -> io::Result<()> {
    let seconds = decision.at.as_secs_f64();
    let (partition, came) = (&decision.partition, &decision.came);
    writeln!(out, "{seconds:>9.3} s {partition}: {came}")?;
    let rules = match decision.rules.as_slice() {
        [] => String::new(),
        rules => format!("  [{}]", rules.join(" ")),
    };
    wrapped(&format!("{}{rules}", decision.decided), out)?;
    if !decision.why.is_empty() {
        wrapped(&format!("because {}", decision.why.join("; ")), out)?;
    }
    if !decision.follows.is_empty() {
        wrapped(&format!("then {}", decision.follows.join("; ")), out)?;
    }
    Ok(())
}

/// Writes a paragraph right of the times; its further lines stand a little deeper.
fn wrapped(text: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut line = MARGIN.to_owned();
    for word in text.split(' ') {
        let blank = line.trim().is_empty();
        if !blank && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            writeln!(out, "{line}")?;
            line = format!("{MARGIN}  {word}");
        } else {
            if !blank {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    writeln!(out, "{line}")
}

/// Width of the times.
const MARGIN: &str = "            ";
/// Width of a line.
const COLUMNS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_wrapped_and_set_in() {
        let mut out = Vec::new();
        wrapped(&"word ".repeat(30), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines.iter().all(|line| line.chars().count() <= COLUMNS),
            "{text}"
        );
        assert!(lines[1].starts_with("              word"), "{text}");
    }

    #[test]
    fn what_decided_nothing_is_folded_until_something_does() {
        let quiet = Decision {
            at: std::time::Duration::from_millis(1_500),
            partition: TopicPartition::new("orders", 0),
            came: "follower 2 sends no records".to_owned(),
            decided: "nothing changes".to_owned(),
            rules: vec!["R14"],
            why: vec!["because"],
            follows: Vec::new(),
            quiet: true,
            difference: None,
        };
        let loud = Decision {
            quiet: false,
            ..quiet.clone()
        };
        let told = |all| {
            let (mut story, mut out) = (Story::new(all), Vec::new());
            for decision in [&quiet, &quiet, &loud] {
                story.tell(decision, 1, &mut out).unwrap();
            }
            String::from_utf8(out).unwrap()
        };
        let first = |text: &str| text.lines().next().map(str::to_owned);
        let folded = "        ... orders-0: 2 steps decided nothing";
        assert_eq!(first(&told(false)).as_deref(), Some(folded));
        let shown = "    1.500 s orders-0: follower 2 sends no records";
        assert_eq!(first(&told(true)).as_deref(), Some(shown));
        assert_eq!(told(true).matches("1.500 s").count(), 3);
    }
}
