//! Malformed answers of a node, whichever of its connections they came over (wire.md 7 D9).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dashmap::DashMap;

use crate::ids::{BrokerId, Moment};
use crate::wire::Target;

/// Where the connections of a fleet, on whatever threads, tell each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Lapses(Arc<DashMap<Node, Arc<Told>>>);

/// A broker, or an address whose broker is not known.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Node {
    Broker(BrokerId),
    Address(Arc<str>, u16),
}

#[derive(Debug, Default)]
struct Told {
    /// How many have been told: a look at this says whether there is news.
    count: AtomicU64,
    last: Mutex<VecDeque<(u64, Moment)>>,
}

/// What one connection knows of its node.
#[derive(Debug)]
pub(super) struct Hearsay {
    node: Arc<Told>,
    heard: u64,
    missed: Vec<Moment>,
}

impl Lapses {
    /// For a connection to `target`, which has heard nothing yet.
    pub(super) fn of(&self, target: &Target) -> Hearsay {
        let node = match target.broker {
            Some(broker) => Node::Broker(broker),
            None => Node::Address(Arc::clone(&target.host), target.port),
        };
        let node = Arc::clone(&self.0.entry(node).or_default());
        Hearsay {
            node,
            heard: 0,
            missed: Vec::new(),
        }
    }
}

impl Hearsay {
    /// Tells the others of a malformed answer.
    pub(super) fn tell(&mut self, at: Moment) {
        let node = Arc::clone(&self.node);
        let mut last = node.last();
        let missed = last.iter().filter(|(number, _)| *number > self.heard);
        self.missed.extend(missed.map(|(_, at)| *at));
        self.heard = node.count.load(Ordering::Acquire) + 1;
        last.push_back((self.heard, at));
        if last.len() > KEPT_MAX {
            last.pop_front();
        }
        node.count.store(self.heard, Ordering::Release);
    }

    /// When others had malformed answers, as far as this is news.
    pub(super) fn news(&mut self) -> Vec<Moment> {
        let mut news = std::mem::take(&mut self.missed);
        if self.node.count.load(Ordering::Acquire) > self.heard {
            let last = self.node.last();
            let fresh = last.iter().filter(|(number, _)| *number > self.heard);
            news.extend(fresh.map(|(_, at)| *at));
            self.heard = self.node.count.load(Ordering::Acquire);
        }
        news
    }
}

impl Told {
    fn last(&self) -> MutexGuard<'_, VecDeque<(u64, Moment)>> {
        // Nothing under the lock can leave it half done.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Enough to lose trust.
const KEPT_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn target(broker: Option<i32>, port: u16) -> Target {
        Target {
            broker: broker.map(BrokerId),
            host: "a.kafka".into(),
            port,
        }
    }

    const AT: [Moment; 4] = [
        Moment::from_ms(10),
        Moment::from_ms(20),
        Moment::from_ms(30),
        Moment::from_ms(40),
    ];

    #[test]
    fn each_connection_of_a_node_hears_once_what_the_others_tell() {
        let lapses = Lapses::default();
        let [mut one, mut two] = [9092, 9093].map(|port| lapses.of(&target(Some(1), port)));
        one.tell(AT[0]);
        assert_eq!(two.news(), [AT[0]]);
        assert!(one.news().is_empty() && two.news().is_empty());
        // Told before the other's was heard.
        one.tell(AT[1]);
        two.tell(AT[2]);
        assert_eq!((one.news(), two.news()), (vec![AT[2]], vec![AT[1]]));
        assert!(one.news().is_empty() && two.news().is_empty());
    }

    #[test]
    fn a_new_connection_hears_of_the_last_ones_and_other_nodes_of_none() {
        let lapses = Lapses::default();
        let mut one = lapses.of(&target(None, 9092));
        AT.into_iter().for_each(|at| one.tell(at));
        assert_eq!(lapses.of(&target(None, 9092)).news(), AT[1..]);
        assert!(lapses.of(&target(None, 9093)).news().is_empty());
        assert!(lapses.of(&target(Some(1), 9092)).news().is_empty());
        assert!(Lapses::default().of(&target(None, 9092)).news().is_empty());
    }
}
