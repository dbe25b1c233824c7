//! The whole protocol of `nearside chaos`, on a cluster of its own.

use std::path::Path;
use std::sync::Arc;

use libtest_mimic::Trial;
use nearside::cli::chaos::{Pace, Plan, run};

use crate::lab::{Lab, Outcome};

pub(crate) fn trials(lab: &Arc<Lab>) -> Vec<Trial> {
    vec![lab.trial_alone(
        "nothing_is_lost_and_records_flow_again_in_time_whatever_fails",
        nothing_is_lost_and_records_flow_again_in_time_whatever_fails,
    )]
}

fn nothing_is_lost_and_records_flow_again_in_time_whatever_fails() -> Outcome {
    let plan = Plan {
        pace: Pace::SHORT,
        steps: Vec::new(),
        traces: None,
    };
    let report = run(&plan, &mut std::io::stderr())?;
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("chaos-report.md");
    std::fs::write(&file, report.to_string())?;
    eprintln!("the report is in {}", file.display());
    if report.broken.is_empty() {
        return Ok(());
    }
    Err(report.broken.join("\n").into())
}
