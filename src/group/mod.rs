//! Group membership: the machine of the classic protocol and what belongs to it (runtime.md 5).
//!
//! [`ClassicMember`] decides; its host, one per group, acts. The host
//!
//! * sends every [`Output::Send`] by the connection it names, and returns exactly one
//!   [`Input::Answer`] for it: the response, or [`NoAnswer`] at the latest when its timeout is
//!   over. While the member's JoinGroup or SyncGroup is out, nothing else goes out on the
//!   coordinator connection;
//! * keeps the coordinator connection where [`Output::Coordinator`] says, and tells the committer
//!   and the resolver;
//! * hands every [`Output::Standing`] to the committer and the resolver before anything else;
//! * carries out one [`Output::Step`] after the other and reports [`Input::StepDone`]. A partition
//!   of an [`Step::Assign`] starts only after its former actor and attempts ended. A [`Step::Lost`]
//!   may come while another step runs; it ends that step, which is then not reported (a late report
//!   does no harm). At the `until` of a [`Step::Revoke`] the fences still alive die: the member has
//!   gone on;
//! * runs [`Lead::solve`] of an [`Output::Lead`] on the compute pool and returns [`Input::Led`];
//! * makes the topics of [`Output::WantTopics`] known to the metadata machine, and gives
//!   [`Input::MetadataChanged`] whenever a new snapshot is published;
//! * holds handler starts while [`Output::Starts`] says `false`;
//! * passes refusals and lost coordinators that the committer and the resolver report as
//!   [`Input::Refused`] and [`Input::CoordinatorMoved`];
//! * stops for good after [`Output::Fatal`] or [`Output::Left`].
//!
//! [`protocol`] reads and writes the bytes members exchange.

mod answer;
mod classic;
mod finder;
mod input;
mod join;
mod lead;
pub mod protocol;
mod queue;
mod session;
mod settings;
mod standing;
mod verdict;
mod view;

pub use answer::NoAnswer;
pub use classic::ClassicMember;
pub use input::{Cause, Event, Input, Output, To, Token};
pub use lead::{Lead, Led};
pub use queue::{Assigned, Step, StepId};
pub use settings::Settings;
pub use standing::{Identity, Standing};
pub use view::TopicView;
