//! PostgreSQL: the store and the bare loop on databases of their own, on one server that the benchmark starts itself with
//! the settings it is installed with, so that every commit is synced.

use std::cell::RefCell;
use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use forgerun_core::history::encode_entries;
use forgerun_core::job::Job;
use forgerun_core::{Batch, Changes};
use forgerun_store::memory::Memory;
use forgerun_store::postgres::{self, Postgres};
use forgerun_store::testing::{Cluster, Durability, connect};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_postgres::types::{IsNull, ToSql, Type, accepts, to_sql_checked};
use tokio_postgres::{Client, Statement};

use crate::work::{Work, lifecycle, transact};
use crate::{Options, Took, compare, cpu_time, head};

const BATCH: usize = 256;
const LANES: usize = 4;

struct Bench<'a> {
    options: &'a Options,
    cluster: Cluster,
    runtime: Runtime,
}

pub(crate) fn run(options: &Options) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let bench =
        Bench { options, cluster: Cluster::start(Durability::Full), runtime: runtime.expect("a runtime") };
    println!(
        "\nPostgreSQL, `synchronous_commit=on`, {LANES} connections, {} jobs a round, {} rounds\n",
        options.jobs, options.rounds
    );
    if options.grown {
        return bench.compare_grown();
    }
    head("bare loop", "store");
    bench.compare_lifecycle();
    println!();
    head("one node", "two nodes");
    bench.compare_nodes();
}

/// The lives of one lane: what it works with, and the submissions that begin them.
type Lane = (Work, Vec<Batch>);

fn lanes(n_lanes: usize, jobs: usize) -> Vec<Lane> {
    let lane = |n: usize| {
        let mut work = Work::lane(n as u64);
        let submits = (0..jobs / n_lanes / BATCH).map(|_| work.submit(BATCH)).collect();
        (work, submits)
    };
    (0..n_lanes).map(lane).collect()
}

fn n_jobs(lanes: &[Lane]) -> usize {
    lanes.iter().map(|(_, submits)| submits.len() * BATCH).sum()
}

