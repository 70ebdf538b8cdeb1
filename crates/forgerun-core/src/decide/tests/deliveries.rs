//! Deliveries: who is told, in which order, and what becomes of what does not arrive.

use std::collections::{BTreeMap, BTreeSet};
use std::string::String;
use std::time::Duration;
use std::vec;
use std::vec::Vec;

use crate::command::{
    Answer, Command, DeliveryClaim, DeliveryCommand, Refusal, SendResult, WebhookChange, WebhookCommand,
};
use crate::delivery::{Delivery, DeliveryFailure, DeliveryStage, DeliverySubject, Endpoint};
use crate::history::{EventName, JournalEntry, JournalSubject};
use crate::id::{ClientId, WebhookId};
use crate::limits;
use crate::state::State;
use crate::time::Time;
use crate::webhook::{Disabled, DisabledReason, Events};
use crate::world::World;
use crate::world::build::*;
use crate::world::hooks::*;

const CALLBACK: &str = "http://caller/";

fn called_back(n: u128) -> crate::command::NewJob {
    job(n, |head| head.callback = Some(CALLBACK.into()))
}

#[test]
fn a_callback_is_told_of_every_change_of_state_in_order() {
    let mut world = World::with_job_in(State::Succeeded, |head| head.callback = Some(CALLBACK.into()));
    let told = ["Created", "Queued", "Assigned", "Started", "Succeeded"];
    assert_eq!(world.deliver_all(), told.map(|name| std::format!("{name} to {CALLBACK}")));
    assert!(world.courier(9).deliveries.is_empty(), "each is delivered once");
}

#[test]
fn webhooks_hear_what_they_asked_for_of_their_own_clients_jobs() {
    let mut world = World::new();
    let failures = hook(1, |webhook| webhook.events = Events::only(EventName::Failed));
    let stranger = hook(2, |webhook| webhook.client = ClientId::from_u128(2));
    let births = hook(3, |webhook| webhook.events = Events::only(EventName::Created));
    world.apply(vec![register(failures), register(stranger), register(births)]);
    world.ask(submit([plain(1)]));
    world.fail_once(1, |_| {});
    assert_eq!(world.deliver_all(), ["Created to http://receiver/3", "Failed to http://receiver/1"]);
}

#[test]
fn the_same_url_is_told_once_per_event_and_the_webhook_wins() {
    let mut world = World::new();
    world.ask(register(hook(1, |webhook| {
        webhook.url = CALLBACK.into();
        webhook.events = Events::only(EventName::Created);
    })));
    world.ask(submit([called_back(1)]));
    let to_callback = |known: &&Delivery| matches!(known.to, Endpoint::Callback(_));
    let (called_back, to_webhook): (Vec<_>, Vec<_>) =
        world.deliveries.values().partition(|known| to_callback(known));
    assert_eq!((called_back.len(), to_webhook.len()), (1, 1));
    assert_eq!(label(&world, called_back[0]), "Queued to http://caller/");
    assert_eq!(label(&world, to_webhook[0]), "Created to http://caller/");
}

#[test]
fn what_is_behind_waits_until_the_first_is_delivered_or_given_up() {
    let mut world = World::new();
    world.ask(submit([called_back(1)]));
    let first = world.courier(9).deliveries;
    assert_eq!(first.len(), 1, "one per chain");
    assert_eq!(world.n_deliveries(|stage| *stage == DeliveryStage::Blocked), 1);
    world.ask(claim("q", 1));
    for _ in 0..POLICY.schedule.attempts_max() - 1 {
        let taken = world.courier(9).deliveries.into_iter().chain(first.clone()).next().unwrap();
        let current = world.deliveries[&taken.id].clone();
        world.ask(settle(&current, broke()));
    }
    let last = world.courier(9).deliveries.remove(0);
    assert_eq!((last.id, last.attempts), (first[0].id, POLICY.schedule.attempts_max()));
    world.ask(settle(&last, broke()));
    assert_eq!(
        world.deliveries[&last.id].stage,
        DeliveryStage::Failed(world.now, DeliveryFailure::Exhausted)
    );
    assert_eq!(world.deliver_all(), ["Queued to http://caller/", "Assigned to http://caller/"]);
}

#[test]
fn chains_do_not_wait_for_each_other() {
    let mut world = World::new();
    world.ask(register(hook(1, |_| {})));
    world.ask(submit([called_back(1), called_back(2)]));
    assert_eq!(world.courier(99).deliveries.len(), 4, "two jobs, two endpoints");
}

