//! Three nodes, started, steered and ended together.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command};
use std::time::Duration;

use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::{AlterPartitionReassignmentsRequest, BrokerId, ElectLeadersRequest};
use uuid::Uuid;

use super::admin::{Admin, PartitionView, check, topic_name};
use super::guard::Guard;
use super::java::{Java, ProduceLoad};
use super::node::{self, Node};
use super::{KafkaError, Proxy, counters, until};

/// What to start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The Kafka version; default 4.4.0, any from 3.3 on works.
    pub version: String,
    /// Heap of each node in MiB; default 512.
    pub heap_mib: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            version: DEFAULT_VERSION.to_owned(),
            heap_mib: 512,
        }
    }
}

/// A running three-node, three-rack Kafka; dropping it ends the nodes and removes their files.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    proxies: BTreeMap<i32, Proxy>,
    java: Java,
    /// Kafka's tools, always of the default version: older ones lack what is needed here.
    tools: Java,
    // Last, so that the nodes are gone before their directory goes.
    _guard: Guard,
}

impl Cluster {
    /// Starts a cluster and waits until it lists three brokers; about ten seconds once the jars are cached.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Unavailable`] without Java or Maven, [`KafkaError::Failed`] with the log of the node
    /// when one does not start.
    pub fn start(options: &Options) -> Result<Self, KafkaError> {
        let java = Java::new(&options.version, options.heap_mib)?;
        let tools = Java::new(DEFAULT_VERSION, options.heap_mib)?;
        let guard = Guard::new()?;
        let plans = node::plan(guard.dir())?;
        let mut proxies = BTreeMap::new();
        let mut nodes = Vec::new();
        for plan in &plans {
            proxies.insert(plan.id, Proxy::start(plan.proxy, plan.proxied)?);
            nodes.push(Node::prepare(plan.clone(), &plans, &java)?);
        }
        let mut cluster = Self {
            nodes,
            proxies,
            java,
            tools,
            _guard: guard,
        };
        cluster.format()?;
        for node in &mut cluster.nodes {
            node.start(&cluster.java)?;
        }
        cluster.wait_ready()?;
        Ok(cluster)
    }

