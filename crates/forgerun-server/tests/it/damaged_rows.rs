//! Rows of waiting jobs that are damaged behind the server's back: workers get the jobs behind them
//! all the same.

use std::fmt::Write as _;
use std::sync::Arc;

use forgerun_core::set_aside::SetAside;
use forgerun_server::Bounds;
use forgerun_store::Store;
use forgerun_store::postgres::{Options, Postgres};
use forgerun_store::sqlite::Sqlite;
use forgerun_store::testing::{Cluster, connect};
use serde_json::{Value, json};

use crate::api::server::{Client, Server};

/// So many fetches must bring the healthy job: one may meet the damaged row, and one may be handed
/// a job that is damaged but can be read.
const FETCHES_MAX: usize = 3;
const UNLIMITED: &[(&str, &str)] =
    &[("limits.rate_per_minute", "0"), ("limits.worker_rate_per_minute", "0"), ("workers.count", "0")];
/// Jobs of one request.
const JOBS_AT_ONCE: usize = 100;

/// The database, without the server.
enum Database {
    File(rusqlite::Connection),
    Server(tokio_postgres::Client),
}

impl Database {
    /// One value, as text.
    async fn read(&self, sql: &str) -> String {
        match self {
            Database::File(file) => file.query_row(sql, [], |row| row.get(0)).unwrap(),
            Database::Server(server) => server.query_one(sql, &[]).await.unwrap().get(0),
        }
    }

    async fn run(&self, sql: &str) {
        match self {
            Database::File(file) => file.execute_batch(sql).unwrap(),
            Database::Server(server) => server.batch_execute(sql).await.unwrap(),
        }
    }

