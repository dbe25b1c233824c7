//! Runs a target on mutated seeds, the same ones for the same number.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::mutator::mutate;
use crate::rng::Rng;
use crate::targets::Target;

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After this long.
    Time(Duration),
    /// After so many inputs.
    Inputs(u64),
}

/// What a run found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Inputs run.
    pub inputs: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Most bytes held at a time for one input.
    pub peak: usize,
    /// Most bytes held beside 16 times the input.
    pub beyond: usize,
    /// What broke, if anything did; the input lies in the file named.
    pub failure: Option<String>,
}

/// Runs `target` on its seeds, then on what the mutator makes of them. `pulse` counts the inputs, so
/// that somebody else can tell when one takes for ever.
pub fn run(target: &Target, until: Until, seed: u64, pulse: &AtomicU64) -> Report {
    let seeds = (target.seeds)();
    let mut report = Report::default();
    for input in &seeds {
        report.one(target, input);
    }
    let (started, mut input) = (Instant::now(), Vec::new());
    while report.failure.is_none() && !over(until, started, report.inputs) {
        // Each input has a stream of its own, so that it can be made again alone.
        let mut rng = Rng::new(seed.wrapping_add(report.inputs << 20));
        input.clear();
        input.extend_from_slice(rng.pick(&seeds[..]).as_slice());
        let other = rng.pick(&seeds[..]).clone();
        mutate(&mut input, &other, target.repair, &mut rng);
        report.one(target, &input);
        pulse.fetch_add(1, Ordering::Relaxed);
    }
    report
}

fn over(until: Until, started: Instant, inputs: u64) -> bool {
    match until {
        // The clock is slow beside a decoder.
        Until::Time(time) => inputs.is_multiple_of(256) && started.elapsed() >= time,
        Until::Inputs(most) => inputs >= most,
    }
}

impl Report {
    fn one(&mut self, target: &Target, input: &[u8]) {
        let work = AssertUnwindSafe(|| (target.run)(input));
        let mut outcome = Ok(());
        let held = allocation_counter::measure(|| outcome = catch_unwind(work));
        let peak = usize::try_from(held.bytes_max).unwrap_or(usize::MAX);
        self.inputs += 1;
        self.bytes += input.len() as u64;
        let beyond = peak.saturating_sub(16 * input.len());
        (self.peak, self.beyond) = (self.peak.max(peak), self.beyond.max(beyond));
        let what = match outcome {
            Err(_) => "panicked".to_owned(),
            Ok(()) if beyond > target.room => {
                format!("held {peak} bytes for an input of {}", input.len())
            }
            Ok(()) => return,
        };
        let file = keep(target, input);
        self.failure = Some(format!(
            "{} {what}; input in {}",
            target.name,
            file.display()
        ));
    }
}

/// Keeps an input that broke something where `cargo fuzz` would.
fn keep(target: &Target, input: &[u8]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("artifacts")
        .join(target.name);
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, input);
    let file = folder.join(format!("crash-{sum:08x}"));
    let kept = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, input));
    if let Err(error) = kept {
        eprintln!("cannot keep the input: {error}; it is {input:02x?}");
    }
    file
}
