//! Reads certificates and keys again when their files change (T4).

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::material::Stamp;
use super::{Tls, client};
use crate::actors::net::reading::PATIENCE;
use crate::actors::spawn;
use crate::error::{Error, ErrorKind};

/// What became of a change.
#[derive(Clone, Debug)]
pub(crate) enum Reload {
    /// The next handshakes use the new files.
    Taken,
    /// They cannot be used; what was there before stays.
    Refused(Error),
}

/// What the files are by now, and what became of that.
pub(super) type Looked = (Vec<Stamp>, Option<Reload>);

impl Tls {
    /// Looks at the files until nobody holds this any more; tells of every change.
    pub(crate) fn watch<F>(self: &Arc<Self>, told: F)
    where
        F: Fn(Reload) + 'static,
    {
        if !self.first.is_empty() {
            drop(spawn::local("tls files", watch(Arc::downgrade(self), told)));
        }
    }

    /// Reads what changed since `seen`.
    fn look(&self, seen: &[Stamp]) -> Looked {
        let stamps = self.sources.stamps();
        let outcome = (stamps != *seen).then(|| self.reload());
        (stamps, outcome)
    }

    fn reload(&self) -> Reload {
        let renewed = self.sources.read().and_then(|material| {
            material.tell_days_left();
            client(&material, &self.versions, self.name_check)
        });
        match renewed {
            Ok(renewed) => {
                self.current.store(Arc::new(renewed));
                Reload::Taken
            }
            Err(error) => Reload::Refused(error),
        }
    }
}

async fn watch<F: Fn(Reload)>(tls: Weak<Tls>, told: F) {
    let Some(mut seen) = tls.upgrade().map(|tls| tls.first.clone()) else {
        return;
    };
    let mut late = false;
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(tls) = tls.upgrade() else { return };
        let (reader, known) = (tls.reader.clone(), seen.clone());
        let outcome = match reader.read(move || tls.look(&known)).await {
            Some((stamps, outcome)) => {
                late = false;
                seen = stamps;
                outcome
            }
            None if late => None,
            None => {
                // What is read once the file can be read again is news, whatever it is.
                (late, seen) = (true, Vec::new());
                Some(Reload::Refused(too_late()))
            }
        };
        if let Some(outcome) = outcome {
            told(outcome);
        }
    }
}

/// What is said of files that hang.
pub(super) fn too_late() -> Error {
    let text = format!("the files of `ssl.*` cannot be read within {PATIENCE:?}");
    Error::new(ErrorKind::Config, text)
}

/// How often files are looked at.
const EVERY: Duration = Duration::from_secs(10);
