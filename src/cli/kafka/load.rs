//! Kafka's own programs at work on the cluster.

use std::collections::BTreeMap;
use std::process::{Child, Command};

use super::java::ProduceLoad;
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
        let child = self.produce_in_background(load)?;
        let output = child
            .wait_with_output()
            .map_err(KafkaError::doing("waiting for the performance producer"))?;
        if output.status.success() {
            return Ok(());
        }
        let text = [output.stdout, output.stderr].concat();
        Err(KafkaError::failed(format!(
            "producing failed: {}",
            String::from_utf8_lossy(&text)
        )))
    }

    /// Starts Kafka's own producer; the caller waits for it or kills it.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when it cannot be started.
    pub fn produce_in_background(&self, load: &ProduceLoad) -> Result<Child, KafkaError> {
        load.spawn(&self.tools, &self.bootstrap())
    }

    /// One of Kafka's command line programs by its class, ready for its arguments.
    pub fn tool(&self, class: &str) -> Command {
        self.tools.tool(class)
    }
}
