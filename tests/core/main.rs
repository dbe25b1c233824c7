//! Scenarios of the pure machines, in virtual time.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what is missing fails the test"
)]

mod assign_properties;
mod assign_range;
mod config_keys;
mod config_lint;
mod group_membership;
mod group_rig;
mod group_stopping;
mod handler;
mod metadata_hints;
mod metadata_merge;
mod metadata_refresh;
mod metadata_rig;
mod offsets_commit;
mod offsets_ledger;
mod offsets_resolve;
mod offsets_truncation;
mod producer;
mod rig;
mod routing_adopt;
mod routing_breaker;
mod routing_cooldown;
mod routing_diagnostics;
mod routing_fault;
mod routing_gate;
mod routing_inert;
mod routing_isr;
mod routing_leader;
mod routing_lease;
mod routing_loops;
mod routing_range;
mod routing_refuge;
mod routing_watchdog;
