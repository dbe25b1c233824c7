//! The cluster, the members and their producer, moved from deadline to deadline.

use std::collections::BTreeMap;
use std::time::Duration;

use nearside::embedded::{Cluster, Record};
use nearside::ids::{BrokerId, Moment, TopicPartition};

use crate::chance::Chance;
use crate::faults::Act;
use crate::judge::{Judge, Report};
use crate::member::{Diary, Member};
use crate::plan::{Plan, TOPIC};
use crate::trail::Trail;

/// One run.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) now: Moment,
    pub(crate) cluster: Cluster,
    /// By index of the plan; `None` while that one is dead.
    pub(crate) members: Vec<Option<Member>>,
    pub(crate) chance: Chance,
    pub(crate) trail: Trail,
    pub(crate) script: BTreeMap<(Moment, u64), Act>,
    /// Faults under way per broker: while there is one it counts as out of reach.
    pub(crate) troubled: BTreeMap<BrokerId, u32>,
    pub(crate) judge: Judge,
    pub(crate) healed: bool,
    acts: u64,
    lives: u32,
    diary: Diary,
    next_round: Moment,
    next_look: Moment,
    steps_now: u32,
}

impl World {
    pub(crate) fn new(seed: u64, trail: Trail) -> Self {
        let plan = Plan::new(seed);
        let mut cluster = Cluster::new(plan.cluster());
        let replicas = placement(&plan);
        cluster.create_topic_on(TOPIC, &replicas).unwrap();
        trail.tell(format_args!("{plan:?}"));
        let mut world = Self {
            now: Moment::ZERO,
            cluster,
            members: plan.members.iter().map(|_| None).collect(),
            chance: Chance::new(seed, 2),
            trail,
            script: BTreeMap::new(),
            troubled: BTreeMap::new(),
            judge: Judge::new(&plan),
            healed: false,
            acts: 0,
            lives: 0,
            diary: Diary::default(),
            next_round: Moment::ZERO,
            next_look: Moment::ZERO,
            steps_now: 0,
            plan,
        };
        for index in 0..world.members.len() {
            world.start_member(index);
        }
        world.schedule(world.plan.heal_at, Act::Heal);
        world.schedule(world.plan.faults_from, Act::Next);
        world
    }

    /// Runs to the end. Panics at the first thing that must not happen.
    pub(crate) fn run(mut self) -> Report {
        while self.now < self.plan.end {
            self.step();
        }
        self.look();
        self.judge.finish(&self.cluster, self.now)
    }

    pub(crate) fn schedule(&mut self, at: Moment, act: Act) {
        self.acts += 1;
        self.script.insert((at, self.acts), act);
    }

    pub(crate) fn start_member(&mut self, index: usize) {
        self.lives += 1;
        let name = format!("m{index}.{}", self.lives);
        let plan = self.plan.member(index, self.lives, self.now);
        self.trail
            .tell(format_args!("{name} starts, rack {:?}", plan.rack));
        let member = Member::new(&plan, name, self.diary.clone(), self.trail.clone());
        self.members[index] = Some(member);
    }

    /// A member is gone from one moment to the next.
    pub(crate) fn kill_member(&mut self, index: usize) {
        let Some(mut member) = self.members[index].take() else {
            return;
        };
        self.trail.tell(format_args!("{} is dead", member.name));
        member.net.die(&mut self.cluster, self.now);
        for partition in member.owned() {
            self.judge.lost(&partition, &self.cluster);
        }
        self.judge.gone(index);
    }

    fn step(&mut self) {
        let next = self.next_moment();
        self.steps_now = if next > self.now {
            0
        } else {
            self.steps_now + 1
        };
        assert!(self.steps_now < 2_000, "time stands still");
        self.now = next;
        self.trail.at(next);
        self.cluster.advance(next);
        while let Some(entry) = self.script.first_entry().filter(|one| one.key().0 <= next) {
            let act = entry.remove();
            self.act(act);
        }
        if self.next_round <= next {
            self.produce();
            self.next_round = next + self.plan.pace;
        }
        self.move_members();
        if self.next_look <= next {
            self.look();
            self.next_look = next + LOOK;
        }
    }