    /// `host:port` list of the undisturbed listener.
    pub fn bootstrap(&self) -> String {
        let addresses = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.plan.plaintext));
        addresses.collect::<Vec<_>>().join(",")
    }

    /// `host:port` list of the listener behind the proxies: a client that starts here stays behind them.
    pub fn proxied_bootstrap(&self) -> String {
        let addresses = self
            .proxies
            .values()
            .map(|proxy| proxy.address().to_string());
        addresses.collect::<Vec<_>>().join(",")
    }

    /// The ids of the brokers with their racks.
    pub fn racks(&self) -> BTreeMap<i32, &'static str> {
        self.nodes
            .iter()
            .map(|node| (node.plan.id, node.plan.rack))
            .collect()
    }

    /// The proxy in front of a broker.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when there is no such broker.
    pub fn proxy(&self, broker: i32) -> Result<&Proxy, KafkaError> {
        self.proxies.get(&broker).ok_or_else(|| no_broker(broker))
    }

    /// A connection to one broker's undisturbed listener.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when it does not accept one.
    pub fn connect(&self, broker: i32) -> Result<Admin, KafkaError> {
        let node = self.nodes.iter().find(|node| node.plan.id == broker);
        let node = node.ok_or_else(|| no_broker(broker))?;
        Admin::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, node.plan.plaintext)))
    }

    /// A connection to any broker that is up.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when none is.
    pub fn admin(&self) -> Result<Admin, KafkaError> {
        let up = self.nodes.iter().find(|node| node.is_up());
        let up = up.ok_or_else(|| KafkaError::failed("no node is up"))?;
        self.connect(up.plan.id)
    }

    /// Ends a broker at once, as `kill -9` does.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when there is no such broker.
    pub fn kill(&mut self, broker: i32) -> Result<(), KafkaError> {
        self.node(broker)?.kill();
        Ok(())
    }

    /// Starts a killed broker again; returns at once.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the process cannot be started.
    pub fn restart(&mut self, broker: i32) -> Result<(), KafkaError> {
        let java = self.java.clone();
        self.node(broker)?.start(&java)
    }

    /// Stops a broker where it stands (SIGSTOP): connections stay open, nothing answers.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the signal is refused.
    pub fn freeze(&mut self, broker: i32) -> Result<(), KafkaError> {
        self.node(broker)?.freeze()
    }

    /// Lets a stopped broker go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the signal is refused.
    pub fn thaw(&mut self, broker: i32) -> Result<(), KafkaError> {
        self.node(broker)?.thaw()
    }

    /// Ends every fault, starts what is down and waits until every replica of `topics` is in sync.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when that does not come about.
    pub fn heal(&mut self, topics: &[&str]) -> Result<(), KafkaError> {
        for proxy in self.proxies.values() {
            proxy.set(super::Fault::None);
        }
        for node in &mut self.nodes {
            node.thaw()?;
            node.start(&self.java)?;
        }
        self.wait_ready()?;
        for topic in topics {
            self.wait_partitions(topic, "all replicas in sync", |view| {
                view.isr.len() == view.replicas.len()
            })?;
        }
        Ok(())
    }

    /// Waits until every partition of `topic` satisfies `condition`, and returns them.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] with the last state seen, after thirty seconds.
    pub fn wait_partitions(
        &self,
        topic: &str,
        what: &str,
        condition: impl Fn(&PartitionView) -> bool,
    ) -> Result<BTreeMap<i32, PartitionView>, KafkaError> {
        until(&format!("{what} of {topic}"), SETTLE_LIMIT, || {
            let views = self
                .admin()
                .and_then(|mut admin| admin.partitions(topic))
                .map_err(|error| error.to_string())?;
            if !views.is_empty() && views.values().all(&condition) {
                return Ok(views);
            }
            Err(format!("{views:?}"))
        })
    }

    /// Creates a topic with three replicas a partition, leaders and followers spread evenly, and waits until
    /// all of them are in sync.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the cluster refuses.
    pub fn create_topic(&self, topic: &str, partitions: usize) -> Result<(), KafkaError> {
        let mut order: Vec<i32> = self.racks().into_keys().collect();
        let replicas = (0..partitions).map(|_| {
            let replicas = order.clone();
            order.rotate_left(1);
            replicas
        });
        let replicas: Vec<Vec<i32>> = replicas.collect();
        self.admin()?.create_topic(topic, &replicas, &[])?;
        self.wait_partitions(topic, "all replicas in sync", |view| view.isr.len() == 3)?;
        Ok(())
    }

    /// Moves the lead of one partition without any fault, and waits for it.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the cluster refuses or `to` has no replica.
    pub fn move_leader(&self, topic: &str, partition: i32, to: i32) -> Result<(), KafkaError> {
        let mut admin = self.admin()?;
        let mut replicas = admin
            .partitions(topic)?
            .remove(&partition)
            .ok_or_else(|| KafkaError::failed(format!("{topic} has no partition {partition}")))?
            .replicas;
        replicas.sort_unstable_by_key(|id| (*id != to, *id));
        let reassigned = ReassignablePartition::default()
            .with_partition_index(partition)
            .with_replicas(Some(replicas.into_iter().map(BrokerId).collect()));
        let reassigned = ReassignableTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(vec![reassigned]);
        let request = AlterPartitionReassignmentsRequest::default().with_topics(vec![reassigned]);
        let answer = admin.call(&request, 0)?;
        check(
            format_args!("reordering the replicas of {topic}-{partition}"),
            answer.error_code,
        )?;
        for row in answer
            .responses
            .into_iter()
            .flat_map(|topic| topic.partitions)
        {
            check(
                format_args!("reordering the replicas of {topic}-{partition}"),
                row.error_code,
            )?;
        }
        self.elect_preferred(&mut admin, topic, partition)?;
        until(
            &format!("broker {to} leading {topic}-{partition}"),
            SETTLE_LIMIT,
            || {
                let views = admin.partitions(topic).map_err(|error| error.to_string())?;
                let leader = views.get(&partition).map(|view| view.leader);
                if leader == Some(to) {
                    Ok(())
                } else {
                    Err(format!("leader {leader:?}"))
                }
            },
        )
    }

    fn elect_preferred(
        &self,
        admin: &mut Admin,
        topic: &str,
        partition: i32,
    ) -> Result<(), KafkaError> {
        let wanted = TopicPartitions::default()
            .with_topic(topic_name(topic))
            .with_partitions(vec![partition]);
        let request = ElectLeadersRequest::default().with_topic_partitions(Some(vec![wanted]));
        let answer = admin.call(&request, 2)?;
        let rows = answer
            .replica_election_results
            .into_iter()
            .flat_map(|row| row.partition_result);
        for row in rows.filter(|row| row.error_code != ELECTION_NOT_NEEDED) {
            check(
                format_args!("electing the leader of {topic}-{partition}"),
                row.error_code,
            )?;
        }
        Ok(())
    }

    /// The log end offsets of a whole topic, each asked of its leader.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when a leader refuses.
    pub fn end_offsets(&self, topic: &str) -> Result<BTreeMap<i32, i64>, KafkaError> {
        let mut by_leader: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for (partition, view) in self.admin()?.partitions(topic)? {
            by_leader.entry(view.leader).or_default().push(partition);
        }
        let mut ends = BTreeMap::new();
        for (leader, partitions) in by_leader {
            ends.extend(self.connect(leader)?.end_offsets(topic, &partitions)?);
        }
        Ok(ends)
    }

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

    /// Every node gets the same cluster id; three JVMs, so side by side.
    fn format(&self) -> Result<(), KafkaError> {
        // 22 characters of the URL-safe alphabet are 16 bytes when the last one has four zero bits.
        let id: String = Uuid::from_u64_pair(u64::from(std::process::id()), 1)
            .simple()
            .to_string()
            .chars()
            .take(21)
            .chain(['A'])
            .collect();
        let mut running = Vec::new();
        for node in &self.nodes {
            running.push((node, node.format(&id, &self.java)?));
        }
        for (node, mut child) in running {
            let status = child
                .wait()
                .map_err(KafkaError::doing("formatting a node"))?;
            if !status.success() {
                let text = format!("formatting node {}: {}", node.plan.id, node.log_tail());
                return Err(KafkaError::failed(text));
            }
        }
        Ok(())
    }

    /// Waits until every node that is up lists every such node: an open port alone does not mean ready.
    fn wait_ready(&mut self) -> Result<(), KafkaError> {
        let expected: Vec<i32> = self.nodes.iter().map(|node| node.plan.id).collect();
        for id in &expected {
            let mut dead = None;
            let ready = until(
                &format!("three brokers in the eyes of broker {id}"),
                START_LIMIT,
                || {
                    if let Some(error) = self.nodes.iter_mut().find_map(|node| node.check().err()) {
                        dead = Some(error);
                        return Ok(());
                    }
                    let mut seen = self
                        .connect(*id)
                        .and_then(|mut admin| admin.brokers())
                        .map_err(|error| error.to_string())?;
                    seen.sort_unstable_by_key(|broker| broker.id);
                    let ids: Vec<i32> = seen.iter().map(|broker| broker.id).collect();
                    if ids == expected {
                        Ok(())
                    } else {
                        Err(format!("brokers {ids:?}"))
                    }
                },
            );
            dead.map_or(ready, Err)?;
        }
        Ok(())
    }

    fn node(&mut self, broker: i32) -> Result<&mut Node, KafkaError> {
        self.nodes
            .iter_mut()
            .find(|node| node.plan.id == broker)
            .ok_or_else(|| no_broker(broker))
    }
}

fn no_broker(broker: i32) -> KafkaError {
    KafkaError::failed(format!("there is no broker {broker}"))
}

const DEFAULT_VERSION: &str = "4.4.0";
const START_LIMIT: Duration = Duration::from_secs(60);
const SETTLE_LIMIT: Duration = Duration::from_secs(30);
const ELECTION_NOT_NEEDED: i16 = 84;
