//! What a lying peer may make us allocate. A binary of its own, for the allocator is the process's.

use std::alloc::System;

use bytes::{BufMut as _, BytesMut};
use cap::Cap;
use nearside::wire::api::metadata;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// wire.md A6: an allocation above the limit would abort this process.
#[test]
fn a_count_of_two_billion_brokers_allocates_no_more_than_64_kib() {
    let mut body = BytesMut::new();
    body.put_i32(0);
    body.put_slice(&[0xff, 0xff, 0xff, 0xff, 0x07]);
    let body = body.freeze();
    let limit = ALLOCATOR.allocated() + 64 * 1_024;
    ALLOCATOR
        .set_limit(limit)
        .expect("the limit is above what is in use");
    let decoded = metadata::Response::decode(9, &body);
    ALLOCATOR
        .set_limit(usize::MAX)
        .expect("no limit is above everything");
    decoded.expect_err("the count is beyond the bytes");
}
