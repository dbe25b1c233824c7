//! What may be in flight of a partition at a time (wire.md 10.3).

use nearside::producer::SendToken;
use nearside::wire::ErrorCode;

use super::cluster::Sender;

/// Batches in flight once a leader has shown that it follows the sequence.
const OPEN: usize = 5;

/// Whom a batch goes to, under which leadership, and by which identity it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Way {
    pub(super) leader: (i32, i32),
    pub(super) sender: Sender,
}

/// The gate of one partition, as an outsider sees it.
#[derive(Debug, Default)]
pub(super) struct Gate {
    flying: Vec<(SendToken, Way)>,
    proven: Option<Way>,
}

impl Gate {
    pub(super) fn sent(&mut self, token: SendToken, way: Way) {
        let one = self.flying.is_empty();
        assert!(one || self.proven == Some(way), "a second before a success");
        self.flying.push((token, way));
        assert!(self.flying.len() <= OPEN, "too many of a partition");
    }

    /// An answer came for the batch sent under this token, while `leader` was known to lead.
    pub(super) fn answered(&mut self, token: SendToken, code: ErrorCode, leader: (i32, i32)) {
        let success = [ErrorCode::NONE, ErrorCode::DUPLICATE_SEQUENCE_NUMBER];
        let way = self.lost(token).filter(|way| way.leader == leader);
        if success.contains(&code) && way.is_some() {
            self.proven = way;
        }
    }

    /// No answer will come.
    pub(super) fn lost(&mut self, token: SendToken) -> Option<Way> {
        let at = self.flying.iter().position(|(sent, _)| *sent == token)?;
        Some(self.flying.remove(at).1)
    }
}
