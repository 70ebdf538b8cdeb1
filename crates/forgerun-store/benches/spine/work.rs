//! The work that is measured: jobs, and the commands of their lives.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::command::{Claim, HeldJob, LeaseProof, NewJob, Submit, Succeed, WorkerKind};
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::item::ItemEnd;
use forgerun_core::job::{Head, Input, Job, Name};
use forgerun_core::queue::Owner;
use forgerun_core::rows::{Object, Render};
use forgerun_core::time::Time;
use forgerun_core::{Answer, Batch, Changes, Command, decide, wants};
use forgerun_store::Store;

/// Who owns all jobs, and whose worker does them.
pub(crate) const CLIENT: ClientId = ClientId::from_u128(7);

/// An outcome of ordinary size. Building it is a dialect's affair and not measured here.
struct Ready;

impl Render for Ready {
    fn outcome(&self, _: &Job, _: &[ItemEnd]) -> Object {
        Object { bytes: vec![b'o'; 600], digest: [7; 32] }
    }
}

/// How the jobs of a run are made.
#[derive(Clone)]
pub(crate) struct Work {
    queue: Name,
    worker: Name,
    /// Three milliseconds pass with each batch; jobs of later works are born later.
    clock_ms: u64,
    n: u64,
}

impl Work {
    pub(crate) fn new() -> Work {
        let name = |text| Name::new(text).expect("a good name");
        Work { queue: name("default"), worker: name("worker-1"), clock_ms: 1_800_000_000_000, n: 0 }
    }

    /// After so many jobs in batches of ten or more.
    #[cfg(feature = "sqlite")]
    pub(crate) fn after(n_jobs: u64) -> Work {
        let start = Work::new();
        Work { clock_ms: start.clock_ms + n_jobs, n: n_jobs, ..start }
    }

    /// One of several that work at the same time, each with ids of its own.
    #[cfg(feature = "postgres")]
    pub(crate) fn lane(lane: u64) -> Work {
        Work { n: lane << 40, ..Work::new() }
    }

    /// One submission per job, as single requests come in.
    pub(crate) fn submit(&mut self, n_jobs: usize) -> Batch {
        let commands = (0..n_jobs).map(|_| vec![self.job()]).map(submit_all).collect();
        self.batch(commands)
    }

    /// One submission of many jobs.
    pub(crate) fn submit_bulk(&mut self, n_jobs: usize) -> Batch {
        let jobs = (0..n_jobs).map(|_| self.job()).collect();
        self.batch(vec![submit_all(jobs)])
    }

    pub(crate) fn claim(&mut self, limit: usize) -> Batch {
        self.batch(vec![Command::Claim(Claim {
            worker: self.worker.clone(),
            worker_kind: WorkerKind::External(Owner::client(CLIENT)),
            queues: vec![self.queue.clone()],
            limit,
            lease: None,
            lease_default: Duration::from_secs(30),
            start: true,
            active_max: None,
        })])
    }

    /// The end of every job that was claimed.
    pub(crate) fn succeed(&mut self, claimed: &Changes) -> Batch {
        let jobs = claimed.answers.iter().flat_map(|answer| match answer {
            Answer::Claimed { jobs, .. } => jobs.as_slice(),
            other => panic!("not claimed: {other:?}"),
        });
        let succeed = |job: &Job| {
            let held = HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: None };
            Command::Succeed(Succeed { held, output: None })
        };
        let commands = jobs.map(succeed).collect();
        self.batch(commands)
    }

    fn job(&mut self) -> NewJob {
        self.n += 1;
        // Random enough to be spread, and the same in every run; within a batch in order, as ids are drawn.
        let random = (u128::from(self.n) << 62) | u128::from(self.n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2);
        let mut head = Head::new(CLIENT, self.queue.clone(), Time::from_millis(self.clock_ms as i64));
        head.job_type = "email.send".into();
        let input = Input { payload: vec![b'p'; 300], ..Input::default() };
        let id = JobId::v7(self.clock_ms, random);
        NewJob { id, id_given: false, head: Arc::new(head), input: Arc::new(input) }
    }

    fn batch(&mut self, commands: Vec<Command>) -> Batch {
        self.clock_ms += 3;
        Batch { now: Time::from_millis(self.clock_ms as i64), seed: self.clock_ms, commands }
    }
}

fn submit_all(jobs: Vec<NewJob>) -> Command {
    Command::Submit(Submit { jobs, idempotency: None, queue_max: None, refuse_paused: false })
}

/// Lets the store decide and write one batch.
pub(crate) async fn transact(store: &dyn Store, batch: Batch) -> Changes {
    let wants = wants(&batch);
    store.transact(wants, Box::new(move |rows| decide(&batch, rows, &Ready))).await.expect("the store works")
}

/// Whole lives in batches: each batch submitted, claimed with its start, ended. `seen` is shown all changes.
pub(crate) async fn lifecycle(
    store: &dyn Store,
    work: &mut Work,
    submits: Vec<Batch>,
    limit: usize,
    mut seen: impl FnMut(Changes),
) {
    for submit in submits {
        seen(transact(store, submit).await);
        let claimed = transact(store, work.claim(limit)).await;
        let succeed = work.succeed(&claimed);
        seen(claimed);
        seen(transact(store, succeed).await);
    }
}
