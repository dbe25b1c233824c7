//! An in-process cluster that speaks the Kafka protocol.
