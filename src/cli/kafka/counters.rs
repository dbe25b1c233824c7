//! The brokers' own count of the bytes they sent to consumers.

use std::process::{Command, Stdio};

use super::KafkaError;
use super::java::Java;

/// The record bytes a broker sent to consumers of `topic` since it started, replication not
/// counted.
///
/// Kafka makes the counter with the first byte; before that the answer is 0.
pub(super) fn bytes_out(
    java: &Java,
    jmx_ports: &[u16],
    topic: &str,
) -> Result<Vec<u64>, KafkaError> {
    let mut queries = Vec::new();
    for port in jmx_ports {
        // Side by side: each is a JVM of its own.
        queries.push(
            query(java, *port)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(KafkaError::doing("starting JmxTool"))?,
        );
    }
    let mut counts = Vec::new();
    for query in queries {
        let output = query
            .wait_with_output()
            .map_err(KafkaError::doing("running JmxTool"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(KafkaError::failed(format!(
                "JmxTool ended with {}: {text}",
                output.status
            )));
        }
        counts.push(parse(&String::from_utf8_lossy(&output.stdout), topic)?);
    }
    Ok(counts)
}

fn query(java: &Java, port: u16) -> Command {
    let mut command = java.tool("org.apache.kafka.tools.JmxTool");
    command
        .args(["--one-time", "--report-format", "tsv", "--attributes", "Count", "--object-name"])
        // Kafka makes the counter of a topic with the first byte, and this pattern also matches the
        // sum over all topics, so that there always is an answer.
        .arg("kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,*")
        .args(["--jmx-url", &format!("service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi")]);
    command
}

/// The line of one topic; the tool prints `object name:attribute<TAB>value`.
fn parse(text: &str, topic: &str) -> Result<u64, KafkaError> {
    let name =
        format!("kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic={topic}:Count");
    let mut rows = text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .peekable();
    if rows.peek().is_none() {
        return Err(KafkaError::failed(format!(
            "JmxTool printed no row: {text}"
        )));
    }
    let value = rows
        .find(|(key, _)| *key == name)
        .map_or("0", |(_, value)| value);
    value.trim().parse().map_err(KafkaError::doing(format_args!(
        "reading the count {value:?}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "time\t1796038955785\n\
        kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec:Count\t90\n\
        kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic=orders:Count\t67\n\
        kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic=orders2:Count\t23\n";

    #[test]
    fn the_row_of_the_topic_is_found_and_a_missing_row_is_zero() {
        assert_eq!(parse(PRINTED, "orders"), Ok(67));
        assert_eq!(parse(PRINTED, "order"), Ok(0));
    }

    #[test]
    fn an_empty_answer_is_an_error_and_not_zero() {
        assert!(parse("", "orders").is_err());
    }
}
