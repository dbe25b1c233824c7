//! The cluster, the members and the writer of a run, and what every step needs of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use super::book::Book;
use super::crew::{Crew, Log, Reading, Seat};
use super::step::{Promise, Step};
use super::writer::{Load, Writer};
use super::{Pace, Plan};
use crate::cli::kafka::{Cluster, KafkaError, Options, PartitionView, until};
use crate::ids::Moment;

/// Five brokers in three racks.
pub(super) const RACKS: [&str; 5] = ["a", "b", "c", "a", "b"];
/// A member for each rack.
pub(super) const MEMBERS: [&str; 3] = ["a", "b", "c"];
pub(super) const TOPIC: &str = "chaos";
pub(super) const GROUP: &str = "chaos-readers";

/// Everything that plays a part.
pub(super) struct Stage<'a> {
    // Dropped in this order: who talks to the cluster goes before it.
    pub(super) writer: Option<Writer>,
    pub(super) crew: Crew,
    pub(super) cluster: Cluster,
    pub(super) book: Arc<Book>,
    pub(super) log: Log,
    pub(super) pace: Pace,
    pub(super) steps: Vec<Step>,
    pub(super) out: &'a mut (dyn Write + Send),
}

/// The partitions at one moment: how they are read, and where they live.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub(super) readings: BTreeMap<i32, Reading>,
    pub(super) views: BTreeMap<i32, PartitionView>,
}

impl<'a> Stage<'a> {
    /// Starts everything and waits until every partition is read in its reader's rack.
    pub(super) fn set(plan: &Plan, out: &'a mut (dyn Write + Send)) -> Result<Self, KafkaError> {
        let pace = plan.pace;
        say(out, "starting five brokers in three racks");
        let cluster = Cluster::start(&Options {
            racks: RACKS.map(str::to_owned).to_vec(),
            clients: MEMBERS.len(),
            heap_mib: 384,
            ..Options::default()
        })?;
        cluster.create_topic(TOPIC, pace.partitions)?;
        let book = Arc::new(Book::new(pace.partitions));
        let log = Log::default();
        let mut crew = Crew::empty()?;
        for (client, rack) in MEMBERS.into_iter().enumerate() {
            let bootstrap = cluster.proxied_bootstrap(client)?;
            let seat = Seat {
                rack,
                bootstrap: &bootstrap,
                group: GROUP,
                session: pace.session,
                traces: plan.traces.as_deref(),
            };
            crew.join(seat, TOPIC, &book, &log)?;
        }
        let load = Load {
            bootstrap: cluster.bootstrap(),
            topic: TOPIC.to_owned(),
            partitions: i32::try_from(pace.partitions).unwrap_or(i32::MAX),
            every: pace.every,
        };
        let stage = Self {
            writer: Some(Writer::start(load, Arc::clone(&book))),
            crew,
            cluster,
            book,
            log,
            pace,
            steps: Vec::new(),
            out,
        };
        until(
            "every partition read in its reader's rack",
            START_LIMIT,
            || stage.at_home(),
        )?;
        // Brokers that have just started compile themselves before they are quick.
        stage.let_run(WARM_UP);
        Ok(stage)
    }

    /// Begins a step: the fault happens now.
    pub(super) fn begin(&mut self, name: impl Into<String>) -> Step {
        let step = Step::new(name, self.book.now());
        say(self.out, &step.name);
        step
    }

    /// Waits until the cluster and the members are as before the step, and notes how long that
    /// took. Members that do not find back in time are no failure here: the report says so.
    pub(super) fn finish(&mut self, mut step: Step) -> Result<(), KafkaError> {
        self.cluster
            .wait_partitions(TOPIC, "all replicas in sync", |view| {
                view.isr.len() == view.replicas.len()
            })?;
        let home = until("every partition at home", self.pace.home, || self.at_home());
        step.home = match home {
            Ok(()) => Some(self.book.now().since(step.healed)),
            Err(error) => {
                step.notes.push(error.to_string());
                None
            }
        };
        let caught_up = until("all records delivered", CATCH_UP_LIMIT, || {
            // The writer goes on: what counts is that nothing old is missing.
            match self.book.missing() {
                missing if missing < self.pace.partitions * 10 => Ok(()),
                missing => Err(format!("{missing} records are missing")),
            }
        });
        if let Err(error) = caught_up {
            step.notes.push(error.to_string());
        }
        step.ended = self.book.now();
        self.steps.push(step);
        Ok(())
    }

    /// The partitions at this moment.
    pub(super) fn picture(&self) -> Result<Picture, KafkaError> {
        Ok(Picture {
            readings: self.crew.readings(),
            views: self.cluster.admin()?.partitions(TOPIC)?,
        })
    }

