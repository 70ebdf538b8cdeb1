//! Webhooks, deliveries and signing keys: kept, found, and in order, with several nodes.

use std::collections::{BTreeMap, BTreeSet};

use forgerun_core::Wants;
use forgerun_core::command::{Answer, Command, Refusal, SendResult, SigningCommand, WebhookCommand};
use forgerun_core::delivery::{
    Chain, Delivery, DeliveryFailure, DeliveryStage, DeliveryStatus, DeliverySubject, Endpoint,
};
use forgerun_core::history::{JournalEntry, JournalSubject};
use forgerun_core::id::{DeliveryId, JobId, WebhookId};
use forgerun_core::rows::{DueWant, FailedWant};
use forgerun_core::time::Time;
use forgerun_core::webhook::{Disabled, DisabledReason, Notice, SigningKey, Webhook};

use super::Fixture;
use super::deliveries::{
    arrived, attempt, broke, courier, delete, ensure_key, hook, owned, redeliver, register, settle, taken,
};
use super::harness::{accepted, ask, at_once, done, look, refused, run, the_one};
use super::make::{
    START, at, cancel, client, forget, id, job_with, progress, secs, submit, submit_all, succeed, take,
};
use super::snapshot::{deliveries_of, snapshot};
use crate::{DeliveriesOf, DeliveryFilter, Store, Sweep};

const CALLBACK: &str = "http://caller/";

fn called_back(n: u64) -> forgerun_core::command::NewJob {
    job_with(n, "q", |head| head.callback = Some(CALLBACK.into()))
}

/// What is registered is found, listed in order, changed and deleted.
pub async fn a_webhook_is_kept_listed_changed_and_deleted(fixture: &dyn Fixture) {
    let store = fixture.store();
    let hooks: Vec<Webhook> = (1..=3).map(hook).collect();
    for webhook in [&hooks[1], &hooks[0], &hooks[2]] {
        assert_eq!(
            ask(&store, START, register(webhook.clone())).await,
            Answer::Webhook(webhook.clone().into())
        );
    }
    let second = fixture.second();
    assert_eq!(second.webhooks(client(1), None, 9).await.unwrap(), hooks);
    assert_eq!(second.webhooks(client(1), Some(hooks[0].id), 1).await.unwrap(), hooks[1..2]);
    assert_eq!(second.webhooks(client(2), None, 9).await.unwrap(), []);
    let rotate =
        WebhookCommand::Rotate { webhook: owned(&hooks[0]), secret: vec![9; 24], previous_until: Time::MAX };
    let Answer::Webhook(rotated) = ask(&second, at(1), Command::Webhook(rotate)).await else { panic!() };
    assert_eq!(store.webhook(hooks[0].id).await.unwrap(), Some(rotated.clone()));
    assert_eq!(rotated.secrets.previous, Some((vec![1; 32], Time::MAX)));
    assert_eq!(ask(&second, at(2), delete(&hooks[0])).await, Answer::Settled);
    assert_eq!(store.webhook(hooks[0].id).await.unwrap(), None);
    assert_eq!(refused(ask(&store, at(3), delete(&hooks[0])).await), Refusal::WebhookNotFound);
    let again = Webhook { id: WebhookId::v7(START.unix_ms() + 9, 9), ..hooks[0].clone() };
    assert!(matches!(ask(&store, at(4), register(again)).await, Answer::Webhook(_)), "the URL is free again");
}

/// Fifty registrations of one URL at once: one is made, and the others are told of it.
pub async fn fifty_registrations_of_one_url_make_one(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let answers = at_once(50, |n| {
        let store = stores[n as usize % 2].clone();
        let webhook = Webhook { url: "http://same/".into(), ..hook(u128::from(n) + 1) };
        async move { ask(&store, START, register(webhook)).await }
    });
    let (made, rest): (Vec<Answer>, Vec<Answer>) =
        answers.await.into_iter().partition(|answer| matches!(answer, Answer::Webhook(_)));
    let [Answer::Webhook(made)] = &made[..] else { panic!("one is made, not {}", made.len()) };
    for answer in rest {
        assert_eq!(refused(answer), Refusal::WebhookExists(made.id));
    }
    assert_eq!(stores[0].webhooks(client(1), None, 99).await.unwrap(), [*made.clone()]);
}

