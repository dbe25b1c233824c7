//! Which thread runs what. Injected, so that a test can put a whole fleet on one thread under
//! paused time.

use actix::{Arbiter, ArbiterHandle};

use crate::ids::{BrokerId, Draw, TopicPartition};

/// The threads of a fleet: one for control, several for data.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    control: ArbiterHandle,
    data: Vec<ArbiterHandle>,
    shared: bool,
}

/// One data thread, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct DataThread(pub(crate) usize);

impl Placement {
    /// Everything on the calling thread.
    pub(crate) fn single() -> Self {
        let here = Arbiter::current();
        Self {
            control: here.clone(),
            data: vec![here],
            shared: true,
        }
    }

    /// Control on the calling thread, data on `threads` (at least one) arbiters of their own.
    pub(crate) fn threads(threads: usize) -> Self {
        let data = (0..threads.max(1))
            .map(|_| Arbiter::new().handle())
            .collect();
        Self {
            control: Arbiter::current(),
            data,
            shared: false,
        }
    }

    /// All data threads, in order.
    pub(crate) fn data(&self) -> &[ArbiterHandle] {
        &self.data
    }

    /// Where a partition lives for as long as it is assigned (runtime.md T1).
    pub(crate) fn of_partition(&self, partition: &TopicPartition) -> DataThread {
        let mut hash = FNV_OFFSET;
        for byte in partition
            .topic
            .as_str()
            .bytes()
            .chain(partition.partition.0.to_le_bytes())
        {
            hash = (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        // Mixed once more: neighbours differ in few bits of this hash.
        self.pick(Draw(hash).split().0)
    }

    /// Where the link of a broker lives.
    pub(crate) fn of_broker(&self, broker: BrokerId) -> DataThread {
        self.pick(u64::from(broker.0.unsigned_abs()))
    }

    /// The arbiter of a data thread.
    pub(crate) fn arbiter(&self, thread: DataThread) -> &ArbiterHandle {
        self.data.get(thread.0).unwrap_or(&self.control)
    }

    /// Ends the data threads. The control thread ends with its system.
    pub(crate) fn stop(&self) {
        if !self.shared {
            for arbiter in &self.data {
                arbiter.stop();
            }
        }
    }

    fn pick(&self, hash: u64) -> DataThread {
        let threads = self.data.len().max(1) as u64;
        DataThread(usize::try_from(hash % threads).unwrap_or(0))
    }
}

const FNV_OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01B3;
