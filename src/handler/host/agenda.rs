//! The host's deadlines: at most one per stint and per partition.

use std::collections::{BTreeMap, BTreeSet};

use crate::handler::host::StintId;
use crate::ids::{Moment, TopicPartition};

/// Whose deadline it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Whose {
    Stint(StintId),
    Partition(TopicPartition),
    /// All queues', which are looked through for what keeps much in memory.
    Queues,
}

/// Deadlines in order of time.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    by_time: BTreeSet<(Moment, Whose)>,
    by_owner: BTreeMap<Whose, Moment>,
}

impl Agenda {
    /// Sets the deadline of `whose`, or removes it.
    pub(super) fn set(&mut self, whose: Whose, due: Option<Moment>) {
        if let Some(before) = self.by_owner.remove(&whose) {
            self.by_time.remove(&(before, whose.clone()));
        }
        if let Some(due) = due {
            self.by_owner.insert(whose.clone(), due);
            self.by_time.insert((due, whose));
        }
    }

    /// Whether `whose` deadline is still to come.
    pub(super) fn has(&self, whose: &Whose) -> bool {
        self.by_owner.contains_key(whose)
    }

    /// The earliest deadline.
    pub(super) fn next(&self) -> Option<Moment> {
        self.by_time.first().map(|(due, _)| *due)
    }

    /// Takes the first deadline that passed.
    pub(super) fn expire(&mut self, now: Moment) -> Option<Whose> {
        if self.next()? > now {
            return None;
        }
        let (_, whose) = self.by_time.pop_first()?;
        self.by_owner.remove(&whose);
        Some(whose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_a_deadline_moves_it() {
        let mut agenda = Agenda::default();
        let (one, two) = (Whose::Stint(StintId(1)), Whose::Stint(StintId(2)));
        agenda.set(one.clone(), Some(Moment::from_ms(5)));
        agenda.set(two.clone(), Some(Moment::from_ms(7)));
        agenda.set(one.clone(), Some(Moment::from_ms(9)));
        assert_eq!(agenda.next(), Some(Moment::from_ms(7)));
        agenda.set(two, None);
        assert_eq!(agenda.expire(Moment::from_ms(8)), None);
        assert_eq!(agenda.expire(Moment::from_ms(9)), Some(one));
        assert_eq!(agenda.next(), None);
    }
}
