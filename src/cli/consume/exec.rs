//! `consume --exec`: a command per record.

use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::handler::{HandlerError, Message, Raw};

/// Runs `command` in a shell for one record: the value is its standard input, the rest is in
/// `KAFKA_TOPIC`, `KAFKA_PARTITION`, `KAFKA_OFFSET`, `KAFKA_TIMESTAMP` and `KAFKA_KEY` (as far as
/// it is text). The command is killed when the attempt is given up.
///
/// # Errors
/// It cannot be started, or ends with anything but 0; the record is tried again.
pub(super) async fn run(command: &str, message: &Message<Raw>) -> Result<(), HandlerError> {
    let mut child = Command::new("sh");
    child
        .arg("-c")
        .arg(command)
        .env("KAFKA_TOPIC", message.topic().as_str())
        .env("KAFKA_PARTITION", message.partition().to_string())
        .env("KAFKA_OFFSET", message.offset().to_string())
        .env("KAFKA_TIMESTAMP", message.timestamp_ms().to_string())
        .stdin(Stdio::piped())
        .kill_on_drop(true);
    if let Some(key) = message.key().and_then(|key| std::str::from_utf8(key).ok()) {
        child.env("KAFKA_KEY", key);
    }
    let mut child = child.spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A command need not read its input.
        drop(input.write_all(message.payload().unwrap_or_default()).await);
    }
    let status = child.wait().await?;
    if status.success() {
        return Ok(());
    }
    Err(HandlerError::retryable(format!(
        "`{command}` ended with {status}"
    )))
}
