//! A RabbitMQ broker for tests, started by the test itself in a temporary folder, on ports of its
//! own, and talked to by a client that is not ours (PyPI `pika`).
//!
//! A node of Erlang has more than one port and a name that others on the machine could have too:
//! the port mapper (`epmd`), the distribution port, the cookie and all folders are this broker's
//! own. So parallel tests and a broker of the machine's owner do not meet. All tests of this
//! process share one broker and have a virtual host each; who kills brokers starts one more.
//!
//! A helper process, a few lines of shell, waits for the end of a pipe that the test process holds.
//! However the test process ends, the pipe closes; the helper then stops broker and port mapper and
//! removes the folder.
//!
//! Panics where something is missing: tests must fail then, not pass without a broker.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use forgerun_store::testing::free_ports;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};

/// What to do when there is no broker to start.
const MISSING: &str =
    "these tests start a RabbitMQ and found none: run `make tools` (Debian: apt-get install rabbitmq-server)";

/// Debian's wrapper changes user and environment, so the program behind it is called.
const PROGRAM: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// How long a broker may take to start: it is a large program, and the machine may be busy.
const START_MAX: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(50);

/// Virtual hosts of the shared broker: one per test. More cost a little memory each.
const N_VHOSTS_SHARED: usize = 48;

/// What the folder's keeper does. `$1` is the folder; its standard input ends with the test
/// process.
const KEEPER: &str = r#"
    cat > /dev/null
    for name in broker epmd; do
        pid=$(cat "$1/$name.pid" 2> /dev/null)
        if [ -n "$pid" ]; then
            kill -s KILL -- "-$pid" 2> /dev/null
            for _ in $(seq 100); do kill -0 "$pid" 2> /dev/null || break; sleep 0.1; done
        fi
    done
    rm -rf "$1"
"#;

/// A broker with its data.
pub(crate) struct Broker {
    folder: PathBuf,
    port: u16,
    tls_port: u16,
    epmd_port: u16,
    distribution_port: u16,
    owner: Option<(u32, u32)>,
    n_vhosts: usize,
    next_vhost: AtomicUsize,
    server: Mutex<Option<Child>>,
    epmd: Mutex<Option<Child>>,
    /// Holds the pipe that keeps the folder's keeper waiting.
    keeper: Child,
}