/// A batch sees webhooks and deliveries for whatever reason, once, and those of the jobs it sees.
pub async fn a_batch_sees_the_webhooks_and_chains_of_its_jobs(fixture: &dyn Fixture) {
    let store = fixture.store();
    let stranger = Webhook { client: client(2), ..hook(2) };
    run(&store, START, vec![register(hook(1)), register(stranger.clone())]).await;
    accepted(ask(&store, START, submit_all(vec![called_back(1), called_back(2)])).await);
    let all = deliveries_of(&store, DeliveriesOf::Job(id(1))).await;
    assert_eq!(all.len(), 4, "two events to two endpoints");
    let place = |known: &&Delivery| known.position();
    let to = |endpoint: WebhookId| -> Vec<&Delivery> {
        let mut chain: Vec<&Delivery> = all.values().filter(|known| known.to.key() == endpoint).collect();
        chain.sort_by_key(place);
        chain
    };
    let (called, hooked) = (to(WebhookId::from_u128(0)), to(hook(1).id));
    let seen = |wants: Wants| async {
        let rows = look(&fixture.second(), wants).await;
        let deliveries: BTreeSet<DeliveryId> = rows.deliveries.iter().map(|known| known.id).collect();
        let webhooks: BTreeSet<WebhookId> = rows.webhooks.iter().map(|webhook| webhook.id).collect();
        assert_eq!((deliveries.len(), webhooks.len()), (rows.deliveries.len(), rows.webhooks.len()), "once");
        (deliveries, webhooks, rows.deliveries_due)
    };
    let ids = |known: &[&Delivery]| -> BTreeSet<DeliveryId> { known.iter().map(|known| known.id).collect() };

    let by_job = Wants { jobs: BTreeSet::from([id(1)]), ..Wants::default() };
    let (deliveries, webhooks, _) = seen(by_job).await;
    assert_eq!(deliveries, ids(&[called[0], hooked[0]]));
    assert_eq!(webhooks, BTreeSet::from([hook(1).id]));

    let chain = Chain { job: id(1), endpoint: hook(1).id };
    let by_chain = Wants { chains: BTreeSet::from([chain]), ..Wants::default() };
    assert_eq!(seen(by_chain).await.0, ids(&[hooked[0], hooked[1]]));

    let by_id = Wants { deliveries: BTreeSet::from([hooked[1].id]), ..Wants::default() };
    let (deliveries, webhooks, _) = seen(by_id).await;
    assert_eq!((deliveries, webhooks), (ids(&[hooked[1]]), BTreeSet::from([hook(1).id])));

    let by_owner = Wants { webhooks_of: BTreeSet::from([client(2)]), ..Wants::default() };
    assert_eq!(seen(by_owner).await.1, BTreeSet::from([stranger.id]));

    let due = Wants { deliveries_due: Some(DueWant { now: START, limit: 3 }), ..Wants::default() };
    let (deliveries, webhooks, in_order) = seen(due).await;
    assert_eq!((deliveries.len(), in_order.len()), (3, 3));
    assert_eq!(webhooks, BTreeSet::from([hook(1).id]));
    let early =
        Wants { deliveries_due: Some(DueWant { now: START - secs(1), limit: 3 }), ..Wants::default() };
    assert_eq!(seen(early).await.2, []);
}

/// That a webhook was disabled is in the journal, and on its way to the others, as soon as it is.
pub async fn the_other_webhooks_hear_of_one_that_is_disabled(fixture: &dyn Fixture) {
    let store = fixture.store();
    let stranger = Webhook { client: client(2), ..hook(3) };
    run(&store, START, vec![register(hook(1)), register(hook(2)), register(stranger)]).await;
    let test = Command::Webhook(WebhookCommand::Test(owned(&hook(1))));
    run(&store, START, vec![test]).await;
    let end = store.journal_end().await.unwrap();
    let got = taken(ask(&store, at(1), courier(9)).await).deliveries;
    let [delivery] = &got[..] else { panic!("one, not {got:?}") };
    run(&fixture.second(), at(2), vec![settle(delivery, SendResult::Gone(attempt(410)))]).await;
    let disabled = Disabled { at: at(2), reason: DisabledReason::Gone };
    let notice = Notice { webhook: hook(1).id, n: 1, disabled };
    let rows = store.journal(end, 9).await.unwrap();
    let entry = JournalEntry { client: client(1), about: JournalSubject::Webhook(notice) };
    assert_eq!(rows.iter().map(|row| &row.entries[..]).collect::<Vec<_>>(), [&[entry]]);
    assert_eq!(store.journal_before(at(2)).await.unwrap(), end, "it has its moment");
    let got = taken(ask(&store, at(3), courier(9)).await).deliveries;
    let told: Vec<(Endpoint, DeliverySubject)> =
        got.iter().map(|known| (known.to.clone(), known.about)).collect();
    assert_eq!(told, [(Endpoint::Webhook(hook(2).id), DeliverySubject::Notice(notice))]);
    snapshot(&store).await;
}