#[test]
fn an_event_and_the_settling_of_the_one_before_it_in_one_batch_lose_nothing() {
    let mut world = World::new();
    world.ask(submit([job(1, |head| {
        head.callback = Some(CALLBACK.into());
        head.hold = true;
    })]));
    let first = world.courier(9).deliveries.remove(0);
    world.apply(vec![activate(1), settle(&first, arrived())]);
    assert_eq!(world.n_deliveries(|stage| matches!(stage, DeliveryStage::Waiting(_))), 1);
    let second = world.courier(9).deliveries.remove(0);
    world.apply(vec![settle(&second, arrived()), cancel(1)]);
    assert_eq!(world.deliver_all(), ["Canceled to http://caller/"]);
}

#[test]
fn a_lease_that_ran_out_is_taken_again_and_the_late_courier_refused() {
    let mut world = World::new();
    world.ask(submit([called_back(1)]));
    let late = world.courier(9).deliveries.remove(0);
    assert!(world.courier(9).deliveries.is_empty());
    world.now = world.now + secs(10);
    let again = world.courier(9).deliveries.remove(0);
    assert_eq!((again.id, again.attempts, again.fence), (late.id, 2, 2));
    assert_eq!(world.ask(settle(&late, arrived())), Answer::Refused(Refusal::DeliveryLost));
    assert!(matches!(world.ask(settle(&again, arrived())), Answer::Delivery(_)));
    assert_eq!(world.ask(settle(&again, arrived())), Answer::Refused(Refusal::DeliveryNotFound));
}

#[test]
fn retry_after_moves_the_next_attempt_and_putting_off_costs_none() {
    let mut world = World::new();
    world.ask(submit([called_back(1)]));
    let taken = world.courier(9).deliveries.remove(0);
    let failed = SendResult::Failed { attempt: attempt(503), retry_after: Some(secs(7)) };
    world.ask(settle(&taken, failed));
    assert_eq!(world.deliveries[&taken.id].stage, DeliveryStage::Waiting(world.now + secs(7)));
    world.now = world.now + secs(7);
    let taken = world.courier(9).deliveries.remove(0);
    world.ask(settle(&taken, SendResult::PutOff(world.now + secs(3))));
    let known = &world.deliveries[&taken.id];
    assert_eq!((known.attempts, known.stage), (1, DeliveryStage::Waiting(world.now + secs(3))));
    assert_eq!(known.log.iter().map(|attempt| attempt.status).collect::<Vec<_>>(), [Some(503)]);
}

#[test]
fn deliveries_to_a_closed_endpoint_are_put_off_and_not_counted() {
    let mut world = World::new();
    world.ask(register(hook(1, |_| {})));
    world.ask(submit([called_back(1)]));
    let opens_at = world.now + secs(60);
    let closed = BTreeMap::from([(Endpoint::Callback(CALLBACK.into()), opens_at)]);
    let take = DeliveryClaim { limit: 9, lease: secs(1), closed };
    let Answer::Taken(taken) = world.ask(Command::Delivery(DeliveryCommand::Take(take))) else { panic!() };
    let labels: Vec<String> = taken.deliveries.iter().map(|known| label(&world, known)).collect();
    assert_eq!(labels, ["Created to http://receiver/1"]);
    let put_off =
        world.deliveries.values().find(|known| known.stage == DeliveryStage::Waiting(opens_at)).unwrap();
    assert_eq!((put_off.attempts, put_off.fence), (0, 0));
}

#[test]
fn an_endpoint_that_is_gone_is_disabled_at_once() {
    let mut world = World::new();
    world.ask(register(hook(1, |_| {})));
    world.ask(submit([plain(1)]));
    let taken = world.courier(9).deliveries.remove(0);
    world.ask(settle(&taken, SendResult::Gone(attempt(410))));
    let webhook = &world.webhooks[&WebhookId::from_u128(1)];
    assert_eq!(webhook.disabled.map(|disabled| disabled.reason), Some(DisabledReason::Gone));
    // What was written before is handed out all the same, for the courier to drop; nothing new is
    // written.
    let n_before = world.deliveries.len();
    world.ask(claim("q", 1));
    assert_eq!(world.deliveries.len(), n_before);
    let behind = world.courier(9);
    assert!(behind.webhooks[0].disabled.is_some());
    world.ask(settle(&behind.deliveries[0], SendResult::Dropped(DeliveryFailure::Disabled)));
    assert_eq!(world.n_deliveries(DeliveryStage::is_open), 0);
}

