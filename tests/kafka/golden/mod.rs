//! Captures the golden frames of `tests/golden`: what a real broker answers, per API and version.
//!
//! Not a test: it runs only if `NEARSIDE_WRITE_GOLDEN=1` asks for it.

mod group;
mod socket;
mod topics;

use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use nearside::cli::kafka::{Cluster, Options};
use nearside::wire::{ApiKey, Response, VersionRange, ours};

use crate::lab::{Lab, Outcome};
use socket::Socket;

pub(crate) fn trials(lab: &Arc<Lab>) -> Vec<Trial> {
    if std::env::var_os("NEARSIDE_WRITE_GOLDEN").is_none() {
        return Vec::new();
    }
    vec![lab.trial("capture_golden_frames", capture)]
}

fn capture(cluster: &mut Cluster) -> Outcome {
    let mut recorder = Recorder {
        of: format!("Apache Kafka {}", Options::default().version),
        written: 0,
    };
    topics::capture(cluster, &mut recorder)?;
    group::capture(cluster, &mut recorder)?;
    eprintln!("{} frames written", recorder.written);
    Ok(())
}

/// Writes frames down.
struct Recorder {
    of: String,
    written: usize,
}

impl Recorder {
    /// Asks and keeps the answer as `case`. What secures a connection is never written down.
    fn keep(
        &mut self,
        socket: &mut Socket,
        version: i16,
        case: &str,
        request: &nearside::wire::Request,
    ) -> Result<Response, Failed> {
        let api = request.api();
        assert!(!matches!(
            api,
            ApiKey::SaslHandshake | ApiKey::SaslAuthenticate
        ));
        let frame = socket.ask(version, request)?;
        let folder = format!(
            "{}/tests/golden/{}",
            env!("CARGO_MANIFEST_DIR"),
            folder(api)
        );
        std::fs::create_dir_all(&folder)?;
        let mut text = format!("# {}, {api} v{version}: {case}\n", self.of);
        for line in frame.chunks(32) {
            text.extend(line.iter().map(|byte| format!("{byte:02x}")));
            text.push('\n');
        }
        std::fs::write(format!("{folder}/{version:02}-{case}.hex"), text)?;
        self.written += 1;
        socket.decode(api, version, &frame)
    }

    /// The same at every version that can carry the request and that both sides speak.
    fn keep_all(
        &mut self,
        socket: &mut Socket,
        case: &str,
        request: &nearside::wire::Request,
    ) -> Outcome {
        let content = VersionRange {
            min: request.version_min(),
            max: request.version_max(),
        };
        let versions = ours(request.api()).intersect(content);
        let versions = versions.ok_or("no version carries that")?;
        for version in versions.min..=versions.max {
            self.keep(socket, version, case, request)?;
        }
        Ok(())
    }
}

/// `OffsetForLeaderEpoch` becomes `offset_for_leader_epoch`.
fn folder(api: ApiKey) -> String {
    let mut name = String::new();
    for letter in api.to_string().chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}
