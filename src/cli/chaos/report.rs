//! The report as Markdown.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::book::Track;
use super::crew::Told;
use super::stage::{MEMBERS, RACKS};
use super::step::Step;
use super::verdict::{Figures, oscillations};

/// What a run of the protocol found. Its text is Markdown.
#[derive(Clone, Debug)]
pub struct Report {
    setting: Setting,
    rows: Vec<(Step, Figures)>,
    /// Everything that does not hold, one line each; empty after a good run.
    pub broken: Vec<String>,
}

/// Under what circumstances it was found.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) version: String,
    pub(super) partitions: usize,
    pub(super) every: Duration,
    pub(super) took: Duration,
    pub(super) records: usize,
    /// Load averages at the beginning and at the end.
    pub(super) loads: [String; 2],
}

impl Report {
    pub(super) fn new(setting: Setting, steps: Vec<Step>, tracks: &[Track], log: &[Told]) -> Self {
        let mut broken = oscillations(&steps, log);
        let mut calm = Duration::ZERO;
        let rows: Vec<(Step, Figures)> = steps
            .into_iter()
            .map(|step| {
                let figures = Figures::new(&step, tracks, log, calm);
                if step.promises.is_empty() {
                    calm = calm.max(figures.delay);
                }
                broken.extend(figures.broken(&step));
                (step, figures)
            })
            .collect();
        Self {
            setting,
            rows,
            broken,
        }
    }

    /// Adds a failure that ended the run early.
    pub(super) fn failed(&mut self, what: String) {
        self.broken.push(what);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.opening(f)?;
        self.steps(f)?;
        self.promises(f)?;
        self.gaps(f)?;
        self.changes(f)
    }
}

impl Report {
    fn opening(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setting {
            version,
            partitions,
            every,
            took,
            records,
            loads: [before, after],
        } = &self.setting;
        let rate = 1_000 * partitions / usize::try_from(every.as_millis().max(1)).unwrap_or(1);
        writeln!(f, "# Chaos on a real Kafka\n")?;
        writeln!(
            f,
            "Apache Kafka {version}, {} brokers in racks {}; one topic of {partitions} partitions, \
             three replicas, two in-sync at least; a fleet member in each of the racks {}; {rate} \
             numbered records per second, acknowledged by all in-sync replicas. {records} records \
             in {:.0} s, brokers and members on {} cores; load average {before} at the start, \
             {after} at the end.\n",
            RACKS.len(),
            RACKS.join(", "),
            MEMBERS.join(", "),
            took.as_secs_f64(),
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        )?;
        if self.broken.is_empty() {
            return writeln!(f, "**Everything held.**\n");
        }
        writeln!(f, "**Did not hold:**\n")?;
        for line in &self.broken {
            writeln!(f, "* {line}")?;
        }
        writeln!(f)
    }

    fn steps(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| step | no write for (s) | no delivery for (s) | acknowledged to delivered (s) | \
             home after (s) | route changes | resets | lost | out of order | twice |\n\
             |---|---|---|---|---|---|---|---|---|---|"
        )?;
        for (step, figures) in &self.rows {
            let home = step.home.map_or_else(|| "-".to_owned(), seconds);
            writeln!(
                f,
                "| {} | {} | {} | {} | {home} | {} | {} | {} | {} | {} |",
                step.name,
                seconds(figures.write_gap()),
                seconds(figures.read_gap()),
                seconds(figures.delay),
                figures.changes.values().sum::<usize>(),
                figures.resets,
                figures.lost,
                figures.strays,
                figures.repeats,
            )?;
        }
        writeln!(
            f,
            "\nThe worst partition each. Without a leader nobody can write, so the third column \
             holds elections too; the fourth counts from the acknowledgement of each record. \
             *Home* is every partition read in its reader's rack again.\n"
        )
    }

    fn promises(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## How soon records flow again\n")?;
        writeln!(
            f,
            "Counted from the acknowledgement, or from when the fault could be known if that is \
             later: the loss of the connection, the hedge deadline of a silent broker (2.5 s), the \
             first acknowledgement under a new leader (before it nobody may hand out what the \
             former one acknowledged last). *Slack* is what this machine cost besides: the slowest \
             record, at that time, of partitions that the fault did not concern, and at most the \
             limit once more.\n\n\
             | step | partitions | which | at most (s) | slack (s) | slowest (s) |\n\
             |---|---|---|---|---|---|"
        )?;
        for (step, figures) in &self.rows {
            for (promise, kept) in step.promises.iter().zip(&figures.kept) {
                writeln!(
                    f,
                    "| {} | {} | {} | {} | {} | {} |",
                    step.name,
                    promise.partitions.len(),
                    promise.what,
                    seconds(promise.within),
                    seconds(figures.slack(promise)),
                    seconds(*kept),
                )?;
            }
        }
        writeln!(f)
    }

    fn gaps(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## Time without a delivery, by partition (s)\n")?;
        let partitions = 0..self.setting.partitions;
        let heads: Vec<String> = partitions.map(|it| it.to_string()).collect();
        writeln!(f, "| step | {} |", heads.join(" | "))?;
        writeln!(f, "|---|{}", "---|".repeat(self.setting.partitions))?;
        for (step, figures) in &self.rows {
            let gaps: Vec<String> = figures.read_gaps.iter().map(|it| seconds(*it)).collect();
            writeln!(f, "| {} | {} |", step.name, gaps.join(" | "))?;
        }
        writeln!(f)
    }

    fn changes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## What the members told\n")?;
        writeln!(
            f,
            "| step | route changes by reason | errors | notes |\n|---|---|---|---|"
        )?;
        for (step, figures) in &self.rows {
            let (changes, errors) = (list(&figures.changes), list(&figures.errors));
            let notes = step.notes.join("; ");
            writeln!(f, "| {} | {changes} | {errors} | {notes} |", step.name)?;
        }
        Ok(())
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64())
}

fn list(counts: &BTreeMap<String, usize>) -> String {
    let entries = counts.iter().map(|(name, count)| format!("{name} {count}"));
    entries.collect::<Vec<_>>().join(", ")
}
