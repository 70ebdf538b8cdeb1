//! What the operator asks: about all clients at once.

use std::time::Duration;

use forgerun_core::client::{ApiKey, Client};
use forgerun_core::command::{Command, KeyCaller, KeyCommand};
use forgerun_core::failure::{FailureBatch, FailureGroup};
use forgerun_core::id::{JobId, KeyId};
use forgerun_core::job::Lane;
use forgerun_core::rows::{Activity, Minute};
use forgerun_core::scope::KeyScopes;
use forgerun_core::state::State;

use super::Fixture;
use super::harness::{accepted, ask, at_once, claimed, fold_with, run, the_one};
use super::make::{
    START, at, cancel, client, fail, id, job, job_with, mine, name, shelf, submit, submit_all, take,
};
use super::snapshot::snapshot;
use crate::Filter;

fn key(n: u8) -> ApiKey {
    ApiKey {
        id: KeyId::from_u128(u128::from(n)),
        client: client(1),
        digest: [n; 32],
        prefix: format!("frk_{n}"),
        created_at: START,
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
        name: None,
        scopes: KeyScopes::ALL,
    }
}

/// Clients come in pages, and each with all its keys, revoked ones included.
pub async fn all_clients_are_listed_in_pages_with_their_keys(fixture: &dyn Fixture) {
    let store = fixture.store();
    assert_eq!(store.all_clients(None, 10).await.unwrap(), []);
    assert_eq!(store.all_webhooks(None, 10).await.unwrap(), []);
    let clients: Vec<Client> = (1..=5).map(|n| Client::new(client(n), at(n as u64))).collect();
    run(&store, START, clients.iter().copied().map(Command::Register).collect()).await;
    for (n, rotate) in [(1, false), (2, true)] {
        let create = KeyCommand::Create {
            key: key(n),
            scopes: None,
            rotate,
            overlap: Duration::ZERO,
            by: KeyCaller::Operator,
        };
        ask(&store, at(9), Command::Key(create)).await;
    }
    let store = fixture.second();
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = store.all_clients(after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        listed.extend(page.iter().map(|client| (client.id, client.created_at, client.keyed)));
    }
    let expected: Vec<_> =
        clients.iter().map(|known| (known.id, known.created_at, known.id == client(1))).collect();
    assert_eq!(listed, expected);
    let keys = store.api_keys_of(client(1)).await.unwrap();
    let shown: Vec<_> = keys.iter().map(|key| (key.digest[0], key.revoked_at.is_some())).collect();
    assert_eq!(shown, [(1, true), (2, false)]);
    assert_eq!(store.api_keys_of(client(2)).await.unwrap(), []);
}

/// What happened is summed by queue and by minute, from a minute on.
pub async fn what_happened_is_summed_by_queue(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit(job(1, "q"))).await);
    accepted(ask(&store, at(120), submit(job(2, "q"))).await);
    accepted(ask(&store, at(120), submit(job(3, "other"))).await);
    let held = the_one(ask(&store, at(180), take(&["q"], 1)).await);
    ask(&store, at(181), fail(&held)).await;
    let Minute(first) = Minute::of(START);
    let summed = async |minutes| {
        let mut found = fixture.second().activity_by_queue(Minute(first + minutes)).await.unwrap();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        let of = |activity: &Activity| [activity.submitted, activity.started, activity.failed];
        found.iter().map(|(queue, activity)| (queue.clone(), of(activity))).collect::<Vec<_>>()
    };
    let (other, q) = (mine("other"), mine("q"));
    assert_ne!(name("q"), q);
    assert_eq!(summed(0).await, [(other.clone(), [1, 0, 0]), (q.clone(), [2, 1, 1])]);
    assert_eq!(summed(2).await, [(other, [1, 0, 0]), (q.clone(), [1, 1, 1])]);
    assert_eq!(summed(3).await, [(q, [0, 1, 1])]);
    assert_eq!(summed(4).await, []);
    let by_minute = async |minutes| {
        let found = fixture.second().activity_by_minute(Minute(first + minutes)).await.unwrap();
        let of = |activity: &Activity| [activity.submitted, activity.started, activity.failed];
        found.iter().map(|(minute, activity)| (minute.0 - first, of(activity))).collect::<Vec<_>>()
    };
    assert_eq!(by_minute(0).await, [(0, [1, 0, 0]), (2, [2, 0, 0]), (3, [0, 1, 1])]);
    assert_eq!(by_minute(3).await, [(3, [0, 1, 1])]);
}

