//! Cuts a byte stream into frames under the cap of the answer awaited (wire.md 4).

use std::collections::VecDeque;
use std::fmt;

use bytes::{Buf, Bytes, BytesMut};

/// Which cap an answer falls under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tier {
    /// Before the connection is ready.
    Setup,
    /// Any API but Fetch.
    Other,
    /// Fetch.
    Fetch,
}

/// Largest frame accepted, in bytes, per tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caps {
    /// Before the connection is ready (`wire.frame.setup.max.bytes`).
    pub setup: usize,
    /// Any API but Fetch (`wire.frame.max.bytes`).
    pub other: usize,
    /// Fetch (`receive.message.max.bytes`).
    pub fetch: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            setup: 256 * 1_024,
            other: 32 * 1_024 * 1_024,
            fetch: 100 * 1_024 * 1_024,
        }
    }
}

impl Caps {
    /// The cap of `tier`.
    pub const fn of(&self, tier: Tier) -> usize {
        match tier {
            Tier::Setup => self.setup,
            Tier::Other => self.other,
            Tier::Fetch => self.fetch,
        }
    }
}

/// Another protocol, recognised by its first bytes (wire.md 12.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortMixup {
    /// A TLS record answered a plaintext request.
    Tls,
    /// An HTTP response answered a Kafka request.
    Http,
    /// The listener hung up right after the first request.
    HangUp,
    /// The TLS handshake was not answered in TLS.
    Plaintext,
}

impl fmt::Display for PortMixup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls => "broker speaks TLS on this port",
            Self::Http => "this is an HTTP port",
            Self::HangUp => "listener may require SASL or TLS",
            Self::Plaintext => {
                "listener does not speak TLS; try `security.protocol` PLAINTEXT or SASL_PLAINTEXT"
            }
        })
    }
}

