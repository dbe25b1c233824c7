//! What fleets count about their connections (wire.md 15).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use nearside::embedded::{Api, Effect, Link, Rule, Sasl};
use nearside::ids::BrokerId;
use nearside::secret::Secret;

use crate::stage::{Builder, Seen, Stage, run, start, until_hashed};

/// Sums of everything that is counted, by name and labels; of histograms, the samples.
#[derive(Clone, Default)]
pub(crate) struct Counted(Arc<Mutex<BTreeMap<String, f64>>>);

impl Counted {
    /// The sum of all series whose name and labels hold these texts.
    pub(crate) fn sum(&self, texts: &[&str]) -> f64 {
        let sums = self.0.lock().expect("no panic while counting");
        let fits = |name: &str| texts.iter().all(|text| name.contains(text));
        let found = sums.iter().filter(|(name, _)| fits(name));
        found.map(|(_, sum)| *sum).sum()
    }

    fn series(&self, key: &Key) -> Arc<Series> {
        let labels = key
            .labels()
            .map(|one| format!("{}={}", one.key(), one.value()));
        let name = format!("{} {}", key.name(), labels.collect::<Vec<_>>().join(" "));
        let sums = self.clone();
        Arc::new(Series { name, sums })
    }
}

struct Series {
    name: String,
    sums: Counted,
}

impl Series {
    fn add(&self, value: f64) {
        let mut sums = self.sums.0.lock().expect("no panic while counting");
        *sums.entry(self.name.clone()).or_default() += value;
    }
}

impl CounterFn for Series {
    fn increment(&self, value: u64) {
        self.add(f64::from(u32::try_from(value).expect("small")));
    }

    fn absolute(&self, _: u64) {}
}

impl GaugeFn for Series {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, _: f64) {}
}

impl HistogramFn for Series {
    fn record(&self, _: f64) {
        self.add(1.0);
    }
}

impl Recorder for Counted {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.series(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.series(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(key))
    }
}

fn as_bob(builder: Builder, password: &str) -> Builder {
    builder
        .property("security.protocol", "SASL_PLAINTEXT")
        .property("sasl.mechanism", "PLAIN")
        .property("sasl.username", "bob")
        .property("sasl.password", password)
        .property("wire.sasl.plain.allow.cleartext", "true")
}

fn guarded() -> Stage {
    let sasl = Sasl {
        session_max: Some(Duration::from_secs(20)),
        ..Sasl::user("bob", Secret::new("correct horse"))
    };
    let stage = Stage::with(|settings| settings.sasl = Some(sasl));
    stage.topic("orders", 1);
    stage.produce("orders", 0, 10);
    stage
}

async fn pass_by(time: Duration) {
    let end = tokio::time::Instant::now() + time;
    until_hashed("time passes", || tokio::time::Instant::now() >= end).await;
}

const CONNECTIONS: &str = "nearside_wire_connections ";

#[test]
fn sessions_silences_and_look_ups_are_counted_and_every_connection_stands_somewhere() {
    let counted = Counted::default();
    let guard = metrics::set_default_local_recorder(&counted);
    let sums = counted.clone();
    run(async move {
        let (stage, seen) = (guarded(), Seen::default());
        let builder = as_bob(
            stage.fleet("g", "b", seen.noting("orders")),
            "correct horse",
        );
        let fleet = start(builder).await;
        until_hashed("all records are done", || seen.len() == 10).await;
        let ready = |class| sums.sum(&[CONNECTIONS, class, "state=ready"]);
        assert!((ready("class=coordinator") - 1.0).abs() < 0.1);
        assert!(ready("class=fetch_rack") >= 1.0);
        let set_up = sums.sum(&["nearside_wire_setup_seconds"]);
        assert!(set_up >= ready("class="), "{set_up}");
        assert!(sums.sum(&["nearside_wire_throttle_seconds"]) < 1.0);
        assert!(sums.sum(&["nearside_wire_rebootstraps_total"]) < 1.0);
        pass_by(Duration::from_secs(60)).await;
        let renewed = ["nearside_wire_reauth_total", "outcome=renewed"];
        assert!(sums.sum(&[&renewed[..], &["class=coordinator"]].concat()) >= 3.0);
        assert!(sums.sum(&["nearside_wire_auth_failures_total"]) < 1.0);
        let all = |link| {
            stage
                .cluster()
                .with(|cluster| (1..=3).for_each(|id| cluster.set_link(BrokerId(id), link)));
        };
        all(Link::Refused);
        pass_by(Duration::from_secs(10)).await;
        let gone = [
            "nearside_wire_rebootstraps_total",
            "reason=nothing_reachable",
        ];
        assert!((sums.sum(&gone) - 1.0).abs() < 0.1, "one for the outage");
        all(Link::Open);
        stage.produce("orders", 0, 10);
        until_hashed("new records are done", || seen.len() == 20).await;
        let quiet = Rule::new(Effect::Throttle(Duration::from_secs(2))).on(Api::Metadata);
        stage.cluster().with(|cluster| cluster.inject(quiet));
        let silences = ["nearside_wire_throttle_seconds", "class=control"];
        until_hashed("a silence is counted", || sums.sum(&silences) >= 1.0).await;
        fleet.stop(Duration::from_secs(20)).await;
    });
    drop(guard);
    let left = counted.sum(&[CONNECTIONS]);
    assert!(left.abs() < 0.1, "{:?}", counted.0);
}

#[test]
fn refusals_and_mixed_up_ports_are_counted() {
    for (protocol, metric) in [
        (
            "SASL_PLAINTEXT",
            "nearside_wire_auth_failures_total class=control",
        ),
        ("SASL_SSL", "nearside_wire_port_mixup_total seen=plaintext"),
    ] {
        let counted = Counted::default();
        let guard = metrics::set_default_local_recorder(&counted);
        let sums = counted.clone();
        run(async move {
            let stage = guarded();
            let builder = stage.fleet("g", "b", Seen::default().noting("orders"));
            let builder = as_bob(builder, "wrong").property("security.protocol", protocol);
            let fleet = start(builder).await;
            until_hashed("it is told", || fleet.connection_error().is_some()).await;
            pass_by(Duration::from_secs(1)).await;
            assert!(sums.sum(&[metric]) >= 1.0, "{:?}", sums.0);
            assert!(sums.sum(&[CONNECTIONS, "state=backoff"]) >= 1.0);
            fleet.stop(Duration::from_secs(20)).await;
        });
        drop(guard);
    }
}
