//! The addresses behind a name and the order in which they are tried (KIP-302, wire.md 5.4).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use crate::ids::Moment;

/// Most addresses tried per attempt.
const ADDRESSES_MAX: usize = 16;
/// Age up to which a list is used without asking the resolver again.
const FRESH: Duration = Duration::from_secs(1);

/// The last good list of addresses, and the address last lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    known: Vec<SocketAddr>,
    resolved_at: Option<Moment>,
    lost: Option<SocketAddr>,
}

impl Addresses {
    /// Takes a new list; an empty one is refused.
    pub(super) fn store(&mut self, mut list: Vec<SocketAddr>, now: Moment) -> bool {
        list.truncate(ADDRESSES_MAX);
        if list.is_empty() {
            return false;
        }
        self.known = list;
        self.resolved_at = Some(now);
        true
    }

    /// Whether the list needs no resolver yet.
    pub(super) fn is_fresh(&self, now: Moment) -> bool {
        self.is_younger(FRESH, now)
    }

    /// Whether there is a list no older than `limit`.
    pub(super) fn is_younger(&self, limit: Duration, now: Moment) -> bool {
        self.resolved_at.is_some_and(|at| now.since(at) <= limit)
    }

    /// Remembers where a connection was lost or refused.
    pub(super) fn lost(&mut self, address: SocketAddr) {
        self.lost = Some(address);
    }

    /// All addresses, beginning after the one last lost: pods share a name, so the next one may
    /// live.
    pub(super) fn walk(&self) -> VecDeque<SocketAddr> {
        let position = self
            .known
            .iter()
            .position(|known| Some(*known) == self.lost);
        let mut walk: VecDeque<_> = self.known.iter().copied().collect();
        walk.rotate_left(position.map_or(0, |position| (position + 1) % walk.len().max(1)));
        walk
    }

    /// Number of addresses.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 9092))
    }

    #[test]
    fn a_walk_begins_after_the_address_last_lost() {
        let mut addresses = Addresses::default();
        assert!(addresses.store(vec![address(1), address(2), address(3)], Moment::ZERO));
        addresses.lost(address(2));
        assert_eq!(addresses.walk(), [address(3), address(1), address(2)]);
        addresses.lost(address(3));
        assert_eq!(addresses.walk(), [address(1), address(2), address(3)]);
    }

    #[test]
    fn an_empty_answer_keeps_the_last_good_list() {
        let mut addresses = Addresses::default();
        assert!(addresses.store(vec![address(1)], Moment::ZERO));
        assert!(!addresses.store(Vec::new(), Moment::from_ms(500)));
        assert_eq!(addresses.walk(), [address(1)]);
        assert!(!addresses.is_fresh(Moment::from_ms(1_001)));
    }
}
