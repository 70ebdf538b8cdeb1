//! What the server says of itself, its queues and its pages.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::job::VERSION;

/// What is known of the server.
#[derive(Clone, Copy, Debug)]
pub struct ServerFacts<'a> {
    /// The version of the program.
    pub version: &'a str,
    /// What it stores jobs in.
    pub backend: &'a str,
    /// The public address, or empty.
    pub base: &'a str,
    /// Bytes of an envelope.
    pub envelope_bytes_max: usize,
    /// Whether gRPC is served beside HTTP.
    pub has_grpc: bool,
}

/// Extensions of which every MUST is met.
const EXTENSIONS: [&str; 6] = [
    "urn:ojs:ext:admin-api",
    "urn:ojs:ext:bulk-operations",
    "urn:ojs:ext:graceful-shutdown",
    "urn:ojs:ext:progress",
    "urn:ojs:ext:schema-registry",
    "urn:ojs:ext:webhooks",
];

/// Extensions that are served here in part, each with what it asks for and does not get.
const PARTIAL_EXTENSIONS: [(&str, &str); 7] = [
    ("urn:ojs:ext:backpressure", "No event backpressure.rejected; of the strategies only reject."),
    ("urn:ojs:ext:dead-letter", "Dead letters go by age, not by number."),
    (
        "urn:ojs:ext:durable-execution",
        "Checkpoints stay after the end of a job, have at most 256 KiB, and are fetched by their route.",
    ),
    ("urn:ojs:ext:multi-tenancy", "A tenant is optional; limits are those of the client."),
    ("urn:ojs:ext:observability", "Metrics have the names of ForgeRun."),
    (
        "urn:ojs:ext:rate-limiting",
        "No events of limits, and no overrides: a limit has the value of its jobs.",
    ),
    ("urn:ojs:ext:ai-agents", "Pause and resume; no fork, merge or replay of turns."),
];

/// Whether there are cron jobs: what level 2 asks for beyond delays and time to live.
const CRON: bool = true;

/// Whether there are workflows: level 3.
const WORKFLOWS: bool = true;

/// How much of Open Job Spec is done here without a gap. Bulk, priorities, unique jobs and rate limits, which make level 4, are all there.
pub const CONFORMANCE_LEVEL: u8 = match (CRON, WORKFLOWS) {
    (false, _) => 1,
    (true, false) => 2,
    (true, true) => 4,
};

/// What this server can do. Levels are counted without a gap; the capabilities say what there is beyond it.
pub fn manifest(facts: ServerFacts<'_>) -> Value {
    json!({
        "specversion": VERSION,
        "ojs_version": VERSION,
        "implementation": {
            "name": "forgerun",
            "version": facts.version,
            "language": "rust",
        },
        "conformance_level": CONFORMANCE_LEVEL,
        "conformance_tier": "runtime",
        "protocols": if facts.has_grpc { &["http", "grpc"][..] } else { &["http"] },
        "backend": facts.backend,
        "capabilities": {
            "batch_enqueue": true,
            "bulk_enqueue": true,
            "cron_jobs": CRON,
            "dead_letter": true,
            "delayed_jobs": true,
            "events": true,
            "job_ttl": true,
            "pause_resume": true,
            "priority_queues": true,
            "progress": true,
            "rate_limiting": true,
            "retry": true,
            "schema_validation": true,
            "unique_jobs": true,
            "workflows": WORKFLOWS,
        },
        "unique_job_strength": "strong",
        "schema_validation": true,
        "extensions": EXTENSIONS,
        "partial_extensions": PARTIAL_EXTENSIONS.map(|(uri, gap)| json!({"uri": uri, "gap": gap})),
        "payload_limits": {
            "max_envelope_bytes": facts.envelope_bytes_max,
            "max_meta_bytes": super::envelope::META_BYTES_MAX,
            "max_type_bytes": forgerun_core::limits::NAME_BYTES_MAX,
            "max_queue_bytes": forgerun_core::limits::NAME_BYTES_MAX,
        },
        "endpoints": endpoints(facts.base),
    })
}

/// Where to ask. Without a public address there is no base: a relative one is no address.
fn endpoints(base: &str) -> Value {
    let mut endpoints = json!({"manifest": "/ojs/manifest", "health": "/ojs/v1/health"});
    if !base.is_empty() {
        endpoints["base_url"] = format!("{base}/ojs/v1").into();
    }
    endpoints
}

