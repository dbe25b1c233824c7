//! The producer against a cluster that moves, refuses, forgets and loses answers.
//!
//! Per partition the log has the records in the order of their appends. One that is acknowledged is
//! there, one that failed for certain is not, and one that is there twice was counted.

mod cluster;
mod gate;

use std::collections::BTreeMap;
use std::time::Duration;

use nearside::ids::{Draw, Moment, PartitionIndex};
use nearside::producer::{
    Input, Kind, Output, ProduceError, Producer, Record, RecordToken, Settings,
};
use nearside::wire::ErrorCode;
use nearside::wire::api::init_producer_id;

use self::cluster::{BROKERS, Cluster, Effect, PARTITIONS, TOPIC, sender};
use self::gate::{Gate, Way};
use crate::script::Script;

/// Answers that say for certain that nothing was written.
const REFUSALS: [i16; 12] = [3, 5, 6, 19, 72, 74, 100, 2, 10, 29, 35, 87];
/// Answers that leave it open, some by brokers of the future.
const DOUBTS: [i16; 5] = [7, 20, 56, -1, 999];
/// Turns of a quiet time after which everything must have come to rest.
const CALM: usize = 400;

/// What became of a record.
#[derive(Debug)]
enum Fate {
    Acked(Option<i64>),
    Failed(ProduceError),
}

/// A producer, its cluster and the books.
struct Played {
    producer: Producer,
    kind: Kind,
    cluster: Cluster,
    gates: [Gate; PARTITIONS],
    now: Moment,
    draw: Draw,
    /// Epochs of producers that are handed out.
    identities: i64,
    appended: Vec<usize>,
    fates: BTreeMap<u64, Fate>,
    abandoned: Vec<i32>,
}

/// The first bytes choose the producer, the rest is what happens.
pub(super) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let kind = script.pick(&[Kind::Data, Kind::DeadLetter, Kind::Changelog]);
    let settings = Settings {
        kind,
        linger: Duration::from_millis(script.pick(&[0, 5])),
        batch_bytes: script.pick(&[1, 120, 300]),
        delivery_timeout: Duration::from_secs(script.pick(&[120, 40])),
        ..Settings::default()
    };
    let mut played = Played {
        producer: Producer::new(settings),
        kind,
        cluster: Cluster::new(script.flag()),
        gates: Default::default(),
        now: Moment::from_ms(1_000),
        draw: Draw(7),
        identities: 0,
        appended: Vec::new(),
        fates: BTreeMap::new(),
        abandoned: Vec::new(),
    };
    while !script.is_over() {
        played.play(&mut script);
    }
    played.settle();
    played.judge();
}

impl Played {
    fn play(&mut self, script: &mut Script<'_>) {
        match script.below(16) {
            0..3 => {
                let (partition, count) = (script.below(PARTITIONS), 1 + script.below(4));
                (0..count).for_each(|_| self.append(partition));
            }
            3..6 => self.cluster.execute(broker(script), Effect::Append),
            6..9 => self.deliver(broker(script)),
            9 => {
                let refusal = Effect::Refuse(script.pick(&REFUSALS));
                self.cluster.execute(broker(script), refusal);
            }
            10 => {
                let doubt = Effect::AppendAndDoubt(script.pick(&DOUBTS));
                self.cluster.execute(broker(script), doubt);
            }
            11 => self.break_off(broker(script)),
            12 => self.cluster.lead(script.below(PARTITIONS), broker(script)),
            13 => self.refresh(),
            14 => self.pass(Duration::from_millis(8 * u64::from(script.byte()))),
            _ => match script.below(4) {
                0 => self.cluster.limit = [usize::MAX, 1, 2][script.below(3)],
                1 => self.pass(Duration::from_secs(u64::from(script.byte()) / 4)),
                2 if self.producer.is_idle() => self.cluster.forget(script.below(PARTITIONS)),
                2 => self.lose_state(script.below(PARTITIONS)),
                _ => self.input(Input::Flush),
            },
        }
    }

