//! Runs the command against an embedded cluster on real sockets.

use std::process::{Output, Stdio};
use std::time::Duration;

use nearside::embedded::Settings;
use nearside::embedded::listener::Serving;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Longer than anything here takes; a command that hangs must fail its test, not the whole run.
const PATIENCE: Duration = Duration::from_secs(60);

/// Three brokers on free ports, with topic `orders` of three partitions.
pub(crate) async fn cluster() -> Serving {
    let serving = Serving::listen(Settings::default().on_loopback(None))
        .await
        .unwrap();
    serving
        .handle()
        .with(|cluster| cluster.create_topic("orders", 3, 3))
        .unwrap();
    serving
}

/// The command with these words, not started yet.
pub(crate) fn command(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearside"));
    command
        .args(words.split_whitespace())
        .env_remove("NEARSIDE_LOG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs the command to its end with this input.
pub(crate) async fn run(words: &str, input: &str) -> Ended {
    let mut child = command(words).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that refuses its arguments reads nothing.
    stdin.write_all(input.as_bytes()).await.ok();
    drop(stdin);
    end(child).await
}

/// Waits for the end.
pub(crate) async fn end(child: Child) -> Ended {
    let output = timeout(PATIENCE, child.wait_with_output()).await;
    Ended::of(output.expect("the command hangs").unwrap())
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) error: String,
}

impl Ended {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code(),
            out: text(output.stdout),
            error: text(output.stderr),
        }
    }

    /// Checks that it failed with `code` and one line that holds `text`.
    pub(crate) fn assert_failure(&self, code: i32, text: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.error.lines().count(), 1, "{self:?}");
        assert!(
            self.error.starts_with("error: ") && self.error.contains(text),
            "{self:?}"
        );
    }
}
