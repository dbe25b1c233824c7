//! Feeds routes and carries out what they decide, as the partition actor does.

use std::collections::VecDeque;

use nearside::ids::TopicPartition;
use nearside::records::{BatchSet, BatchView, ReadSettings};
use nearside::routing::{self, Delivery, Event, Indexed, Input, Output, broker};

use super::{Member, Note};

impl Member {
    /// Feeds one route until nothing is owed to it.
    pub(super) fn drive(&mut self, partition: &TopicPartition, input: Input) {
        let mut owed = VecDeque::from([input]);
        while let Some(input) = owed.pop_front() {
            let (now, draw) = (self.now, self.draw());
            let Some(slot) = self.slots.get_mut(partition) else {
                return;
            };
            let indexing = matches!(input, Input::Indexed(_));
            let outputs = slot.handle(&input, &self.brokers, draw, now);
            owed.extend(self.follow_position(partition, indexing));
            for output in outputs {
                owed.extend(self.on_route(partition.clone(), output));
            }
        }
        let now = self.now;
        if let Some(slot) = self.slots.get_mut(partition) {
            slot.due = slot.route.next_deadline();
            slot.check(now);
        }
    }

    /// One output. What it owes the route is handed in next.
    fn on_route(&mut self, partition: TopicPartition, output: Output) -> Option<Input> {
        match output {
            Output::Want(_)
            | Output::Withdraw { .. }
            | Output::Drain { .. }
            | Output::Probe { .. }
            | Output::CancelProbe { .. }
            | Output::Hedge { .. }
            | Output::CancelHedge { .. }
            | Output::Dial { .. }
            | Output::DropLane { .. }
            | Output::Cooling { .. } => {
                let asked = broker::Input::of_route(partition, &output);
                if let Some((broker, input)) = asked {
                    self.feed_link(broker, input);
                }
            }
            Output::Refresh(reason) => self.refresh_for_route(partition, reason),
            Output::Resolve { .. } | Output::Validate { .. } | Output::Sample { .. } => {
                self.question(partition, &output);
            }
            Output::Deliver(delivery) => return Some(self.deliver(&partition, &delivery)),
            Output::Event(event) => self.on_route_event(partition, event),
            Output::Truncate { .. } | Output::Count(_) => {}
        }
        None
    }

    fn on_route_event(&mut self, partition: TopicPartition, event: Event) {
        match event {
            Event::RoutingChange(change) => {
                let reason = change.reason.name();
                let place = |end: &routing::Endpoint| {
                    let broker = end.broker.map_or(-1, |id| id.0);
                    format!("{}({broker})", end.state)
                };
                let (from, to) = (place(&change.from), place(&change.to));
                self.tell(format_args!("{partition} {from} -> {to}, {reason}"));
                if let Some(slot) = self.slots.get_mut(&partition) {
                    slot.changed(&change);
                }
                self.notes.push(Note::Rerouted { partition, reason });
            }
            Event::PositionReset { from, to, .. } => {
                self.tell(format_args!("{partition} reset {from} -> {to}"));
                self.notes.push(Note::Reset {
                    partition,
                    from,
                    to,
                });
            }
            Event::Halted(_) | Event::CorruptBatch { .. } => {
                self.tell(format_args!("{partition} {event:?}"));
                self.notes.push(Note::Halted { partition });
            }
            Event::CaughtUp { .. } => {}
            Event::Truncated { .. }
            | Event::Refused { .. }
            | Event::LeaseOverdue(_)
            | Event::LeaderUnreachable(_)
            | Event::Starving(_)
            | Event::TopicGone => {
                self.tell(format_args!("{partition} {event:?}"));
            }
        }
    }

    /// Indexes the records of a row and passes them on.
    fn deliver(&mut self, partition: &TopicPartition, delivery: &Delivery) -> Input {
        let index = index(delivery);
        let (now, epoch) = (
            self.now,
            index.views.last().and_then(BatchView::leader_epoch),
        );
        let Some(slot) = self.slots.get_mut(partition) else {
            return Input::Indexed(index.indexed);
        };
        let generation = delivery.stamp.position;
        for view in &index.views {
            for record in view.records() {
                let offset = record.unwrap().offset;
                if offset >= delivery.stamp.offset {
                    slot.delivered(generation, offset);
                    slot.fed_at = now;
                }
            }
        }
        if let Some(account) = &mut slot.account {
            for (from, to) in index.gaps {
                account.finish(from, to, epoch);
            }
        }
        let (epoch, draining) = (slot.epoch, slot.draining);
        if !draining && !index.views.is_empty() {
            self.feed_host(nearside::handler::Input::Deliver {
                partition: partition.clone(),
                epoch,
                views: index.views,
            });
        }
        Input::Indexed(index.indexed)
    }
}

/// What one row's records turned out to be.
struct Index {
    views: Vec<BatchView>,
    gaps: Vec<(nearside::ids::Offset, nearside::ids::Offset)>,
    indexed: Indexed,
}

/// Walks the records of a delivery once. They are never compressed here.
fn index(delivery: &Delivery) -> Index {
    let start = delivery.stamp.offset;
    let mut set = BatchSet::new(delivery.records.clone(), start, ReadSettings::default());
    let (mut views, mut gaps, mut broken) = (Vec::new(), Vec::new(), false);
    let mut reached = start;
    for batch in &mut set {
        let Ok(view) = batch else {
            broken = true;
            break;
        };
        if view.base_offset() > reached {
            gaps.push((reached, view.base_offset()));
        }
        reached = view.next_offset();
        views.push(view);
    }
    if set.position() > reached {
        gaps.push((reached, set.position()));
    }
    let indexed = if broken && set.position() == start {
        Indexed::Corrupt
    } else {
        Indexed::Advanced {
            fetch_end: set.position(),
            epoch: views.last().and_then(BatchView::leader_epoch),
        }
    };
    Index {
        views,
        gaps,
        indexed,
    }
}
