//! Brokers that die, restart and stand still.

use std::time::Duration;

use crate::cli::chaos::stage::{LEADER_LIMIT, Picture, RACKS, Stage, TOPIC};
use crate::cli::chaos::step::{Promise, Step};
use crate::cli::kafka::KafkaError;

/// No fault at all: what the others are compared with.
pub(super) fn steady(stage: &mut Stage<'_>) -> Result<(), KafkaError> {
    let step = stage.begin("steady");
    stage.let_run(stage.pace.fault * 2);
    let mut step = step;
    step.healed = stage.book.now();
    stage.finish(step)
}

/// `kill -9` of each broker in turn; the next dies once all replicas are in sync again.
pub(super) fn kill_each(stage: &mut Stage<'_>) -> Result<(), KafkaError> {
    for broker in ids() {
        let before = stage.picture()?;
        let mut step = stage.begin(format!("kill -9 broker {broker}"));
        stage.cluster.kill(broker)?;
        step.promise(lost_follower(&before, &step, broker, Duration::ZERO));
        step.promise(stage.elected_promise(before.led(broker), broker)?);
        out_of_sync(stage, &[broker])?;
        stage.let_run(stage.pace.down);
        stage.cluster.restart(broker)?;
        step.healed = stage.book.now();
        stage.finish(step)?;
    }
    Ok(())
}

/// SIGTERM to each broker in turn, started again at once: a deployment.
pub(super) fn rolling_restart(stage: &mut Stage<'_>) -> Result<(), KafkaError> {
    for broker in ids() {
        let before = stage.picture()?;
        let mut step = stage.begin(format!("restart of broker {broker}"));
        stage.cluster.stop(broker)?;
        // It may serve until its very end.
        let down = stage.book.now();
        let followed = before.followed(broker);
        step.promise(Promise::new(FOLLOWED, followed, down, FOLLOWER_LIMIT));
        let led = before.led(broker);
        let promise = Promise::new("led by it", led, down, LEADER_LIMIT);
        step.promise(promise.under_new_leader());
        stage.cluster.restart(broker)?;
        step.healed = stage.book.now();
        stage.finish(step)?;
    }
    Ok(())
}

/// SIGSTOP: connections stay open and nothing answers (gray failure). Once the broker that serves
/// the most partitions as a follower, once the one that leads the most of those it serves.
pub(super) fn freeze(stage: &mut Stage<'_>) -> Result<(), KafkaError> {
    let mut frozen = None;
    for led in [false, true] {
        let before = stage.picture()?;
        let Some((_, broker)) = before.busiest(led).filter(|it| frozen != Some(it.1)) else {
            continue;
        };
        frozen = Some(broker);
        let length = stage.pace.freeze;
        let mut step = stage.begin(format!(
            "SIGSTOP broker {broker} for {} s",
            length.as_secs()
        ));
        stage.cluster.freeze(broker)?;
        step.promise(lost_follower(&before, &step, broker, HEDGE));
        step.promise(stage.elected_promise(before.led(broker), broker)?);
        let passed = stage.book.now().since(step.fault);
        stage.let_run(length.saturating_sub(passed));
        stage.cluster.thaw(broker)?;
        step.healed = stage.book.now();
        stage.finish(step)?;
    }
    Ok(())
}

/// Both brokers of rack a die together; every partition keeps two replicas.
pub(super) fn rack_down(stage: &mut Stage<'_>) -> Result<(), KafkaError> {
    let pair = [1, 4];
    let before = stage.picture()?;
    let mut step = stage.begin("kill -9 both brokers of rack a");
    for broker in pair {
        stage.cluster.kill(broker)?;
    }
    for broker in pair {
        let mut promise = lost_follower(&before, &step, broker, Duration::ZERO);
        // Their leader may be the other one.
        let led: Vec<usize> = pair.iter().flat_map(|it| before.led(*it)).collect();
        promise
            .partitions
            .retain(|partition| !led.contains(partition));
        step.promise(promise);
        step.promise(stage.elected_promise(before.led(broker), broker)?);
    }
    out_of_sync(stage, &pair)?;
    stage.let_run(stage.pace.down);
    for broker in pair {
        stage.cluster.restart(broker)?;
    }
    step.healed = stage.book.now();
    stage.finish(step)
}

/// Records of partitions read from a lost follower flow within a second, counted from the moment
/// its loss could be known.
fn lost_follower(before: &Picture, step: &Step, broker: i32, unknown: Duration) -> Promise {
    let since = step.fault + unknown;
    Promise::new(FOLLOWED, before.followed(broker), since, FOLLOWER_LIMIT)
}

fn out_of_sync(stage: &Stage<'_>, brokers: &[i32]) -> Result<(), KafkaError> {
    let what = format!("an ISR without {brokers:?}");
    let gone = stage.cluster.wait_partitions(TOPIC, &what, |view| {
        brokers.iter().all(|broker| !view.isr.contains(broker))
    });
    gone.map(drop)
}

fn ids() -> impl Iterator<Item = i32> {
    (1..).zip(RACKS).map(|(id, _)| id)
}

pub(super) const FOLLOWED: &str = "read from it as a follower";
/// What a dead follower may cost once its death can be known.
pub(super) const FOLLOWER_LIMIT: Duration = Duration::from_secs(1);
/// When silence becomes known: `fetch.max.wait.ms` and `route.hedge.ms`.
pub(super) const HEDGE: Duration = Duration::from_millis(2_500);