impl Bench<'_> {
    fn compare_lifecycle(&self) {
        let lanes = lanes(LANES, self.options.jobs);
        let record =
            |lane: &Lane| if self.options.store_only { Arc::default() } else { self.record(lane.clone()) };
        let recorded: Vec<Arc<Vec<Columns>>> = lanes.iter().map(record).collect();
        compare(
            "lifecycle, batch 256",
            self.options,
            n_jobs(&lanes),
            || self.bare(&recorded),
            || self.nodes(1, &lanes),
        );
    }

    fn compare_nodes(&self) {
        let lanes = lanes(2 * LANES, self.options.jobs);
        compare(
            "lifecycle, batch 256, 8 lanes",
            self.options,
            n_jobs(&lanes),
            || self.nodes(1, &lanes),
            || self.nodes(2, &lanes),
        );
    }

    /// A new store, and one with many ended and waiting jobs; opening on the way.
    fn compare_grown(&self) {
        let Options { ended, waiting, .. } = *self.options;
        let url = self.runtime.block_on(self.cluster.database());
        let connect = || Postgres::connect(&url, postgres::Options::new(1));
        let store = Arc::new(self.runtime.block_on(connect()).expect("a store"));
        let mut grown = lanes(LANES, ended);
        for _ in 0..waiting / 1000 {
            self.runtime.block_on(transact(&*store, grown[0].0.submit_bulk(1000)));
        }
        let works = RefCell::new(self.runtime.block_on(lifecycles(vec![store.clone()], grown)));
        drop(store);
        let mut opened = None;
        let took = self.timed(async { opened = Some(connect().await.expect("a store")) });
        println!("connecting with {ended} ended jobs: {:.1} ms\n", took.wall.as_secs_f64() * 1e3);
        let store = Arc::new(opened.expect("opened"));
        let on_grown = || {
            let live = |mut work: Work| {
                let submits = (0..self.options.jobs / LANES / BATCH).map(|_| work.submit(BATCH)).collect();
                (work, submits)
            };
            let lanes = works.take().into_iter().map(live).collect();
            self.timed(async { drop(works.replace(lifecycles(vec![store.clone()], lanes).await)) })
        };
        head("new", "grown");
        let lanes = lanes(LANES, self.options.jobs);
        compare("lifecycle, batch 256", self.options, n_jobs(&lanes), || self.nodes(1, &lanes), on_grown);
    }

    /// What the store would write, by way of memory.
    fn record(&self, (mut work, submits): Lane) -> Arc<Vec<Columns>> {
        let mut recorded = Vec::new();
        let record = |changes: Changes| recorded.push(Columns::of(&changes));
        self.runtime.block_on(lifecycle(&Memory::new(), &mut work, submits, BATCH, record));
        Arc::new(recorded)
    }

    /// So many nodes share the lanes.
    fn nodes(&self, n_nodes: usize, lanes: &[Lane]) -> Took {
        let nodes = self.runtime.block_on(async {
            let url = self.cluster.database().await;
            let mut nodes = Vec::new();
            for node in 0..n_nodes {
                let options = postgres::Options::new(node as u64);
                nodes.push(Arc::new(Postgres::connect(&url, options).await.expect("a store")));
            }
            nodes
        });
        self.timed(async { drop(lifecycles(nodes, lanes.to_vec()).await) })
    }

    fn bare(&self, recorded: &[Arc<Vec<Columns>>]) -> Took {
        let lanes = self.runtime.block_on(async {
            let url = self.cluster.database().await;
            drop(Postgres::connect(&url, postgres::Options::new(1)).await.expect("a schema"));
            let mut lanes = Vec::new();
            for (slot, recorded) in recorded.iter().enumerate() {
                lanes.push((Bare::open(&url, slot as i16).await, recorded.clone()));
            }
            lanes
        });
        let write = |(bare, recorded): (Bare, Arc<Vec<Columns>>)| async move {
            for columns in recorded.iter() {
                bare.write(columns).await;
            }
        };
        self.timed(async {
            let mut tasks: JoinSet<()> = lanes.into_iter().map(write).collect();
            while let Some(done) = tasks.join_next().await {
                done.expect("the bare loop works");
            }
        })
    }

    /// How long `run` takes, here and in the server.
    fn timed(&self, run: impl Future<Output = ()>) -> Took {
        // Old pages that still have to be written should not slow down whoever comes next.
        self.runtime.block_on(async {
            self.cluster.admin().await.batch_execute("CHECKPOINT").await.expect("a checkpoint")
        });
        let (begin, cpu) = (Instant::now(), cpu_time() + self.server_cpu_time());
        self.runtime.block_on(run);
        Took { wall: begin.elapsed(), cpu: (cpu_time() + self.server_cpu_time()).saturating_sub(cpu) }
    }

    /// What the server and its sessions have used so far, those included that are over.
    fn server_cpu_time(&self) -> Duration {
        let server = self.cluster.pid().expect("the server runs").to_string();
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let ticks = processes.filter_map(|process| {
            let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
            // Behind the name, which may have spaces: state, parent, …; the times are the fields 14 to 17.
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            let number = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
            let own = number(14)? + number(15)?;
            match () {
                () if process.file_name() == *server => Some(own + number(16)? + number(17)?),
                () if fields.get(1) == Some(&server.as_str()) => Some(own),
                () => None,
            }
        });
        // A hundred ticks a second, on every Linux there is.
        Duration::from_millis(10 * ticks.sum::<u64>())
    }
}