    /// Waits until none of `partitions` is led by `broker`, and tells when each had another leader.
    pub(super) fn elections(
        &self,
        partitions: &BTreeSet<usize>,
        broker: i32,
    ) -> Result<BTreeMap<usize, Moment>, KafkaError> {
        let mut elected = BTreeMap::new();
        until(
            &format!("new leaders in place of {broker}"),
            ELECTION_LIMIT,
            || {
                let views = self
                    .cluster
                    .admin()
                    .and_then(|mut admin| admin.partitions(TOPIC))
                    .map_err(|error| error.to_string())?;
                let now = self.book.now();
                for (partition, view) in indexed(&views) {
                    if partitions.contains(&partition) && view.leader >= 0 && view.leader != broker
                    {
                        elected.entry(partition).or_insert(now);
                    }
                }
                match partitions.len() - elected.len() {
                    0 => Ok(()),
                    left => Err(format!("{left} partitions without")),
                }
            },
        )?;
        Ok(elected)
    }

    /// A promise for partitions that lost their leader: records flow soon after the election.
    pub(super) fn elected_promise(
        &self,
        partitions: BTreeSet<usize>,
        broker: i32,
    ) -> Result<Promise, KafkaError> {
        let since = self.elections(&partitions, broker)?;
        Ok(Promise {
            what: "led by it, after the election",
            partitions,
            since,
            within: LEADER_LIMIT,
            under_new_leader: true,
        })
    }

    /// Lets the run go on for a while.
    pub(super) fn let_run(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn at_home(&self) -> Result<(), String> {
        let racks = self.cluster.racks();
        let readings = self.crew.readings();
        let mut away = Vec::new();
        for (partition, reading) in &readings {
            let rack = reading.broker.and_then(|broker| racks.get(&broker));
            if rack.copied() != Some(self.crew.rack(reading.member)) {
                let broker = reading.broker.map_or(-1, |broker| broker);
                let why = reading.why.unwrap_or("unknown");
                away.push(format!("{partition} {} {broker} ({why})", reading.state));
            }
        }
        if readings.len() == self.pace.partitions && away.is_empty() {
            return Ok(());
        }
        let owned = readings.len();
        Err(format!("{owned} owned, away: {}", away.join(", ")))
    }
}

impl Picture {
    /// Partitions that some member reads from `broker` although another one leads them.
    pub(super) fn followed(&self, broker: i32) -> BTreeSet<usize> {
        self.which(|reading, view| reading.broker == Some(broker) && view.leader != broker)
    }

    /// Partitions led by `broker`.
    pub(super) fn led(&self, broker: i32) -> BTreeSet<usize> {
        self.which(|_, view| view.leader == broker)
    }

    /// Partitions that `member` reads from `broker`, which leads them or does not.
    pub(super) fn read_by(&self, member: usize, broker: i32, led: bool) -> BTreeSet<usize> {
        self.which(|reading, view| {
            let here = reading.member == member && reading.broker == Some(broker);
            here && (view.leader == broker) == led
        })
    }

    /// The member and the broker with the most partitions between them that the broker leads, or
    /// does not lead.
    pub(super) fn busiest(&self, led: bool) -> Option<(usize, i32)> {
        let mut counts: BTreeMap<(usize, i32), usize> = BTreeMap::new();
        for (partition, reading) in &self.readings {
            let (Some(broker), Some(view)) = (reading.broker, self.views.get(partition)) else {
                continue;
            };
            if (view.leader == broker) == led {
                *counts.entry((reading.member, broker)).or_default() += 1;
            }
        }
        counts
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .map(|(pair, _)| pair)
    }

    fn which(&self, wanted: impl Fn(&Reading, &PartitionView) -> bool) -> BTreeSet<usize> {
        let hit = |(partition, view): (usize, &PartitionView)| {
            let key = i32::try_from(partition).ok()?;
            wanted(self.readings.get(&key)?, view).then_some(partition)
        };
        indexed(&self.views).filter_map(hit).collect()
    }
}

fn indexed(views: &BTreeMap<i32, PartitionView>) -> impl Iterator<Item = (usize, &PartitionView)> {
    views
        .iter()
        .filter_map(|(partition, view)| Some((usize::try_from(*partition).ok()?, view)))
}

/// Progress for whoever watches; nobody need.
pub(super) fn say(out: &mut (dyn Write + Send), text: &str) {
    drop(writeln!(out, "{text}").and_then(|()| out.flush()));
}

/// What a leader that is gone may cost once its election is through, moved or dead.
pub(super) const LEADER_LIMIT: Duration = Duration::from_secs(5);
const WARM_UP: Duration = Duration::from_secs(10);
const START_LIMIT: Duration = Duration::from_secs(60);
const ELECTION_LIMIT: Duration = Duration::from_secs(60);
const CATCH_UP_LIMIT: Duration = Duration::from_secs(60);
