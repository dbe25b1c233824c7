//! Reading without any fault: what crosses zones, counted by us and by the brokers.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::time::Duration;

use super::stage::{Stage, TOPIC, say};
use super::{Pace, Plan};
use crate::cli::kafka::{KafkaError, until};
use crate::fleet::{LaneName, Zone};

/// Record bytes of a steady run.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// What the members counted (`nearside_route_fetch_bytes_total`), by broker, zone and lane.
    ours: BTreeMap<(i32, &'static str, &'static str), u64>,
    /// What each broker counted as sent to consumers (`BytesOutPerSec`).
    theirs: BTreeMap<i32, u64>,
    lasted: Duration,
    records: usize,
}

/// Reads for `time` with a member in each rack and counts.
///
/// # Errors
///
/// [`KafkaError`] when the cluster cannot be started or the counts cannot be read.
pub fn steady(time: Duration, out: &mut (dyn Write + Send)) -> Result<Traffic, KafkaError> {
    let plan = Plan {
        pace: Pace::SHORT,
        steps: Vec::new(),
        traces: None,
    };
    let mut stage = Stage::set(&plan, out)?;
    say(stage.out, &format!("reading for {} s", time.as_secs()));
    stage.let_run(time);
    if let Some(writer) = stage.writer.take() {
        writer.finish()?;
    }
    until("the delivery of every record", LAST_LIMIT, || {
        match stage.book.missing() {
            0 => Ok(()),
            missing => Err(format!("{missing} are missing")),
        }
    })?;
    let mut traffic = Traffic {
        theirs: stage.cluster.bytes_out(TOPIC)?,
        lasted: time,
        records: stage.book.acknowledged(),
        ..Traffic::default()
    };
    for row in stage.crew.reports().into_iter().flat_map(|it| it.fetched) {
        let key = (row.broker.0, row.zone.as_str(), row.lane.as_str());
        *traffic.ours.entry(key).or_default() += row.bytes;
    }
    stage.crew.dissolve()?;
    Ok(traffic)
}

impl Traffic {
    /// That all bytes from other zones are probes', and that the brokers counted the same.
    ///
    /// # Errors
    ///
    /// What does not hold, in a line.
    pub fn check(&self) -> Result<(), String> {
        let probe = LaneName::Probe.as_str();
        let foreign = self.sum(|_, zone, lane| zone != Zone::SameZone.as_str() && lane != probe);
        if foreign > 0 {
            return Err(format!(
                "{foreign} record bytes crossed zones outside of probes"
            ));
        }
        for (broker, theirs) in &self.theirs {
            let ours = self.sum(|of, _, _| of == *broker);
            if ours != *theirs {
                return Err(format!(
                    "broker {broker} sent {theirs} bytes, {ours} were counted"
                ));
            }
        }
        Ok(())
    }

    fn sum(&self, wanted: impl Fn(i32, &str, &str) -> bool) -> u64 {
        let hits = self
            .ours
            .iter()
            .filter(|((broker, zone, lane), _)| wanted(*broker, zone, lane));
        hits.map(|(_, bytes)| bytes).sum()
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (same, probe) = (Zone::SameZone.as_str(), LaneName::Probe.as_str());
        writeln!(
            f,
            "{} records in {} s, three members in three racks\n\n\
             | broker | same zone | other zones, probes | other zones, else | broker's count |\n\
             |---|---|---|---|---|",
            self.records,
            self.lasted.as_secs()
        )?;
        for (broker, theirs) in &self.theirs {
            let near = self.sum(|of, zone, _| of == *broker && zone == same);
            let probes = self.sum(|of, zone, lane| of == *broker && zone != same && lane == probe);
            let far = self.sum(|of, zone, lane| of == *broker && zone != same && lane != probe);
            writeln!(f, "| {broker} | {near} | {probes} | {far} | {theirs} |")?;
        }
        Ok(())
    }
}

const LAST_LIMIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(ours: &[(i32, Zone, LaneName, u64)], theirs: &[(i32, u64)]) -> Traffic {
        let row = |(broker, zone, lane, bytes): &(i32, Zone, LaneName, u64)| {
            ((*broker, zone.as_str(), lane.as_str()), *bytes)
        };
        Traffic {
            ours: ours.iter().map(row).collect(),
            theirs: theirs.iter().copied().collect(),
            ..Traffic::default()
        }
    }

    #[test]
    fn probes_may_cross_zones_and_nothing_else() {
        let near = (1, Zone::SameZone, LaneName::Rack, 70);
        let probe = (2, Zone::CrossZone, LaneName::Probe, 5);
        let stray = (2, Zone::CrossZone, LaneName::NoRack, 9);
        assert_eq!(traffic(&[near, probe], &[(1, 70), (2, 5)]).check(), Ok(()));
        assert!(traffic(&[near, stray], &[(1, 70), (2, 9)]).check().is_err());
    }

    #[test]
    fn brokers_must_have_counted_the_same() {
        let near = (1, Zone::SameZone, LaneName::Rack, 70);
        assert!(traffic(&[near], &[(1, 71)]).check().is_err());
    }
}
