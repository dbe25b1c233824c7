//! All the chance of a run, drawn from its seed.

use std::ops::Range;
use std::time::Duration;

use nearside::ids::Draw;

/// A stream of samples.
#[derive(Clone, Debug)]
pub(crate) struct Chance(Draw);

impl Chance {
    /// The stream of a seed. Streams of other seeds, and of other purposes, look unrelated.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        let mixed = Draw(seed).split().0 ^ Draw(purpose).split().split().0;
        Self(Draw(mixed).split())
    }

    pub(crate) fn draw(&mut self) -> Draw {
        self.0 = self.0.split();
        self.0
    }

    /// An integer of the range.
    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.draw().0 % (range.end - range.start)
    }

    /// True once in `times`.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.within(0..times) == 0
    }

    pub(crate) fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }

    /// One of the choices.
    pub(crate) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        let count = u64::try_from(choices.len()).unwrap();
        let index = usize::try_from(self.within(0..count)).unwrap();
        choices[index].clone()
    }
}
