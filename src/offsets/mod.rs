//! Positions, the completion ledger, commits and leader-side resolution.
