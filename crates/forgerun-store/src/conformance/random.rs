//! Random commands in lock step with the memory store: the same answers, and time and again the same snapshot.
//!
//! Deterministic: a failure names seed and batch, and comes back with the next run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forgerun_core::fair::{TurnNames, is_about_turns};
use forgerun_core::job::{Job, Name};
use forgerun_core::rows::Changes;
use forgerun_core::time::Time;
use forgerun_core::{Batch, Wants};

use super::Fixture;
use super::dice::{Commands, Dice};
use super::harness::{at_once, commit_batch, commit_until_done, look};
use super::make::START;
use super::snapshot::{Snapshot, snapshot};
use crate::memory::Memory;
use crate::{Store, Sweep};

const SEEDS: u64 = 16;
const BATCHES: u64 = 60;

/// Two nodes take turns, the store is opened anew for every seed, and all along it does what memory does.
pub async fn random_commands_do_what_they_do_in_memory(fixture: &dyn Fixture) {
    let model: Arc<dyn Store> = Arc::new(Memory::new());
    let mut commands = Commands::default();
    let mut now = START;
    let mut stores = [fixture.store(), fixture.second()];
    for seed in 1..=SEEDS {
        let mut dice = Dice::new(seed);
        for n_batch in 0..BATCHES {
            now = now + Duration::from_millis(dice.below(12_000));
            let size = 1 + dice.below(6);
            let batch =
                Batch { now, seed, commands: (0..size).map(|_| commands.draw(&mut dice, now)).collect() };
            let told = format!("seed {seed}, batch {n_batch}: {batch:?}");
            let expected = commit_batch(&model, batch.clone()).await.expect("memory does not fail");
            let done = commit_batch(&stores[dice.below(2) as usize], batch).await;
            let done = done.unwrap_or_else(|error| panic!("{error}\n{told}"));
            assert_same(&done, &expected, &told);
            commands.learn(&expected);
        }
        sweep_both(&stores[0], &model, now).await;
        assert_same_picture(snapshot(&stores[1]).await, snapshot(&model).await, seed);
        stores[0] = fixture.reopen().await;
        stores[1] = fixture.second();
    }
}

/// Many tasks on two nodes draw from one small world, at once; what they leave behind agrees with itself.
pub async fn random_commands_at_once_leave_everything_sound(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let world = Arc::new(Mutex::new((Commands::default(), START)));
    at_once(8, |task| {
        let (store, world) = (stores[task as usize % 2].clone(), world.clone());
        async move {
            let mut dice = Dice::new(task);
            for _ in 0..BATCHES {
                let batch = draw(&world, &mut dice);
                let changes = commit_until_done(&store, batch).await;
                world.lock().unwrap().0.learn(&changes);
            }
        }
    })
    .await;
    let snapshot = snapshot(&stores[0]).await;
    let everything = Wants { jobs: snapshot.jobs.keys().copied().collect(), ..Wants::default() };
    let limits = look(&stores[1], everything).await.limits;
    for (key, row) in limits.into_iter().filter(|(key, _)| !is_about_turns(key)) {
        let holds =
            |job: &&Job| job.state.is_active() && job.head.limits.iter().any(|limit| limit.key == key);
        assert_eq!(row.active as usize, snapshot.jobs.values().filter(holds).count(), "{key}");
    }
    let mut in_line: BTreeMap<Name, usize> = BTreeMap::new();
    for job in snapshot.jobs.values().filter(|job| job.is_claimable()) {
        if let Some(names) = TurnNames::of(&job.head) {
            *in_line.entry(names.key).or_default() += usize::from(job.turn.is_some());
        }
    }
    assert!(in_line.values().all(|&n| n == 1), "one job of each key is in line: {in_line:?}");
    let told: usize = snapshot.journal.iter().map(Vec::len).sum();
    assert!(told > 300, "enough has happened: {told}");
}

fn draw(world: &Mutex<(Commands, Time)>, dice: &mut Dice) -> Batch {
    let mut world = world.lock().unwrap();
    let (commands, now) = &mut *world;
    *now = *now + Duration::from_millis(dice.below(1500));
    let commands = (0..=dice.below(6)).map(|_| commands.draw(dice, *now)).collect();
    Batch { now: *now, seed: dice.below(u64::MAX), commands }
}

/// All that a batch tells, except in which order its jobs were written.
fn assert_same(done: &Changes, expected: &Changes, told: &str) {
    assert_eq!(done.answers, expected.answers, "{told}");
    assert_eq!(done.journal, expected.journal, "{told}");
    assert_eq!(done.outcomes, expected.outcomes, "{told}");
    assert_eq!(done.counts, expected.counts, "{told}");
    assert_eq!(done.limits, expected.limits, "{told}");
    assert_eq!(done.woken, expected.woken, "{told}");
    assert_eq!(done.next_due, expected.next_due, "{told}");
    assert_eq!(done.deliveries, expected.deliveries, "{told}");
    assert_eq!(done.deliveries_changed, expected.deliveries_changed, "{told}");
    assert_eq!(done.webhooks, expected.webhooks, "{told}");
    assert_eq!(done.delivery_due, expected.delivery_due, "{told}");
}

/// Part by part, so that a failure says where to look.
fn assert_same_picture(found: Snapshot, expected: Snapshot, seed: u64) {
    assert_eq!(found.jobs, expected.jobs, "seed {seed}");
    assert_eq!(found.queues, expected.queues, "seed {seed}");
    assert_eq!(found.journal, expected.journal, "seed {seed}");
    assert_eq!(found.deliveries, expected.deliveries, "seed {seed}");
    assert_eq!(found, expected, "seed {seed}");
}

async fn sweep_both(store: &Arc<dyn Store>, model: &Arc<dyn Store>, now: Time) {
    let before = now - Duration::from_secs(300);
    let sweep = Sweep {
        journal_before: before,
        journal_until: i64::MAX,
        tombstones_before: before,
        revoked_keys_before: before,
        deliveries_before: before,
        results_until: before,
        loose_before: before,
        // Nothing of what a store may have more of than another: rows of limits that were looked at and not used.
        ..Sweep::nothing(10_000)
    };
    assert_eq!(store.sweep(sweep).await.unwrap(), model.sweep(sweep).await.unwrap());
}
