//! The faults of a run: drawn one by one, applied, undone, and all healed at once in the end.

use std::time::Duration;

use nearside::embedded::{Api, Effect, Link, MetadataEdit, RowEdit, Rule, RuleId};
use nearside::ids::{BrokerId, Offset, TopicPartition};

use crate::chance::Chance;
use crate::net::Path;
use crate::plan::GROUP;
use crate::world::World;

/// Something scripted.
#[derive(Debug)]
pub(crate) enum Act {
    /// Draw the next fault, and the time of the one after it.
    Next,
    /// End one fault.
    Undo(Undo),
    /// End them all.
    Heal,
}

/// How a fault ends.
#[derive(Debug)]
pub(crate) enum Undo {
    /// The broker lives and answers at its usual pace.
    Broker(BrokerId),
    /// Its followers fetch at their usual pace.
    Pace(BrokerId),
    /// Packets pass between this member and this broker.
    Path(usize, BrokerId),
    /// The follower fetches again.
    Hold(TopicPartition, BrokerId),
    /// The broker no longer does what the rule says.
    Rule(BrokerId, RuleId),
    /// The member starts again.
    Member(usize),
}

/// The kinds of faults, each as often as it is listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Down,
    Freeze,
    Slow,
    Unreachable,
    Cut,
    Flap,
    SlowReplica,
    Move,
    Preferred,
    Reassign,
    StaleMetadata,
    Answers,
    Throttle,
    Rows,
    Corrupt,
    Sessions,
    Connections,
    Death,
    Leave,
    Retention,
    Coordinator,
}

const KINDS: [Kind; 27] = [
    Kind::Down,
    Kind::Down,
    Kind::Freeze,
    Kind::Slow,
    Kind::Unreachable,
    Kind::Cut,
    Kind::Cut,
    Kind::Cut,
    Kind::Cut,
    Kind::Flap,
    Kind::Flap,
    Kind::SlowReplica,
    Kind::Move,
    Kind::Move,
    Kind::Preferred,
    Kind::Reassign,
    Kind::StaleMetadata,
    Kind::Answers,
    Kind::Answers,
    Kind::Throttle,
    Kind::Rows,
    Kind::Corrupt,
    Kind::Sessions,
    Kind::Connections,
    Kind::Death,
    Kind::Leave,
    Kind::Retention,
];

impl World {
    pub(crate) fn act(&mut self, act: Act) {
        match act {
            Act::Next => {
                if !self.healed {
                    self.fault();
                    let mean = u64::try_from(self.plan.fault_pause.as_millis()).unwrap();
                    let pause = self.chance.millis(50..2 * mean);
                    self.schedule(self.now + pause, Act::Next);
                }
            }
            Act::Undo(undo) => self.undo(undo),
            Act::Heal => self.heal(),
        }
    }

    fn fault(&mut self) {
        let mut chance = self.chance.clone();
        let kind = match chance.one_in(28) {
            true => Kind::Coordinator,
            false => chance.pick(&KINDS),
        };
        let broker = chance.pick(&self.plan.broker_ids());
        let partition = chance.pick(&self.plan.topic());
        let time = chance.millis(200..15_000);
        self.chance = chance;
        self.trail
            .tell(format_args!("FAULT {kind:?} {broker} {partition} {time:?}"));
        match kind {
            Kind::Down | Kind::Freeze | Kind::Slow | Kind::Unreachable => {
                self.break_broker(kind, broker, time);
            }
            Kind::Cut => self.cut(broker, time),
            Kind::Flap | Kind::SlowReplica => self.hold(kind, &partition, time),
            Kind::Move | Kind::Preferred | Kind::Reassign => self.lead(kind, &partition),
            Kind::StaleMetadata => self.stale(broker, time),
            Kind::Answers | Kind::Throttle | Kind::Rows | Kind::Corrupt => {
                self.bend(kind, broker, &partition, time);
            }
            Kind::Sessions => self.cluster.evict_sessions(broker),
            Kind::Connections => self.cluster.drop_connections(broker),
            Kind::Death | Kind::Leave => self.lose_member(kind, time),
            Kind::Retention => self.expire(&partition),
            Kind::Coordinator => self.cluster.move_coordinator(GROUP, broker),
        }
    }

    fn break_broker(&mut self, kind: Kind, broker: BrokerId, time: Duration) {
        if !self.troubled.is_empty() {
            return;
        }
        match kind {
            Kind::Down => self.cluster.kill(broker),
            Kind::Freeze => self.cluster.freeze(broker),
            Kind::Slow => {
                let delay = self.chance.millis(50..3_000);
                self.cluster.set_answer_delay(broker, delay);
            }
            _ => {
                let link = self.chance.pick(&[Link::Refused, Link::Silent]);
                self.cluster.set_link(broker, link);
            }
        }
        self.trouble(broker, time, Undo::Broker(broker));
    }

