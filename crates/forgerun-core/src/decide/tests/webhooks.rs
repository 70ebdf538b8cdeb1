//! Webhooks: who may have which, and what changing them does. And the keys that deliveries are
//! signed with.

use std::vec;
use std::vec::Vec;

use crate::command::{
    Answer, Command, OwnedWebhook, Refusal, SendResult, SigningCommand, WebhookChange, WebhookCommand,
};
use crate::delivery::{DeliveryFailure, DeliveryStage, DeliverySubject};
use crate::history::EventName;
use crate::id::{ClientId, SigningKeyId, WebhookId};
use crate::limits;
use crate::time::Time;
use crate::webhook::{DisabledReason, Envelope, Events, SigningKey, Webhook, WebhookFilter};
use crate::world::World;
use crate::world::build::*;
use crate::world::hooks::*;

fn with_hook() -> World {
    let mut world = World::new();
    world.ask(register(hook(1, |_| {})));
    world
}

fn webhook(answer: Answer) -> Webhook {
    match answer {
        Answer::Webhook(webhook) => *webhook,
        other => panic!("not a webhook: {other:?}"),
    }
}

#[test]
fn a_client_has_one_webhook_per_url_and_not_too_many() {
    let mut world = with_hook();
    let twin = hook(2, |webhook| webhook.url = "http://receiver/1".into());
    let exists = Answer::Refused(Refusal::WebhookExists(WebhookId::from_u128(1)));
    assert_eq!(world.ask(register(twin.clone())), exists);
    let of_another = Webhook { client: ClientId::from_u128(2), ..twin };
    assert!(matches!(world.ask(register(of_another)), Answer::Webhook(_)));
    for n in 0..limits::WEBHOOKS_MAX as u128 - 1 {
        assert!(matches!(world.ask(register(hook(100 + n, |_| {}))), Answer::Webhook(_)));
    }
    assert_eq!(world.ask(register(hook(9, |_| {}))), Answer::Refused(Refusal::TooManyWebhooks));
}

#[test]
fn two_registrations_of_one_url_in_one_batch_make_one() {
    let mut world = World::new();
    let same = |n| register(hook(n, |webhook| webhook.url = "http://same/".into()));
    let answers = world.apply(vec![same(1), same(2)]).answers;
    assert_eq!(answers[1], Answer::Refused(Refusal::WebhookExists(WebhookId::from_u128(1))));
    assert_eq!(world.webhooks.len(), 1);
}

#[test]
fn only_the_owner_reaches_a_webhook() {
    let mut world = with_hook();
    let commands = |webhook| {
        [
            WebhookCommand::Update { webhook, change: WebhookChange::default() },
            WebhookCommand::Rotate { webhook, secret: vec![9], previous_until: Time::MAX },
            WebhookCommand::Test(webhook),
            WebhookCommand::RedeliverFailed { webhook, since: Time::ZERO },
            WebhookCommand::Delete(webhook),
        ]
    };
    for command in commands(OwnedWebhook { client: ClientId::from_u128(2), ..own(1) }) {
        let changes = world.apply(vec![Command::Webhook(command)]);
        assert_eq!(changes.answers, [Answer::Refused(Refusal::Foreign)]);
        assert!(changes.is_empty());
    }
    for command in commands(own(7)) {
        assert_eq!(world.ask(Command::Webhook(command)), Answer::Refused(Refusal::WebhookNotFound));
    }
}