/// Runs the lanes at once, spread over the nodes; gives back what they worked with.
async fn lifecycles(nodes: Vec<Arc<Postgres>>, lanes: Vec<Lane>) -> Vec<Work> {
    let tasks: Vec<_> = lanes
        .into_iter()
        .zip(nodes.iter().cycle())
        .map(|((mut work, submits), node)| {
            let node = node.clone();
            tokio::spawn(async move {
                lifecycle(&*node, &mut work, submits, BATCH, drop).await;
                work
            })
        })
        .collect();
    let mut works = Vec::new();
    for task in tasks {
        works.push(task.await.expect("the store works"));
    }
    works
}

/// What one transaction writes, ready to be sent.
struct Columns {
    inserted: JobColumns,
    inputs: Vec<Vec<u8>>,
    updated: JobColumns,
    executions: Vec<Uuid>,
    execution_jobs: Vec<Uuid>,
    outcomes: Vec<Vec<u8>>,
    digests: Vec<Vec<u8>>,
    counts: [i64; 7],
    at: i64,
    entries: Vec<u8>,
}

#[derive(Default)]
struct JobColumns {
    ids: Vec<Uuid>,
    clients: Vec<Uuid>,
    queues: Vec<String>,
    job_types: Vec<String>,
    states: Vec<i16>,
    priorities: Vec<i16>,
    lanes: Vec<Option<i16>>,
    shelves: Vec<Option<String>>,
    due_at: Vec<Option<i64>>,
    heads: Vec<Vec<u8>>,
    bodies: Vec<Vec<u8>>,
}

impl JobColumns {
    fn of<'a>(jobs: impl Iterator<Item = &'a Job>) -> JobColumns {
        let mut columns = JobColumns::default();
        for job in jobs {
            let shelf = job.shelf();
            columns.ids.push(Uuid(job.id.to_bytes()));
            columns.clients.push(Uuid(job.head.client.to_bytes()));
            columns.queues.push(job.head.queue.as_str().into());
            columns.job_types.push(job.head.job_type.clone());
            columns.states.push(job.state.as_u8().into());
            columns.priorities.push(job.head.priority);
            columns.lanes.push(shelf.as_ref().map(|shelf| shelf.lane as i16));
            columns.shelves.push(shelf.map(|shelf| shelf.name.as_str().into()));
            columns.due_at.push(job.due_at().map(|due| due.as_micros()));
            columns.heads.push(job.head.encode());
            columns.bodies.push(job.encode());
        }
        columns
    }
}

impl Columns {
    fn of(changes: &Changes) -> Columns {
        let mut counts = forgerun_core::rows::Counts::default();
        changes.counts.values().for_each(|change| counts.merge(change));
        let outcomes = || changes.outcomes.iter();
        Columns {
            inserted: JobColumns::of(changes.inserted.iter().map(|(job, _)| job)),
            inputs: changes.inserted.iter().map(|(_, input)| input.encode()).collect(),
            updated: JobColumns::of(changes.updated.iter()),
            executions: outcomes().map(|outcome| Uuid(outcome.execution.to_bytes())).collect(),
            execution_jobs: outcomes().map(|outcome| Uuid(outcome.job.to_bytes())).collect(),
            outcomes: outcomes().map(|outcome| outcome.object.bytes.clone()).collect(),
            digests: outcomes().map(|outcome| outcome.object.digest.to_vec()).collect(),
            // By state; the spine has nothing that is held, waits or expires.
            counts: *counts.0.first_chunk().expect("more than seven"),
            at: changes.journal.last().map_or(0, |entry| entry.at().as_micros()),
            entries: encode_entries(&changes.journal),
        }
    }
}

#[derive(Debug)]
struct Uuid([u8; 16]);

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

/// Writes what was recorded, and nothing else: no locks, no reading, no deciding, no encoding, no order in the journal, no
/// news. Statements are sent without waiting for each other, as the store does.
struct Bare {
    client: Client,
    slot: i16,
    begin: Statement,
    commit: Statement,
    insert: Statement,
    inputs: Statement,
    update: Statement,
    outcomes: Statement,
    counts: Statement,
    journal: Statement,
}

