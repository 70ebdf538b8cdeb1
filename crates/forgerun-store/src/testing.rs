//! A PostgreSQL server for tests, started by the test itself in a temporary folder, on a port of its own.
//!
//! ```no_run
//! # async fn example() {
//! use forgerun_store::postgres::{Options, Postgres};
//! use forgerun_store::testing::Cluster;
//!
//! let url = Cluster::shared().database().await;
//! let store = Postgres::connect(&url, Options::new(1)).await.unwrap();
//! # }
//! ```
//!
//! A helper process, a few lines of shell, waits for the end of a pipe that the test process holds. However the test process
//! ends, the pipe closes; the helper then stops the server and removes the folder. So nothing is left behind by a test that
//! was killed.
//!
//! Panics where something is missing: tests must fail then, not pass without a database.

use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use tokio_postgres::{Client, NoTls};

mod pooler;
mod ports;
#[cfg(feature = "testing-s3")]
mod s3;

pub use pooler::{PoolMode, Pooler};
pub use ports::{free_port, free_ports};
#[cfg(feature = "testing-s3")]
pub use s3::S3Server;

/// What to do when there is no server to start.
const MISSING: &str = "these tests start a PostgreSQL 15 or newer and found none: install it \
     (Debian: apt-get install postgresql; Fedora: dnf install postgresql-server; macOS: brew install postgresql) \
     or put its initdb and postgres on the PATH";

/// How long a server may take to start: minutes of load are possible on a shared machine.
const START_MAX: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// What the folder's keeper does. `$1` is the folder; its standard input ends with the test process.
const KEEPER: &str = r#"
    cat > /dev/null
    pid=$(head -n 1 "$1/data/postmaster.pid" 2> /dev/null)
    if [ -n "$pid" ]; then
        kill -QUIT "$pid" 2> /dev/null
        for _ in $(seq 100); do kill -0 "$pid" 2> /dev/null || break; sleep 0.1; done
    fi
    rm -rf "$1"
"#;

/// Where the server finds what it encrypts with.
const CERTIFICATE_AND_KEY: [&str; 2] = ["server.crt", "server.key"];

/// A server with its data.
pub struct Cluster {
    folder: PathBuf,
    programs: PathBuf,
    port: u16,
    durability: Durability,
    owner: Option<(u32, u32)>,
    is_encrypted: bool,
    /// Where it listens besides loopback.
    host: Option<IpAddr>,
    server: Mutex<Option<Child>>,
    n_databases: AtomicU32,
    /// Holds the pipe that keeps the folder's keeper waiting.
    keeper: Child,
}

/// Whether a commit reaches the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// As in production: every commit is synced. For tests that kill the server, and for benchmarks.
    Full,
    /// Faster, and lost with the machine (but not with the server).
    None,
}