/// From the submission to the last event, through two nodes that take turns.
pub async fn a_life_is_delivered_in_order(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    run(&stores[0], START, vec![register(hook(1))]).await;
    accepted(ask(&stores[0], START, submit(called_back(1))).await);
    let claimed = the_one(ask(&stores[1], at(1), take(&["q"], 1)).await);
    done(ask(&stores[0], at(2), progress(&claimed, 50)).await);
    done(ask(&stores[1], at(3), succeed(&claimed)).await);
    assert_eq!(stores[0].next_delivery().await.unwrap(), Some(START));
    let mut told: BTreeMap<WebhookId, Vec<u32>> = BTreeMap::new();
    for n in 0.. {
        let got = taken(ask(&stores[n % 2], at(4), courier(9)).await);
        if got.deliveries.is_empty() {
            break;
        }
        assert_eq!(got.deliveries.len(), 2, "one per endpoint");
        for delivery in &got.deliveries {
            let DeliverySubject::Event { event, job } = delivery.about else { panic!("{delivery:?}") };
            assert_eq!(job, id(1));
            told.entry(delivery.to.key()).or_default().push(event.n);
            run(&stores[(n + 1) % 2], at(4), vec![settle(delivery, arrived())]).await;
        }
    }
    let all: Vec<u32> = (1..=6).collect();
    assert_eq!(told.into_values().collect::<Vec<_>>(), [all.clone(), all]);
    assert_eq!(stores[0].next_delivery().await.unwrap(), None);
    snapshot(&stores[0]).await;
}

/// Events and settlements of the same chains at once, through two nodes: nothing stays blocked for ever, nothing overtakes.
pub async fn no_delivery_is_left_behind_however_events_and_couriers_meet(fixture: &dyn Fixture) {
    const JOBS: u64 = 6;
    const NOTES: u8 = 20;
    let stores = [fixture.store(), fixture.second()];
    run(&stores[0], START, vec![register(hook(1))]).await;
    accepted(ask(&stores[0], START, submit_all((1..=JOBS).map(called_back).collect())).await);
    let mut held = Vec::new();
    for _ in 0..JOBS {
        held.push(the_one(ask(&stores[0], START, take(&["q"], 1)).await));
    }
    let n_events = 4 + u64::from(NOTES);
    let told = at_once(JOBS + 4, |task| {
        let store = stores[task as usize % 2].clone();
        let job = held.get(task as usize).cloned();
        async move {
            let mut told: Vec<(Chain, u32)> = Vec::new();
            if let Some(job) = job {
                for percent in 0..NOTES {
                    done(ask(&store, START, progress(&job, percent)).await);
                }
                return told;
            }
            // A courier, until everything that will ever be has been delivered by somebody.
            loop {
                let got = taken(ask(&store, START, courier(3)).await).deliveries;
                if got.is_empty() {
                    let all = all_delivered(&store, JOBS).await;
                    if all == JOBS * 2 * n_events {
                        return told;
                    }
                    tokio::task::yield_now().await;
                }
                for delivery in &got {
                    let DeliverySubject::Event { event, .. } = delivery.about else { panic!("{delivery:?}") };
                    told.extend(delivery.chain().map(|chain| (chain, event.n)));
                }
                run(&store, START, got.iter().map(|delivery| settle(delivery, arrived())).collect()).await;
            }
        }
    });
    let mut once = BTreeSet::new();
    for (chain, n) in told.await.into_iter().flatten() {
        assert!(once.insert((chain, n)), "{chain:?} was told of event {n} twice");
    }
    assert_eq!(once.len() as u64, JOBS * 2 * n_events);
    snapshot(&stores[0]).await;
}