#[test]
fn an_endpoint_is_disabled_when_it_failed_for_long_and_often_and_not_before() {
    let mut world = World::new();
    world.ask(register(hook(1, |webhook| webhook.events = Events::only(EventName::Created))));
    let give_up_one = |world: &mut World, n: u128| {
        world.ask(submit([plain(n)]));
        for _ in 0..POLICY.schedule.attempts_max() {
            let taken = world.courier(9).deliveries.remove(0);
            world.ask(settle(&taken, broke()));
        }
        world.webhooks[&WebhookId::from_u128(1)].disabled.map(|disabled| disabled.reason)
    };
    for n in 1..=20 {
        assert_eq!(give_up_one(&mut world, n), None, "often, but not for long");
    }
    world.now = world.now + POLICY.disable_after;
    assert_eq!(give_up_one(&mut world, 21), Some(DisabledReason::Failing));
    let health = world.webhooks[&WebhookId::from_u128(1)].health;
    assert_eq!((health.given_up, health.failures), (21, 63));
    world.ask(update(1, WebhookChange { enabled: Some(true), ..WebhookChange::default() }));
    assert_eq!(give_up_one(&mut world, 22), None, "enabled again, it begins anew");
}

#[test]
fn the_others_are_told_of_a_disabled_endpoint_until_none_is_left() {
    let mut world = World::new();
    let deaf = hook(4, |webhook| webhook.events = Events::only(EventName::Created));
    let resting = hook(5, |webhook| {
        webhook.disabled = Some(Disabled { at: Time::ZERO, reason: DisabledReason::Owner })
    });
    let stranger = hook(6, |webhook| webhook.client = ClientId::from_u128(2));
    let hooks = [hook(1, |_| {}), hook(2, |_| {}), hook(3, |_| {}), deaf, resting, stranger];
    world.apply(hooks.map(register).to_vec());
    world.ask(Command::Webhook(WebhookCommand::Test(own(1))));
    let mut told = Vec::new();
    // Every one that is told answers that it is gone too.
    while let Some(delivery) = world.courier(1).deliveries.pop() {
        let webhook = world.webhooks[&delivery.to.key()].disabled;
        let gone = if webhook.is_none() {
            SendResult::Gone(attempt(410))
        } else {
            SendResult::Dropped(DeliveryFailure::Disabled)
        };
        told.push(label(&world, &delivery));
        world.now = world.now + secs(1);
        world.ask(settle(&delivery, gone));
    }
    let notices: Vec<(u128, Disabled)> = world
        .journal
        .iter()
        .filter_map(|entry| match &entry.about {
            JournalSubject::Webhook(notice) => Some((notice.webhook.as_u128(), notice.disabled)),
            JournalSubject::Job { .. } => None,
        })
        .collect();
    let disabled = |n: u128| (n, world.webhooks[&WebhookId::from_u128(n)].disabled.unwrap());
    assert_eq!(notices, [disabled(1), disabled(3), disabled(2)]);
    // The second hears of the first after the third did, and is gone by the time that it would hear
    // of the third.
    let expected = [
        "test to http://receiver/1",
        "notice to http://receiver/3",
        "notice to http://receiver/2",
        "notice to http://receiver/2",
    ];
    assert_eq!(told, expected);
    assert_eq!(world.n_deliveries(DeliveryStage::is_open), 0);
    let ids: BTreeSet<_> = world.journal.iter().map(JournalEntry::id).collect();
    assert_eq!(ids.len(), world.journal.len());
}

#[test]
fn two_notices_of_one_moment_are_two() {
    let mut world = World::new();
    world.apply(vec![register(hook(1, |_| {})), register(hook(2, |_| {}))]);
    for _ in 0..2 {
        world.ask(Command::Webhook(WebhookCommand::Test(own(1))));
        let taken = world.courier(9).deliveries;
        let test = taken.iter().find(|known| known.about == DeliverySubject::Test).unwrap();
        world.ask(settle(test, SendResult::Gone(attempt(410))));
        world.ask(update(1, WebhookChange { enabled: Some(true), ..WebhookChange::default() }));
    }
    let ids: BTreeSet<_> = world.journal.iter().map(JournalEntry::id).collect();
    assert_eq!((ids.len(), world.n_deliveries(|_| true)), (2, 4));
}

