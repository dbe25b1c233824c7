//! The golden frames of `tests/golden`, as seeds.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use nearside::wire::{ApiKey, Response, ours};

/// The bodies of all golden frames of `api`, each with its version.
pub fn bodies(api: ApiKey) -> Vec<(i16, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/golden")
        .join(name(api));
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort();
    files.iter().filter_map(|file| body(api, file)).collect()
}

/// The record sets of all golden Fetch frames, each once: written by nearside and by other clients,
/// kept by brokers.
pub fn record_sets() -> Vec<Bytes> {
    let mut sets = Vec::new();
    for (version, body) in bodies(ApiKey::Fetch) {
        let decoded = Response::decode(ApiKey::Fetch, version, &body.into());
        if let Ok((Response::Fetch(response), _)) = decoded {
            sets.extend(response.rows().map(|row| row.records));
        }
    }
    sets.retain(|set| !set.is_empty());
    sets.sort();
    sets.dedup();
    sets
}

/// The folder of an API.
pub fn name(api: ApiKey) -> String {
    let mut name = String::new();
    for letter in api.to_string().chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

/// A file is the frame in hexadecimal: length, correlation id, tags where the header has them,
/// body.
fn body(api: ApiKey, file: &Path) -> Option<(i16, Vec<u8>)> {
    let version = file
        .file_stem()?
        .to_str()?
        .split('-')
        .next()?
        .parse()
        .ok()?;
    let text = fs::read_to_string(file).ok()?;
    let digits: Vec<u8> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.bytes().filter(u8::is_ascii_hexdigit))
        .collect();
    let frame: Option<Vec<u8>> = digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    let header = if flexible(api, version) { 9 } else { 8 };
    Some((version, frame?.get(header..)?.to_vec()))
}

/// Whether the answer's header has tags; that of ApiVersions never has.
fn flexible(api: ApiKey, version: i16) -> bool {
    use kafka_protocol::messages::ApiKey as Wire;
    let key = Wire::try_from(api.code()).expect("the library knows our APIs");
    key.response_header_version(version) > 0
}

/// Every version of our table.
pub fn versions(api: ApiKey) -> impl Iterator<Item = i16> {
    ours(api).min..=ours(api).max
}
