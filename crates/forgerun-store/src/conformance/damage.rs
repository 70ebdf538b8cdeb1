//! Rows that cannot be read: each is set aside, and everything else goes on.

use std::sync::Arc;

use forgerun_core::command::Command;
use forgerun_core::delivery::Delivery;
use forgerun_core::id::JobId;
use forgerun_core::job::Job;
use forgerun_core::set_aside::{RowId, SetAside};
use forgerun_core::state::State;
use forgerun_core::workflow::StepCondition;

use super::Fixture;
use super::deliveries::{arrived, courier, hook, register, settle, taken};
use super::harness::{accepted, ask, claimed, commit, done, n_due, the_one};
use super::make::{START, at, cancel, id, job, job_with, submit, submit_all, succeed, take};
use super::schedules;
use super::workflows::{step, workflow};
use crate::{DeliveriesOf, DeliveryFilter, Fault, Filter, Store};

async fn set_aside(store: &Arc<dyn Store>) -> Vec<RowId> {
    store.set_aside(99).await.unwrap().into_iter().map(|SetAside { row, .. }| row).collect()
}

fn ids(jobs: &[Job]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// A claim passes a damaged job by, however many stand at the head of the queue, and the next one does not meet it again.
pub async fn a_damaged_job_does_not_block_the_claims_behind_it(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit_all((1..=4).map(|n| job(n, "a")).collect())).await);
    for n in [1, 2] {
        fixture.damage(RowId::Job(id(n))).await;
    }
    let answer = ask(&store, at(1), take(&["a"], 2)).await;
    assert!(matches!(answer, forgerun_core::Answer::Claimed { more: true, .. }), "there is more behind them");
    assert_eq!(claimed(answer), []);
    assert_eq!(set_aside(&store).await, [RowId::Job(id(1)), RowId::Job(id(2))]);
    assert_eq!(ids(&claimed(ask(&fixture.second(), at(2), take(&["a"], 9)).await)), [id(3), id(4)]);
}

/// What is due happens, but for what is damaged, which is not due any more.
pub async fn a_damaged_job_does_not_stop_the_clock(fixture: &dyn Fixture) {
    let store = fixture.store();
    let scheduled = |n| job_with(n, "a", |head| head.execution_at = Some(at(n)));
    accepted(ask(&store, START, submit_all((1..=3).map(scheduled).collect())).await);
    fixture.damage(RowId::Job(id(1))).await;
    assert_eq!(n_due(ask(&store, at(1), Command::Due(9)).await), 0);
    assert_eq!(store.next_due().await.unwrap(), Some(at(2)));
    let [aside] = &store.set_aside(9).await.unwrap()[..] else { panic!("one is set aside") };
    assert_eq!((aside.row, aside.at), (RowId::Job(id(1)), at(1)));
    assert!(!aside.reason.is_empty());
    assert_eq!(n_due(ask(&store, at(3), Command::Due(9)).await), 2);
    assert_eq!(ids(&claimed(ask(&store, at(4), take(&["a"], 9)).await)), [id(2), id(3)]);
}

/// Whoever names a damaged job is told, and lists leave it out.
pub async fn a_damaged_job_fails_those_who_name_it_and_no_list(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit_all((1..=3).map(|n| job(n, "a")).collect())).await);
    fixture.damage(RowId::Job(id(2))).await;
    assert_eq!(commit(&store, at(1), vec![cancel(2)]).await.unwrap_err().fault, Fault::Corrupt);
    let both = vec![take(&["a"], 9), cancel(2)];
    assert_eq!(commit(&store, at(1), both).await.unwrap_err().fault, Fault::Corrupt, "named and met");
    assert_eq!(store.job(id(2)).await.unwrap_err().fault, Fault::Corrupt);
    let listed = store.jobs(Filter { limit: 9, ..Filter::default() }).await.unwrap();
    assert_eq!(ids(&listed), [id(3), id(1)]);
    let by_id = store.jobs_by_id(vec![id(1), id(2)]).await.unwrap();
    assert_eq!(ids(&by_id), [id(1)]);
    assert_eq!(done(ask(&store, at(2), cancel(1)).await).state, State::Canceled);
}

/// A row that can be read again is where it was, once it is restored; one that cannot stays set aside.
pub async fn a_job_that_can_be_read_again_is_restored(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit(job(1, "a"))).await);
    let row = RowId::Job(id(1));
    fixture.damage(row).await;
    assert_eq!(claimed(ask(&store, at(1), take(&["a"], 1)).await), []);
    let restore = || vec![Command::Restore(row)];
    assert_eq!(commit(&store, at(2), restore()).await.unwrap_err().fault, Fault::Corrupt);
    assert_eq!(set_aside(&store).await, [row]);
    fixture.mend(row).await;
    assert_eq!(claimed(ask(&store, at(3), take(&["a"], 1)).await), [], "nobody restored it");
    let changes = commit(&store, at(4), restore()).await.unwrap();
    assert_eq!(changes.woken.len(), 1, "whoever waits for it is told");
    assert_eq!(set_aside(&store).await, []);
    assert_eq!(the_one(ask(&store, at(5), take(&["a"], 1)).await).id, id(1));
}