#[test]
fn a_webhook_that_was_changed_meanwhile_is_left_alone() {
    let mut world = with_hook();
    let seen = world.webhooks[&WebhookId::from_u128(1)].revision();
    let of = |revision| OwnedWebhook { revision: Some(revision), ..own(1) };
    let describe = |revision, text: &str| {
        let change = WebhookChange { description: Some(Some(text.into())), ..WebhookChange::default() };
        Command::Webhook(WebhookCommand::Update { webhook: of(revision), change })
    };
    // Two of one batch see the same moment; the second comes too late all the same.
    let answers = world.apply(vec![describe(seen, "first"), describe(seen, "second")]).answers;
    let first = webhook(answers[0].clone());
    assert_eq!(answers[1], Answer::Refused(Refusal::WebhookChanged));
    assert!(first.revision() > seen);
    let delete = |revision| Command::Webhook(WebhookCommand::Delete(of(revision)));
    assert_eq!(world.ask(delete(seen)), Answer::Refused(Refusal::WebhookChanged));
    assert_eq!(world.ask(delete(first.revision())), Answer::Settled);
}

#[test]
fn an_update_changes_what_it_names() {
    let mut world = with_hook();
    world.ask(register(hook(2, |_| {})));
    let before = world.webhooks[&WebhookId::from_u128(1)].clone();
    world.now = world.now + secs(5);
    let nothing = WebhookChange::default();
    assert_eq!(webhook(world.ask(update(1, nothing))), Webhook { updated_at: world.now, ..before.clone() });
    let change = WebhookChange {
        url: Some("http://elsewhere/".into()),
        events: Some(Events::only(EventName::Failed)),
        envelope: Some(Envelope::Binary),
        filter: Some(WebhookFilter { tags: vec!["eu".into()], ..WebhookFilter::default() }),
        description: Some(Some("mine".into())),
        enabled: Some(false),
    };
    let after = webhook(world.ask(update(1, change)));
    assert_eq!(
        (after.url.as_str(), after.events, after.envelope, after.description.as_deref()),
        ("http://elsewhere/", Events::only(EventName::Failed), Envelope::Binary, Some("mine"))
    );
    assert_eq!(
        after.disabled.map(|disabled| (disabled.at, disabled.reason)),
        Some((world.now, DisabledReason::Owner))
    );
    assert_eq!((after.filter.tags.as_slice(), &after.secrets), (&["eu".into()][..], &before.secrets));
    let taken = WebhookChange { url: Some("http://receiver/2".into()), ..WebhookChange::default() };
    let exists = Answer::Refused(Refusal::WebhookExists(WebhookId::from_u128(2)));
    assert_eq!(world.ask(update(1, taken)), exists);
    let same = WebhookChange { url: Some("http://elsewhere/".into()), ..WebhookChange::default() };
    assert!(matches!(world.ask(update(1, same)), Answer::Webhook(_)), "its own URL is not taken");
}

#[test]
fn a_rotated_secret_keeps_the_one_before_for_a_while() {
    let mut world = with_hook();
    let until = world.now + secs(60);
    let rotate = |secret: u8| {
        let secret = vec![secret; 32];
        Command::Webhook(WebhookCommand::Rotate { webhook: own(1), secret, previous_until: until })
    };
    let rotated = webhook(world.ask(rotate(9)));
    assert_eq!(rotated.secrets.at(world.now).collect::<Vec<_>>(), [&[9; 32][..], &[1; 32][..]]);
    let rotated = webhook(world.ask(rotate(10)));
    assert_eq!(rotated.secrets.at(world.now).collect::<Vec<_>>(), [&[10; 32][..], &[9; 32][..]]);
    assert_eq!(rotated.secrets.at(until).collect::<Vec<_>>(), [&[10; 32][..]]);
}

#[test]
fn what_is_under_way_to_a_deleted_webhook_is_handed_out_without_it() {
    let mut world = with_hook();
    world.ask(submit([plain(1)]));
    assert_eq!(world.ask(Command::Webhook(WebhookCommand::Delete(own(1)))), Answer::Settled);
    let again = world.ask(Command::Webhook(WebhookCommand::Delete(own(1))));
    assert_eq!(again, Answer::Refused(Refusal::WebhookNotFound));
    let taken = world.courier(9);
    assert_eq!((taken.deliveries.len(), taken.webhooks.len()), (1, 0));
    world.ask(settle(&taken.deliveries[0], SendResult::Dropped(DeliveryFailure::Deleted)));
    let next = world.courier(9).deliveries.remove(0);
    world.ask(settle(&next, SendResult::Dropped(DeliveryFailure::Deleted)));
    assert_eq!(
        world.n_deliveries(|stage| matches!(stage, DeliveryStage::Failed(_, DeliveryFailure::Deleted))),
        2
    );
    assert_eq!(world.ask(redeliver(&next)), Answer::Refused(Refusal::WebhookNotFound));
}

