//! Writes records to the output, a block at a time.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use crate::cli::consume::format::Format;
use crate::cli::consume::json;
use crate::cli::consume::row::Row;
use crate::records::Record;

/// How records look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Layout {
    /// By a format string.
    Format(Format),
    /// One JSON object a line.
    Json,
}

/// Prints records from any thread.
///
/// The records of one batch become one block and one write, which is flushed before the batch
/// counts as done: a lone record shows at once, a backlog costs one system call per batch, and
/// nothing is committed that did not reach the output.
pub(super) struct Printer {
    layout: Layout,
    out: Mutex<Box<dyn Write + Send>>,
}

impl Printer {
    /// A printer onto `out`.
    pub(super) fn new(layout: Layout, out: Box<dyn Write + Send>) -> Self {
        Self {
            layout,
            out: Mutex::new(out),
        }
    }

    /// Writes `records` of one partition.
    ///
    /// # Errors
    /// The output's error. Some of the records may have been written.
    pub(super) fn print<'a>(
        &self,
        topic: &str,
        partition: i32,
        records: impl Iterator<Item = Record<'a>>,
    ) -> io::Result<()> {
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        for record in records {
            let row = Row {
                topic,
                partition,
                record,
            };
            match &self.layout {
                Layout::Format(format) => format.write(&row, &mut block),
                Layout::Json => json::write(&row, &mut block),
            }
        }
        if block.is_empty() {
            return Ok(());
        }
        // A writer that panicked left at worst part of a block behind.
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(&block)?;
        out.flush()
    }
}

impl fmt::Debug for Printer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Printer")
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

const BLOCK_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cli::consume::row::tests::with_row;

    /// Remembers each write.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<Vec<u8>>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_batch_is_one_write() {
        let memory = Memory::default();
        let layout = Layout::Format(Format::parse("%s,").unwrap());
        let printer = Printer::new(layout, Box::new(memory.clone()));
        with_row(|row| {
            printer
                .print("orders", 3, [row.record; 3].into_iter())
                .unwrap()
        });
        with_row(|row| {
            printer
                .print("orders", 3, [row.record; 0].into_iter())
                .unwrap()
        });
        assert_eq!(*memory.0.lock().unwrap(), [b"seven,seven,seven,".to_vec()]);
    }
}
