//! One node: a JVM that is broker and controller.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::java::Java;
use super::secure::{self, SecurePorts, Secured};
use super::settings;
use super::{KafkaError, Options, until};

/// The racks of three nodes, in the order of their ids 1, 2, 3; what is started by default.
pub const RACKS: [&str; 3] = ["a", "b", "c"];

/// Where a node lives.
#[derive(Clone, Debug)]
pub(super) struct NodePlan {
    pub(super) id: i32,
    pub(super) rack: String,
    /// Whether the node is also a controller.
    pub(super) controls: bool,
    pub(super) dir: PathBuf,
    /// Listener for brokers and undisturbed clients.
    pub(super) plaintext: u16,
    pub(super) controller: u16,
    /// One listener behind a proxy for each client that may be cut off on its own.
    pub(super) paths: Vec<ClientPath>,
    pub(super) jmx: u16,
    /// Listeners that ask who is there.
    pub(super) secure: Option<SecurePorts>,
}

/// The way of one client to a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientPath {
    /// The node's listener.
    pub(super) listener: u16,
    /// The proxy's port, which that listener advertises.
    pub(super) proxy: u16,
}

/// A node and its process.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) plan: NodePlan,
    process: Process,
}

#[derive(Debug)]
enum Process {
    Down,
    Running(Child),
    /// Stopped by SIGSTOP.
    Stopped(Child),
}

impl Node {
    /// Writes the node's files; it is not started.
    pub(super) fn prepare(
        plan: NodePlan,
        all: &[NodePlan],
        secured: Option<&Secured>,
        java: &Java,
    ) -> Result<Self, KafkaError> {
        let (name, text) = settings::logging(java.version());
        let properties = settings::server_properties(&plan, all, secured);
        let written = fs::create_dir_all(&plan.dir)
            .and_then(|()| fs::write(plan.properties(), properties))
            .and_then(|()| secured.map_or(Ok(()), |one| secure::write_stores(&plan.dir, one)))
            .and_then(|()| fs::write(plan.dir.join(name), text));
        written.map_err(KafkaError::doing("writing the files of a node"))?;
        Ok(Self {
            plan,
            process: Process::Down,
        })
    }

    /// Begins to format the node's storage, with one user if one is to be known.
    pub(super) fn format(
        &self,
        cluster_id: &str,
        secured: Option<&Secured>,
        java: &Java,
    ) -> Result<Child, KafkaError> {
        let mut command = java.command("kafka.tools.StorageTool", &[]);
        command
            .args(["format", "-t", cluster_id, "-c"])
            .arg(self.plan.properties());
        if let Some(secured) = secured {
            command.args(["--add-scram", &secure::scram_user(secured)?]);
        }
        self.spawn(&mut command)
    }

    /// Starts the process; an already running one is left as it is.
    pub(super) fn start(&mut self, java: &Java) -> Result<(), KafkaError> {
        if !matches!(self.process, Process::Down) {
            return Ok(());
        }
        let (logging, _) = settings::logging(java.version());
        let logging = self.plan.dir.join(logging);
        let mut options = vec![
            format!("-Xmx{}m", java.heap_mib()),
            "-XX:+UseSerialGC".to_owned(),
            format!("-Dlog4j2.configurationFile={}", logging.display()),
            format!("-Dlog4j.configuration=file:{}", logging.display()),
            "-Djava.rmi.server.hostname=127.0.0.1".to_owned(),
        ];
        let port = self.plan.jmx.to_string();
        let jmx = [
            ("port", port.as_str()),
            // The same port again: otherwise RMI takes one of its own choice.
            ("rmi.port", &port),
            ("host", "127.0.0.1"),
            ("authenticate", "false"),
            ("ssl", "false"),
        ];
        options.extend(
            jmx.map(|(key, value)| format!("-Dcom.sun.management.jmxremote.{key}={value}")),
        );
        let mut command = java.command("kafka.Kafka", &options);
        command.arg(self.plan.properties());
        let child = self.spawn(&mut command)?;
        let noted = fs::write(self.plan.pid_file(), child.id().to_string());
        self.process = Process::Running(child);
        noted.map_err(KafkaError::doing("noting the pid of a node"))
    }

    /// Ends the process at once (SIGKILL), running or stopped.
    pub(super) fn kill(&mut self) {
        // An already ended process is what was asked for.
        if let Process::Running(mut child) | Process::Stopped(mut child) =
            std::mem::replace(&mut self.process, Process::Down)
        {
            drop(child.kill());
            drop(child.wait());
        }
        drop(fs::remove_file(self.plan.pid_file()));
    }

