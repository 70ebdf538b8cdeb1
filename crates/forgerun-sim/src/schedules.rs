//! Schedules that tick every few seconds, and the auditor's ledger of their ticks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::command::{PutSchedule, ScheduleCommand};
use forgerun_core::id::ClientId;
use forgerun_core::job::{Head, Input, Name};
use forgerun_core::queue::Owner;
use forgerun_core::record::{RecordKey, RecordKind, Stored};
use forgerun_core::schedule::{CatchUp, Overlap, Schedule, ScheduleId};
use forgerun_core::time::Time;
use forgerun_core::{Changes, Command};
use forgerun_engine::{Clock, Error};
use forgerun_store::Store;

use crate::clients;
use crate::run::SimContext;

const PERIOD: Duration = Duration::from_secs(5);
const EXPRESSION: &str = "*/5 * * * * *";

fn id(client: ClientId) -> ScheduleId {
    ScheduleId { owner: Owner::client(client), name: Name::new("often").expect("a short name") }
}

/// Registers a schedule of a client, as an application does on start: repeatedly, until it is
/// acknowledged.
pub(crate) async fn register(context: Arc<SimContext>, number: u64) {
    let (world, client) = (&context.world, clients::client(number));
    let overlap = [Overlap::Skip, Overlap::Allow, Overlap::CancelPrevious, Overlap::Enqueue];
    let overlap = overlap[world.below(4) as usize];
    let catch_up = [CatchUp::Nothing, CatchUp::One, CatchUp::All(100)][world.below(3) as usize];
    let jitter = if world.chance(300) { world.up_to_ms(3000) } else { Duration::ZERO };
    loop {
        world.pass(world.up_to_ms(2000)).await;
        if context.is_calm() {
            return;
        }
        let Some(engine) = context.nodes.any() else { continue };
        let now = world.now();
        let head = Head::new(client, clients::queue(number), now);
        let input = Arc::new(Input::default());
        let schedule = Schedule::new(id(client), EXPRESSION.into(), "UTC".into(), head, input);
        let schedule = Schedule { overlap, catch_up, jitter, next_at: Some(tick_after(now)), ..schedule };
        let put = PutSchedule { schedule, enabled: None };
        match engine.run(Command::Schedule(ScheduleCommand::Put(Box::new(put)))).await {
            Ok(_) if world.chance(500) => return,
            Ok(_) | Err(_) => {}
        }
    }
}

fn tick_after(now: Time) -> Time {
    let period = PERIOD.as_micros() as i64;
    Time::from_micros((now.as_micros().div_euclid(period) + 1) * period)
}

/// Waits until every schedule has processed its ticks, and deletes it: otherwise there would be
/// work for ever.
pub(crate) async fn end(context: &SimContext, store: &dyn Store) {
    for number in 0..clients::N_CLIENTS {
        let id = id(clients::client(number));
        for _ in 0..600 {
            let known: Option<Schedule> = store.record(id.key()).await.expect("the store is calm");
            let Some(schedule) = known else { break };
            let is_behind = schedule.due_at().is_none_or(|at| at <= context.world.now());
            let Some(engine) = context.nodes.any().filter(|_| !is_behind) else {
                context.world.pass(Duration::from_millis(200)).await;
                continue;
            };
            match engine.run(Command::Schedule(ScheduleCommand::Delete(id.clone()))).await {
                Ok(_) => break,
                Err(Error::Overloaded) => context.world.pass(Duration::from_millis(10)).await,
                Err(error) => context.log.broken(format!("a schedule could not be deleted: {error}")),
            }
        }
        if store.record::<Schedule>(id.key()).await.expect("the store is calm").is_some() {
            context.log.broken(format!("schedule {} does not get on with its ticks", id.key()));
        }
    }
}

#[derive(Default)]
pub(crate) struct TickLedger {
    /// Ticks that made a job, by schedule.
    made: BTreeMap<RecordKey, BTreeSet<Time>>,
    /// The first and the next tick of each schedule.
    known: BTreeMap<RecordKey, (Time, Time)>,
    n_ticks: u64,
}

impl TickLedger {
    pub(crate) fn n_ticks(&self) -> u64 {
        self.n_ticks
    }

    pub(crate) fn see(&mut self, changes: &Changes, broken: &mut Vec<String>) {
        for (job, _) in &changes.inserted {
            let Some(run) = &job.head.schedule else { continue };
            let id = ScheduleId { owner: job.head.owner(), name: run.name.clone() };
            self.n_ticks += 1;
            if !self.made.entry(Schedule::record_key(id.key())).or_default().insert(run.tick) {
                broken.push(format!("tick {:?} of {} made a second job, {}", run.tick, id.key(), job.id));
            }
        }
        for (key, change) in changes.records.iter().filter(|(key, _)| key.kind == RecordKind::Schedule) {
            match change.new.as_ref().and_then(|record| Schedule::of(record).ok()) {
                Some(schedule) => self.see_schedule(key, &schedule, broken),
                None => drop(self.known.remove(key)),
            }
        }
    }

    /// Ticks only ascend, and each passed tick is counted once: it made a job, was skipped, or was
    /// missed.
    fn see_schedule(&mut self, key: &RecordKey, schedule: &Schedule, broken: &mut Vec<String>) {
        let Some(next) = schedule.next_at else {
            broken.push(format!("schedule {} has no next tick", key.key));
            return;
        };
        let (first, before) = self.known.get(key).copied().unwrap_or((next, next));
        if next < before {
            broken.push(format!("schedule {} went back from {before:?} to {next:?}", key.key));
        }
        let n_passed = next.since(first).as_micros() / PERIOD.as_micros();
        let n_counted = schedule.n_runs + schedule.n_skipped + schedule.n_missed;
        if u128::from(n_counted) != n_passed {
            broken.push(format!("schedule {} passed {n_passed} ticks and counts {n_counted}", key.key));
        }
        let n_made = self.made.get(key).map_or(0, BTreeSet::len) as u64;
        if schedule.n_runs != n_made {
            broken
                .push(format!("schedule {} says {} runs, and made {n_made} jobs", key.key, schedule.n_runs));
        }
        if matches!(schedule.catch_up, CatchUp::All(_)) && schedule.n_missed > 0 {
            broken.push(format!("schedule {} missed ticks that it should make up for", key.key));
        }
        self.known.insert(key.clone(), (first, next));
    }
}
