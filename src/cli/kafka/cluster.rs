//! Nodes, started, steered and ended together.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use uuid::Uuid;

use super::admin::Admin;
use super::guard::Guard;
use super::java::Java;
use super::node::{self, Node, RACKS};
use super::secure::Secured;
use super::{KafkaError, Proxy, until};

/// What to start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The Kafka version; default 4.4.0, any from 3.3 on works.
    pub version: String,
    /// Heap of each node in MiB; default 512.
    pub heap_mib: u32,
    /// A node for each, with the ids 1, 2, ... in this order; default a, b, c. The first three are
    /// controllers too.
    pub racks: Vec<String>,
    /// How many clients may be cut off independently of each other, each behind proxies of its own;
    /// default 1.
    pub clients: usize,
    /// Listeners that ask who is there, beside the others; default none.
    pub secured: Option<Secured>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            version: DEFAULT_VERSION.to_owned(),
            heap_mib: 512,
            racks: RACKS.map(str::to_owned).to_vec(),
            clients: 1,
            secured: None,
        }
    }
}

/// A running Kafka; dropping it ends the nodes and removes their files.
#[derive(Debug)]
pub struct Cluster {
    pub(super) nodes: Vec<Node>,
    /// By client and broker.
    proxies: BTreeMap<(usize, i32), Proxy>,
    java: Java,
    /// Kafka's tools, always of the default version: older ones lack what is needed here.
    pub(super) tools: Java,
    // Last, so that the nodes are gone before their directory goes.
    _guard: Guard,
}

impl Cluster {
    /// Starts a cluster and waits until it lists every broker; about ten seconds for three once
    /// the jars are cached.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Unavailable`] without Java or Maven, [`KafkaError::Failed`] with the log of
    /// the node when one does not start.
    pub fn start(options: &Options) -> Result<Self, KafkaError> {
        let java = Java::new(&options.version, options.heap_mib)?;
        let tools = Java::new(DEFAULT_VERSION, options.heap_mib)?;
        let guard = Guard::new()?;
        let plans = node::plan(guard.dir(), options)?;
        let mut proxies = BTreeMap::new();
        let mut nodes = Vec::new();
        for plan in &plans {
            for (client, path) in plan.paths.iter().enumerate() {
                let proxy = Proxy::start(path.proxy, path.listener)?;
                proxies.insert((client, plan.id), proxy);
            }
            let secured = options.secured.as_ref();
            nodes.push(Node::prepare(plan.clone(), &plans, secured, &java)?);
        }
        let mut cluster = Self {
            nodes,
            proxies,
            java,
            tools,
            _guard: guard,
        };
        cluster.format(options.secured.as_ref())?;
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

    /// `host:port` list of the listeners behind the proxies of one client, counted from 0: who
    /// starts here stays behind them.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when there is no such client.
    pub fn proxied_bootstrap(&self, client: usize) -> Result<String, KafkaError> {
        let mut addresses = Vec::new();
        for node in &self.nodes {
            let proxy = self.proxy_of(client, node.plan.id)?;
            addresses.push(proxy.address().to_string());
        }
        Ok(addresses.join(","))
    }

    /// The ids of the brokers with their racks.
    pub fn racks(&self) -> BTreeMap<i32, &str> {
        self.nodes
            .iter()
            .map(|node| (node.plan.id, node.plan.rack.as_str()))
            .collect()
    }

    /// The proxy between the first client and a broker.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when there is no such broker.
    pub fn proxy(&self, broker: i32) -> Result<&Proxy, KafkaError> {
        self.proxy_of(0, broker)
    }

    /// The proxy between one client and one broker; no other client passes it.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when there is no such client or broker.
    pub fn proxy_of(&self, client: usize, broker: i32) -> Result<&Proxy, KafkaError> {
        let proxy = self.proxies.get(&(client, broker));
        proxy.ok_or_else(|| {
            KafkaError::failed(format!("client {client} has no proxy at broker {broker}"))
        })
    }

    /// Where one broker's undisturbed listener is.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when there is no such broker.
    pub fn address(&self, broker: i32) -> Result<SocketAddr, KafkaError> {
        let node = self.nodes.iter().find(|node| node.plan.id == broker);
        let node = node.ok_or_else(|| no_broker(broker))?;
        Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, node.plan.plaintext)))
    }

    /// A connection to one broker's undisturbed listener.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when it does not accept one.
    pub fn connect(&self, broker: i32) -> Result<Admin, KafkaError> {
        Admin::connect(self.address(broker)?)
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

    /// Asks a broker to end (SIGTERM): it hands its leads over first. Returns when it has ended.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when it does not end within a minute.
    pub fn stop(&mut self, broker: i32) -> Result<(), KafkaError> {
        self.node(broker)?.stop()
    }

    /// Starts an ended broker again; returns at once.
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

    /// Every node gets the same cluster id; a JVM each, so side by side.
    fn format(&self, secured: Option<&Secured>) -> Result<(), KafkaError> {
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
            running.push((node, node.format(&id, secured, &self.java)?));
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

    /// Waits until every node that is up lists every such node: an open port alone does not mean
    /// ready.
    fn wait_ready(&mut self) -> Result<(), KafkaError> {
        let expected: Vec<i32> = self.nodes.iter().map(|node| node.plan.id).collect();
        for id in &expected {
            let mut dead = None;
            let ready = until(
                &format!("all brokers in the eyes of broker {id}"),
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
const START_LIMIT: Duration = Duration::from_secs(120);
