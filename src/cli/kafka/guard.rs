//! Nothing is left behind, however this process ends.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::KafkaError;

/// The directory of one cluster, and a shell that waits for this process to end.
///
/// The shell reads a pipe whose other end only this process holds. When the pipe closes, for
/// whatever reason, it kills every node that has a pid file and removes the directory.
#[derive(Debug)]
pub(super) struct Guard {
    dir: PathBuf,
    shell: Child,
}

impl Guard {
    pub(super) fn new() -> Result<Self, KafkaError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nearside-kafka-{}-{count}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).map_err(KafkaError::doing("creating the cluster's directory"))?;
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "nearside-kafka-guard"])
            .arg(&dir)
            .stdin(Stdio::piped())
            // Its own process group: an interrupt from the terminal must not end the guard first.
            .process_group(0)
            .spawn()
            .map_err(KafkaError::doing("starting the guard of the cluster's directory"))?;
        Ok(Self { dir, shell })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // A shell that cannot be waited for has ended; its work is done either way.
        drop(self.shell.wait());
    }
}

const SCRIPT: &str = r#"
cat >/dev/null
for file in "$1"/*/pid; do
    [ -e "$file" ] && kill -9 "$(cat "$file")" 2>/dev/null
done
rm -rf -- "$1"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_guard_kills_what_left_a_pid_file_and_removes_the_directory() {
        let guard = Guard::new().expect("a shell");
        let dir = guard.dir().to_path_buf();
        let mut child = Command::new("sleep")
            .arg("600")
            .spawn()
            .expect("every Linux has sleep");
        fs::create_dir(dir.join("node-1")).expect("the directory exists");
        fs::write(dir.join("node-1/pid"), child.id().to_string()).expect("it can be written");
        drop(guard);
        assert!(!dir.exists());
        assert!(!child.wait().expect("it was ours").success());
    }
}