/// However high the priority of those before it, the oldest job of a shelf is found; and none where none waits.
pub async fn the_oldest_job_of_a_shelf_is_found_whatever_its_priority(fixture: &dyn Fixture) {
    let store = fixture.store();
    let place = || shelf(Lane::External, "q");
    assert!(store.oldest(place()).await.unwrap().is_none());
    let priority = |n, priority| job_with(n, "q", |head| head.priority = priority);
    let jobs = [(3, 5), (4, i16::MAX), (2, i16::MIN), (5, 5), (1, 0), (6, 0)];
    accepted(ask(&store, START, submit_all(jobs.map(|(n, of)| priority(n, of)).to_vec())).await);
    let oldest = async || fixture.second().oldest(place()).await.unwrap().map(|job| job.id);
    assert_eq!(oldest().await, Some(id(1)));
    ask(&store, at(1), cancel(1)).await;
    assert_eq!(oldest().await, Some(id(2)));
}

/// Jobs of one group fail on two nodes at once, while both add up what failed: every failure is counted, once.
pub async fn failures_of_several_nodes_are_all_counted_once(fixture: &dyn Fixture) {
    const N_JOBS: u64 = 96;
    let stores = [fixture.store(), fixture.second()];
    accepted(ask(&stores[0], START, submit_all((1..=N_JOBS).map(|n| job(n, "q")).collect())).await);
    let counted = at_once(8, |task| {
        let store = stores[task as usize % 2].clone();
        async move {
            let mut n_failed = 0;
            for round in 0.. {
                let held = claimed(ask(&store, at(1), take(&["q"], 3)).await);
                if held.is_empty() {
                    return n_failed;
                }
                n_failed += held.len() as u64;
                run(&store, at(2), held.iter().map(fail).collect()).await;
                fold_with(&store, at(3), round * 100 + task).await;
            }
            unreachable!("the jobs run out")
        }
    });
    assert_eq!(counted.await.iter().sum::<u64>(), N_JOBS);
    for round in 0..N_JOBS {
        fold_with(&stores[0], at(4), 1_000_000 + round).await;
    }
    let store = fixture.second();
    let groups: Vec<FailureGroup> = store.records(None, String::new(), 10).await.unwrap();
    let [group] = &groups[..] else { panic!("one group: {groups:?}") };
    assert_eq!((group.count, group.message.as_str()), (N_JOBS, "it did not work"));
    assert_eq!(store.records::<FailureBatch>(None, String::new(), 10).await.unwrap(), []);
    assert_eq!(store.count_failed(group.id, 1000).await.unwrap(), N_JOBS);
    snapshot(&store).await;
}

/// Jobs of all clients in rare states are listed newest first, in pages, with and without other filters.
pub async fn failed_jobs_of_all_clients_are_listed_together(fixture: &dyn Fixture) {
    let store = fixture.store();
    run(&store, START, (1..=3).map(|n| Command::Register(Client::new(client(n), START))).collect()).await;
    let of = |n: u64| {
        job_with(n, if n.is_multiple_of(2) { "even" } else { "odd" }, |head| {
            head.client = client(u128::from(n % 3) + 1)
        })
    };
    accepted(ask(&store, START, submit_all((1..=80).map(of).collect())).await);
    // Every tenth is called off, the others wait.
    run(&store, at(1), (1..=8).map(|n| cancel(n * 10)).collect()).await;
    let listed = async |filter: Filter| {
        let (mut ids, mut before) = (Vec::new(), None);
        loop {
            let page = store.list_jobs(Filter { before, ..filter.clone() }).await.unwrap();
            assert!(page.rows.len() <= filter.limit);
            ids.extend(page.rows.iter().map(|job| job.id));
            match page.next {
                Some(next) => before = Some(next),
                None => return ids,
            }
        }
    };
    let filter = |states: &[State], limit: usize, look_max: usize| Filter {
        states: states.to_vec(),
        limit,
        look_max,
        ..Filter::default()
    };
    let canceled: Vec<JobId> = (1..=8).rev().map(|n| id(n * 10)).collect();
    for (limit, look_max) in [(3, 1000), (100, 1000), (3, 4)] {
        assert_eq!(listed(filter(&[State::Canceled], limit, look_max)).await, canceled);
        let both = listed(filter(&[State::Canceled, State::Queued], limit, look_max)).await;
        assert_eq!(both, (1..=80).rev().map(id).collect::<Vec<_>>());
        let odd = Filter { queue: Some(name("odd")), ..filter(&[State::Queued], limit, look_max) };
        assert_eq!(
            listed(odd).await,
            (1..=80u64).rev().filter(|n| !n.is_multiple_of(2)).map(id).collect::<Vec<_>>()
        );
    }
}
