//! Plays one seed to its end: faults, then calm, then the final checks.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use forgerun_core::audit::{AuditChain, AuditCount, AuditEntry, AuditFault, Verifier};
use forgerun_core::client_limits::ClientUsage;
use forgerun_core::history::EventKind;
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::invariants;
use forgerun_core::job::Job;
use forgerun_core::rows::Counts;
use forgerun_core::state::State;
use forgerun_core::{Command, Refusal};
use forgerun_engine::Error;
use forgerun_store::{Filter, Store};

use crate::Sabotage;
use crate::acknowledged::Acknowledged;
use crate::auditor::Auditor;
use crate::broker::Broker;
use crate::faulty_store::FaultyStore;
use crate::flows::{self, FlowLedger};
use crate::nodes::Nodes;
use crate::receivers::Receivers;
use crate::run_log::RunLog;
use crate::world::World;
use crate::{clients, schedules, workers, workflows};

/// The result of a seed.
#[derive(Clone, Copy, Debug)]
pub struct SimReport {
    /// Jobs whose acceptance was acknowledged.
    pub n_jobs: usize,
    pub n_commits: u64,
    pub n_events: u64,
    pub n_outcomes: usize,
    /// Send attempts.
    pub n_sends: u64,
    /// Distinct events at the broker.
    pub n_at_broker: u64,
    /// Ticks that made a job.
    pub n_ticks: u64,
    /// Turns that fair keys took while others waited.
    pub n_turns: u64,
}

/// A seed that violated a rule.
#[derive(Clone, Debug)]
pub struct SimFailure {
    pub seed: u64,
    pub broken: String,
    pub log: Vec<String>,
}

impl fmt::Display for SimFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} broke a rule: {}", self.seed, self.broken)?;
        self.log.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        write!(f, "play it again with: forgerun-sim --seed {}", self.seed)
    }
}

/// Shared by all parts of a run.
pub(crate) struct SimContext {
    pub(crate) world: Arc<World>,
    pub(crate) log: RunLog,
    pub(crate) acknowledged: Acknowledged,
    pub(crate) flows: FlowLedger,
    pub(crate) nodes: Nodes,
    /// `None` in a world without webhooks.
    pub(crate) receivers: Option<Receivers>,
    /// `None` in a world without a sink.
    pub(crate) broker: Option<Broker>,
    pub(crate) sabotage: Option<Sabotage>,
    act: AtomicU8,
}

const TROUBLE: u8 = 0;
const CALM: u8 = 1;
const CLEARED: u8 = 2;

impl SimContext {
    /// Whether faults have ended.
    pub(crate) fn is_calm(&self) -> bool {
        self.act.load(Ordering::Relaxed) >= CALM
    }

    /// Whether all actors should end.
    pub(crate) fn is_cleared(&self) -> bool {
        self.act.load(Ordering::Relaxed) >= CLEARED || self.log.is_broken()
    }
}

pub fn run(seed: u64, sabotage: Option<Sabotage>) -> Result<SimReport, Box<SimFailure>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without input or output needs nothing").block_on(play(seed, sabotage))
}

async fn play(seed: u64, sabotage: Option<Sabotage>) -> Result<SimReport, Box<SimFailure>> {
    let world = Arc::new(World::new(seed));
    let log = RunLog::new(world.clone());
    let store = Arc::new(FaultyStore::new(world.clone(), log.clone(), sabotage));
    // Deliveries make a world three times as expensive, so most have none, and those that have are
    // shorter.
    let receivers =
        world.chance(250).then(|| Receivers::new(world.clone(), log.clone(), store.auditor.clone()));
    let broker = world.chance(250).then(|| Broker::new(world.clone(), log.clone()));
    let nodes = Nodes::new(world.clone(), log.clone(), store.clone(), receivers.clone(), broker.clone());
    let acknowledged = Acknowledged::new(log.clone());
    let act = AtomicU8::new(TROUBLE);
    let flows = FlowLedger::default();
    let context =
        Arc::new(SimContext { world, log, acknowledged, flows, nodes, receivers, broker, sabotage, act });

    let workers: Vec<_> =
        (0..2 + context.world.below(4)).map(|n| tokio::spawn(workers::live(context.clone(), n))).collect();
    let n_actions = 10 + context.world.below(if context.receivers.is_some() { 15 } else { 40 });
    let clients: Vec<_> =
        (0..clients::N_CLIENTS).map(|n| tokio::spawn(clients::live(context.clone(), n, n_actions))).collect();
    // Schedules make jobs as long as the world lasts, so only some worlds have them.
    let n_schedules = if context.world.chance(250) { 1 + context.world.below(clients::N_CLIENTS) } else { 0 };
    let registering: Vec<_> =
        (0..n_schedules).map(|n| tokio::spawn(schedules::register(context.clone(), n))).collect();
    let chaos = tokio::spawn(chaos(context.clone()));
    for client in clients {
        client.await.expect("clients do not panic");
    }
    chaos.abort();
    let _ = chaos.await;

    calm_down(&context, &store).await;
    for registering in registering {
        registering.await.expect("applications do not panic");
    }
    context.act.store(CLEARED, Ordering::Relaxed);
    for worker in workers {
        worker.await.expect("workers do not panic");
    }
    if !context.log.is_broken() {
        reckon(&context, &store).await;
    }
    let (n_commits, n_events) = store.auditor.numbers();
    match context.log.end() {
        Some((broken, log)) => Err(Box::new(SimFailure { seed, broken, log })),
        None => Ok(SimReport {
            n_jobs: context.acknowledged.jobs().len(),
            n_commits,
            n_events,
            n_outcomes: store.auditor.outcomes().len(),
            n_sends: context.receivers.as_ref().map_or(0, Receivers::n_sends),
            n_at_broker: context.broker.as_ref().map_or(0, Broker::n_arrived),
            n_ticks: store.auditor.n_ticks(),
            n_turns: store.auditor.n_turns(),
        }),
    }
}

