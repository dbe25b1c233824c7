//! The one source of chance for every machine.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::ids::Draw;

/// A stream of random samples, one per thread. Not for secrets.
#[derive(Debug)]
pub(crate) struct Entropy {
    state: Cell<Draw>,
}

impl Entropy {
    /// A stream that differs from process to process and from call to call.
    pub(crate) fn from_system() -> Self {
        Self::seeded(RandomState::new().build_hasher().finish())
    }

    /// A stream that a test can repeat.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self {
            state: Cell::new(Draw(seed)),
        }
    }

    /// The next sample.
    pub(crate) fn draw(&self) -> Draw {
        // The step is splitmix64's increment; `split` is its output function.
        let next = Draw(self.state.get().0.wrapping_add(0x9E37_79B9_7F4A_7C15));
        self.state.set(next);
        next.split()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_samples() {
        let (one, two) = (Entropy::seeded(7), Entropy::seeded(7));
        let first: Vec<_> = (0..4).map(|_| one.draw()).collect();
        let second: Vec<_> = (0..4).map(|_| two.draw()).collect();
        assert_eq!(first, second);
        assert_ne!(first[0], first[1]);
    }
}
