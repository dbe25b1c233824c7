//! Requests that are out, and until when each has ended if anybody is left to end it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::asked::Asked;
use crate::ids::Moment;

/// The requests of a producer at the connections of others.
///
/// A connection ends every request within `request.timeout.ms`. Whoever hosts it may die with the
/// request or with its end, and nobody would hear of it: what is out for longer is given up.
#[derive(Debug)]
pub struct Outstanding {
    out: BTreeMap<u64, (Asked, Moment)>,
    patience: Duration,
}

impl Outstanding {
    /// Nothing is out. A request ends within `request_timeout` if its connection lives.
    pub fn new(request_timeout: Duration) -> Self {
        Self {
            out: BTreeMap::new(),
            patience: request_timeout + MARGIN,
        }
    }

    /// A request was handed over. Tokens must grow.
    pub fn sent(&mut self, token: u64, asked: Asked, now: Moment) {
        self.out.insert(token, (asked, now + self.patience));
    }

    /// A request ended; what it was, unless it was given up before.
    pub fn ended(&mut self, token: u64) -> Option<Asked> {
        self.out.remove(&token).map(|(asked, _)| asked)
    }

    /// When the first is given up.
    pub fn next_deadline(&self) -> Option<Moment> {
        let (_, (_, until)) = self.out.first_key_value()?;
        Some(*until)
    }

    /// The next request that nobody ends any more.
    pub fn take_overdue(&mut self, now: Moment) -> Option<(u64, Asked)> {
        self.next_deadline().filter(|until| *until <= now)?;
        let (token, (asked, _)) = self.out.pop_first()?;
        Some((token, asked))
    }
}

/// On top of the time a request has: for turns of busy actors on either side.
const MARGIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::producer::SendToken;

    #[test]
    fn what_nobody_ends_is_given_up_once_and_in_order() {
        let at = Moment::from_ms;
        let mut out = Outstanding::new(Duration::from_secs(30));
        assert_eq!(out.next_deadline(), None);
        out.sent(1, Asked::Identity(SendToken(7)), at(0));
        out.sent(2, Asked::Records(SendToken(8)), at(1_000));
        out.sent(3, Asked::Records(SendToken(9)), at(2_000));
        assert_eq!(out.ended(2), Some(Asked::Records(SendToken(8))));
        assert_eq!(out.take_overdue(at(34_999)), None);
        assert_eq!(out.next_deadline(), Some(at(35_000)));
        let first = out.take_overdue(at(40_000));
        assert_eq!(first, Some((1, Asked::Identity(SendToken(7)))));
        let last = out.take_overdue(at(40_000));
        assert_eq!(last, Some((3, Asked::Records(SendToken(9)))));
        assert_eq!(out.take_overdue(at(40_000)), None);
        assert_eq!(out.ended(1), None, "its end comes too late");
    }
}
