//! A PgBouncer in front of a [`Cluster`]: what many operators have between their programs and their database.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{Cluster, PAUSE, START_MAX, free_port, make_folder, pause};

/// What keeps it running: it ends with the pipe that the test process holds. `$1` is the folder.
const KEEPER: &str = r#"
    pgbouncer -q "$1/pgbouncer.ini" &
    pid=$!
    cat > /dev/null
    kill "$pid"
    wait "$pid"
    rm -rf "$1"
"#;

/// For how long a client of the pooler has a session of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    /// As long as it is connected.
    Session,
    /// For one transaction.
    Transaction,
}

/// A running PgBouncer. Dropped, it stops.
pub struct Pooler {
    port: u16,
    folder: PathBuf,
    keeper: Child,
}

impl Pooler {
    /// Starts one, and waits until it takes connections.
    pub fn start(cluster: &Cluster, mode: PoolMode) -> Pooler {
        let (folder, port) = (make_folder(), free_port());
        let path = folder.display();
        let mode = match mode {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
        };
        let settings = format!(
            "[databases]\n\
             * = host=127.0.0.1 port={}\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {path}/users.txt\n\
             pool_mode = {mode}\ndefault_pool_size = 100\nlogfile = {path}/log\n",
            cluster.port()
        );
        fs::write(folder.join("users.txt"), "\"forgerun\" \"\"\n").expect("cannot write into the folder");
        fs::write(folder.join("pgbouncer.ini"), settings).expect("cannot write into the folder");
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "sh"]).arg(&folder).process_group(0).current_dir("/");
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Like the server, it refuses to run as root.
        if let Some((user, group)) = cluster.owner {
            chown(&folder, Some(user), Some(group)).expect("cannot give the folder away");
            keeper.uid(user).gid(group);
        }
        let keeper = keeper.spawn().expect("cannot start sh");
        let pooler = Pooler { port, folder, keeper };
        pooler.wait(cluster);
        pooler
    }

    fn wait(&self, cluster: &Cluster) {
        let mut waited = Duration::ZERO;
        let mut is_ready = cluster.program("pg_isready");
        is_ready.args(["-q", "-t", "1", "-p", &self.port.to_string()]);
        while !is_ready.status().expect("pg_isready").success() {
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(waited < START_MAX, "PgBouncer did not start (Debian: apt-get install pgbouncer): {log}");
            pause(PAUSE);
            waited += PAUSE;
        }
    }

    /// The URL of a database of the cluster, through the pooler.
    pub fn url(&self, cluster: &Cluster, database_url: &str) -> String {
        database_url.replace(&format!(":{}/", cluster.port()), &format!(":{}/", self.port))
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