/// Crashes, restarts and clock jumps, until it is stopped.
async fn chaos(context: Arc<SimContext>) {
    loop {
        context.world.pass(Duration::from_millis(500) + context.world.up_to_ms(20_000)).await;
        match context.world.below(4) {
            0 => context.nodes.restart().await,
            1 => {
                let ms = context.world.below(65_000) as i64 - 5000;
                context.log.note(|| format!("the clock jumps by {ms} ms"));
                context.world.jump_ms(ms);
            }
            _ => context.nodes.crash().await,
        }
    }
}

/// No more faults, all queues resumed, well-behaved workers only: now all work must end.
async fn calm_down(context: &SimContext, store: &FaultyStore) {
    context.log.note(|| "calm".into());
    store.calm_down();
    context.act.store(CALM, Ordering::Relaxed);
    context.receivers.iter().for_each(Receivers::calm_down);
    context.broker.iter().for_each(Broker::calm_down);
    // Chaos may have been stopped with a node down.
    while context.nodes.any().is_none() {
        context.nodes.crash().await;
    }
    for queue in clients::queues() {
        run_when_there_is_room(context, clients::set_paused(queue, false)).await;
    }
    schedules::end(context, store).await;
    // Workflows first, because their steps are resumed with them.
    for is_workflow in [true, false] {
        let jobs = all_jobs(store as &dyn Store).await;
        let paused = jobs.iter().filter(|job| job.paused && job.head.workflow_head.is_some() == is_workflow);
        for job in paused {
            run_when_there_is_room(context, clients::set_job_paused(job.id, job.head.client, false)).await;
        }
    }
    let auditor = &store.auditor;
    let store: &dyn Store = store;
    let open =
        || auditor.with_ledger(|ledger| ledger.deliveries().filter(|known| known.stage.is_open()).count());
    for _ in 0..600 {
        context.world.pass(Duration::from_secs(1)).await;
        let jobs = all_jobs(store).await;
        let is_over = jobs.iter().all(|job| job.state.is_final()) && open() == 0;
        if context.log.is_broken() || is_over && unsent(context, auditor, store).await == 0 {
            return;
        }
    }
    let n_unsent = unsent(context, auditor, store).await;
    if n_unsent > 0 {
        context.log.broken(format!("{n_unsent} events never reached the broker"));
    }
    if open() > 0 {
        context.log.broken(format!("{} deliveries never came to an end", open()));
    }
    for job in all_jobs(store).await.iter().filter(|job| !job.state.is_final()) {
        context.log.broken(format!("job {} never ended: {:?} {:?}", job.id, job.state, job.shelf()));
    }
}

/// Runs a command, after a while if there is no room for it.
async fn run_when_there_is_room(context: &SimContext, command: Command) {
    while let Some(engine) = context.nodes.any() {
        match engine.run(command.clone()).await {
            Err(Error::Overloaded) => context.world.pass(Duration::from_millis(10)).await,
            _ => break,
        }
    }
}

/// Number of events that the broker lacks.
async fn unsent(context: &SimContext, auditor: &Auditor, store: &dyn Store) -> usize {
    match (&context.broker, auditor.sink_begin()) {
        (Some(broker), Some(begin)) => broker.missing(begin, store).await.len(),
        (Some(_), None) | (None, _) => 0,
    }
}