/// How the server is.
#[derive(Clone, Copy, Debug)]
pub struct HealthStatus<'a> {
    /// Whether the store answers.
    pub good: bool,
    /// The version of the program.
    pub version: &'a str,
    /// What it stores jobs in.
    pub backend: &'a str,
    /// How long it has been up.
    pub uptime_s: u64,
    /// How long the store took to answer.
    pub latency_ms: u64,
}

/// The health of the server.
pub fn health(health: HealthStatus<'_>) -> Value {
    let (status, backend) = if health.good { ("ok", "ok") } else { ("unhealthy", "unhealthy") };
    json!({
        "status": status,
        "version": VERSION,
        "implementation_version": health.version,
        "uptime_seconds": health.uptime_s,
        "backend": {"type": health.backend, "status": backend, "latency_ms": health.latency_ms},
    })
}

/// Where a page ends and whether there is more.
#[derive(Clone, Debug, Serialize)]
pub struct Pagination {
    /// How many there are in all.
    pub total: u64,
    /// Whether there may be more than `total`: they were not all counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub total_is_minimum: bool,
    /// How many a page has at most.
    pub limit: usize,
    /// How many were skipped.
    pub offset: usize,
    /// Whether there is more.
    pub has_more: bool,
    /// The number of the page, from 1.
    pub page: usize,
    /// As `limit`.
    pub per_page: usize,
    /// Where the next page begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl Pagination {
    /// The page of `limit` that begins after `offset` of `total`.
    pub fn new(total: u64, limit: usize, offset: usize) -> Pagination {
        let has_more = total > (offset + limit) as u64;
        let next_cursor = has_more.then(|| (offset + limit).to_string());
        Pagination {
            total,
            total_is_minimum: false,
            limit,
            offset,
            has_more,
            page: offset / limit.max(1) + 1,
            per_page: limit,
            next_cursor,
        }
    }

    /// The same where nobody counted what follows, and it begins behind `cursor`.
    pub fn and_more(self, cursor: String) -> Pagination {
        let n_seen = (self.offset + self.limit) as u64;
        let total = if self.total <= n_seen { self.total + 1 } else { self.total };
        Pagination { total, total_is_minimum: true, has_more: true, next_cursor: Some(cursor), ..self }
    }
}

/// The numbers of a queue, by OJS's words.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueNumbers {
    pub available: u64,
    pub active: u64,
    pub scheduled: u64,
    pub pending: u64,
    pub retryable: u64,
    pub completed: u64,
    pub cancelled: u64,
    pub discarded: u64,
    pub completed_last_hour: u64,
    pub failed_last_hour: u64,
    pub avg_duration_ms: f64,
    pub avg_wait_ms: f64,
}

impl QueueNumbers {
    /// What waits to be taken, now or later.
    pub const fn depth(&self) -> u64 {
        self.available + self.retryable
    }

    /// Jobs that ended well per second, over the last hour.
    pub fn per_second(&self) -> f64 {
        self.completed_last_hour as f64 / 3600.0
    }

    /// Jobs that have not ended.
    pub const fn open(&self) -> u64 {
        self.available + self.active + self.scheduled + self.pending + self.retryable
    }

    /// Where jobs stand, by OJS's words.
    pub fn counts(&self) -> Map<String, Value> {
        let counts = [
            ("available", self.available),
            ("active", self.active),
            ("scheduled", self.scheduled),
            ("pending", self.pending),
            ("retryable", self.retryable),
            ("completed", self.completed),
            ("cancelled", self.cancelled),
            ("discarded", self.discarded),
        ];
        counts.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect()
    }
}

/// A queue.
#[derive(Clone, Debug)]
pub struct QueueView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether nothing is handed out.
    pub paused: bool,
    /// When it was first used, where that is known.
    pub created_at: Option<String>,
    /// The most jobs that may wait.
    pub max_depth: Option<u64>,
    /// Its numbers.
    pub numbers: QueueNumbers,
}

