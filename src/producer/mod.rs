//! The idempotent producer.
