//! What is passed over or tolerated in what brokers send, as metrics (wire.md 7 and 8).

use crate::records::ReadCounts;

/// The batches of one row that hold nothing to deliver, and what was odd about its batches.
pub(super) fn of_batches(counts: ReadCounts) {
    let ReadCounts {
        before_position,
        aborted,
        control,
        empty,
        unknown_attributes,
        unknown_markers,
    } = counts;
    passed("before_position", before_position);
    passed("aborted", aborted);
    passed("control", control);
    passed("empty", empty);
    odd("attributes", unknown_attributes);
    odd("marker", unknown_markers);
}

/// Key and value lengths below -1, read as null.
pub(super) fn of_nulls(count: u32) {
    odd("null_length", count);
}

/// Rows of an answer that repeat an earlier one.
pub(super) fn of_repeated_rows(count: u32) {
    odd("repeated_row", count);
}

/// A silence that was asked for, longer than any is kept.
pub(super) fn of_throttle() {
    odd("throttle", 1);
}

fn passed(why: &'static str, batches: u32) {
    if batches > 0 {
        metrics::counter!("nearside_wire_passed_batches_total", "why" => why)
            .increment(batches.into());
    }
}

fn odd(what: &'static str, count: u32) {
    if count > 0 {
        metrics::counter!("nearside_wire_oddities_total", "what" => what).increment(count.into());
    }
}