    fn next_moment(&self) -> Moment {
        let members = self.members.iter().flatten();
        let due = members.filter_map(Member::next_deadline);
        let script = self.script.keys().next().map(|(at, _)| *at);
        due.chain(script)
            .chain(self.cluster.next_deadline())
            .chain([self.next_round, self.next_look, self.plan.end])
            .min()
            .unwrap()
            .max(self.now)
    }

    fn move_members(&mut self) {
        loop {
            while let Some(output) = self.cluster.poll_output() {
                let mut members = self.members.iter_mut().flatten();
                // What nobody takes was for a member that is dead.
                members.any(|member| member.take(&output, self.now));
            }
            let mut moved = false;
            for member in self.members.iter_mut().flatten() {
                if member.next_deadline().is_some_and(|due| due <= self.now) {
                    member.tick(&mut self.cluster, self.now);
                    moved = true;
                }
            }
            if !moved {
                break;
            }
            self.steps_now += 1;
            assert!(self.steps_now < 2_000, "no rest: {:#?}", self.dues());
        }
        self.hear();
    }

    /// What every living member is due for, to tell what keeps it busy.
    fn dues(&self) -> Vec<String> {
        let members = self.members.iter().flatten();
        members.map(Member::dues).collect()
    }

    /// What the members did since.
    fn hear(&mut self) {
        for index in 0..self.members.len() {
            let Some(member) = self.members[index].as_mut() else {
                continue;
            };
            for note in std::mem::take(&mut member.notes) {
                self.judge.note(index, &note, &self.cluster, self.now);
            }
            if self.members[index].as_ref().is_some_and(|one| one.left) {
                self.kill_member(index);
            }
        }
        let handled = std::mem::take(&mut *self.diary.lock().unwrap());
        for one in handled {
            self.judge.handled(&one, &self.cluster, self.now);
        }
    }

    /// One round of the producers: a few records to some partitions.
    fn produce(&mut self) {
        if self.now >= self.plan.produce_until {
            return;
        }
        for partition in self.plan.topic() {
            if self.chance.one_in(2) {
                continue;
            }
            let count = self.chance.within(1..4);
            let first = self.judge.next_sequence(&partition);
            let record = |sequence: u64| Record::of(sequence.to_be_bytes().to_vec());
            let records: Vec<Record> = (first..first + count).map(record).collect();
            // Without a leader the producer keeps its records.
            if let Ok(offset) = self.cluster.produce(&partition, &records) {
                self.judge.produced(&partition, offset, count, self.now);
            }
        }
    }

    /// Looks at everything that changes without a message.
    fn look(&mut self) {
        self.judge.look(&self.cluster, self.now);
        for (index, member) in self.members.iter().enumerate() {
            let Some(member) = member else { continue };
            let reachable = |broker: BrokerId| {
                let path = member.net.paths.get(&broker);
                !self.troubled.contains_key(&broker)
                    && path.is_none_or(|path| *path == Default::default())
            };
            let gaps = &mut self.judge.gaps;
            gaps.look((index, member), &self.cluster, reachable, self.now);
        }
    }

    /// Members that live, by index.
    pub(crate) fn living(&self) -> Vec<usize> {
        let members = self.members.iter().enumerate();
        members
            .filter_map(|(index, member)| member.is_some().then_some(index))
            .collect()
    }

    /// Whom a partition's owner reads from.
    pub(crate) fn served_by(&self, partition: &TopicPartition) -> Option<BrokerId> {
        let mut members = self.members.iter().flatten();
        let slot = members.find_map(|member| member.slots.get(partition))?;
        slot.route.served().map(|(broker, _)| broker)
    }
}

/// Replicas of every partition; leaders take turns.
fn placement(plan: &Plan) -> Vec<Vec<BrokerId>> {
    let ids = plan.broker_ids();
    let partitions = 0..usize::try_from(plan.partitions).unwrap();
    let replicas = |skip: usize| {
        let turn = ids.iter().cycle().skip(skip);
        turn.take(plan.replication).copied().collect()
    };
    partitions.map(replicas).collect()
}

/// How often gaps are measured.
pub(crate) const LOOK: Duration = Duration::from_millis(200);
