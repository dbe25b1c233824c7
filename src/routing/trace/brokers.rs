//! Lists of brokers, as plain arrays.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ids::BrokerId;

pub(in crate::routing) fn serialize<S: Serializer>(
    brokers: &Arc<[BrokerId]>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    brokers.as_ref().serialize(serializer)
}

pub(in crate::routing) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Arc<[BrokerId]>, D::Error> {
    Vec::deserialize(deserializer).map(Arc::from)
}
