//! Faults between one member and one broker.

use nearside::embedded::Cluster;
use nearside::ids::{BrokerId, Draw, Moment};
use nearside::wire::{DrainReason, Input};

use crate::net::{Net, Path, Wire};

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