    fn trouble(&mut self, broker: BrokerId, time: Duration, undo: Undo) {
        *self.troubled.entry(broker).or_default() += 1;
        self.schedule(self.now + time, Act::Undo(undo));
    }

    fn cut(&mut self, broker: BrokerId, time: Duration) {
        let living = self.living();
        if living.is_empty() {
            return;
        }
        let index = self.chance.pick(&living);
        let path = match self.chance.within(0..4) {
            0 => Path {
                refused: true,
                ..Path::default()
            },
            1 => Path {
                mute: true,
                deaf: true,
                ..Path::default()
            },
            2 => Path {
                deaf: true,
                ..Path::default()
            },
            _ => Path {
                late: self.chance.millis(20..4_000),
                ..Path::default()
            },
        };
        self.trail.tell(format_args!("  m{index} {path:?}"));
        self.set_path(index, broker, path);
        self.schedule(self.now + time, Act::Undo(Undo::Path(index, broker)));
    }

    fn set_path(&mut self, index: usize, broker: BrokerId, path: Path) {
        let draw = self.chance.draw();
        if let Some(member) = self.members[index].as_mut() {
            member
                .net
                .set_path(broker, path, &mut self.cluster, draw, self.now);
            member.settle(&mut self.cluster, self.now);
        }
    }

    fn hold(&mut self, kind: Kind, partition: &TopicPartition, time: Duration) {
        let Some(view) = self.cluster.partition(partition) else {
            return;
        };
        let followers = view.replicas.iter().map(|replica| replica.broker);
        let followers: Vec<BrokerId> = followers
            .filter(|broker| Some(*broker) != view.leader)
            .collect();
        if followers.is_empty() {
            return;
        }
        let follower = self.chance.pick(&followers);
        if kind == Kind::SlowReplica {
            let delay = self.chance.millis(50..2_000);
            self.cluster.set_replication_delay(follower, delay);
            self.schedule(self.now + time, Act::Undo(Undo::Pace(follower)));
            return;
        }
        self.cluster
            .hold_replica(partition, follower, true)
            .unwrap();
        if self.chance.one_in(2) {
            self.cluster.shrink_isr(partition, follower).unwrap();
        }
        let undo = Undo::Hold(partition.clone(), follower);
        self.schedule(self.now + time, Act::Undo(undo));
    }

    /// Elections and reassignments. What is not possible now does not happen.
    fn lead(&mut self, kind: Kind, partition: &TopicPartition) {
        let Some(view) = self.cluster.partition(partition) else {
            return;
        };
        match kind {
            Kind::Move => {
                let leader = self.chance.pick(&view.isr);
                self.cluster.move_leader(partition, leader).ok();
            }
            Kind::Preferred => {
                self.cluster.elect_preferred(partition).ok();
            }
            _ => {
                let read = self.served_by(partition);
                let stays: Vec<BrokerId> = view
                    .replicas
                    .iter()
                    .map(|replica| replica.broker)
                    .filter(|broker| Some(*broker) != read)
                    .collect();
                // Only a replica that has everything may be what is left of an in-sync set.
                if view.leader.is_some() && stays.iter().any(|one| view.isr.contains(one)) {
                    self.reassign(partition, stays, read);
                }
            }
        }
    }

    fn reassign(
        &mut self,
        partition: &TopicPartition,
        mut replicas: Vec<BrokerId>,
        dropped: Option<BrokerId>,
    ) {
        let others = self.plan.broker_ids();
        let others = others
            .into_iter()
            .filter(|one| !replicas.contains(one) && Some(*one) != dropped);
        let others: Vec<BrokerId> = others
            .filter(|one| !self.troubled.contains_key(one))
            .collect();
        if !others.is_empty() {
            replicas.push(self.chance.pick(&others));
        }
        self.trail
            .tell(format_args!("  {partition} from now on {replicas:?}"));
        self.cluster.reassign(partition, &replicas).unwrap();
    }

    /// One broker keeps telling what is true now.
    fn stale(&mut self, broker: BrokerId, time: Duration) {
        for partition in self.plan.topic() {
            let Some(view) = self.cluster.partition(&partition) else {
                continue;
            };
            let edit = MetadataEdit {
                leader: Some(view.leader),
                epoch: Some(view.epoch),
                isr: Some(view.isr),
                ..Default::default()
            };
            let rule = Rule::metadata(edit).at(broker).of(partition);
            let id = self.cluster.inject(rule);
            self.schedule(self.now + time, Act::Undo(Undo::Rule(BrokerId(0), id)));
        }
    }

