//! A nearside fleet with a batch handler that looks at every record.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearside::prelude::*;
use tokio::sync::Notify;

use super::{Measured, Meter, Task};
use crate::Result;

pub fn read(task: &Task, meter: Meter) -> Result<Measured> {
    // The fleet runs on threads of its own; this one only waits.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(consume(task, meter))
}

async fn consume(task: &Task, meter: Meter) -> Result<Measured> {
    let shared = Arc::new(Shared {
        meter: Mutex::new(meter),
        finished: Notify::new(),
    });
    let counting = Arc::clone(&shared);
    let handler = batch_fn(move |batch: Batch<Raw>, _: Context| {
        let counting = Arc::clone(&counting);
        async move {
            counting.first();
            let bytes: usize = batch
                .records()
                .filter_map(|record| Some(record.value?.len()))
                .sum();
            std::hint::black_box(bytes);
            counting.add(batch.len() as u64);
            Ok(BatchOutcome::done())
        }
    });
    let fleet = Fleet::builder(format!("nearside-{}", std::process::id()))
        .bootstrap(&task.bootstrap)
        .property("client.rack", "b")
        .property("auto.offset.reset", "earliest")
        .subscribe(Subscription::topics([task.topic.as_str()]).handler(handler))
        .start()
        .await?;
    let finished = tokio::time::timeout(PATIENCE, shared.finished.notified()).await;
    let measured = shared
        .meter
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .end();
    if finished.is_err() {
        return Err(format!(
            "not done after {PATIENCE:?}: {measured:?}, {:?}",
            fleet.report()
        )
        .into());
    }
    (*fleet.stop(PATIENCE).await).clone().into_result()?;
    measured
}

struct Shared {
    meter: Mutex<Meter>,
    finished: Notify,
}

impl Shared {
    fn first(&self) {
        self.meter
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .first();
    }

    fn add(&self, records: u64) {
        if self
            .meter
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(records)
        {
            self.finished.notify_one();
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