impl Broker {
    /// The one broker that all tests of this process share. Nobody may stop it.
    pub(crate) fn shared() -> &'static Broker {
        static SHARED: OnceLock<Broker> = OnceLock::new();
        SHARED.get_or_init(|| Broker::started(N_VHOSTS_SHARED))
    }

    /// Starts a broker of one's own, with one virtual host.
    pub(crate) fn start() -> Broker {
        Broker::started(1)
    }

    fn started(n_vhosts: usize) -> Broker {
        assert!(Path::new(PROGRAM).is_file(), "{MISSING}");
        let folder = make_folder();
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "sh"]).arg(&folder).process_group(0).current_dir("/");
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let [port, tls_port, epmd_port, distribution_port] = free_ports();
        let broker = Broker {
            owner: owner_of(&folder),
            keeper: keeper.spawn().expect("cannot start sh"),
            next_vhost: AtomicUsize::new(0),
            server: Mutex::new(None),
            epmd: Mutex::new(None),
            folder,
            port,
            tls_port,
            epmd_port,
            distribution_port,
            n_vhosts,
        };
        broker.write_files();
        *broker.epmd.lock().unwrap() = Some(broker.spawn_epmd());
        broker.start_again();
        broker
    }

    /// The URL of a virtual host that no other test has.
    pub(crate) fn vhost(&self) -> String {
        let n = self.next_vhost.fetch_add(1, Ordering::Relaxed);
        assert!(n < self.n_vhosts, "more tests than virtual hosts: raise N_VHOSTS_SHARED");
        format!("amqp://guest:guest@127.0.0.1:{}/{}", self.port, vhost_name(n))
    }

    /// The same virtual host over TLS. The broker's certificate is for this host, and of its own
    /// making: whoever shall believe it needs [`Self::certificate`].
    pub(crate) fn encrypted(&self, url: &str) -> String {
        let plain = format!("amqp://guest:guest@127.0.0.1:{}", self.port);
        url.replace(&plain, &format!("amqps://guest:guest@localhost:{}", self.tls_port))
    }

    /// The file with the broker's certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.join("certificate.pem")
    }

    /// Ends the broker without a word, as a crash would. [`Self::start_again`] brings it back, with
    /// what it had on disk.
    pub(crate) fn kill(&self) {
        let mut server = self.server.lock().unwrap();
        if let Some(mut child) = server.take() {
            kill_group(&child);
            child.wait().expect("cannot wait for the broker");
        }
    }

    /// Starts a broker that was killed, and waits until it talks to clients.
    pub(crate) fn start_again(&self) {
        let mut server = self.server.lock().unwrap();
        let mut waited = Duration::ZERO;
        while waited < START_MAX {
            let child = server.get_or_insert_with(|| self.spawn());
            if talks(self.port) {
                return;
            }
            // After a crash the name of the node may still be taken for a moment.
            if child.try_wait().expect("cannot wait for the broker").is_some() {
                *server = None;
            }
            pause(PAUSE);
            waited += PAUSE;
        }
        panic!("RabbitMQ did not start:\n{}", self.log());
    }

    fn write_files(&self) {
        let vhosts: Vec<Value> = (0..self.n_vhosts).map(|n| json!({"name": vhost_name(n)})).collect();
        let permission = |n| json!({"user": "guest", "vhost": vhost_name(n), "configure": ".*", "write": ".*", "read": ".*"});
        let permissions: Vec<Value> = (0..self.n_vhosts).map(permission).collect();
        let guest = json!({
            "name": "guest",
            "password_hash": password_hash("guest"),
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": "administrator",
        });
        let definitions = json!({"users": [guest], "vhosts": vhosts, "permissions": permissions, "queues": [], "exchanges": [], "bindings": []});
        let folder = self.folder.display();
        // Little memory and disk are no reason for the broker of a test to stop its publishers.
        let settings = format!(
            "listeners.tcp.default = 127.0.0.1:{}\nlisteners.ssl.default = 127.0.0.1:{}\n\
             ssl_options.certfile = {folder}/certificate.pem\nssl_options.keyfile = {folder}/key.pem\n\
             ssl_options.verify = verify_none\nssl_options.fail_if_no_peer_cert = false\nload_definitions = {folder}/definitions.json\n\
             vm_memory_high_watermark.absolute = 4GB\ndisk_free_limit.absolute = 1MB\n",
            self.port, self.tls_port
        );
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        for name in ["data", "logs"] {
            fs::create_dir(self.folder.join(name)).expect("cannot make a folder");
        }
        let files = [
            ("definitions.json", definitions.to_string()),
            ("rabbitmq.conf", settings),
            ("enabled_plugins", "[].\n".to_owned()),
            ("env.conf", String::new()),
            ("certificate.pem", cert.pem()),
            ("key.pem", signing_key.serialize_pem()),
            (".erlang.cookie", "FORGERUNTEST".to_owned()),
        ];
        for (name, text) in files {
            let path = self.folder.join(name);
            fs::write(&path, text).expect("cannot write into the folder");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).expect("cannot close the file");
        }
        if let Some((user, group)) = self.owner {
            for entry in fs::read_dir(&self.folder).expect("the folder was just made").flatten() {
                chown(entry.path(), Some(user), Some(group)).expect("cannot give the file away");
            }
            chown(&self.folder, Some(user), Some(group)).expect("cannot give the folder away");
        }
    }

    fn spawn(&self) -> Child {
        let mut command = self.program(PROGRAM);
        let path = |name: &str| self.folder.join(name);
        command
            .env("RABBITMQ_NODENAME", format!("forgerun-{}@localhost", self.port))
            .env("RABBITMQ_DIST_PORT", self.distribution_port.to_string())
            .env("RABBITMQ_CONFIG_FILE", path("rabbitmq.conf"))
            .env("RABBITMQ_CONF_ENV_FILE", path("env.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", path("enabled_plugins"))
            .env("RABBITMQ_MNESIA_BASE", path("data"))
            .env("RABBITMQ_LOG_BASE", path("logs"))
            .env("RABBITMQ_LOGS", "-")
            // Busy waiting is for machines that have nothing else to do.
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+sbwt none +sbwtdcpu none +sbwtdio none +S 2:2");
        self.start_program(command, "broker")
    }

    fn spawn_epmd(&self) -> Child {
        let mut command = self.program("epmd");
        command.args(["-port", &self.epmd_port.to_string(), "-address", "127.0.0.1"]);
        self.start_program(command, "epmd")
    }

    /// Starts a program in a process group of its own, whose number the keeper finds in a file.
    fn start_program(&self, mut command: Command, name: &str) -> Child {
        let log =
            fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log")).expect("log");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("log")).stderr(log).process_group(0);
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {name}: {error}\n{MISSING}"));
        fs::write(self.folder.join(format!("{name}.pid")), child.id().to_string()).expect("pid");
        child
    }

    /// A program of the broker, as the user the folder belongs to, with nothing of our environment.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env_clear().env("PATH", path).env("HOME", &self.folder).current_dir(&self.folder);
        command.env("ERL_EPMD_PORT", self.epmd_port.to_string()).env("ERL_EPMD_ADDRESS", "127.0.0.1");
        command.env("LANG", "C.UTF-8");
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
        for process in [&self.server, &self.epmd] {
            if let Ok(Some(mut child)) = process.lock().map(|mut process| process.take()) {
                kill_group(&child);
                let _ = child.wait();
            }
        }
    }
}