    /// Asks the process to end (SIGTERM), so that it hands its leads over first, and waits for it.
    pub(super) fn stop(&mut self) -> Result<(), KafkaError> {
        if let Process::Running(child) = &mut self.process {
            signal("TERM", child)?;
            let id = self.plan.id;
            until(
                &format!("the orderly end of node {id}"),
                STOP_LIMIT,
                || match child.try_wait() {
                    Ok(Some(_)) => Ok(()),
                    Ok(None) => Err("it still runs".to_owned()),
                    Err(error) => Err(error.to_string()),
                },
            )?;
        }
        self.kill();
        Ok(())
    }

    /// Stops the process where it stands: its connections stay open and nothing answers.
    pub(super) fn freeze(&mut self) -> Result<(), KafkaError> {
        self.process = match std::mem::replace(&mut self.process, Process::Down) {
            Process::Running(child) => {
                signal("STOP", &child)?;
                Process::Stopped(child)
            }
            other @ (Process::Stopped(_) | Process::Down) => other,
        };
        Ok(())
    }

    /// Undoes [`Node::freeze`].
    pub(super) fn thaw(&mut self) -> Result<(), KafkaError> {
        self.process = match std::mem::replace(&mut self.process, Process::Down) {
            Process::Stopped(child) => {
                signal("CONT", &child)?;
                Process::Running(child)
            }
            other @ (Process::Running(_) | Process::Down) => other,
        };
        Ok(())
    }

    /// Whether the node is expected to answer.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.process, Process::Running(_))
    }

    /// Fails with the end of its log when the process ended by itself.
    pub(super) fn check(&mut self) -> Result<(), KafkaError> {
        let Process::Running(child) = &mut self.process else {
            return Ok(());
        };
        match child.try_wait() {
            Ok(Some(status)) => {
                self.process = Process::Down;
                let id = self.plan.id;
                Err(KafkaError::failed(format!(
                    "node {id} ended ({status})\n{}",
                    self.log_tail()
                )))
            }
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// The last lines the node logged.
    pub(super) fn log_tail(&self) -> String {
        let text = fs::read_to_string(self.plan.dir.join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines
            .get(lines.len().saturating_sub(TAIL_LINES)..)
            .unwrap_or_default()
            .join("\n")
    }

    fn spawn(&self, command: &mut Command) -> Result<Child, KafkaError> {
        let log = File::options()
            .append(true)
            .create(true)
            .open(self.plan.dir.join("log"))
            .and_then(|log| Ok((log.try_clone()?, log)));
        let (out, err) = log.map_err(KafkaError::doing("opening the log of a node"))?;
        command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            // An interrupt from the terminal is for us; we end the nodes in our own order.
            .process_group(0)
            .spawn()
            .map_err(KafkaError::doing("starting java"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

impl NodePlan {
    fn properties(&self) -> PathBuf {
        self.dir.join("server.properties")
    }

    fn pid_file(&self) -> PathBuf {
        self.dir.join("pid")
    }
}

/// Plans a node for each rack below `dir`, on free ports, with a way to each for every client.
pub(super) fn plan(dir: &Path, options: &Options) -> Result<Vec<NodePlan>, KafkaError> {
    let Options { racks, clients, .. } = options;
    let secure = if options.secured.is_some() { 4 } else { 0 };
    let each = PORTS_EACH + 2 * clients + secure;
    let mut ports = super::ports::free(racks.len() * each)?.into_iter();
    let mut next = || {
        ports
            .next()
            .ok_or_else(|| KafkaError::failed("too few ports"))
    };
    let mut plans = Vec::new();
    for (id, rack) in (1..).zip(racks) {
        let mut paths = Vec::new();
        for _ in 0..*clients {
            paths.push(ClientPath {
                listener: next()?,
                proxy: next()?,
            });
        }
        plans.push(NodePlan {
            id,
            rack: rack.clone(),
            controls: id <= CONTROLLERS,
            dir: dir.join(format!("node-{id}")),
            plaintext: next()?,
            controller: next()?,
            paths,
            jmx: next()?,
            secure: match secure {
                0 => None,
                _ => Some(SecurePorts {
                    ssl: next()?,
                    sasl_ssl: next()?,
                    sasl_plaintext: next()?,
                    expired: next()?,
                }),
            },
        });
    }
    Ok(plans)
}

/// The shell's own `kill`, because a bare system need not have the program.
fn signal(name: &str, child: &Child) -> Result<(), KafkaError> {
    let status = Command::new("sh")
        .args([
            "-c",
            r#"kill -"$1" "$2""#,
            "sh",
            name,
            &child.id().to_string(),
        ])
        .status()
        .map_err(KafkaError::doing("sending a signal"))?;
    if status.success() {
        return Ok(());
    }
    Err(KafkaError::failed(format!(
        "SIG{name} to process {} was refused",
        child.id()
    )))
}

/// Listeners of brokers, of controllers, and JMX.
const PORTS_EACH: usize = 3;
/// Enough to lose one; more would only make every change of metadata slower.
const CONTROLLERS: i32 = 3;
const STOP_LIMIT: Duration = Duration::from_secs(60);
const TAIL_LINES: usize = 20;
