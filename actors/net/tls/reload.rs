//! Reads certificates and keys again when their files change (T4).

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::material::Stamp;
use super::{Tls, client};
use crate::actors::spawn;
use crate::error::Error;

/// What became of a change.
#[derive(Clone, Debug)]
pub(crate) enum Reload {
    /// The next handshakes use the new files.
    Taken,
    /// They cannot be used; what was there before stays.
    Refused(Error),
}

impl Tls {
    /// Looks at the files until nobody holds this any more; tells of every change.
    pub(crate) fn watch<F>(self: &Arc<Self>, told: F)
    where
        F: Fn(Reload) + 'static,
    {
        let stamps = self.sources.stamps();
        if !stamps.is_empty() {
            drop(spawn::local(
                "tls files",
                watch(Arc::downgrade(self), stamps, told),
            ));
        }
    }

    /// Reads what changed since `seen`.
    fn reload(&self, seen: &mut Vec<Stamp>) -> Option<Reload> {
        let stamps = self.sources.stamps();
        if stamps == *seen {
            return None;
        }
        *seen = stamps;
        let renewed = self.sources.read().and_then(|material| {
            material.tell_days_left();
            client(material, &self.versions, self.name_check)
        });
        Some(match renewed {
            Ok(renewed) => {
                self.current.store(Arc::new(renewed));
                Reload::Taken
            }
            Err(error) => Reload::Refused(error),
        })
    }
}

async fn watch<F: Fn(Reload)>(tls: Weak<Tls>, mut seen: Vec<Stamp>, told: F) {
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(tls) = tls.upgrade() else { return };
        let look = move || {
            let outcome = tls.reload(&mut seen);
            (seen, outcome)
        };
        let Ok((stamps, outcome)) = tokio::task::spawn_blocking(look).await else {
            return;
        };
        seen = stamps;
        if let Some(outcome) = outcome {
            told(outcome);
        }
    }
}

/// How often files are looked at.
const EVERY: Duration = Duration::from_secs(10);
