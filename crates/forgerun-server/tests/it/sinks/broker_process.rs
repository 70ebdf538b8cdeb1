//! A broker as a process of its own, in a temporary folder. A helper, one line of shell, waits for
//! the end of a pipe that the test process holds; however the test process ends, the helper then
//! kills the broker and removes the folder.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// `$1` is the folder; its standard input ends with the test process.
const KEEPER: &str = r#"
    cat > /dev/null
    pid=$(cat "$1/pid" 2> /dev/null)
    [ -n "$pid" ] && kill -s KILL -- "-$pid" 2> /dev/null
    for _ in $(seq 100); do kill -0 "$pid" 2> /dev/null || break; sleep 0.1; done
    rm -rf "$1"
"#;

pub(super) struct BrokerProcess {
    folder: tempfile::TempDir,
    child: Mutex<Option<Child>>,
    keeper: Child,
}

impl BrokerProcess {
    pub(super) fn new() -> BrokerProcess {
        let folder = tempfile::tempdir().expect("cannot make a temporary folder");
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "sh"]).arg(folder.path()).process_group(0).current_dir("/");
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        BrokerProcess { keeper: keeper.spawn().expect("cannot start sh"), folder, child: Mutex::new(None) }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the program, in a process group of its own.
    pub(super) fn start(&self, command: &mut Command) {
        let log =
            fs::OpenOptions::new().create(true).append(true).open(self.folder().join("log")).expect("log");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("log")).stderr(log).process_group(0);
        command.current_dir(self.folder());
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        fs::write(self.folder().join("pid"), child.id().to_string()).expect("pid");
        *self.child.lock().unwrap() = Some(child);
    }

    /// Ends it without a word, as a crash would.
    pub(super) fn kill(&self) {
        if let Some(mut child) = self.child.lock().unwrap().take() {
            let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status();
            child.wait().expect("cannot wait for the broker");
        }
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.folder().join("log")).unwrap_or_default()
    }
}

impl Drop for BrokerProcess {
    fn drop(&mut self) {
        self.kill();
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
