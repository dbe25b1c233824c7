//! Runs the fuzz targets on a stable compiler.
//!
//! `nearside-fuzz [--seconds N | --inputs N] [--seed N] [TARGET...]` mutates seeds; a trailing `*`
//! in a name stands for anything, and without a number each target has inputs for about 20 s.
//! `nearside-fuzz replay TARGET FILE...` runs inputs as they are.
//! `nearside-fuzz corpus` writes the seeds where `cargo fuzz` looks for them.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use nearside_fuzz::runner::{Report, Until, run};
use nearside_fuzz::{Target, all, find};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("replay") => replay(&arguments[1..]),
        Some("corpus") => corpus(),
        _ => fuzz(&arguments),
    }
}

/// Runs the targets, as many at a time as there are cores.
fn fuzz(arguments: &[String]) -> ExitCode {
    let (until, seed, names) = parse(arguments);
    let mut targets = all();
    targets.retain(|target| names.is_empty() || names.iter().any(|it| matches(it, target.name)));
    assert!(!targets.is_empty(), "no target is called {names:?}");
    targets.reverse();
    let (queue, reports) = (Mutex::new(targets), Mutex::new(Vec::new()));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(target) = next(&queue) {
                    let pulse = Arc::new(AtomicU64::new(0));
                    watch(target.name, Arc::downgrade(&pulse), seed);
                    let until = until.unwrap_or(Until::Inputs(target.inputs));
                    let report = run(&target, until, seed, &pulse);
                    println!("{}", line(target.name, &report));
                    reports.lock().expect("no panic").push(report);
                }
            });
        }
    });
    let reports = reports.into_inner().expect("no panic");
    let inputs: u64 = reports.iter().map(|report| report.inputs).sum();
    let failures: Vec<_> = reports
        .iter()
        .filter_map(|report| report.failure.as_ref())
        .collect();
    println!(
        "{} targets, {inputs} inputs, {} failures, {} s",
        reports.len(),
        failures.len(),
        started.elapsed().as_secs(),
    );
    for failure in &failures {
        eprintln!("{failure}");
    }
    ExitCode::from(u8::from(!failures.is_empty()))
}

/// Ends the process if one input takes for ever. Those before it are the same in every run.
fn watch(name: &'static str, pulse: Weak<AtomicU64>, seed: u64) {
    thread::spawn(move || {
        let mut last = None;
        while let Some(pulse) = pulse.upgrade() {
            let now = pulse.load(Ordering::Relaxed);
            drop(pulse);
            if last == Some(now) {
                eprintln!("{name} hangs after {now} mutated inputs of --seed {seed}");
                std::process::exit(1);
            }
            last = Some(now);
            thread::sleep(HANG);
        }
    });
}

/// No input takes as long as this.
const HANG: Duration = Duration::from_secs(30);

fn next(queue: &Mutex<Vec<Target>>) -> Option<Target> {
    queue.lock().expect("no panic").pop()
}

fn line(name: &str, report: &Report) -> String {
    let Report {
        inputs,
        bytes,
        peak,
        beyond,
        ..
    } = report;
    let state = report.failure.as_ref().map_or("ok", |_| "FAILED");
    let size = bytes / inputs.max(&1);
    format!(
        "{name:31} {inputs:>10} inputs of {size:>6} bytes, at most {peak:>8} held, {beyond:>7} \
         beyond 16 x input  {state}"
    )
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

fn parse(arguments: &[String]) -> (Option<Until>, u64, Vec<String>) {
    let (mut until, mut seed, mut names) = (None, 1, Vec::new());
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut number = || -> u64 {
            let value = arguments.next().map(|text| text.parse());
            value.expect("a number follows").expect("a number")
        };
        match argument.as_str() {
            "--seconds" => until = Some(Until::Time(Duration::from_secs(number()))),
            "--inputs" => until = Some(Until::Inputs(number())),
            "--seed" => seed = number(),
            name => names.push(name.to_owned()),
        }
    }
    (until, seed, names)
}

fn replay(arguments: &[String]) -> ExitCode {
    let (name, files) = arguments.split_first().expect("a target is named");
    let target = find(name);
    for file in files {
        let input = fs::read(file).expect("readable");
        (target.run)(&input);
        println!("{file}: {} bytes, fine", input.len());
    }
    ExitCode::SUCCESS
}

fn corpus() -> ExitCode {
    for target in all() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(target.name);
        fs::create_dir_all(&folder).expect("writable");
        for (index, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(format!("seed-{index}")), seed).expect("writable");
        }
    }
    ExitCode::SUCCESS
}
