//! Typed configuration under Kafka's property names, checked before any socket opens.