impl Cluster {
    /// The one server that all tests of this process share. Nobody may stop it.
    pub fn shared() -> &'static Cluster {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| Cluster::start(Durability::None))
    }

    /// Starts a server of one's own.
    pub fn start(durability: Durability) -> Cluster {
        Cluster::started(durability, None, None)
    }

    /// The same, and it listens on this address too, for the 256 around it.
    pub fn start_at(host: IpAddr, durability: Durability) -> Cluster {
        Cluster::started(durability, None, Some(host))
    }

    /// The same, and it encrypts connections of those who ask for it, with this certificate and its key in PEM.
    pub fn start_encrypted(certificate: &str, key: &str) -> Cluster {
        Cluster::started(Durability::None, Some([certificate, key]), None)
    }

    fn started(
        durability: Durability,
        certificate_and_key: Option<[&str; 2]>,
        host: Option<IpAddr>,
    ) -> Cluster {
        let mut cluster = Cluster::without_data(durability, certificate_and_key.is_some());
        cluster.make_data();
        cluster.host = host;
        cluster.let_in_neighbours();
        for (name, pem) in CERTIFICATE_AND_KEY.into_iter().zip(certificate_and_key.into_iter().flatten()) {
            cluster.give(name, pem);
        }
        cluster.start_again();
        cluster
    }

    /// A second server that has what this one has, and without which no commit of this one counts from now on. It takes no writes until it is
    /// [promoted](Self::promote).
    pub async fn standby(&self) -> Cluster {
        let standby = Cluster::without_data(self.durability, false);
        let mut copy = self.program("pg_basebackup");
        copy.args([
            "--username=forgerun",
            "--checkpoint=fast",
            "--wal-method=stream",
            "--write-recovery-conf",
            "-D",
        ]);
        let output = copy.arg(standby.folder.join("data")).output().expect("cannot run pg_basebackup");
        assert!(output.status.success(), "pg_basebackup failed: {}", String::from_utf8_lossy(&output.stderr));
        standby.start_again();
        let admin = self.admin().await;
        admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await.expect("ALTER SYSTEM");
        admin.batch_execute("SELECT pg_reload_conf()").await.expect("pg_reload_conf");
        let mut waited = Duration::ZERO;
        while admin
            .query("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'", &[])
            .await
            .expect("a look")
            .is_empty()
        {
            assert!(waited < START_MAX, "the standby does not follow:\n{}", standby.log());
            pause(PAUSE);
            waited += PAUSE;
        }
        standby
    }

    /// Makes a standby the server that takes writes.
    pub async fn promote(&self) {
        let row = self.admin().await.query_one("SELECT pg_promote()", &[]).await.expect("pg_promote");
        assert!(row.get::<_, bool>(0), "the standby did not become the primary:\n{}", self.log());
    }

    /// Where it listens, on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn without_data(durability: Durability, is_encrypted: bool) -> Cluster {
        let programs = find_programs();
        let folder = make_folder();
        let owner = owner_of(&folder);
        if let Some((user, group)) = owner {
            chown(&folder, Some(user), Some(group)).expect("cannot give the folder away");
        }
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "sh"]).arg(&folder).process_group(0).current_dir("/");
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let keeper = keeper.spawn().expect("cannot start sh");
        Cluster {
            port: free_port(),
            server: Mutex::new(None),
            n_databases: AtomicU32::new(0),
            folder,
            programs,
            durability,
            owner,
            is_encrypted,
            host: None,
            keeper,
        }
    }

    /// Makes an empty database and returns its URL.
    pub async fn database(&self) -> String {
        let name = format!("test_{}", self.n_databases.fetch_add(1, Ordering::Relaxed));
        let client = self.admin().await;
        client
            .batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0"))
            .await
            .expect("CREATE DATABASE");
        format!("postgres://forgerun@127.0.0.1:{}/{name}", self.port)
    }

    /// A connection with every right, to the database `postgres`.
    pub async fn admin(&self) -> Client {
        connect(&format!("postgres://forgerun@127.0.0.1:{}/postgres", self.port)).await
    }

    /// Sessions of nodes.
    pub async fn n_sessions(&self) -> i64 {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'forgerun'";
        self.admin().await.query_one(sql, &[]).await.expect("a look").get(0)
    }

    /// The process of the server, while it runs; its sessions are children of it.
    pub fn pid(&self) -> Option<u32> {
        self.server.lock().expect("no test panics here").as_ref().map(Child::id)
    }

    /// Stops the server as an administrator would, and starts it again.
    pub fn restart(&self) {
        self.stop("INT");
        self.start_again();
    }

    /// Ends the server without a word, as a crash would. [`Self::start_again`] brings it back.
    pub fn kill(&self) {
        self.stop("KILL");
    }

    /// Starts a server that was killed, and waits until it takes connections.
    pub fn start_again(&self) {
        let mut server = self.server.lock().expect("no test panics here");
        let mut waited = Duration::ZERO;
        while waited < START_MAX {
            let child = server.get_or_insert_with(|| self.spawn());
            if self.program("pg_isready").args(["-q", "-t", "1"]).status().expect("pg_isready").success() {
                return;
            }
            // After a crash the new server must wait for the last processes of the old one; it gives up, we do not.
            if child.try_wait().expect("cannot wait for the server").is_some() {
                *server = None;
            }
            pause(PAUSE);
            waited += PAUSE;
        }
        panic!("PostgreSQL did not start:\n{}", self.log());
    }

    fn stop(&self, signal: &str) {
        let mut server = self.server.lock().expect("no test panics here");
        if let Some(mut child) = server.take() {
            let _ = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
            child.wait().expect("cannot wait for the server");
        }
    }

    fn make_data(&self) {
        let mut initdb = self.program("initdb");
        initdb.args([
            "--auth=trust",
            "--username=forgerun",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
            "-D",
        ]);
        let output = initdb.arg(self.folder.join("data")).output().expect("cannot run initdb");
        assert!(output.status.success(), "initdb failed: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn let_in_neighbours(&self) {
        let Some(host) = self.host else { return };
        let rules = fs::OpenOptions::new().append(true).open(self.folder.join("data/pg_hba.conf"));
        writeln!(rules.expect("made by initdb"), "host all all {host}/24 trust").expect("cannot add a rule");
    }

    /// Puts a file into the folder that nobody but the server can read.
    fn give(&self, name: &str, text: &str) {
        let path = self.folder.join(name);
        fs::write(&path, text).expect("cannot write into the folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))
            .expect("cannot close the file to others");
        if let Some((user, group)) = self.owner {
            chown(&path, Some(user), Some(group)).expect("cannot give the file away");
        }
    }

    fn spawn(&self) -> Child {
        let mut postgres = self.program("postgres");
        postgres.arg("-D").arg(self.folder.join("data"));
        let host = self.host.map_or_else(String::new, |host| format!(",{host}"));
        postgres.arg("-c").arg(format!("listen_addresses=127.0.0.1{host}"));
        postgres.args(["-c", "max_connections=200"]);
        postgres.arg("-c").arg(format!("unix_socket_directories={}", self.folder.display()));
        if self.durability == Durability::None {
            postgres.args(["-c", "fsync=off", "-c", "full_page_writes=off"]);
        }
        if self.is_encrypted {
            let [certificate, key] = CERTIFICATE_AND_KEY.map(|name| self.folder.join(name));
            postgres.args(["-c", "ssl=on"]);
            postgres.arg("-c").arg(format!("ssl_cert_file={}", certificate.display()));
            postgres.arg("-c").arg(format!("ssl_key_file={}", key.display()));
        }
        let log =
            fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log")).expect("log");
        postgres.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
        postgres.spawn().expect("cannot start postgres")
    }

    /// A program of the server, as the user the data belong to. The server refuses to run as root.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.current_dir("/").env("PGPORT", self.port.to_string()).env("PGHOST", "127.0.0.1");
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Ours to wait for: the keeper would take it for one that does not end.
        if let Ok(Some(mut server)) = self.server.lock().map(|mut server| server.take()) {
            let _ = Command::new("kill").args(["-QUIT", &server.id().to_string()]).status();
            let _ = server.wait();
        }
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Connects without settings, for what a test wants to ask the database itself.
pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("cannot connect");
    tokio::spawn(connection);
    client
}

/// The folder of the newest server that is installed.
fn find_programs() -> PathBuf {
    let version = |folder: &PathBuf| {
        let name = folder.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        name.and_then(|name| name.parse::<u32>().ok())
    };
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let installed = installed.map(|entry| entry.path().join("bin")).max_by_key(version);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = installed.into_iter().chain(std::env::split_paths(&path));
    folders
        .find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
        .expect(MISSING)
}

fn make_folder() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("forgerun-test-{}-{number}", std::process::id()));
    // A folder of that name is from a process that had our number before.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("cannot make a temporary folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))
        .expect("cannot close the folder to others");
    folder
}