/// Nobody names the own job of a workflow when a step ends: the step ends all the same, and the workflow once it can be read again.
pub async fn a_damaged_workflow_stops_neither_the_clock_nor_its_steps(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mut first = step(1, &[], StepCondition::AllSucceeded);
    Arc::make_mut(&mut first.head).expires_at = Some(at(1));
    accepted(ask(&store, START, workflow(900, vec![first, step(2, &[0], StepCondition::AllEnded)])).await);
    let scheduled = job_with(1, "a", |head| head.execution_at = Some(at(1)));
    accepted(ask(&store, START, submit(scheduled)).await);
    let own = RowId::Job(id(900));
    fixture.damage(own).await;
    assert_eq!(n_due(ask(&store, at(1), Command::Due(9)).await), 2, "a step and another job");
    assert_eq!(set_aside(&store).await, [own]);
    let second = the_one(ask(&fixture.second(), at(2), take(&["steps"], 9)).await);
    done(ask(&store, at(3), succeed(&second)).await);
    fixture.mend(own).await;
    commit(&store, at(4), vec![Command::Restore(own)]).await.unwrap();
    assert_eq!(store.job(id(900)).await.unwrap().map(|job| job.state), Some(State::Failed));
    assert_eq!(set_aside(&store).await, []);
}

/// The next tick looks at the job of the last one. If that cannot be read, it is as if it were gone.
pub async fn a_damaged_job_does_not_hold_up_the_schedule_that_made_it(fixture: &dyn Fixture) {
    let store = fixture.store();
    schedules::register(&store, schedules::schedule_id(1, 1)).await;
    for (n, now) in [(1, at(60)), (2, at(120))] {
        let [seen] = &schedules::due(&store, now).await[..] else { panic!("one is due") };
        ask(&store, now, schedules::firing(seen.clone(), n)).await;
        assert!(store.job(id(n)).await.unwrap().is_some());
        fixture.damage(RowId::Job(id(n))).await;
    }
    assert_eq!(set_aside(&store).await, [RowId::Job(id(1))]);
}

/// A courier passes a damaged delivery by; what waited for it in its chain is sent.
pub async fn a_damaged_delivery_stops_neither_the_others_nor_its_chain(fixture: &dyn Fixture) {
    let store = fixture.store();
    ask(&store, START, register(hook(1))).await;
    accepted(ask(&store, START, submit_all(vec![job(1, "a"), job(2, "a")])).await);
    let of = |n| DeliveryFilter {
        of: DeliveriesOf::Job(id(n)),
        status: None,
        before: None,
        limit: 9,
        look_max: usize::MAX,
    };
    let mut chain = store.deliveries(of(1)).await.unwrap();
    chain.sort_by_key(Delivery::position);
    let [first, second] = &chain[..] else { panic!("two events") };
    fixture.damage(RowId::Delivery(first.id)).await;
    let others = taken(ask(&store, at(1), courier(9)).await);
    assert_eq!(others.deliveries.len(), 1, "the first of the other chain");
    assert!(others.deliveries[0].job() == Some(id(2)) && others.more);
    assert_eq!(set_aside(&store).await, [RowId::Delivery(first.id)]);
    let behind = taken(ask(&fixture.second(), at(2), courier(9)).await);
    assert_eq!(behind.deliveries.iter().map(|known| known.id).collect::<Vec<_>>(), [second.id]);
    ask(&store, at(3), settle(&behind.deliveries[0], arrived())).await;
    let listed = store.deliveries(of(1)).await.unwrap();
    assert_eq!(listed.len(), 1, "the damaged one is left out");
    // Mended, it is sent after all, out of order.
    fixture.mend(RowId::Delivery(first.id)).await;
    ask(&store, at(4), Command::Restore(RowId::Delivery(first.id))).await;
    let late = taken(ask(&store, at(60), courier(9)).await);
    assert!(late.deliveries.iter().any(|known| known.id == first.id && known.chain().is_none()));
}

/// A job whose next event meets a damaged delivery goes on all the same.
pub async fn a_damaged_delivery_does_not_hold_up_its_job(fixture: &dyn Fixture) {
    let store = fixture.store();
    ask(&store, START, register(hook(1))).await;
    accepted(ask(&store, START, submit(job(1, "a"))).await);
    let filter = DeliveryFilter {
        of: DeliveriesOf::Job(id(1)),
        status: None,
        before: None,
        limit: 9,
        look_max: usize::MAX,
    };
    let first = store.deliveries(filter).await.unwrap().into_iter().min_by_key(Delivery::position).unwrap();
    fixture.damage(RowId::Delivery(first.id)).await;
    assert_eq!(the_one(ask(&store, at(1), take(&["a"], 1)).await).id, id(1));
    assert_eq!(set_aside(&store).await, [RowId::Delivery(first.id)]);
    assert_eq!(taken(ask(&store, at(2), courier(9)).await).deliveries.len(), 1, "the second of the chain");
}