#[test]
fn a_success_heals_and_is_noted_once_in_a_while() {
    let mut world = World::new();
    world.ask(register(hook(1, |_| {})));
    world.ask(submit([plain(1)]));
    let taken = world.courier(9).deliveries.remove(0);
    world.ask(settle(&taken, broke()));
    let health = |world: &World| world.webhooks[&WebhookId::from_u128(1)].health;
    assert_eq!((health(&world).failures, health(&world).given_up), (1, 0));
    let first_success = world.now;
    world.deliver_all();
    assert_eq!(health(&world).failing_since, None);
    assert_eq!(health(&world).last_success_at, Some(first_success));
    world.now = world.now + secs(1);
    world.ask(claim("q", 1));
    world.deliver_all();
    assert_eq!(health(&world).last_success_at, Some(first_success));
    world.now = world.now + limits::LAST_SUCCESS;
    world.ask(start(1, 1));
    world.deliver_all();
    assert_eq!(health(&world).last_success_at, Some(world.now));
}

#[test]
fn a_settled_delivery_can_be_asked_for_again_without_holding_up_others() {
    let mut world = World::new();
    world.ask(submit([called_back(1)]));
    world.deliver_all();
    let old = world.deliveries.values().next().unwrap().clone();
    let Answer::Delivery(again) = world.ask(redeliver(&old)) else { panic!() };
    assert_eq!((again.stage, again.attempts, again.chained), (DeliveryStage::Waiting(world.now), 0, false));
    assert_eq!(again.log, old.log, "what was tried stays known");
    world.ask(cancel(1));
    assert_eq!(world.courier(9).deliveries.len(), 2, "the news does not wait for it");
    let stranger = DeliveryCommand::Redeliver { delivery: old.id, client: ClientId::from_u128(9) };
    assert_eq!(world.ask(Command::Delivery(stranger)), Answer::Refused(Refusal::Foreign));
    // It is under way by now.
    let Answer::Delivery(same) = world.ask(redeliver(&old)) else { panic!() };
    assert!(matches!(same.stage, DeliveryStage::Taken(_)));
}

#[test]
fn a_waiting_delivery_can_be_asked_for_at_once_and_keeps_its_place() {
    let mut world = World::new();
    world.ask(submit([called_back(1)]));
    let taken = world.courier(9).deliveries.remove(0);
    world.ask(settle(&taken, SendResult::Failed { attempt: attempt(503), retry_after: Some(secs(600)) }));
    let Answer::Delivery(now) = world.ask(redeliver(&taken)) else { panic!() };
    assert_eq!((now.stage, now.chained, now.attempts), (DeliveryStage::Waiting(world.now), true, 1));
    assert_eq!(world.deliver_all(), ["Created to http://caller/", "Queued to http://caller/"]);
}

#[test]
fn deliveries_go_with_their_job() {
    let mut world = World::with_job_in(State::Succeeded, |head| head.callback = Some(CALLBACK.into()));
    let taken = world.courier(9).deliveries.remove(0);
    world.apply(vec![settle(&taken, arrived()), forget(1)]);
    assert_eq!(world.deliveries.len(), 0);
    assert_eq!(world.ask(settle(&taken, arrived())), Answer::Refused(Refusal::DeliveryNotFound));
}

#[test]
fn what_is_written_says_when_a_courier_should_look() {
    let mut world = World::new();
    let changes = world.apply(vec![submit([called_back(1)])]);
    assert_eq!(changes.delivery_due, Some(world.now));
    let changes = world.apply(vec![take_deliveries(9)]);
    assert_eq!(changes.delivery_due, Some(world.now + secs(10)), "the end of the lease");
    assert_eq!(world.apply(vec![submit([plain(2)])]).delivery_due, None);
}

#[test]
fn a_bite_is_bounded_and_says_that_there_is_more() {
    let mut world = World::new();
    world.ask(submit((1..=5).map(called_back)));
    let taken = world.courier(3);
    assert_eq!((taken.deliveries.len(), taken.more), (3, true));
    let taken = world.courier(3);
    assert_eq!((taken.deliveries.len(), taken.more), (2, false));
}

#[test]
fn an_error_is_kept_within_bounds_and_whole_characters() {
    let mut world = World::new();
    world.ask(submit([called_back(1)]));
    let taken = world.courier(9).deliveries.remove(0);
    let mut long = attempt(500);
    long.error = Some("ä".repeat(limits::ATTEMPT_ERROR_BYTES_MAX));
    long.took = Duration::MAX;
    world.ask(settle(&taken, SendResult::Failed { attempt: long, retry_after: None }));
    let kept = world.deliveries[&taken.id].log[0].error.clone().unwrap();
    assert_eq!(kept.len(), limits::ATTEMPT_ERROR_BYTES_MAX);
}