/// Whom to run the server as, if we are root: `postgres`, which its packages create, or else `nobody`.
fn owner_of(folder: &Path) -> Option<(u32, u32)> {
    let ours = fs::metadata(folder).expect("the folder was just made").uid();
    if ours != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("cannot read /etc/passwd");
    let find = |wanted: &str| {
        let fields: Vec<&str> = users.lines().map(|line| line.split(':')).find_map(|fields| {
            let fields: Vec<&str> = fields.collect();
            (fields.first() == Some(&wanted)).then_some(fields)
        })?;
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    };
    Some(find("postgres").or_else(|| find("nobody")).expect("no user to run PostgreSQL as"))
}

#[expect(clippy::disallowed_methods, reason = "waits for another process, which gives no other sign")]
fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// What the next version of the program did to the schema of a database: a step of which this one knows nothing. Says which version the schema has then.
pub async fn step_ahead(url: &str, step: NextStep) -> u32 {
    let client = connect(url).await;
    let newest = "SELECT max(version) FROM migrations";
    let newest: i32 = client.query_one(newest, &[]).await.expect("it has a schema").get(0);
    let compatible_from = match step {
        NextStep::Expanding => newest,
        NextStep::Closing => newest + 1,
    };
    let sql = "INSERT INTO migrations (version, name, checksum, compatible_from) VALUES ($1, 'later', 0, $2)";
    client.execute(sql, &[&(newest + 1), &compatible_from]).await.expect("there is no such step yet");
    newest as u32 + 1
}

/// Whether programs that do not know a step can work with what it leaves.
#[derive(Clone, Copy, Debug)]
pub enum NextStep {
    /// They can.
    Expanding,
    /// They cannot.
    Closing,
}