async fn all_delivered(store: &std::sync::Arc<dyn Store>, jobs: u64) -> u64 {
    let mut n = 0;
    for job in 1..=jobs {
        let all = deliveries_of(store, DeliveriesOf::Job(id(job))).await;
        n += all.values().filter(|known| known.status() == DeliveryStatus::Delivered).count() as u64;
    }
    n
}

/// Two couriers on two nodes: every delivery is taken by one of them.
pub async fn two_couriers_take_every_delivery_once(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    accepted(ask(&stores[0], START, submit_all((1..=60).map(called_back).collect())).await);
    let took = at_once(6, |task| {
        let store = stores[task as usize % 2].clone();
        async move {
            let mut took = Vec::new();
            loop {
                let got = taken(ask(&store, START, courier(4)).await).deliveries;
                if got.is_empty() && store.next_delivery().await.unwrap() > Some(START) {
                    return took;
                }
                took.extend(got.iter().map(|delivery| delivery.id));
            }
        }
    });
    let took: Vec<DeliveryId> = took.await.into_iter().flatten().collect();
    assert_eq!((took.len(), took.iter().collect::<BTreeSet<_>>().len()), (60, 60));
}

/// A courier that dies: its lease runs out on the other node, and what it says later is refused.
pub async fn a_lost_courier_is_replaced_and_refused(fixture: &dyn Fixture) {
    let (store, second) = (fixture.store(), fixture.second());
    accepted(ask(&store, START, submit(called_back(1))).await);
    let lost = taken(ask(&store, START, courier(1)).await).deliveries.remove(0);
    assert_eq!(second.next_delivery().await.unwrap(), Some(at(30)));
    assert_eq!(taken(ask(&second, at(29), courier(1)).await).deliveries, []);
    let again = taken(ask(&second, at(30), courier(1)).await).deliveries.remove(0);
    assert_eq!((again.id, again.fence, again.attempts), (lost.id, 2, 2));
    assert_eq!(refused(ask(&store, at(31), settle(&lost, arrived())).await), Refusal::DeliveryLost);
    assert!(matches!(ask(&second, at(32), settle(&again, arrived())).await, Answer::Delivery(_)));
}

/// Of a job, whomever they go to: newest first, in pages, and by how they stand.
pub async fn deliveries_of_a_job_are_listed_in_pages(fixture: &dyn Fixture) {
    let (store, second) = (fixture.store(), fixture.second());
    run(&store, START, vec![register(hook(1)), register(hook(2))]).await;
    accepted(ask(&store, START, submit_all(vec![called_back(1), called_back(2)])).await);
    the_one(ask(&store, at(1), take(&["q"], 1)).await);
    for delivery in taken(ask(&store, at(2), courier(9)).await).deliveries {
        let sent = if delivery.to.key() == hook(1).id {
            arrived()
        } else {
            SendResult::Dropped(DeliveryFailure::Disabled)
        };
        run(&second, at(2), vec![settle(&delivery, sent)]).await;
    }
    let list = |status, before, limit| {
        let filter =
            DeliveryFilter { of: DeliveriesOf::Job(id(1)), status, before, limit, look_max: usize::MAX };
        let store = second.clone();
        async move { store.deliveries(filter).await.unwrap() }
    };
    let all = list(None, None, 99).await;
    assert_eq!(all.len(), 4 * 3, "created, queued, assigned, started; to a callback and two webhooks");
    assert!(all.iter().all(|known| known.job() == Some(id(1))) && all.is_sorted_by(|a, b| a.id > b.id));
    for limit in [1, 5, 12] {
        let mut pages = list(None, None, limit).await;
        while let Some(last) = pages.last().filter(|_| pages.len() < all.len()) {
            pages.extend(list(None, Some(last.id), limit).await);
        }
        assert_eq!(pages, all, "pages of {limit}");
    }
    for of in [DeliveriesOf::Job(id(1)), DeliveriesOf::Webhook(hook(1).id)] {
        for status in [DeliveryStatus::Delivered, DeliveryStatus::Failed, DeliveryStatus::Pending] {
            let page = |before, look_max| {
                let filter = DeliveryFilter { of, status: Some(status), before, limit: 99, look_max };
                let store = second.clone();
                async move { store.list_deliveries(filter).await.unwrap() }
            };
            let whole = page(None, usize::MAX).await;
            assert_eq!(whole.next, None, "everything was looked at");
            let mut short = page(None, 2).await;
            while let Some(next) = short.next {
                let more = page(Some(next), 2).await;
                assert!(more.rows.len() <= 2 && more.next.is_none_or(|further| further < next));
                short.rows.extend(more.rows);
                short.next = more.next;
            }
            assert_eq!(short, whole, "pages that look at two rows miss nothing");
        }
    }
    for (status, n) in
        [(DeliveryStatus::Delivered, 1), (DeliveryStatus::Failed, 2), (DeliveryStatus::Pending, 9)]
    {
        let like_this: Vec<&Delivery> = all.iter().filter(|known| known.status() == status).collect();
        assert_eq!(like_this.len(), n, "{status:?}");
        assert_eq!(list(Some(status), None, 99).await.iter().collect::<Vec<_>>(), like_this);
        let older = list(Some(status), Some(like_this[0].id), 1).await;
        assert_eq!(older.first(), like_this.get(1).copied());
    }
}