    /// Answers of one broker get lost, come late, throttle, refuse or lie broken.
    fn bend(&mut self, kind: Kind, broker: BrokerId, at: &TopicPartition, time: Duration) {
        let times = u32::try_from(self.chance.within(1..6)).unwrap();
        let rule = match kind {
            Kind::Answers => answers(&mut self.chance),
            Kind::Throttle => {
                let until = self.chance.millis(50..2_000);
                Rule::new(Effect::Throttle(until)).on(Api::Fetch)
            }
            Kind::Rows => {
                let code = self.chance.pick(&[3, 5, 6, 9, 56, 75, 78, 100, -1]);
                self.trail
                    .tell(format_args!("  code {code}, {times} times"));
                Rule::error(code).on(Api::Fetch).of(at.clone())
            }
            _ => {
                let broken = RowEdit {
                    corrupt: true,
                    ..Default::default()
                };
                // The leader itself must serve it whole the second time.
                Rule::row(broken).of(at.clone()).times(1)
            }
        };
        let rule = if kind == Kind::Corrupt {
            rule
        } else {
            rule.times(times)
        };
        let id = self.cluster.inject(rule.at(broker));
        self.trouble(broker, time, Undo::Rule(broker, id));
    }

    fn lose_member(&mut self, kind: Kind, time: Duration) {
        let living = self.living();
        if living.len() < 2 {
            return;
        }
        let index = self.chance.pick(&living);
        if kind == Kind::Death {
            self.kill_member(index);
        } else if let Some(member) = self.members[index].as_mut() {
            self.trail.tell(format_args!("{} stops", member.name));
            member.stop(self.now + Duration::from_secs(10));
            member.settle(&mut self.cluster, self.now);
        }
        self.schedule(self.now + time, Act::Undo(Undo::Member(index)));
    }

    /// Retention passes, mostly behind the readers, now and then over them.
    fn expire(&mut self, partition: &TopicPartition) {
        let Some(view) = self.cluster.partition(partition) else {
            return;
        };
        let (low, high) = (view.log_start.0, view.high_watermark.0);
        let length = u64::try_from(high - low).unwrap();
        let to = low + i64::try_from(self.chance.within(0..length + 1)).unwrap();
        self.trail
            .tell(format_args!("  {partition} starts at {to} of {high}"));
        self.cluster.delete_records(partition, Offset(to)).unwrap();
    }

    fn undo(&mut self, undo: Undo) {
        self.trail.tell(format_args!("END {undo:?}"));
        match undo {
            Undo::Broker(broker) => {
                self.mend(broker);
                self.less_trouble(broker);
            }
            Undo::Pace(broker) => self.usual_pace(broker),
            Undo::Path(index, broker) => self.set_path(index, broker, Path::default()),
            Undo::Hold(partition, follower) => {
                // A replica that was moved away meanwhile is held no more.
                self.cluster.hold_replica(&partition, follower, false).ok();
            }
            Undo::Rule(broker, rule) => {
                self.cluster.withdraw(rule);
                self.less_trouble(broker);
            }
            Undo::Member(index) => {
                // One that is still on its way out starts again once it is gone.
                match self.members[index].is_none() {
                    true => self.start_member(index),
                    false => {
                        let later = self.now + Duration::from_secs(1);
                        self.schedule(later, Act::Undo(Undo::Member(index)));
                    }
                }
            }
        }
    }

    fn mend(&mut self, broker: BrokerId) {
        self.cluster.revive(broker);
        self.cluster.set_link(broker, Link::Open);
        self.cluster.set_answer_delay(broker, Duration::ZERO);
    }

    fn usual_pace(&mut self, broker: BrokerId) {
        let pace = Duration::from_millis(1);
        self.cluster.set_replication_delay(broker, pace);
    }

    fn less_trouble(&mut self, broker: BrokerId) {
        if let Some(count) = self.troubled.get_mut(&broker) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.troubled.remove(&broker);
            }
        }
    }

    /// Everything works from now on.
    fn heal(&mut self) {
        self.trail.tell(format_args!("HEALED"));
        self.healed = true;
        self.cluster.clear_faults();
        self.troubled.clear();
        for broker in self.plan.broker_ids() {
            self.mend(broker);
            self.usual_pace(broker);
            for index in 0..self.members.len() {
                self.set_path(index, broker, Path::default());
            }
            for partition in self.plan.topic() {
                self.cluster.hold_replica(&partition, broker, false).ok();
            }
        }
        let members = |act: &Act| matches!(act, Act::Undo(Undo::Member(_)));
        self.script.retain(|_, act| members(act));
        let back: Vec<_> = std::mem::take(&mut self.script).into_values().collect();
        for act in back {
            self.schedule(self.now + Duration::from_millis(1), act);
        }
    }
}

/// What happens to answers of any kind.
fn answers(chance: &mut Chance) -> Rule {
    let effect = match chance.within(0..3) {
        0 => Effect::Swallow,
        1 => Effect::Delay(chance.millis(100..6_000)),
        _ => Effect::Close,
    };
    let api = chance.pick(&[
        Api::Fetch,
        Api::Fetch,
        Api::Metadata,
        Api::ListOffsets,
        Api::OffsetForLeaderEpoch,
        Api::OffsetCommit,
        Api::OffsetFetch,
        Api::Heartbeat,
        Api::JoinGroup,
        Api::SyncGroup,
        Api::FindCoordinator,
        Api::ApiVersions,
    ]);
    Rule::new(effect).on(api)
}
