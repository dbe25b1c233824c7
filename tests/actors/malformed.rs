//! Brokers whose answers cannot be decoded.

use std::time::Duration;

use nearside::embedded::{Api, Effect, Rule};
use nearside::fleet::{Event, FleetHandle};
use nearside::ids::BrokerId;

use crate::stage::{Seen, Stage, pass, run, start, until};

/// The classes whose connection to `broker` was closed for want of trust.
fn distrusted(fleet: &FleetHandle, broker: i32) -> Vec<String> {
    let events = fleet.recent_events().into_iter();
    let links = events.filter_map(|one| match &one.event {
        Event::BrokerLink {
            broker: of,
            class,
            reason,
            ..
        } if reason.contains("3 malformed answers") => {
            assert_eq!(*of, BrokerId(broker));
            Some(class.clone())
        }
        _ => None,
    });
    links.collect()
}

/// wire.md 7 D9
#[test]
fn malformed_answers_of_a_node_count_together_over_lanes_and_the_coordinators_connection() {
    for (rest, trusted) in [
        (Duration::from_secs(1), false),
        (Duration::from_secs(61), true),
    ] {
        run(async move {
            let stage = Stage::new();
            stage.topic("orders", 1);
            let node = stage.coordinator("g");
            let near = ["a", "b", "c"][usize::try_from(node - 1).expect("a rack each")];
            let seen = Seen::default();
            let fleet = start(stage.fleet("g", near, seen.noting("orders"))).await;
            stage.produce("orders", 0, 10);
            until("the first records are seen", || seen.len() == 10).await;

            let garble = |api, times| {
                let rule = Rule::new(Effect::Garble).on(api).at(node).times(times);
                stage.cluster().with(|cluster| cluster.inject(rule));
            };
            garble(Api::Fetch, 1);
            stage.produce("orders", 0, 10);
            until("records are fetched again", || seen.len() == 20).await;
            pass(rest).await;
            assert!(distrusted(&fleet, node).is_empty());
            garble(Api::Heartbeat, 2);
            pass(Duration::from_secs(30)).await;
            let expected = if trusted { &[][..] } else { &["coordinator"] };
            assert_eq!(distrusted(&fleet, node), expected, "{rest:?}");

            stage.produce("orders", 0, 10);
            until("all records are seen", || seen.len() == 30).await;
            fleet.stop(Duration::from_secs(20)).await;
        });
    }
}
