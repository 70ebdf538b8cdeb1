//! Clients that submit all the while to some nodes, and remember what they were promised.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use forgerun_core::time::Time;
use forgerun_engine::{Clock, SystemClock};
use serde_json::json;

use crate::crash::{Connection, check, first_key};
use crate::process::Server;
use crate::rabbitmq::pause;

/// Connections that submit without a pause.
const N_CLIENTS: usize = 6;
/// Submissions of a client to a node that is not its own.
const N_VISIT: usize = 5;
/// As a rule, see [`Load::n_more`].
const N_HEARD: usize = 60;
/// After so long a client gives up on a node and asks the next. Longer than a node waits for a
/// database that it cannot reach.
const PATIENCE: Duration = Duration::from_secs(8);

/// Where nodes are, and what was heard from them.
pub(crate) struct Load {
    nodes: Mutex<Vec<SocketAddr>>,
    pub(crate) key: String,
    /// Each acknowledged job, and the number of its submission.
    pub(crate) heard: Mutex<BTreeMap<String, usize>>,
    /// Where deliveries go: this and the number of the submission.
    pub(crate) callback: Option<String>,
    pub(crate) work_kind: &'static str,
    /// How long each client waits between two submissions.
    pub(crate) pace: Duration,
    /// Submissions that are heard of before, while and after something happens.
    pub(crate) n_more: usize,
    n_sent: AtomicUsize,
    n_refused: AtomicU64,
    gaps: Mutex<Gaps>,
    is_over: AtomicBool,
}

/// Times in which nobody was promised anything.
#[derive(Default)]
struct Gaps {
    heard_at: Option<Time>,
    longest: Duration,
}

impl Gaps {
    fn heard(&mut self) {
        let now = SystemClock.now();
        let before = self.heard_at.replace(now).unwrap_or(now);
        self.longest = self.longest.max(now.since(before));
    }
}

/// Ends the load.
struct OverOnDrop<'a>(&'a AtomicBool);

impl Drop for OverOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Load {
    pub(crate) fn new(nodes: &[&Server]) -> Load {
        Load::through(nodes.iter().map(|node| node.address).collect())
    }

    /// By these addresses, which lead to nodes.
    pub(crate) fn through(addresses: Vec<SocketAddr>) -> Load {
        Load {
            key: first_key(addresses[0]),
            nodes: Mutex::new(addresses),
            heard: Mutex::default(),
            callback: None,
            work_kind: "SUCCESS_FAST",
            pace: Duration::ZERO,
            n_more: N_HEARD,
            n_sent: AtomicUsize::new(0),
            n_refused: AtomicU64::new(0),
            gaps: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// A node is somewhere else now.
    pub(crate) fn moved(&self, n: usize, address: SocketAddr) {
        self.nodes.lock().unwrap()[n] = address;
    }

    /// Submits all the while that something happens.
    pub(crate) fn during(&self, happens: impl FnOnce()) {
        std::thread::scope(|scope| {
            for n in 0..N_CLIENTS {
                scope.spawn(move || self.submit(n));
            }
            // Also when a check fails: the scope waits for its threads.
            let _over = OverOnDrop(&self.is_over);
            self.wait_for_more();
            happens();
            self.wait_for_more();
        });
    }

    /// One client: it stays with its node as long as that answers. With another it stays for a
    /// while, and then looks for its own again: so there are always some at every node.
    fn submit(&self, own: usize) {
        let mut away = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let address = {
                let nodes = self.nodes.lock().unwrap();
                away %= nodes.len();
                nodes[(own + away) % nodes.len()]
            };
            let n_max = if away == 0 { usize::MAX } else { N_VISIT };
            let Ok(mut connection) = Connection::open_patiently(address, &self.key, PATIENCE) else {
                pause(Duration::from_millis(20));
                away += 1;
                continue;
            };
            away = if self.submit_all(&mut connection, n_max) { 0 } else { away + 1 };
        }
    }

    /// So many, or until the node does not answer any more. Says whether it did.
    fn submit_all(&self, connection: &mut Connection, n_max: usize) -> bool {
        for _ in 0..n_max {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            pause(self.pace);
            let n = self.n_sent.fetch_add(1, Ordering::Relaxed);
            let mut body = json!({"type": "EXECUTE", "work_kind": self.work_kind});
            if let Some(callback) = &self.callback {
                body["callback"] = json!(format!("{callback}/{n}"));
            }
            match connection.ask("POST", "/v1/jobs", &body.to_string()) {
                Ok((202, job)) => {
                    self.gaps.lock().unwrap().heard();
                    self.heard.lock().unwrap().insert(job["job_id"].as_str().unwrap().into(), n);
                }
                // Nothing was promised: a client tries again, here or elsewhere.
                Ok((503, _)) => {
                    self.n_refused.fetch_add(1, Ordering::Relaxed);
                    pause(Duration::from_millis(20));
                    return false;
                }
                Ok((status, problem)) => panic!("{status}: {problem}"),
                Err(_) => return false,
            }
        }
        true
    }

    pub(crate) fn n_heard(&self) -> usize {
        self.heard.lock().unwrap().len()
    }

    pub(crate) fn wait_for_more(&self) {
        let enough = self.n_heard() + self.n_more;
        let mut waited = Duration::ZERO;
        while self.n_heard() < enough {
            assert!(waited < Duration::from_secs(60), "submissions are not taken any more");
            pause(Duration::from_millis(10));
            waited += Duration::from_millis(10);
        }
    }

    /// Every acknowledged job is there and has ended once. Says how many events tell of each.
    pub(crate) fn check(&self, node: &Server) -> f64 {
        let heard: BTreeSet<String> = self.heard.lock().unwrap().keys().cloned().collect();
        assert!(heard.len() >= 2 * self.n_more);
        let n_events = check(node.address, &self.key, &heard);
        println!(
            "{} jobs acknowledged, {} submissions refused, none taken for {:?} at most: all ended once, {n_events} events",
            heard.len(),
            self.n_refused.load(Ordering::Relaxed),
            self.gaps.lock().unwrap().longest
        );
        n_events as f64 / heard.len() as f64
    }
}
