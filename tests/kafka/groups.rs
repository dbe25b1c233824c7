//! What a group's coordinator knows.

use std::collections::BTreeMap;
use std::time::Duration;

use libtest_mimic::Failed;
use nearside::cli::kafka::{Cluster, until};
use nearside::wire::ErrorCode;
use nearside::wire::api::{find_coordinator, offset_fetch};

use crate::client::{Client, ask};

/// The offsets a group has committed for the partitions of one topic, asked of its coordinator.
pub(crate) fn committed(
    cluster: &Cluster,
    group: &str,
    topic: &str,
) -> Result<BTreeMap<i32, i64>, Failed> {
    let answer = ask!(coordinator(cluster, group)?, OffsetFetch, everything(group));
    let rows = answer
        .partitions
        .into_iter()
        .filter(|row| row.topic.as_str() == topic);
    Ok(rows
        .filter_map(|row| Some((row.partition.0, row.offset?.0)))
        .collect())
}

/// The coordinator of a group, once it serves: a new offsets topic takes a moment to find its
/// leaders.
pub(crate) fn coordinator(cluster: &Cluster, group: &str) -> Result<Client, Failed> {
    let mut any = Client::new(cluster.address(1)?);
    let found = until("a serving coordinator", Duration::from_secs(20), || {
        serving_coordinator(cluster, &mut any, group).map_err(|failed| format!("{failed:?}"))
    });
    Ok(found?)
}

fn serving_coordinator(cluster: &Cluster, any: &mut Client, group: &str) -> Result<Client, Failed> {
    let request = find_coordinator::Request {
        key: group.to_owned(),
        kind: find_coordinator::KeyKind::Group,
    };
    let found = ask!(any, FindCoordinator, request);
    let endpoint = found
        .coordinator
        .ok_or_else(|| format!("{:?}", found.error))?;
    let mut coordinator = Client::new(cluster.address(endpoint.broker.0)?);
    match ask!(coordinator, OffsetFetch, everything(group)).error {
        ErrorCode::NONE => Ok(coordinator),
        error => Err(format!("{error:?}").into()),
    }
}

/// A request for all offsets of a group.
fn everything(group: &str) -> offset_fetch::Request {
    offset_fetch::Request {
        group: group.into(),
        member: None,
        member_epoch: None,
        partitions: None,
        require_stable: true,
    }
}