/// Attempts, statuses and reasons come back; what was given up is listed, found by its moment, and sent again.
pub async fn what_was_given_up_is_found_and_sent_again(fixture: &dyn Fixture) {
    let (store, second) = (fixture.store(), fixture.second());
    run(&store, START, vec![register(hook(1))]).await;
    for n in 1..=3 {
        accepted(ask(&store, at(n), submit(job_with(n, "q", |head| head.hold = true))).await);
        for try_n in 0..3 {
            let now = at(n) + secs(10 * try_n);
            let one = taken(ask(&second, now, courier(1)).await).deliveries.remove(0);
            run(&store, now, vec![settle(&one, broke())]).await;
        }
    }
    let list = |status, before, limit| {
        let of = DeliveriesOf::Webhook(hook(1).id);
        let (store, filter) =
            (second.clone(), DeliveryFilter { of, status, before, limit, look_max: usize::MAX });
        async move { store.deliveries(filter).await.unwrap() }
    };
    let failed = list(Some(DeliveryStatus::Failed), None, 9).await;
    assert_eq!((failed.len(), list(Some(DeliveryStatus::Pending), None, 9).await.len()), (3, 0));
    assert_eq!(list(None, Some(failed[0].id), 1).await, failed[1..2], "pages go on from a cursor");
    for delivery in &failed {
        assert!(
            matches!(delivery.stage, DeliveryStage::Failed(_, DeliveryFailure::Exhausted)),
            "{delivery:?}"
        );
        assert_eq!(delivery.log, vec![attempt(503); 3]);
        assert_eq!(store.delivery(delivery.id).await.unwrap().as_deref(), Some(delivery));
    }
    let health = store.webhook(hook(1).id).await.unwrap().unwrap().health;
    assert_eq!((health.failures, health.given_up, health.failing_since), (9, 3, Some(at(1))));

    let want = |since, limit| Wants {
        deliveries_failed: vec![FailedWant { webhook: hook(1).id, since, limit }],
        ..Wants::default()
    };
    for (since, limit, expected) in [(at(0), 9, 3), (at(0), 2, 2), (at(22), 9, 2), (at(24), 9, 0)] {
        assert_eq!(look(&store, want(since, limit)).await.deliveries.len(), expected, "{since:?} {limit}");
    }
    let again = WebhookCommand::RedeliverFailed { webhook: owned(&hook(1)), since: at(22) };
    let answer = ask(&second, at(99), Command::Webhook(again)).await;
    assert_eq!(answer, Answer::Redelivered { n_deliveries: 2, more: false });
    let stranger = redeliver(&failed[0], client(2));
    assert_eq!(refused(ask(&store, at(99), stranger).await), Refusal::Foreign);
    let got = taken(ask(&store, at(99), courier(9)).await);
    assert_eq!((got.deliveries.len(), got.webhooks.len()), (2, 1));
}

/// A test event is about no job, and is listed with its webhook.
pub async fn a_test_event_needs_no_job(fixture: &dyn Fixture) {
    let store = fixture.store();
    run(&store, START, vec![register(hook(1))]).await;
    let test = Command::Webhook(WebhookCommand::Test(owned(&hook(1))));
    let Answer::Delivery(made) = ask(&store, START, test).await else { panic!("not made") };
    let listed = deliveries_of(&store, DeliveriesOf::Webhook(hook(1).id)).await;
    assert_eq!(listed.into_values().collect::<Vec<_>>(), [*made]);
    let got = taken(ask(&fixture.second(), START, courier(9)).await);
    assert_eq!((got.deliveries[0].about, &got.webhooks[0]), (DeliverySubject::Test, &hook(1)));
    let settled = ask(&store, at(1), settle(&got.deliveries[0], arrived())).await;
    assert!(matches!(settled, Answer::Delivery(_)), "{settled:?}");
}

