//! The link to one broker: who wants what from it, and how that becomes Fetch requests (metadata.md 12).

mod input;
mod output;
mod settings;

pub use input::Input;
pub use output::{Count, Output, Ticket};
pub use settings::Settings;