/// The Python that `make tools` has put beside the build, with `pika`.
pub(crate) fn python() -> PathBuf {
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../python/bin/python");
    assert!(python.exists(), "{} is missing: run `make tools`", python.display());
    python
}

/// Runs a program in Python that talks to the broker at `url`, which it finds as `url` beside a
/// connection `connection` and a channel `channel` of `pika`; it gets `input` as `data`. What it
/// prints is JSON, and is given back.
pub(crate) fn pika(url: &str, program: &str, input: &Value) -> Value {
    const PRELUDE: &str = "import json, sys, time, pika\n\
        url, data = sys.argv[1], json.load(sys.stdin)\n\
        connection = pika.BlockingConnection(pika.URLParameters(url + '?heartbeat=0'))\n\
        channel = connection.channel()\n";
    let mut command = Command::new(python());
    command.args(["-c", &format!("{PRELUDE}{program}"), url]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("cannot start python");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input.to_string().as_bytes()).expect("cannot write to python");
    drop(stdin);
    let output = child.wait_with_output().expect("cannot wait for python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the program prints JSON")
}

fn vhost_name(n: usize) -> String {
    format!("test{n}")
}

/// As RabbitMQ keeps passwords: a salt of four bytes, then the digest of salt and password.
fn password_hash(password: &str) -> String {
    use base64::Engine;
    use sha2::{Digest, Sha256};
    let salt = [1, 2, 3, 4];
    let digest = Sha256::new().chain_update(salt).chain_update(password).finalize();
    base64::engine::general_purpose::STANDARD.encode([&salt[..], &digest[..]].concat())
}

/// Whether a broker answers there: it does so only once it has started.
fn talks(port: u16) -> bool {
    let Ok(mut connection) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return false };
    let _ = connection.set_read_timeout(Some(Duration::from_secs(5)));
    let mut first = [0; 7];
    connection.write_all(b"AMQP\x00\x00\x09\x01").is_ok() && connection.read_exact(&mut first).is_ok()
}

fn kill_group(child: &Child) {
    let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status();
}

fn make_folder() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("forgerun-rabbitmq-{}-{number}", std::process::id()));
    // A folder of that name is from a process that had our number before.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("cannot make a temporary folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))
        .expect("cannot close the folder to others");
    folder
}

/// Whom to run the broker as, if we are root: `rabbitmq`, which its package creates, or else
/// `nobody`.
fn owner_of(folder: &Path) -> Option<(u32, u32)> {
    if fs::metadata(folder).expect("the folder was just made").uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("cannot read /etc/passwd");
    let find = |wanted: &str| {
        let fields: Vec<&str> = users.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            (fields.first() == Some(&wanted)).then_some(fields)
        })?;
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    };
    Some(find("rabbitmq").or_else(|| find("nobody")).expect("no user to run RabbitMQ as"))
}

#[expect(clippy::disallowed_methods, reason = "waits for another process, which gives no other sign")]
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

#[test]
fn a_broker_keeps_what_is_durable_when_it_is_killed() {
    let broker = Broker::start();
    let url = broker.vhost();
    let publish = "channel.confirm_delivery()\n\
        channel.queue_declare('kept', durable=True)\n\
        channel.basic_publish('', 'kept', data, pika.BasicProperties(delivery_mode=2), mandatory=True)\n\
        print('null')\n";
    pika(&url, publish, &json!("hello"));
    broker.kill();
    broker.start_again();
    let get = "print(json.dumps(channel.basic_get('kept')[2].decode()))\n";
    assert_eq!(pika(&url, get, &Value::Null), "hello");
}

#[test]
fn tests_that_share_a_broker_do_not_meet() {
    let broker = Broker::shared();
    let (ours, theirs) = (broker.vhost(), broker.vhost());
    pika(&ours, "channel.queue_declare('mine', durable=True)\nprint('null')\n", &Value::Null);
    let look = "try:\n    channel.queue_declare('mine', passive=True)\n    print('true')\n\
        except pika.exceptions.ChannelClosedByBroker:\n    print('false')\n";
    assert_eq!(
        (pika(&ours, look, &Value::Null), pika(&theirs, look, &Value::Null)),
        (json!(true), json!(false))
    );
}