/// Deliveries go with their job; settled ones are swept after a while, in bites.
pub async fn deliveries_go_with_their_job_or_are_swept(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit_all((1..=4).map(called_back).collect())).await);
    let got = taken(ask(&store, START, courier(9)).await).deliveries;
    for (n, delivery) in (1..).zip(&got) {
        run(&store, at(n), vec![settle(delivery, arrived())]).await;
    }
    run(&store, at(9), vec![cancel(1), forget(1)]).await;
    assert_eq!(deliveries_of(&store, DeliveriesOf::Job(id(1))).await.len(), 0);
    assert_eq!(refused(ask(&store, at(9), settle(&got[0], arrived())).await), Refusal::DeliveryNotFound);
    let sweep = |deliveries_before, limit| Sweep { deliveries_before, ..Sweep::nothing(limit) };
    assert_eq!(store.sweep(sweep(at(2), 9)).await.unwrap().total(), 0, "not yet");
    assert_eq!(store.sweep(sweep(at(99), 2)).await.unwrap().total(), 2);
    assert_eq!(store.sweep(sweep(at(99), 9)).await.unwrap().total(), 1);
    let left = snapshot(&store).await.deliveries;
    assert_eq!(left.len(), 3, "what is still to be delivered stays");
    assert!(left.values().all(|known| known.to == Endpoint::Callback(CALLBACK.into())));
}

/// Two nodes that start together get the same key.
pub async fn the_first_signing_key_is_made_once(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let answers = at_once(20, |n| {
        let store = stores[n as usize % 2].clone();
        async move { ask(&store, START, ensure_key(n as u8)).await }
    })
    .await;
    let Answer::SigningKeys(first) = &answers[0] else { panic!("{answers:?}") };
    assert_eq!(first.len(), 1);
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    let id = forgerun_core::id::SigningKeyId::v7(START.unix_ms() + 1, 1);
    let key = SigningKey { id, seed: vec![99; 32], created_at: at(1), retired_at: None };
    let rotate = SigningCommand::Rotate { key: key.clone(), retire_at: at(60) };
    run(&stores[0], at(1), vec![Command::Signing(rotate)]).await;
    let retired = SigningKey { retired_at: Some(at(60)), ..first[0].clone() };
    assert_eq!(stores[1].signing_keys().await.unwrap(), [retired, key]);
}

/// Everything about webhooks survives.
pub async fn webhooks_and_deliveries_survive_a_restart(fixture: &dyn Fixture) {
    let store = fixture.store();
    run(&store, START, vec![register(hook(1)), ensure_key(1)]).await;
    accepted(ask(&store, START, submit_all(vec![called_back(1), called_back(2)])).await);
    let got = taken(ask(&store, START, courier(2)).await).deliveries;
    let failed = SendResult::Failed { attempt: attempt(429), retry_after: Some(secs(17)) };
    run(&store, at(1), vec![settle(&got[0], failed)]).await;
    let before = snapshot(&store).await;
    drop(store);
    let store = fixture.reopen().await;
    assert_eq!(snapshot(&store).await, before);
    assert_eq!(taken(ask(&store, at(60), courier(9)).await).deliveries.len(), 4);
}

/// Several jobs and several outcomes are read at once.
pub async fn jobs_and_outcomes_are_read_by_the_dozen(fixture: &dyn Fixture) {
    let store = fixture.store();
    let born = accepted(ask(&store, START, submit_all((1..=3).map(called_back).collect())).await);
    run(&store, at(1), vec![cancel(2)]).await;
    let asked: Vec<JobId> = [1, 2, 99].map(id).to_vec();
    let found: BTreeSet<JobId> = store.jobs_by_id(asked).await.unwrap().iter().map(|job| job.id).collect();
    assert_eq!(found, BTreeSet::from([id(1), id(2)]));
    let outcomes = store.outcomes(born.iter().map(|job| job.execution).collect()).await.unwrap();
    assert_eq!(outcomes.iter().map(|outcome| outcome.job).collect::<Vec<_>>(), [id(2)]);
}
