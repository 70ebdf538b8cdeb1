//! Clients and their API keys.

use std::time::Duration;

use forgerun_core::client::{ApiKey, Client};
use forgerun_core::command::{Answer, Command, KeyCaller, KeyCommand, Refusal};
use forgerun_core::id::KeyId;
use forgerun_core::scope::{KeyScope, KeyScopes};
use forgerun_core::time::Time;

use super::Fixture;
use super::harness::{ask, at_once, commit, refused, run};
use super::make::{START, at, client};
use crate::{Fault, Sweep};

fn registered(n: u128, created_at: Time) -> Client {
    Client::new(client(n), created_at)
}

/// Key `n` of client 1.
fn key(n: u8) -> ApiKey {
    ApiKey {
        id: KeyId::from_u128(u128::from(n)),
        client: client(1),
        digest: [n; 32],
        prefix: format!("fr_'🦀{n}"),
        created_at: START,
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
        name: None,
        scopes: KeyScopes::ALL,
    }
}

fn create(key: ApiKey, rotate: bool, first_only: bool) -> Command {
    let by = if first_only { KeyCaller::Anonymous } else { KeyCaller::Operator };
    Command::Key(KeyCommand::Create { key, scopes: None, rotate, overlap: Duration::ZERO, by })
}

/// The key that was made.
#[track_caller]
fn made(answer: Answer) -> ApiKey {
    match answer {
        Answer::Key { key, created: true } => key,
        other => panic!("no key was made: {other:?}"),
    }
}

/// A client is found by its id once it has registered, on every node and after a restart.
pub async fn a_registered_client_is_known(fixture: &dyn Fixture) {
    let store = fixture.store();
    assert_eq!(store.client(client(1)).await.unwrap(), None);
    let clients = [registered(1, START), registered(2, Time::ZERO)];
    run(&store, START, clients.map(Command::Register).to_vec()).await;
    let store = fixture.reopen().await;
    for expected in clients {
        assert_eq!(store.client(expected.id).await.unwrap(), Some(expected));
    }
    assert_eq!(store.journal_end().await.unwrap(), 0, "a client is no event of a job");
}

/// An id that is taken is rejected, with the whole batch, and the client stays as it is.
pub async fn a_client_is_registered_once(fixture: &dyn Fixture) {
    let store = fixture.store();
    run(&store, START, vec![Command::Register(registered(1, START))]).await;
    let twice = vec![Command::Register(registered(2, at(1))), Command::Register(registered(1, at(1)))];
    let error = commit(&fixture.second(), at(1), twice).await.expect_err("the id is taken");
    assert_eq!(error.fault, Fault::Rejected, "{error}");
    assert_eq!(store.client(client(1)).await.unwrap(), Some(registered(1, START)));
    assert_eq!(store.client(client(2)).await.unwrap(), None);
}

/// A key is found by the digest of its secret, with all that is known of it.
pub async fn a_key_is_found_by_its_digest(fixture: &dyn Fixture) {
    let store = fixture.store();
    run(&store, START, vec![Command::Register(registered(1, START))]).await;
    let full = ApiKey {
        expires_at: Some(Time::MAX),
        last_used_at: Some(at(5)),
        created_at: Time::from_micros(-1),
        ..key(1)
    };
    assert_eq!(made(ask(&store, START, create(full.clone(), false, true)).await), full);
    let store = fixture.reopen().await;
    assert_eq!(store.api_key([1; 32]).await.unwrap(), Some(full));
    assert_eq!(store.api_key([2; 32]).await.unwrap(), None);
}

/// The name and the scopes of a key are kept, and a changed key keeps them.
pub async fn a_key_keeps_its_name_and_scopes(fixture: &dyn Fixture) {
    let store = fixture.store();
    run(&store, START, vec![Command::Register(registered(1, START)), create(key(1), false, true)]).await;
    let scopes = KeyScopes::NONE.with(KeyScope::Read).with(KeyScope::Keys);
    let named = ApiKey { name: Some("ci 🦀".to_owned()), scopes, ..key(2) };
    let make = |key: ApiKey, scopes, by| {
        let create =
            KeyCommand::Create { key, scopes: Some(scopes), rotate: false, overlap: Duration::ZERO, by };
        Command::Key(create)
    };
    let made_key = made(ask(&store, START, make(named.clone(), scopes, KeyCaller::Key([1; 32]))).await);
    assert_eq!(made_key, named);
    let more = ApiKey { name: Some("more".to_owned()), ..key(3) };
    let escalated = ask(&store, START, make(more, KeyScopes::ALL, KeyCaller::Key([2; 32]))).await;
    assert_eq!(refused(escalated), Refusal::ScopeMissing(KeyScopes::ALL.without(scopes)));
    ask(&store, at(3), Command::Key(KeyCommand::Used { client: client(1), key: named.id })).await;
    let store = fixture.reopen().await;
    let used = ApiKey { last_used_at: Some(at(3)), ..named };
    assert_eq!(store.api_key([2; 32]).await.unwrap(), Some(used));
    assert_eq!(store.api_key([1; 32]).await.unwrap().unwrap().scopes, KeyScopes::ALL);
}