/// Why a stream cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// The peer speaks another protocol.
    Mixup(PortMixup),
    /// A length below the four bytes of a correlation id, perhaps negative.
    TooShort(i32),
    /// A length above the cap of its tier.
    TooLong {
        /// The length claimed, in bytes.
        length: usize,
        /// The cap, in bytes.
        cap: usize,
    },
    /// A frame although no request waits for an answer.
    Unasked,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mixup(mixup) => mixup.fmt(f),
            Self::TooShort(length) => write!(f, "frame length {length} is too short"),
            Self::TooLong { length, cap } => {
                write!(f, "frame length {length} is above the cap of {cap} bytes")
            }
            Self::Unasked => f.write_str("frame although no request waits"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Collects bytes of one socket and cuts them into frames.
///
/// Push the tier of every answer before its request is written; append bytes to
/// [`buffer`](Self::buffer); call [`next_frame`](Self::next_frame) until it answers `None`. A frame
/// is a slice of what was received: nothing is copied. After an error the deframer answers the same
/// error for ever.
#[derive(Debug)]
pub struct Deframer {
    buffer: BytesMut,
    caps: Caps,
    tiers: VecDeque<Tier>,
    sniffed: bool,
    failed: Option<FrameError>,
    /// Length of the largest frame that really came of late: what the peer paid for may be reserved
    /// again.
    proven: usize,
    /// Frames in a row that were far smaller.
    small: usize,
    /// What earlier large frames lay in, to be used again once their records are gone.
    spares: VecDeque<BytesMut>,
}

/// First reservation, and the step by which reading grows the buffer at least.
const READ_STEP: usize = 64 * 1_024;
/// Room below which the buffer grows before the next read.
const WORTH_A_READ: usize = 4 * 1_024;
/// Large buffers kept besides the one in use.
const SPARES_MAX: usize = 2;
/// Frames below a quarter of the largest after which no large one is expected any more.
const SMALL_MAX: usize = 8;
/// Bytes of the length in front of a frame.
const LENGTH: usize = 4;

impl Deframer {
    /// A deframer for a new plaintext stream, or for what a TLS layer hands up.
    pub fn new(caps: Caps) -> Self {
        Self {
            buffer: BytesMut::new(),
            caps,
            tiers: VecDeque::new(),
            sniffed: false,
            failed: None,
            proven: 0,
            small: 0,
            spares: VecDeque::new(),
        }
    }

    /// Says that one more answer is awaited, and its tier. Answers come in request order (F3).
    pub fn expect(&mut self, tier: Tier) {
        self.tiers.push_back(tier);
    }

    /// The buffer to read into, with room worth a read.
    ///
    /// It grows with what has arrived, never with what a length claims: 64 KiB at first, then
    /// doubling, or at once to the size of a frame that this peer has sent before (F2).
    pub fn buffer(&mut self) -> &mut BytesMut {
        if self.buffer.is_empty() {
            self.begin();
        }
        let missing = self.missing();
        let spare = self.buffer.capacity() - self.buffer.len();
        if spare < missing.min(WORTH_A_READ) {
            let paid_for = self.buffer.len().max(self.proven).max(READ_STEP);
            self.buffer.reserve(missing.clamp(READ_STEP, paid_for));
        }
        &mut self.buffer
    }

    /// Bytes held and not yet cut off.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// The next whole frame without its length, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// If the stream cannot go on; the connection must be closed.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let cut = self.cut();
        self.failed = cut.as_ref().err().copied();
        cut
    }

    fn cut(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some(length) = self.claimed() else {
            return Ok(None);
        };
        if !self.sniffed {
            sniff(&self.buffer)?;
            self.sniffed = true;
        }
        let length = self.checked(length)?;
        if self.buffer.len() < LENGTH + length {
            return Ok(None);
        }
        self.tiers.pop_front();
        self.learn(length);
        self.buffer.advance(LENGTH);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    /// Lets a large frame begin where it fits whole, so that it is never moved: in the memory of an
    /// earlier one if its records are gone, for fresh memory costs more than reading into it.
    fn begin(&mut self) {
        if self.proven <= READ_STEP {
            if self.buffer.capacity() > 4 * READ_STEP {
                self.buffer = BytesMut::new();
            }
            return;
        }
        let wanted = LENGTH + self.proven;
        if self.buffer.capacity() >= wanted || self.buffer.try_reclaim(wanted) {
            return;
        }
        let free = self
            .spares
            .iter_mut()
            .position(|spare| spare.try_reclaim(wanted));
        let next = free.and_then(|at| self.spares.remove(at));
        let next = next.unwrap_or_else(|| BytesMut::with_capacity(wanted));
        self.spares
            .push_back(std::mem::replace(&mut self.buffer, next));
        if self.spares.len() > SPARES_MAX {
            self.spares.pop_front();
        }
    }

    /// Remembers how large frames are. After a run of small ones the memory for large ones is given
    /// back.
    fn learn(&mut self, length: usize) {
        self.small = if length < self.proven / 4 {
            self.small + 1
        } else {
            0
        };
        self.proven = self.proven.max(length);
        if self.small > SMALL_MAX {
            (self.proven, self.small) = (length, 0);
            self.spares.clear();
        }
    }

    /// The length in front of the buffer, once its four bytes are there.
    fn claimed(&self) -> Option<i32> {
        self.buffer
            .first_chunk::<LENGTH>()
            .map(|bytes| i32::from_be_bytes(*bytes))
    }

    fn checked(&self, length: i32) -> Result<usize, FrameError> {
        let tier = self.tiers.front().ok_or(FrameError::Unasked)?;
        let cap = self.caps.of(*tier);
        match usize::try_from(length) {
            Ok(length) if length > cap => Err(FrameError::TooLong { length, cap }),
            Ok(length) if length >= LENGTH => Ok(length),
            Ok(_) | Err(_) => Err(FrameError::TooShort(length)),
        }
    }

    /// Bytes still missing from the frame in progress.
    fn missing(&self) -> usize {
        match self.claimed().map(|length| self.checked(length)) {
            Some(Ok(length)) => (LENGTH + length).saturating_sub(self.buffer.len()),
            Some(Err(_)) | None => READ_STEP,
        }
    }
}

/// Looks for another protocol in the first four bytes of a stream.
fn sniff(bytes: &[u8]) -> Result<(), FrameError> {
    match bytes {
        [0x15 | 0x16, 0x03, 0x00..=0x04, ..] => Err(FrameError::Mixup(PortMixup::Tls)),
        [b'H', b'T', b'T', b'P', ..] => Err(FrameError::Mixup(PortMixup::Http)),
        [..] => Ok(()),
    }
}
