//! Network namespaces of the kernel, one per node: each node has an address of its own at the end
//! of a cable to this machine, and what its firewall drops is really lost. Packets are sent again,
//! connections hang, and nobody is told.
//!
//! ```text
//!   this machine: PostgreSQL, broker, receiver of webhooks, clients
//!   198.18.x.1 ──┬── veth ── 198.18.x.2  node 0, with a firewall of its own
//!                ├── veth ── 198.18.x.3  node 1
//!                └── veth ── 198.18.x.4  node 2
//! ```
//!
//! Nothing of the machine's own firewall or routes is touched. Addresses are of the range for
//! benchmarks of networks (RFC 2544), which nobody else has; which of them, and the names, follow
//! from the process id, so that two runs do not meet. A helper, a few lines of shell, waits for the
//! end of a pipe that the test process holds, and then removes everything: also when the test
//! panics or is killed.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// `$1` is the program `ip`, the rest are names; its standard input ends with the test process.
const KEEPER: &str = r#"
    cat > /dev/null
    ip=$1
    shift
    for name in "$@"; do
        "$ip" netns pids "$name" | xargs -r kill -s KILL
        "$ip" link delete "$name"
        "$ip" netns delete "$name"
    done
"#;

/// Networks of eight addresses each: as many as the range has.
const N_NETWORKS: u32 = 1 << 14;
const RANGE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

/// Rules of every kind that a test may ask for, to find out whether the kernel knows them.
const RULES: &str = "table inet mishap {
    chain to { type nat hook output priority -100; ip daddr 192.0.2.1 tcp dport 1 dnat ip to 192.0.2.1:2; }
    chain in { type filter hook input priority 0; tcp sport 1 drop; numgen random mod 100 < 10 drop; }
    chain out { type filter hook output priority 0; tcp dport 1 reject with tcp reset; }
}";

/// The namespaces of this process.
pub(super) struct Namespaces {
    /// The address of this machine, as nodes see it.
    pub(super) host: IpAddr,
    pub(super) all: Vec<Namespace>,
    keeper: Child,
}

/// The namespace of a node.
#[derive(Clone)]
pub(super) struct Namespace {
    name: String,
    ip: PathBuf,
    nft: PathBuf,
    /// The address of the node.
    pub(super) address: IpAddr,
}

impl Namespaces {
    /// Makes as many; or says why that is not possible here.
    pub(super) fn make(n_nodes: u32) -> Result<Namespaces, String> {
        let (ip, nft) = (program("ip")?, program("nft")?);
        let id = std::process::id();
        let first = u32::from(RANGE) + id % N_NETWORKS * 8;
        let host = IpAddr::V4((first + 1).into());
        let namespace = |n: u32| Namespace {
            name: format!("fr{id}-{n}"),
            ip: ip.clone(),
            nft: nft.clone(),
            address: IpAddr::V4((first + 2 + n).into()),
        };
        assert!(n_nodes <= 6, "a network has eight addresses");
        let all: Vec<Namespace> = (0..n_nodes).map(namespace).collect();
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "sh"]).arg(&ip).args(all.iter().map(|namespace| &namespace.name));
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let keeper = keeper.process_group(0).current_dir("/").spawn().expect("cannot start sh");
        let namespaces = Namespaces { host, all, keeper };
        for namespace in &namespaces.all {
            namespace.make(host)?;
        }
        Ok(namespaces)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

impl Namespace {
    fn make(&self, host: IpAddr) -> Result<(), String> {
        let Namespace { name, address, .. } = self;
        for words in [
            format!("netns add {name}"),
            format!("link add {name} type veth peer name eth0 netns {name}"),
            format!("address add {host} peer {address} dev {name}"),
            format!("link set {name} up"),
            format!("-netns {name} address add {address} peer {host} dev eth0"),
            format!("-netns {name} link set eth0 up"),
            format!("-netns {name} link set lo up"),
        ] {
            run(Command::new(&self.ip).args(words.split(' ')), "")?;
        }
        self.set_rules(RULES)?;
        self.set_rules("")?;
        self.check(host)
    }

    /// Whether the machine lets anything of the namespace in: it may have a firewall.
    fn check(&self, host: IpAddr) -> Result<(), String> {
        let listener = TcpListener::bind((host, 0)).map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        let look = format!("exec 3<> /dev/tcp/{host}/{port}");
        let inside = ["netns", "exec", &self.name, "timeout", "5", "bash", "-c", &look];
        run(Command::new(&self.ip).args(inside), "")
    }

    /// A command as it would run in the namespace, in the same process. Its output is piped.
    pub(super) fn inside(&self, command: &Command) -> Command {
        let mut inside = Command::new(&self.ip);
        inside.args(["netns", "exec", &self.name]).arg(command.get_program()).args(command.get_args());
        inside.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = command.get_current_dir() {
            inside.current_dir(folder);
        }
        inside.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        inside
    }

    /// These rules and no others.
    pub(super) fn set_rules(&self, rules: &str) -> Result<(), String> {
        let mut nft = Command::new(&self.ip);
        nft.args(["netns", "exec", &self.name]).arg(&self.nft).args(["-f", "-"]);
        run(&mut nft, &format!("flush ruleset\n{rules}\n"))
    }
}

/// Where a program of the administrator is; his folders need not be on the `PATH`.
fn program(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).chain(["/usr/sbin".into()]).collect();
    let mut programs = folders.into_iter().map(|folder| folder.join(name));
    programs.find(|program| program.is_file()).ok_or_else(|| format!("there is no {name}"))
}

/// Runs a command with this input; what it complains of, if it fails.
fn run(command: &mut Command, input: &str) -> Result<(), String> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let mut stdin = child.stdin.take().expect("piped");
    // One that does not read says so itself when it ends.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or_else(|| format!("{command:?}: {}", complaint.trim()))
}
