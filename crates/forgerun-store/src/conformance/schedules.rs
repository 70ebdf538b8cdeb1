//! Schedules: a tick that several nodes find makes one job.

use std::collections::BTreeMap;
use std::sync::Arc;

use forgerun_core::Batch;
use forgerun_core::command::{Answer, Command, DueTick, Firing, PutSchedule, ScheduleCommand};
use forgerun_core::job::{Head, Name};
use forgerun_core::queue::Owner;
use forgerun_core::schedule::{Overlap, Schedule, ScheduleId};
use forgerun_core::time::Time;

use super::Fixture;
use super::harness::{ask, at_once, commit_until_done};
use super::make::{START, at, client, id, name, secs};
use crate::{Filter, Store};

/// Schedules that tick at the same moments.
const N_SCHEDULES: u64 = 12;

/// Times that each tick is found.
const N_FOUND: u64 = 4;

pub(super) fn schedule_id(owner: u128, n: u64) -> ScheduleId {
    ScheduleId { owner: Owner::client(client(owner)), name: name(&format!("schedule-{n:02}")) }
}

pub(super) async fn register(store: &Arc<dyn Store>, id: ScheduleId) {
    let head = Head::new(id.owner.client, name("q"), START);
    let schedule = Schedule::new(id, "* * * * *".into(), "UTC".into(), head, Arc::default());
    let schedule = Schedule { next_at: Some(at(60)), overlap: Overlap::Allow, ..schedule };
    let put = PutSchedule { schedule, enabled: None };
    ask(store, START, Command::Schedule(ScheduleCommand::Put(Box::new(put)))).await;
}

pub(super) async fn due(store: &Arc<dyn Store>, now: Time) -> Vec<Schedule> {
    match ask(store, now, Command::Due(0)).await {
        Answer::Due { schedules, .. } => schedules,
        answer => panic!("not about what is due: {answer:?}"),
    }
}

pub(super) fn firing(seen: Schedule, job: u64) -> Command {
    let tick = seen.next_at.expect("it is due");
    let ticks = vec![DueTick { at: tick, job: id(job) }];
    let firing = Firing { seen, ticks, n_older: 0, next: Some(tick + secs(60)), queue_max: None };
    Command::Schedule(ScheduleCommand::Fire(Box::new(firing)))
}

/// Both nodes see the schedules as due, and deal with all of them at once, in batches of different sizes.
pub async fn a_tick_that_several_nodes_find_makes_one_job(fixture: &dyn Fixture) {
    let nodes = [fixture.store(), fixture.second()];
    for n in 0..N_SCHEDULES {
        register(&nodes[0], schedule_id(1, n)).await;
    }
    assert_eq!(due(&nodes[0], at(59)).await, []);
    for round in 1..=3 {
        let now = at(60 * round);
        let seen = due(&nodes[(round % 2) as usize], now).await;
        assert_eq!(seen.len() as u64, N_SCHEDULES, "in round {round}");
        at_once(N_FOUND, |found| {
            let node = nodes[(found % 2) as usize].clone();
            let first = (round * N_FOUND + found) * 1000;
            let commands: Vec<Command> =
                seen.iter().cloned().zip(first..).map(|(seen, job)| firing(seen, job)).collect();
            async move {
                for part in commands.chunks(1 + found as usize) {
                    let batch = Batch { now, seed: first, commands: part.to_vec() };
                    commit_until_done(&node, batch).await;
                }
            }
        })
        .await;
        assert_eq!(due(&nodes[0], now).await, [], "in round {round}");
    }
    let filter = Filter { client: Some(client(1)), limit: 1000, ..Filter::default() };
    let mut made: BTreeMap<(Name, Time), u64> = BTreeMap::new();
    for job in nodes[1].jobs(filter).await.unwrap() {
        let run = job.head.schedule.clone().expect("a schedule made it");
        *made.entry((run.name, run.tick)).or_default() += 1;
    }
    assert_eq!(made.len() as u64, 3 * N_SCHEDULES);
    assert!(made.values().all(|n| *n == 1), "{made:?}");
    let all: Vec<Schedule> = nodes[1].records(None, String::new(), 100).await.unwrap();
    assert!(all.iter().all(|schedule| schedule.n_runs == 3), "{all:?}");
}

/// One node deletes schedules while the other changes them. Whoever is first, they are gone: what is deleted is not what was seen any
/// more if the change was first, and what is changed is not there any more if it was second. Each belongs to another client, so that they
/// share no record.
pub async fn a_schedule_that_one_node_deletes_while_another_changes_it_is_gone(fixture: &dyn Fixture) {
    let nodes = [fixture.store(), fixture.second()];
    for round in 1..=5 {
        for n in 0..N_SCHEDULES {
            register(&nodes[0], schedule_id(u128::from(n), round)).await;
        }
        at_once(2 * N_SCHEDULES, |n| {
            let (node, id) = (nodes[(n % 2) as usize].clone(), schedule_id(u128::from(n / 2), round));
            let is_deletion = (n + round) % 2 == 0;
            let command = if is_deletion { ScheduleCommand::Delete(id) } else { ScheduleCommand::Pause(id) };
            let batch =
                Batch { now: at(1), seed: round * 1000 + n, commands: vec![Command::Schedule(command)] };
            async move {
                let answers = commit_until_done(&node, batch).await.answers;
                let is_done = matches!(answers[..], [Answer::Schedule { .. }]);
                assert!(is_done || !is_deletion, "{answers:?}");
            }
        })
        .await;
        let left: Vec<Schedule> = nodes[1].records(None, String::new(), 100).await.unwrap();
        assert_eq!(left, [], "in round {round}");
    }
}