    /// Not while the first batch may be sent again: a broker that knows nothing takes it for the
    /// first of all, whatever the producer does.
    fn lose_state(&mut self, partition: usize) {
        let first = self.cluster.first_batch(partition);
        if first.iter().all(|token| self.fates.contains_key(token)) {
            self.cluster.lose_state(partition);
        }
    }

    fn append(&mut self, partition: usize) {
        let token = RecordToken(self.appended.len() as u64);
        self.appended.push(partition);
        let record = Record::new(TOPIC, token.0.to_string());
        let record = record.to_partition(PartitionIndex(partition as i32));
        self.input(Input::Append { token, record });
    }

    fn input(&mut self, input: Input) {
        self.draw = self.draw.split();
        let (draw, now) = (self.draw, self.now);
        self.producer.handle(input, &self.cluster.view, draw, now);
        while let Some(output) = self.producer.poll_output() {
            self.act(output);
        }
    }

    fn act(&mut self, output: Output) {
        match output {
            Output::Send {
                broker,
                request,
                token,
            } => {
                for row in &request.partitions {
                    let at = row.partition.0 as usize;
                    let (leader, sender) = (self.cluster.view.led(at), sender(&row.records));
                    self.gates[at].sent(token, Way { leader, sender });
                }
                self.cluster.receive(broker.0, token, &request);
            }
            Output::Identify { token, .. } => {
                self.identities += 1;
                // The first quest is in vain.
                let found = self.identities > 1;
                let response = found.then_some(init_producer_id::Response {
                    throttle: Duration::ZERO,
                    error: ErrorCode::NONE,
                    producer: Some(init_producer_id::Producer {
                        id: self.identities,
                        epoch: 0,
                    }),
                });
                self.input(Input::Identified { token, response });
            }
            Output::Abandon { broker } => self.abandoned.push(broker.0),
            Output::Acked { token, offset, .. } => {
                self.meet(token, Fate::Acked(offset.map(|offset| offset.0)));
            }
            Output::Failed { token, error } => self.meet(token, Fate::Failed(error)),
            Output::Refresh { .. } | Output::Hints(_) => {}
        }
    }

    fn meet(&mut self, token: RecordToken, fate: Fate) {
        let before = self.fates.insert(token.0, fate);
        assert!(before.is_none(), "a record meets two fates");
    }

    fn deliver(&mut self, broker: i32) {
        if let Some((token, response)) = self.cluster.answer(broker) {
            for row in &response.partitions {
                let at = row.partition.0 as usize;
                self.gates[at].answered(token, row.error, self.cluster.view.led(at));
            }
            self.input(Input::Answered { token, response });
        }
        self.abandon();
    }

    fn break_off(&mut self, broker: i32) {
        for (token, outcome) in self.cluster.break_off(broker) {
            for gate in &mut self.gates {
                gate.lost(token);
            }
            self.input(Input::Lost { token, outcome });
        }
    }

    fn abandon(&mut self) {
        for broker in std::mem::take(&mut self.abandoned) {
            self.break_off(broker);
        }
    }

