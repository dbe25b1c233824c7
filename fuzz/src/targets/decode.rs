//! Response decoders: an error or a value, and slices that lie inside the input.

use bytes::Bytes;
use nearside::wire::{ApiKey, Response};

use crate::golden;

/// The first byte chooses the version, the rest is the body.
pub(super) fn run(api: ApiKey, data: &[u8]) {
    let versions: Vec<i16> = golden::versions(api).collect();
    let Some((choice, body)) = super::choose(data, versions.len()) else {
        return;
    };
    let body = Bytes::copy_from_slice(body);
    let decoded = Response::decode(api, versions[choice], &body);
    let Ok((Response::Fetch(response), _)) = decoded else {
        return;
    };
    let inside = body.as_ptr_range();
    let mut rows = 0;
    for row in response.rows() {
        rows += 1;
        assert_eq!(row.aborted.iter().count(), row.aborted.len());
        let records = row.records.as_ptr_range();
        assert!(
            row.records.is_empty() || (inside.start <= records.start && records.end <= inside.end)
        );
    }
    assert_eq!(
        rows,
        response.row_count(),
        "a validated row cannot fail later"
    );
}

pub(super) fn seeds(api: ApiKey) -> Vec<Vec<u8>> {
    let mut seeds = super::chosen(api);
    seeds.push(vec![0; 40]);
    seeds
}
