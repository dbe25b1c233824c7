//! What happened last, for whoever reads a failure.

use std::collections::VecDeque;
use std::fmt::Arguments;
use std::sync::{Arc, Mutex};

use nearside::ids::Moment;

/// The last events of a run. It outlives the run, also one that panicked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trail(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    last: VecDeque<String>,
    /// Of everything ever told, so that two runs can be compared.
    digest: u64,
    now: Moment,
}

impl Trail {
    /// Sets the time that later lines carry.
    pub(crate) fn at(&self, now: Moment) {
        self.0.lock().unwrap().now = now;
    }

    pub(crate) fn tell(&self, what: Arguments<'_>) {
        let mut inner = self.0.lock().unwrap();
        let line = format!("{:>11} {what}", format!("{:?}", inner.now));
        for byte in line.bytes() {
            inner.digest = (inner.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if inner.last.len() == KEPT {
            inner.last.pop_front();
        }
        inner.last.push_back(line);
    }

    /// A number that two runs share if they told the same.
    pub(crate) fn digest(&self) -> u64 {
        self.0.lock().unwrap().digest
    }

    /// The last lines, oldest first.
    pub(crate) fn lines(&self, count: usize) -> Vec<String> {
        let inner = self.0.lock().unwrap();
        let skipped = inner.last.len().saturating_sub(count);
        inner.last.iter().skip(skipped).cloned().collect()
    }
}

const KEPT: usize = 4_000;