/// A batch sees all keys of the client it asks about, whoever made them.
pub async fn keys_are_rotated_revoked_and_used(fixture: &dyn Fixture) {
    let (store, second) = (fixture.store(), fixture.second());
    run(&store, START, vec![Command::Register(registered(1, START)), create(key(1), false, true)]).await;
    assert_eq!(refused(ask(&second, at(1), create(key(2), false, true)).await), Refusal::KeyNeeded);
    match ask(&second, at(1), create(key(2), false, false)).await {
        Answer::Key { key: found, created: false } => assert_eq!(found, key(1)),
        other => panic!("not answered with the key there is: {other:?}"),
    }
    made(ask(&second, at(2), create(key(2), true, false)).await);
    let revoked = ApiKey { revoked_at: Some(at(2)), ..key(1) };
    assert_eq!(store.api_key([1; 32]).await.unwrap(), Some(revoked));
    let used = KeyCommand::Used { client: client(1), key: key(2).id };
    ask(&store, at(3), Command::Key(used)).await;
    assert_eq!(second.api_key([2; 32]).await.unwrap(), Some(ApiKey { last_used_at: Some(at(3)), ..key(2) }));
    let unknown = KeyCommand::Revoke { client: client(1), key: key(9).id, by: KeyCaller::Operator };
    assert_eq!(refused(ask(&store, at(4), Command::Key(unknown)).await), Refusal::KeyNotFound);
    let stranger = KeyCommand::Revoke { client: client(2), key: key(2).id, by: KeyCaller::Operator };
    assert_eq!(refused(ask(&store, at(4), Command::Key(stranger)).await), Refusal::ClientNotFound);
}

/// Fifty ask for the first key of a client at once: one gets it.
pub async fn fifty_first_keys_at_once_make_one(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    run(&stores[0], START, vec![Command::Register(registered(1, START))]).await;
    let answers = at_once(50, |n| {
        let store = stores[n as usize % 2].clone();
        async move { ask(&store, START, create(key(n as u8 + 1), false, true)).await }
    });
    let mut winner = None;
    for answer in answers.await {
        match answer {
            Answer::Key { key, created: true } => assert_eq!(winner.replace(key), None, "a second first key"),
            other => assert_eq!(refused(other), Refusal::KeyNeeded),
        }
    }
    let winner = winner.expect("one of the fifty was the first");
    for n in 1..=50 {
        let found = stores[1].api_key([n; 32]).await.unwrap();
        assert_eq!(found, (found.as_ref() == Some(&winner)).then(|| winner.clone()));
    }
}

/// Revoked keys go after a while, in bites; good ones stay.
pub async fn revoked_keys_are_swept(fixture: &dyn Fixture) {
    let store = fixture.store();
    run(&store, START, vec![Command::Register(registered(1, START))]).await;
    for n in 1..=4 {
        made(ask(&store, at(u64::from(n)), create(key(n), true, false)).await);
    }
    let sweep = |before, limit| Sweep { revoked_keys_before: before, ..Sweep::nothing(limit) };
    assert_eq!(
        store.sweep(sweep(at(2), 9)).await.unwrap().total(),
        0,
        "the first was revoked at that moment, not before"
    );
    assert_eq!(store.sweep(sweep(at(100), 2)).await.unwrap().total(), 2);
    assert_eq!(fixture.second().sweep(sweep(at(100), 2)).await.unwrap().total(), 1);
    assert_eq!(store.sweep(sweep(at(100), 2)).await.unwrap().total(), 0);
    for n in 1..=4 {
        assert_eq!(store.api_key([n; 32]).await.unwrap(), (n == 4).then(|| key(4)));
    }
}

/// That a client has had a key is known when the key is gone: a first one is made without credentials, and only once.
pub async fn a_client_whose_keys_were_swept_has_had_one(fixture: &dyn Fixture) {
    let store = fixture.store();
    run(&store, START, vec![Command::Register(registered(1, START))]).await;
    made(ask(&store, START, create(key(1), false, true)).await);
    let revoke = KeyCommand::Revoke { client: client(1), key: key(1).id, by: KeyCaller::Operator };
    assert_eq!(ask(&store, at(1), Command::Key(revoke)).await, Answer::Settled);
    let sweep = Sweep { revoked_keys_before: at(100), ..Sweep::nothing(9) };
    assert_eq!(store.sweep(sweep).await.unwrap().revoked_keys, 1);
    let store = fixture.reopen().await;
    let keyed = Client { keyed: true, ..registered(1, START) };
    assert_eq!(store.client(client(1)).await.unwrap(), Some(keyed));
    assert_eq!(refused(ask(&store, at(101), create(key(2), false, true)).await), Refusal::KeyNeeded);
    made(ask(&fixture.second(), at(102), create(key(2), false, false)).await);
}