impl Bare {
    async fn open(url: &str, slot: i16) -> Bare {
        let client = connect(url).await;
        let settings =
            "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off;
                        SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off";
        client.batch_execute(settings).await.expect("the settings");
        let prepare = |sql: &'static str| {
            let client = &client;
            async move { client.prepare(sql).await.expect("a good statement") }
        };
        Bare {
            begin: prepare("BEGIN").await,
            commit: prepare("COMMIT").await,
            insert: prepare(
                "INSERT INTO jobs (id, client, queue, job_type, state, priority, lane, shelf, due_at, head, body)
                 SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::smallint[], $6::smallint[],
                                      $7::smallint[], $8::text[], $9::bigint[], $10::bytea[], $11::bytea[])",
            )
            .await,
            inputs: prepare("INSERT INTO inputs SELECT * FROM unnest($1::uuid[], $2::bytea[])").await,
            update: prepare(
                "UPDATE jobs SET state = new.state, lane = new.lane, shelf = new.shelf, due_at = new.due_at,
                                 body = new.body
                   FROM unnest($1::uuid[], $2::smallint[], $3::smallint[], $4::text[], $5::bigint[], $6::bytea[])
                     AS new (id, state, lane, shelf, due_at, body)
                  WHERE jobs.id = new.id",
            )
            .await,
            outcomes: prepare(
                "INSERT INTO outcomes SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::bytea[])",
            )
            .await,
            counts: prepare(
                "INSERT INTO counts AS c VALUES ('default', $1, $2, $3, $4, $5, $6, $7, $8)
                 ON CONFLICT (queue, slot) DO UPDATE
                 SET created = c.created + $2, queued = c.queued + $3, assigned = c.assigned + $4,
                     running = c.running + $5, succeeded = c.succeeded + $6, failed = c.failed + $7,
                     canceled = c.canceled + $8",
            )
            .await,
            journal: prepare("INSERT INTO journal VALUES (nextval('journal_seq'), $1, $2)").await,
            client,
            slot,
        }
    }

    async fn write(&self, columns: &Columns) {
        let Columns { inserted, inputs, updated, executions, execution_jobs, outcomes, digests, .. } =
            columns;
        let [a, b, c, d, e, f, g] = &columns.counts;
        let mut sent = vec![self.send(&self.begin, [])];
        if !inserted.ids.is_empty() {
            let JobColumns { ids, clients, queues, job_types, states, priorities, lanes, shelves, .. } =
                inserted;
            let JobColumns { due_at, heads, bodies, .. } = inserted;
            sent.push(self.send(
                &self.insert,
                [ids, clients, queues, job_types, states, priorities, lanes, shelves, due_at, heads, bodies],
            ));
            sent.push(self.send(&self.inputs, [ids, inputs]));
        }
        if !updated.ids.is_empty() {
            let JobColumns { ids, states, lanes, shelves, due_at, bodies, .. } = updated;
            sent.push(self.send(&self.update, [ids, states, lanes, shelves, due_at, bodies]));
        }
        if !executions.is_empty() {
            sent.push(self.send(&self.outcomes, [executions, execution_jobs, outcomes, digests]));
        }
        sent.push(self.send(&self.counts, [&self.slot, a, b, c, d, e, f, g]));
        sent.push(self.send(&self.journal, [&columns.at, &columns.entries]));
        sent.push(self.send(&self.commit, []));
        // The first round, in order, sends them all.
        poll_fn(|context| {
            sent.retain_mut(|answer| answer.as_mut().poll(context).is_pending());
            if sent.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn send<'a, const N: usize>(
        &'a self,
        statement: &'a Statement,
        values: [&'a (dyn ToSql + Sync); N],
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async move {
            self.client.execute(statement, &values).await.expect("the bare loop works");
        })
    }
}