    async fn bytes(&self, column: &str, row: &str) -> Vec<u8> {
        let hex = match self {
            Database::File(_) => format!("SELECT hex({column}) FROM jobs WHERE {row}"),
            Database::Server(_) => format!("SELECT encode({column}, 'hex') FROM jobs WHERE {row}"),
        };
        let hex = self.read(&hex).await;
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn literal(&self, bytes: &[u8]) -> String {
        let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        match self {
            Database::File(_) => format!("X'{hex}'"),
            Database::Server(_) => format!("'\\x{hex}'::bytea"),
        }
    }
}

/// What is wrong with a row: a byte of a column, its length, or the whole column.
#[derive(Clone, Debug)]
enum Damage {
    Flipped(&'static str, usize, u8),
    Cut(&'static str, usize),
    Set(&'static str, &'static str),
}

impl Damage {
    /// Every byte of what a row holds, and every shorter length of it, `every` so many; and these
    /// columns.
    fn all(
        n_head: usize,
        n_body: usize,
        every: usize,
        columns: &[(&'static str, &'static str)],
    ) -> Vec<Damage> {
        let mut all = Vec::new();
        for (column, n_bytes) in [("head", n_head), ("body", n_body)] {
            for at in 0..n_bytes {
                all.extend([0x01, 0x02, 0x80, 0xff].map(|bits| Damage::Flipped(column, at, bits)));
                all.push(Damage::Cut(column, at));
            }
        }
        let mut all: Vec<Damage> = all.into_iter().step_by(every).collect();
        all.extend(columns.iter().map(|(column, value)| Damage::Set(column, value)));
        all
    }

    async fn inflict(&self, database: &Database, row: &str) {
        let (column, value) = match *self {
            Damage::Flipped(column, at, bits) => {
                let mut bytes = database.bytes(column, row).await;
                bytes[at] ^= bits;
                (column, database.literal(&bytes))
            }
            Damage::Cut(column, n_bytes) => {
                let bytes = database.bytes(column, row).await;
                (column, database.literal(&bytes[..n_bytes]))
            }
            Damage::Set(column, value) => (column, value.to_owned()),
        };
        database.run(&format!("UPDATE jobs SET {column} = {value} WHERE {row}")).await;
    }
}

async fn post(client: &Client, path: &str, body: Value) -> Value {
    let call = client.call("POST", &format!("/ojs/v1/{path}"));
    let answer = call.header("content-type", "application/json").body(body.to_string()).send().await;
    assert!(answer.status < 300, "{path}: {} {}", answer.status, answer.text());
    answer.json()
}

/// Two jobs for each of these queues, the first of higher priority.
async fn submit_pairs(client: &Client, queues: &[String]) {
    let job = |queue: &String, n: i32| json!({"type": "test.echo", "args": [n], "options": {"queue": queue, "priority": n}});
    let jobs: Vec<Value> = queues.iter().flat_map(|queue| [job(queue, 1), job(queue, 0)]).collect();
    for some in jobs.chunks(JOBS_AT_ONCE) {
        post(client, "jobs/batch", json!({"jobs": some})).await;
    }
}

async fn healthy_jobs_are_handed_out(
    store: Arc<dyn Store>,
    database: Database,
    every: usize,
    columns: &[(&'static str, &'static str)],
) {
    let server = Server::on(store.clone(), UNLIMITED, Bounds::default()).await;
    let client = server.client().await;
    let row = |queue: &str| format!("queue = '{queue}' AND priority = 1");
    submit_pairs(&client, &["queue-000000".to_owned()]).await;
    let n_head = database.bytes("head", &row("queue-000000")).await.len();
    let n_body = database.bytes("body", &row("queue-000000")).await.len();
    let all = Damage::all(n_head, n_body, every, columns);
    let queues: Vec<String> = (1..=all.len()).map(|n| format!("queue-{n:06}")).collect();
    submit_pairs(&client, &queues).await;
    database.run("BEGIN").await;
    for (damage, queue) in all.iter().zip(&queues) {
        damage.inflict(&database, &row(queue)).await;
    }
    database.run("COMMIT").await;
    let mut blocked = Vec::new();
    for (damage, queue) in all.iter().zip(&queues) {
        let mut fetched = false;
        for _ in 0..FETCHES_MAX {
            let request = json!({"queues": [queue], "worker_id": "w-1"});
            let call =
                client.call("POST", "/ojs/v1/workers/fetch").header("content-type", "application/json");
            let answer = call.body(request.to_string()).send().await;
            fetched |= answer.status == 200 && answer.json()["jobs"][0]["args"] == json!([0]);
        }
        if !fetched {
            blocked.push((damage, queue));
        }
    }
    assert!(blocked.is_empty(), "{} of {} block their queue: {blocked:?}", blocked.len(), all.len());
    let aside = store.set_aside(10_000).await.unwrap();
    let misplaced = |aside: &&SetAside| aside.reason.contains("shelf");
    assert!(aside.iter().filter(misplaced).count() > 0, "nothing is set aside for its place");
}

#[tokio::test]
async fn no_damaged_row_of_a_file_keeps_workers_from_the_jobs_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let store = Arc::new(Sqlite::open(&path).unwrap());
    let database = Database::File(rusqlite::Connection::open(&path).unwrap());
    let columns = [
        ("id", "X'00'"),
        ("id", "X'000102030405060708090a0b0c0d0e0f10'"),
        ("id", "'text'"),
        ("id", "17"),
        ("id", "X'00000000000000000000000000000009'"),
        ("client", "X'00'"),
        ("queue", "'other'"),
        ("job_type", "''"),
        ("state", "6"),
        ("priority", "9"),
        ("priority", "'text'"),
        ("lane", "2"),
        ("lane", "NULL"),
        ("shelf", "'other'"),
        ("shelf", "(SELECT shelf FROM jobs WHERE queue = 'queue-000000' LIMIT 1)"),
        ("due_at", "0"),
        ("due_at", "'text'"),
        ("head", "'text'"),
        ("body", "17"),
        ("place", "X'00'"),
        ("place", "'text'"),
    ];
    healthy_jobs_are_handed_out(store, database, 1, &columns).await;
}

#[tokio::test]
async fn no_damaged_row_of_a_database_keeps_workers_from_the_jobs_behind_it() {
    let url = Cluster::shared().database().await;
    let store = Arc::new(Postgres::connect(&url, Options::new(1)).await.unwrap());
    let database = Database::Server(connect(&url).await);
    let columns = [("state", "6"), ("lane", "2"), ("shelf", "'other'"), ("due_at", "0"), ("place", "id")];
    healthy_jobs_are_handed_out(store, database, 7, &columns).await;
}

#[tokio::test]
async fn a_job_whose_input_is_damaged_fails_and_the_next_one_is_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let server = Server::on(Arc::new(Sqlite::open(&path).unwrap()), UNLIMITED, Bounds::default()).await;
    let client = server.client().await;
    submit_pairs(&client, &["q".to_owned()]).await;
    let database = Database::File(rusqlite::Connection::open(&path).unwrap());
    database.run("UPDATE inputs SET bytes = X'ff' WHERE job = (SELECT n FROM jobs WHERE priority = 1)").await;
    let fetched =
        post(&client, "workers/fetch", json!({"queues": ["q"], "worker_id": "w", "count": 2})).await;
    assert_eq!(fetched["jobs"].as_array().unwrap().len(), 1, "{fetched}");
    assert_eq!(fetched["jobs"][0]["args"], json!([0]));
    let jobs = client.get("/v1/jobs").await;
    assert!(jobs.text().contains("\"FAILED\""), "{}", jobs.text());
}

/// Bytes of the header of an SQLite file: what stays as it is.
const FIRST_PAGE: u64 = 4096;

#[tokio::test]
async fn a_damaged_file_makes_the_server_not_ready_until_it_is_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let server = Server::on(Arc::new(Sqlite::open(&path).unwrap()), UNLIMITED, Bounds::default()).await;
    let client = server.client().await;
    let queues: Vec<String> = (0..200).map(|n| format!("queue-{n}")).collect();
    submit_pairs(&client, &queues).await;
    server.call("GET", "/ready").send().await.expect(200);
    // Another program writes, so that the server's pages are read from the file again, and moves
    // the log into it.
    let database = rusqlite::Connection::open(&path).unwrap();
    database.execute_batch("CREATE TABLE other (a); PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
    drop(database);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let n_bytes = file.metadata().unwrap().len() - FIRST_PAGE;
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![0xa5; n_bytes as usize], FIRST_PAGE).unwrap();
    let jobs = client.get("/v1/jobs").await;
    assert!(jobs.status >= 500, "{}", jobs.text());
    for _ in 0..2 {
        let answer = server.call("GET", "/ready").send().await;
        assert_eq!(answer.expect(503)["reason"], "damaged");
        assert!(answer.header("retry-after").is_some());
    }
    server.call("GET", "/health").send().await.expect(200);
}

