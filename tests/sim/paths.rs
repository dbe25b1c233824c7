//! Faults between one member and one broker.

use std::time::Duration;

use nearside::embedded::{BrokerSettings, Cluster, Settings};
use nearside::ids::{BrokerId, Draw, Moment};
use nearside::routing::LinkChange;
use nearside::wire::{Class, DrainReason, Input};

use crate::net::{Net, News, Path, Wire};

impl Net {
    /// Changes the path to one broker. What an opened path held up arrives now.
    pub(crate) fn set_path(
        &mut self,
        broker: BrokerId,
        path: Path,
        cluster: &mut Cluster,
        draw: Draw,
        now: Moment,
    ) {
        self.paths.insert(broker, path);
        if path.refused {
            for wire in self.wires_of(broker) {
                self.hang_up(wire, cluster, draw, now);
            }
        }
        for transit in std::mem::take(&mut self.held) {
            if transit.wire().0 == broker {
                self.send(transit, now);
            } else {
                self.held.push(transit);
            }
        }
    }

    /// Ends every connection of a client that died.
    pub(crate) fn die(&mut self, cluster: &mut Cluster, now: Moment) {
        for id in std::mem::take(&mut self.sockets).into_keys() {
            cluster.disconnect(id, now);
        }
    }

    /// Ends a connection for good; the next request makes a new one.
    pub(crate) fn retire(&mut self, wire: Wire, cluster: &mut Cluster, draw: Draw, now: Moment) {
        if self.machines.contains_key(&wire) {
            self.feed(wire, Input::Drain(DrainReason::AddressChanged), draw, now);
            self.run(cluster, draw, now);
            self.hang_up(wire, cluster, draw, now);
            self.run(cluster, draw, now);
            self.machines.remove(&wire);
            self.due.remove(&wire);
        }
    }

    pub(crate) fn wires_of(&self, broker: BrokerId) -> Vec<Wire> {
        let wires = self.machines.keys().copied();
        wires.filter(|(of, _)| *of == broker).collect()
    }
}

/// Everything that happens at `now`.
fn turn(net: &mut Net, cluster: &mut Cluster, now: Moment) {
    cluster.advance(now);
    net.advance(cluster, Draw(1), now);
    while let Some(output) = cluster.poll_output() {
        assert!(net.take(&output, now), "there is no other client");
    }
}

/// What a path held up arrives all at once: the answer that makes a connection ready, and its end.
#[test]
fn a_connection_that_was_ready_for_no_time_still_told_what_its_broker_serves() {
    let broker = BrokerId(1);
    let mut cluster = Cluster::new(Settings::new([BrokerSettings::new(1, "a")]));
    let mut net = Net::new(Duration::from_millis(2));
    let deaf = Path {
        deaf: true,
        ..Path::default()
    };
    net.feed(
        (broker, Class::FetchRack),
        Input::Open,
        Draw(1),
        Moment::ZERO,
    );
    for ms in 0..3 {
        turn(&mut net, &mut cluster, Moment::from_ms(ms));
    }
    net.set_path(broker, deaf, &mut cluster, Draw(1), Moment::from_ms(3));
    for ms in 3..8 {
        turn(&mut net, &mut cluster, Moment::from_ms(ms));
    }
    cluster.drop_connections(broker);
    turn(&mut net, &mut cluster, Moment::from_ms(8));
    let open = Path::default();
    net.set_path(broker, open, &mut cluster, Draw(1), Moment::from_ms(9));
    turn(&mut net, &mut cluster, Moment::from_ms(9));
    let news = std::iter::from_fn(|| net.poll()).filter_map(|news| match news {
        News::Link(news) => Some((news.change?, news.fetch_version.is_some())),
        News::Completed(..) | News::Throttled(..) => None,
    });
    let told = [(LinkChange::Ready, true), (LinkChange::Lost, false)];
    assert_eq!(news.collect::<Vec<_>>(), told);
}
