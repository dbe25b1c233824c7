//! Kafka's own programs at work on the cluster.

use std::collections::BTreeMap;
use std::process::Command;

use super::produce::{ProduceLoad, Producing};
use super::{Cluster, KafkaError, counters};

impl Cluster {
    /// The record bytes every broker that is up sent to consumers of `topic` since it started.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when a broker's JMX port does not answer.
    pub fn bytes_out(&self, topic: &str) -> Result<BTreeMap<i32, u64>, KafkaError> {
        let up = || self.nodes.iter().filter(|node| node.is_up());
        let ports: Vec<u16> = up().map(|node| node.plan.jmx).collect();
        let counts = counters::bytes_out(&self.tools, &ports, topic)?;
        Ok(up().map(|node| node.plan.id).zip(counts).collect())
    }

    /// Writes with Kafka's own producer and waits for it.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] with its output when it fails.
    pub fn produce(&self, load: &ProduceLoad) -> Result<(), KafkaError> {
        self.produce_in_background(load)?.wait()
    }

    /// Starts Kafka's own producer.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when it cannot be started.
    pub fn produce_in_background(&self, load: &ProduceLoad) -> Result<Producing, KafkaError> {
        load.spawn(&self.tools, &self.bootstrap())
    }

    /// One of Kafka's command line programs by its class, ready for its arguments.
    pub fn tool(&self, class: &str) -> Command {
        self.tools.tool(class)
    }
}
