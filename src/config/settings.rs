//! From properties to the settings of each machine.

use super::{ClusterChange, Config, HintEndpoints, Recovery};
use crate::backoff::Backoff;
use crate::cluster;

impl Config {
    /// Settings of the metadata machine.
    pub fn metadata_settings(&self) -> cluster::Settings {
        let metadata = &self.metadata;
        let (hint_endpoints, hint_suffixes) = match &metadata.hint_endpoints {
            HintEndpoints::Accept => (cluster::HintEndpoints::Accept, Vec::new()),
            HintEndpoints::KnownHosts(suffixes) => {
                (cluster::HintEndpoints::KnownHosts, suffixes.clone())
            }
            HintEndpoints::IdsOnly => (cluster::HintEndpoints::IdsOnly, Vec::new()),
        };
        let defaults = cluster::Settings::default();
        cluster::Settings {
            age_max: metadata.age_max,
            debounce: metadata.debounce,
            attempt: metadata.attempt,
            no_progress: Backoff {
                cap: metadata.no_progress_max,
                ..defaults.no_progress
            },
            unconfirmed: metadata.unconfirmed,
            regress: metadata.regress,
            hint_endpoints,
            hint_suffixes,
            hint_distrust: metadata.hint_distrust,
            cluster_change: match metadata.cluster_change {
                ClusterChange::Fail => cluster::ClusterChange::Fail,
                ClusterChange::Follow => cluster::ClusterChange::Follow,
            },
            recovery: match metadata.recovery {
                Recovery::Rebootstrap => cluster::RecoveryStrategy::Rebootstrap,
                Recovery::None => cluster::RecoveryStrategy::None,
            },
            rebootstrap_after: metadata.rebootstrap_after,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_properties_give_default_settings() {
        assert_eq!(
            Config::default().metadata_settings(),
            cluster::Settings::default()
        );
    }
}