    fn refresh(&mut self) {
        self.cluster.publish();
        self.input(Input::ClusterChanged);
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.producer.next_deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.input(Input::Tick);
            let next = self.producer.next_deadline();
            assert!(next.is_none_or(|next| next > self.now), "a deadline stays");
        }
        self.now = end;
        self.abandon();
    }

    /// A quiet time in which everything is carried out and answered.
    fn settle(&mut self) {
        self.cluster.limit = usize::MAX;
        for _ in 0..CALM {
            self.refresh();
            for broker in 0..BROKERS {
                while self.cluster.is_asked(broker) {
                    self.cluster.execute(broker, Effect::Append);
                    self.deliver(broker);
                }
            }
            if self.producer.is_idle() {
                return;
            }
            self.pass(Duration::from_millis(1_200));
        }
        panic!("something is stuck");
    }

    fn judge(&self) {
        let counts = self.producer.counts();
        for (token, partition) in (0..).zip(&self.appended) {
            let log = &self.cluster.logs[*partition].records;
            let copies = log.iter().filter(|it| **it == token).count();
            match self.fates.get(&token).expect("every record meets a fate") {
                Fate::Acked(Some(offset)) => {
                    assert_eq!(log.get(*offset as usize), Some(&token), "acked elsewhere");
                }
                Fate::Acked(None) => assert!(copies > 0, "{token} is acked and lost"),
                Fate::Failed(ProduceError::OutcomeUnknown) => {}
                Fate::Failed(error) => assert_eq!(copies, 0, "{token} is there: {error}"),
            }
        }
        for log in &self.cluster.logs {
            let mut seen = Vec::new();
            for token in &log.records {
                if !seen.contains(token) {
                    assert!(seen.last() < Some(token), "out of order: {:?}", log.records);
                    seen.push(*token);
                }
            }
        }
        let twice = self.cluster.repeated;
        if self.kind == Kind::Changelog {
            assert_eq!(twice, 0, "a changelog has a batch twice");
        }
        if counts.splits == 0 {
            assert!(twice <= counts.possible_duplicates, "{twice} of {counts:?}");
        }
        assert!(twice == 0 || counts.possible_duplicates > 0, "{counts:?}");
        assert_eq!(counts.acked + counts.failed, self.appended.len() as u64);
    }
}

fn broker(script: &mut Script<'_>) -> i32 {
    script.below(BROKERS as usize) as i32
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    // Both partitions are led by broker 1 at first; broker bytes are taken modulo three.
    let round: &[u8] = &[0, 0, 2, 3, 1, 6, 1];
    let scenes: [&[u8]; 12] = [
        &[0, 1, 3, 0, 0, 3, 3, 1, 3, 1, 6, 1, 6, 1],
        // Moved with five out, answered late.
        &[
            0, 0, 3, 0, 0, 3, 12, 0, 2, 3, 1, 6, 1, 13, 3, 2, 6, 2, 3, 1, 6, 1,
        ],
        // Answers lost, requests lost.
        &[0, 0, 3, 3, 1, 11, 1, 14, 30, 3, 1, 6, 1],
        &[0, 0, 3, 11, 1, 14, 30, 13, 3, 1, 6, 1],
        // In doubt, then written already.
        &[0, 0, 2, 10, 0, 1, 6, 1, 14, 30, 3, 1, 6, 1],
        &[0, 0, 2, 10, 3, 1, 6, 1, 14, 30, 13, 3, 1, 6, 1],
        // Refused behind others, refused for good, damaged.
        &[0, 0, 3, 0, 0, 3, 9, 3, 1, 3, 1, 6, 1, 6, 1, 14, 30],
        &[0, 0, 3, 0, 0, 3, 9, 11, 1, 3, 1, 6, 1, 6, 1, 14, 30],
        &[0, 0, 1, 9, 7, 1, 6, 1, 14, 30, 9, 7, 1, 6, 1, 14, 60],
        // Too large, split.
        &[15, 0, 1, 0, 0, 3, 14, 2, 3, 1, 6, 1, 3, 1, 6, 1, 3, 1, 6, 1],
        // Expired in the queue and in flight.
        &[0, 0, 3, 15, 1, 200, 0, 0, 1, 3, 1, 6, 1],
        // Forgotten by the broker while all was quiet.
        &[14, 40, 15, 2, 0, 0, 0, 2, 3, 1, 6, 1, 14, 30, 3, 1, 6, 1],
    ];
    let mut seeds = Vec::new();
    for head in [
        [0, 0, 0, 0, 0],
        [2, 0, 1, 0, 1],
        [0, 1, 2, 1, 0],
        [1, 0, 1, 1, 1],
    ] {
        for scene in scenes {
            // The first quest for an id fails; then a first batch opens the gate.
            let start = [&head[..], &[0, 0, 0, 14, 30], &[3, 1, 6, 1], round].concat();
            seeds.push([&start, scene].concat());
            seeds.push([&start, scene, round, scene].concat());
        }
    }
    seeds
}
