//! Reads standard input on a thread of its own and hands it on in lots.

use std::io::{self, BufRead, BufReader, Read};
use std::thread;

use tokio::sync::mpsc;

/// Lines that were at hand together, without their line ends; or why reading ended early.
pub(super) type Lot = io::Result<Vec<Vec<u8>>>;

/// Starts reading `input` to its end. Reading blocks while two lots wait to be taken.
///
/// # Errors
/// The thread cannot be started.
pub(super) fn read(input: impl Read + Send + 'static) -> io::Result<mpsc::Receiver<Lot>> {
    let (sender, receiver) = mpsc::channel(LOTS_WAITING_MAX);
    let work = move || {
        let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
        while let Some(lot) = next_lot(&mut input).transpose() {
            let failed = lot.is_err();
            if sender.blocking_send(lot).is_err() || failed {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("nearside-stdin".into())
        .spawn(work)?;
    Ok(receiver)
}

/// The lines at hand, at least one; `None` at the end.
fn next_lot(input: &mut BufReader<impl Read>) -> io::Result<Option<Vec<Vec<u8>>>> {
    let mut lot = Vec::new();
    loop {
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(Some(lot).filter(|lot| !lot.is_empty()));
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        lot.push(line);
        // Waiting for more would hold back what is there.
        if lot.len() >= LOT_LINES_MAX || !input.buffer().contains(&b'\n') {
            return Ok(Some(lot));
        }
    }
}

const BUFFER_BYTES: usize = 256 << 10;
const LOT_LINES_MAX: usize = 1_000;
const LOTS_WAITING_MAX: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_at_hand_comes_together_and_a_last_line_needs_no_end() {
        let mut input = BufReader::new(&b"one\n\ntwo\nthree"[..]);
        let lot = next_lot(&mut input).unwrap().unwrap();
        assert_eq!(lot, [&b"one"[..], b"", b"two"]);
        assert_eq!(next_lot(&mut input).unwrap().unwrap(), [b"three"]);
        assert!(next_lot(&mut input).unwrap().is_none());
    }
}