#[test]
fn a_test_is_sent_outside_of_every_chain_unless_the_webhook_is_disabled() {
    let mut world = with_hook();
    let test = || Command::Webhook(WebhookCommand::Test(own(1)));
    let Answer::Delivery(delivery) = world.ask(test()) else { panic!() };
    assert_eq!(delivery.about, DeliverySubject::Test);
    assert_eq!(world.deliveries[&delivery.id], *delivery, "the answer is what was written");
    world.ask(test());
    assert_eq!(world.deliver_all(), ["test to http://receiver/1", "test to http://receiver/1"]);
    world.ask(update(1, WebhookChange { enabled: Some(false), ..WebhookChange::default() }));
    assert_eq!(world.ask(test()), Answer::Refused(Refusal::WebhookDisabled));
    assert_eq!(world.ask(redeliver(&delivery)), Answer::Refused(Refusal::WebhookDisabled));
}

#[test]
fn all_that_failed_since_a_moment_is_sent_again() {
    let mut world = with_hook();
    for n in 1..=3 {
        world.now = world.now + secs(100);
        world.ask(submit([job(n, |head| head.hold = true)]));
        let taken = world.courier(9).deliveries.remove(0);
        world.ask(settle(&taken, SendResult::Dropped(DeliveryFailure::Disabled)));
    }
    let since = world.now - secs(100);
    let again = |world: &mut World, webhook| {
        world.ask(Command::Webhook(WebhookCommand::RedeliverFailed { webhook, since }))
    };
    assert_eq!(again(&mut world, own(1)), Answer::Redelivered { n_deliveries: 2, more: false });
    assert_eq!(again(&mut world, own(1)), Answer::Redelivered { n_deliveries: 0, more: false });
    assert_eq!(world.courier(9).deliveries.len(), 2);
}

fn signing_key(n: u128) -> SigningKey {
    let created_at = Time::from_millis(n as i64);
    SigningKey { id: SigningKeyId::from_u128(n), seed: vec![n as u8; 32], created_at, retired_at: None }
}

fn keys(answer: Answer) -> Vec<SigningKey> {
    match answer {
        Answer::SigningKeys(keys) => keys,
        other => panic!("no keys: {other:?}"),
    }
}

#[test]
fn the_first_signing_key_is_made_once() {
    let mut world = World::new();
    let ensure = |n| Command::Signing(SigningCommand::Ensure(signing_key(n)));
    let answers = world.apply(vec![ensure(1), ensure(2)]).answers;
    assert_eq!(answers[0], answers[1]);
    assert_eq!(keys(world.ask(ensure(3))), [signing_key(1)]);
}

#[test]
fn a_rotation_retires_what_was_there_and_keeps_a_bounded_past() {
    let mut world = World::new();
    let retire_at = world.now + secs(60);
    let rotate = |n| Command::Signing(SigningCommand::Rotate { key: signing_key(n), retire_at });
    world.ask(Command::Signing(SigningCommand::Ensure(signing_key(1))));
    let both = keys(world.ask(rotate(2)));
    assert_eq!(both, [SigningKey { retired_at: Some(retire_at), ..signing_key(1) }, signing_key(2)]);
    assert!(both[0].is_good(world.now) && !both[0].is_good(retire_at));
    for n in 3..20 {
        world.ask(rotate(n));
    }
    assert_eq!(world.signing_keys.len(), limits::SIGNING_KEYS_MAX);
    assert_eq!(world.signing_keys.values().filter(|key| key.retired_at.is_none()).count(), 1);
}
