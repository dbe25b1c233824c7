//! The metadata machine.

use std::collections::VecDeque;
use std::sync::Arc;

use super::input::Input;
use super::output::Output;
use super::settings::Settings;
use super::snapshot::{Endpoint, Snapshot};
use crate::ids::{Draw, Moment};

/// The only writer of the cluster snapshot. Hand it an input, then drain [`poll_output`](Self::poll_output);
/// come back with [`Input::Tick`] when [`next_deadline`](Self::next_deadline) has passed.
#[derive(Debug)]
pub struct Metadata {
    settings: Settings,
    bootstrap: Vec<Endpoint>,
    published: Arc<Snapshot>,
    outputs: VecDeque<Output>,
}

impl Metadata {
    /// A machine that knows the bootstrap addresses and nothing else. It asks nobody before the first
    /// [`Input::Subscribe`].
    pub fn new(settings: Settings, bootstrap: Vec<Endpoint>) -> Self {
        Self {
            settings,
            bootstrap,
            published: Arc::new(Snapshot::default()),
            outputs: VecDeque::new(),
        }
    }

    /// Applies one input that happened at `now`.
    pub fn handle(&mut self, input: Input, draw: Draw, now: Moment) {
        drop((input, draw, now));
    }

    /// The next thing to do for the host, until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to come back with [`Input::Tick`].
    pub fn next_deadline(&self) -> Option<Moment> {
        None
    }

    /// The snapshot as last published.
    pub const fn snapshot(&self) -> &Arc<Snapshot> {
        &self.published
    }

    /// The bootstrap addresses, in the order of [`Target::Bootstrap`](super::Target::Bootstrap).
    pub fn bootstrap(&self) -> &[Endpoint] {
        &self.bootstrap
    }

    /// The settings in use.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }
}
