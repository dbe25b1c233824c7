//! The files a node is started with.

use super::node::NodePlan;
use super::secure::{self, Secured};

/// The `server.properties` of one node: rack-aware reads, a listener for each client that may be
/// cut off on its own, and limits short enough that a test sees a failover within seconds.
pub(super) fn server_properties(
    node: &NodePlan,
    nodes: &[NodePlan],
    secured: Option<&Secured>,
) -> String {
    let voters: Vec<String> = nodes
        .iter()
        .filter(|node| node.controls)
        .map(|node| format!("{}@127.0.0.1:{}", node.id, node.controller))
        .collect();
    let mut protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned();
    let mut listeners = format!("PLAINTEXT://127.0.0.1:{}", node.plaintext);
    let mut advertised = listeners.clone();
    for (client, path) in node.paths.iter().enumerate() {
        protocols += &format!(",PROXY{client}:PLAINTEXT");
        listeners += &format!(",PROXY{client}://127.0.0.1:{}", path.listener);
        advertised += &format!(",PROXY{client}://127.0.0.1:{}", path.proxy);
    }
    if let Some(ports) = node.secure {
        let (maps, addresses) = secure::addresses(ports);
        protocols += maps;
        listeners += &addresses;
        advertised += &addresses;
    }
    let secure = secured.map_or_else(String::new, |secured| secure::properties(node, secured));
    // The line that comes last counts.
    let replicas = if nodes.len() < 3 { ALONE } else { "" };
    let roles = if node.controls {
        listeners += &format!(",CONTROLLER://127.0.0.1:{}", node.controller);
        "broker,controller"
    } else {
        "broker"
    };
    format!(
        "process.roles={roles}\n\
         node.id={id}\n\
         broker.rack={rack}\n\
         log.dirs={logs}\n\
         controller.quorum.voters={voters}\n\
         controller.listener.names=CONTROLLER\n\
         inter.broker.listener.name=PLAINTEXT\n\
         listener.security.protocol.map={protocols}\n\
         listeners={listeners}\n\
         advertised.listeners={advertised}\n\
         {COMMON}{replicas}{secure}",
        id = node.id,
        rack = node.rack,
        logs = node.dir.join("data").display(),
        voters = voters.join(","),
    )
}

/// Logging for 4.x (log4j 2) and 3.x (reload4j): warnings and errors to standard output.
pub(super) fn logging(version: &str) -> (&'static str, &'static str) {
    if version.starts_with("3.") {
        ("log4j.properties", LOG4J_1)
    } else {
        ("log4j2.properties", LOG4J_2)
    }
}

const COMMON: &str = "\
replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
offsets.topic.num.partitions=10
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
transaction.state.log.num.partitions=6
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
replica.lag.time.max.ms=4000
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
controller.quorum.election.timeout.ms=500
controller.quorum.fetch.timeout.ms=1000
group.min.session.timeout.ms=1000
group.consumer.min.heartbeat.interval.ms=100
group.consumer.min.session.timeout.ms=1000
num.network.threads=2
num.io.threads=4
log.cleaner.dedupe.buffer.size=16777216
";

const ALONE: &str = "\
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
";

const LOG4J_1: &str = "\
log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %c{1} %m%n
";

const LOG4J_2: &str = "\
status=error
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c{1} %m%n
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
";