/// Checks what must follow from everything that was acknowledged.
async fn reckon(context: &SimContext, store: &FaultyStore) {
    let digests = store.auditor.outcomes();
    let store: &dyn Store = store;
    if let Some(receivers) = &context.receivers {
        receivers.reckon(store).await;
    }
    for fault in audit_faults(store).await {
        context.log.broken(format!("the audit trail is damaged: {fault}"));
    }
    for id in context.acknowledged.jobs().into_keys() {
        let job = store.job(id).await.expect("the store is calm");
        let tombstone = store.tombstone(id.first_execution()).await.expect("the store is calm");
        match (job, tombstone) {
            (Some(job), None) => {
                reckon_job(context, store, &job).await;
                if job.head.workflow_head.is_some() {
                    workflows::reckon(context, store, &job).await;
                }
            }
            (None, Some(_)) => {}
            (job, tombstone) => {
                context.log.broken(format!("acknowledged job {id} is lost: {job:?}, {tombstone:?}"));
            }
        }
    }
    for (execution, (id, state)) in context.acknowledged.ended_executions() {
        if store.tombstone(execution).await.expect("the store is calm").is_some() {
            continue;
        }
        let outcome = store.outcome(execution).await.expect("the store is calm");
        let unchanged =
            outcome.as_ref().map(|outcome| outcome.object.digest) == digests.get(&execution).copied();
        let tells = |text: &[u8]| String::from_utf8_lossy(text).contains(&format!("{state:?}"));
        if !outcome.as_ref().is_some_and(|outcome| unchanged && tells(&outcome.object.bytes)) {
            context.log.broken(format!("job {id}: execution {execution} ended {state:?}, but: {outcome:?}"));
        }
    }
    flows::reckon(context, store).await;
    reckon_counts(context, store).await;
    reckon_journal(context, store).await;
    reckon_refusals(context, store).await;
}

async fn reckon_job(context: &SimContext, store: &dyn Store, job: &Job) {
    let checks = [invariants::job(job), invariants::chain(job.history.events())];
    for invariants::Broken(name) in checks.into_iter().filter_map(Result::err) {
        context.log.broken(format!("job {}: {name}", job.id));
    }
    for execution in job.executions_past.iter().chain([&job.execution]) {
        if store.outcome(*execution).await.expect("the store is calm").is_none() {
            context.log.broken(format!("job {}: execution {execution} has no outcome", job.id));
        }
    }
}

/// The counts of every queue equal a recount.
async fn reckon_counts(context: &SimContext, store: &dyn Store) {
    let jobs = all_jobs(store).await;
    for stats in store.queues().await.expect("the store is calm") {
        let mut recount = Counts::default();
        let of_queue = jobs.iter().filter(|job| job.head.queue_id().key() == stats.queue);
        of_queue.for_each(|job| recount.add(job.facet(), 1));
        if recount != stats.counts {
            context
                .log
                .broken(format!("queue {}: counted {:?}, found {recount:?}", stats.queue, stats.counts));
        }
    }
    let mut recount: std::collections::BTreeMap<ClientId, ClientUsage> = Default::default();
    for job in &jobs {
        let usage = recount.entry(job.head.client).or_default();
        let is_real = !job.head.is_simulated() && job.head.workflow_head.is_none();
        usage.waiting += i64::from(job.state == State::Queued);
        usage.active += i64::from(job.state.is_active() && is_real);
        usage.bytes += job.stored_bytes.cast_signed();
    }
    for (client, recount) in recount {
        let counted = store.client_usage(client).await.expect("the store is calm");
        if counted != recount {
            context.log.broken(format!("client {client}: counted {counted:?}, found {recount:?}"));
        }
    }
}

/// The journal has exactly the events of the histories of existing jobs.
async fn reckon_journal(context: &SimContext, store: &dyn Store) {
    let mut told: std::collections::BTreeMap<JobId, Vec<_>> = Default::default();
    for row in store.journal(0, usize::MAX).await.expect("the store is calm") {
        for (job, event) in
            row.job_events().filter(|(_, event)| matches!(event.kind, EventKind::Moved { .. }))
        {
            told.entry(job).or_default().push(*event);
        }
    }
    for job in all_jobs(store).await {
        let history: Vec<_> = job.history.events().collect();
        if told.get(&job.id) != Some(&history) {
            context.log.broken(format!("job {}: journal and history differ", job.id));
        }
    }
}

/// Long after the end, no worker can end a job again.
async fn reckon_refusals(context: &SimContext, store: &dyn Store) {
    use forgerun_core::command::{HeldJob, LeaseProof, Succeed};
    let Some(engine) = context.nodes.any() else { return };
    for job in all_jobs(store).await.into_iter().take(3) {
        let held = HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: None };
        match engine.act(Command::Succeed(Succeed { held, output: None })).await {
            Err(Error::Refused(
                Refusal::AlreadyCompleted(_)
                | Refusal::AlreadyCanceled
                | Refusal::LeaseLost
                | Refusal::NotFound,
            )) => {}
            other => context.log.broken(format!("job {} was ended again: {other:?}", job.id)),
        }
    }
}

async fn all_jobs(store: &dyn Store) -> Vec<Job> {
    store.jobs(Filter { limit: usize::MAX, ..Filter::default() }).await.unwrap_or_default()
}

async fn audit_faults(store: &dyn Store) -> Vec<AuditFault> {
    let chains: Vec<AuditChain> = store.records(None, String::new(), 100).await.expect("the store is calm");
    let count: Option<AuditCount> =
        store.record(AuditCount::KEY.to_owned()).await.expect("the store is calm");
    let mut verifier = Verifier::new(chains, count.unwrap_or_default());
    let entries: Vec<AuditEntry> =
        store.records(None, String::new(), 10_000).await.expect("the store is calm");
    entries.iter().for_each(|entry| verifier.see(entry));
    verifier.finish().faults
}