impl QueueView<'_> {
    /// In a list.
    pub fn summary(&self) -> Value {
        let mut view = self.numbers.counts();
        view.insert("name".into(), self.name.into());
        view.insert("status".into(), self.status().into());
        view.insert("state".into(), self.status().into());
        view.insert("paused".into(), self.paused.into());
        view.insert("depth".into(), self.numbers.depth().into());
        view.insert("counts".into(), self.numbers.counts().into());
        if let Some(created_at) = &self.created_at {
            view.insert("created_at".into(), created_at.as_str().into());
        }
        if let Some(max_depth) = self.max_depth {
            view.insert("max_depth".into(), max_depth.into());
        }
        Value::Object(view)
    }

    const fn status(&self) -> &'static str {
        if self.paused { "paused" } else { "active" }
    }

    /// The queue by itself; `queue` is its name for SDKs and an object for all others (D5).
    pub fn alone(&self, of_sdk: bool, facts: &[(&str, Value)]) -> Value {
        let mut view = self.summary();
        let object = self.summary();
        view["queue"] = if of_sdk { self.name.into() } else { object };
        for (name, value) in facts {
            view[*name] = value.clone();
        }
        view
    }

    /// Its numbers, in all shapes that are read. `attended`: whether a living worker asks for it or holds jobs of it.
    pub fn stats(&self, of_sdk: bool, attended: bool, computed_at: &str) -> Value {
        let numbers = &self.numbers;
        let mut stats = numbers.counts();
        stats.insert("queue".into(), self.name.into());
        stats.insert("attended".into(), attended.into());
        stats.insert("depth".into(), numbers.depth().into());
        stats.insert("completed_last_hour".into(), numbers.completed_last_hour.into());
        stats.insert("failed_last_hour".into(), numbers.failed_last_hour.into());
        stats.insert("avg_duration_ms".into(), numbers.avg_duration_ms.into());
        stats.insert("avg_wait_ms".into(), numbers.avg_wait_ms.into());
        stats.insert("throughput_per_second".into(), numbers.per_second().into());
        if let Some(max_depth) = self.max_depth {
            stats.insert("max_depth".into(), max_depth.into());
        }
        self.alone(of_sdk, &[("stats", Value::Object(stats)), ("computed_at", computed_at.into())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_says_no_more_than_there_is() {
        let facts = ServerFacts {
            version: "1.2.3",
            backend: "sqlite",
            base: "",
            envelope_bytes_max: 1 << 20,
            has_grpc: false,
        };
        assert_eq!(
            super::manifest(ServerFacts { has_grpc: true, ..facts })["protocols"],
            json!(["http", "grpc"])
        );
        let manifest = manifest(facts);
        assert_eq!(manifest["protocols"], json!(["http"]));
        assert_eq!((&manifest["specversion"], &manifest["ojs_version"]), (&json!("1.0"), &json!("1.0")));
        assert!(manifest["capabilities"].as_object().unwrap().values().all(Value::is_boolean));
        assert!(manifest["extensions"].as_array().unwrap().iter().all(Value::is_string));
        assert_eq!(manifest["capabilities"]["schema_validation"], manifest["schema_validation"]);
        let claims = |name: &str| EXTENSIONS.iter().any(|extension| extension.ends_with(name));
        assert!(!claims(":fair-scheduling") && !claims(":federation"), "there is nothing of the kind here");
        let partial = manifest["partial_extensions"].as_array().unwrap();
        for extension in partial {
            assert!(!EXTENSIONS.contains(&extension["uri"].as_str().unwrap()), "{extension}");
            assert!(extension["gap"].as_str().is_some_and(|gap| !gap.is_empty()), "{extension}");
        }
        assert!(manifest["endpoints"].get("base_url").is_none(), "a relative address is none");
        assert!(manifest["backend"].is_string());
    }

    #[test]
    fn the_numbers_of_a_queue_are_found_wherever_they_are_looked_for() {
        let numbers =
            QueueNumbers { available: 3, active: 1, completed: 2, retryable: 1, ..QueueNumbers::default() };
        let queue =
            QueueView { name: "emails", paused: false, created_at: None, max_depth: Some(9), numbers };
        let suite = queue.stats(false, true, "now");
        assert_eq!((&suite["queue"]["name"], &suite["queue"]["available"]), (&json!("emails"), &json!(3)));
        assert_eq!((&suite["stats"]["depth"], &suite["stats"]["queue"]), (&json!(4), &json!("emails")));
        let sdk = queue.stats(true, true, "now");
        assert_eq!(
            (&sdk["queue"], &sdk["status"], &sdk["completed"]),
            (&json!("emails"), &json!("active"), &json!(2))
        );
    }

    #[test]
    fn a_page_says_whether_there_is_more() {
        let page = Pagination::new(10, 4, 4);
        assert_eq!((page.has_more, page.page, page.next_cursor.as_deref()), (true, 2, Some("8")));
        assert!(!Pagination::new(8, 4, 4).has_more);
    }
}
