//! The cluster all tests share, and what becomes of them without one.

use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Failed, Trial};
use nearside::cli::kafka::{Cluster, Options, availability};

/// What a test answers.
pub(crate) type Outcome = Result<(), Failed>;

/// Starts the cluster when the first test needs it.
pub(crate) struct Lab {
    cluster: Mutex<Option<Cluster>>,
    missing: Option<String>,
}

impl Lab {
    /// Looks whether Kafka can run here, and says so if not.
    pub(crate) fn new() -> Self {
        let missing = availability(&Options::default().version)
            .err()
            .map(|error| error.to_string());
        if let Some(reason) = &missing {
            eprintln!("tests on a real Kafka are not run: {reason}");
        }
        Self {
            cluster: Mutex::new(None),
            missing,
        }
    }

    /// A test by the name of its function.
    pub(crate) fn trial(self: &Arc<Self>, name: &str, body: fn(&mut Cluster) -> Outcome) -> Trial {
        let lab = Arc::clone(self);
        self.gated(Trial::test(name, move || lab.run(body)))
    }

    /// The same for a test that starts a cluster of its own; the shared one is ended first.
    pub(crate) fn trial_alone(self: &Arc<Self>, name: &str, body: fn() -> Outcome) -> Trial {
        let lab = Arc::clone(self);
        self.gated(Trial::test(name, move || {
            lab.close();
            lab.available().and_then(|()| body())
        }))
    }

    fn gated(&self, trial: Trial) -> Trial {
        let required = std::env::var("NEARSIDE_REQUIRE_KAFKA").is_ok_and(|value| value == "1");
        let ignored = self.missing.is_some() && !required;
        trial.with_kind("kafka").with_ignored_flag(ignored)
    }

    /// Ends the cluster; the process may exit without running destructors of its own.
    pub(crate) fn close(&self) {
        drop(
            self.cluster
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }

    fn available(&self) -> Outcome {
        match &self.missing {
            Some(reason) => Err(format!("a real Kafka is required: {reason}").into()),
            None => Ok(()),
        }
    }

    fn run(&self, body: fn(&mut Cluster) -> Outcome) -> Outcome {
        self.available()?;
        // A test that panicked poisons the lock and may leave faults behind: heal undoes them.
        let mut slot = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = match slot.take() {
            Some(mut cluster) => {
                cluster.heal(&[])?;
                cluster
            }
            None => Cluster::start(&Options {
                clients: 2,
                ..Options::default()
            })?,
        };
        body(slot.insert(cluster))
    }
}

/// The functions of a module as trials, each named after itself.
macro_rules! trials {
    ($lab:expr; $($name:ident),+ $(,)?) => {
        vec![$($lab.trial(stringify!($name), $name)),+]
    };
}
pub(crate) use trials;
