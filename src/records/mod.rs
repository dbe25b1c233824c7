//! Record batches: zero-copy reader, writer and codecs (wire.md 8 and 9).
//!
//! A fetched slice becomes a [`BatchSet`], which walks it once, checks each batch and yields a
//! [`BatchView`] per batch worth delivering: one `Bytes` and a parsed header, cheap to clone and to
//! send. Records are read out of a view with [`BatchView::records`]; keys, values and headers stay
//! slices of the frame until somebody asks for `Bytes`. Nothing is allocated, copied or
//! reference-counted per record. Message sets of versions 0 and 1 are read through the same types.
//!
//! ```
//! use bytes::Bytes;
//! use nearside::ids::Offset;
//! use nearside::records::{BatchSet, BatchWriter, NewRecord, ReadSettings};
//!
//! let mut writer = BatchWriter::default();
//! writer.push(&NewRecord { value: Some(b"seven"), ..NewRecord::default() }).unwrap();
//! let bytes: Bytes = writer.seal().unwrap();
//!
//! let mut set = BatchSet::new(bytes, Offset(0), ReadSettings::default());
//! for view in &mut set {
//!     for record in view.unwrap().records() {
//!         assert_eq!(record.unwrap().value, Some(&b"seven"[..]));
//!     }
//! }
//! assert_eq!(set.position(), Offset(1));
//! ```

mod aborted;
mod codec;
mod error;
mod header;
mod headers;
mod legacy;
mod policy;
mod raw;
mod record;
mod set;
mod varint;
mod view;
mod writer;

pub use aborted::{AbortedTransaction, Marker};
pub use codec::{Charge, Compression, Uncharged};
pub use error::{BatchError, Corruption, InflateError, Place, PoisonReason};
pub use header::{BatchHeader, HEADER_BYTES, TimestampType};
pub use headers::{Header, HeaderError, HeaderIter, Headers};
pub use policy::{BatchDecision, BatchPolicy};
pub use raw::{RawBatch, raw_batch};
pub use record::{Record, RecordCursor, Records};
pub use set::{BatchSet, ReadCounts, ReadSettings};
pub use view::BatchView;
pub(crate) use writer::reseal;
pub use writer::{BatchWriter, NewRecord, Sealer, WriteError};