#[tokio::test]
async fn a_full_disk_is_503_with_retry_after_in_every_dialect() {
    let folder = tempfile::tempdir().unwrap();
    let options = forgerun_store::sqlite::Options { pages_max: Some(150), ..Default::default() };
    let store = Sqlite::open_with(&folder.path().join("jobs.db"), options).unwrap();
    let server = Server::on(Arc::new(store), UNLIMITED, Bounds::default()).await;
    let client = server.client().await;
    let job = json!({"type": "test.echo", "args": ["x".repeat(60_000)]});
    let post = async |path: &str, body: &Value| client.call("POST", path).json(body).send().await;
    let mut n_taken = 0;
    let full = loop {
        let answer = post("/ojs/v1/jobs", &job).await;
        if answer.status != 201 {
            break answer;
        }
        n_taken += 1;
    };
    assert!(n_taken > 0, "{}", full.text());
    let own = json!({"type": "EXECUTE", "job_type": "a", "payload": {"a": "x".repeat(60_000)}});
    let operation = json!({"type": "a", "parameters": {"a": "x".repeat(60_000)}});
    for answer in [full, post("/v1/jobs", &own).await, post("/api/v1/jobs", &operation).await] {
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert!(answer.header("retry-after").is_some(), "{}", answer.text());
    }
    server.call("GET", "/ready").send().await.expect(200);
    client.get("/v1/jobs").await.expect(200);
}
