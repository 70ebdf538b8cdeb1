//! Clients and keys. Rows are built by hand: the small world knows jobs only.

use std::collections::BTreeMap;
use std::string::ToString;
use std::time::Duration;
use std::vec;
use std::vec::Vec;

use crate::client::{ApiKey, Client, ClientName};
use crate::command::{Answer, Command, KeyCaller, KeyCommand, Refusal};
use crate::decide::{Batch, decide, wants};
use crate::id::{ClientId, KeyId};
use crate::item::ItemEnd;
use crate::job::Job;
use crate::record::Stored;
use crate::rows::{Changes, Object, Render, Rows};
use crate::scope::{KeyScope, KeyScopes};
use crate::time::Time;

struct Silent;

impl Render for Silent {
    fn outcome(&self, _: &Job, _: &[ItemEnd]) -> Object {
        Object { bytes: Vec::new(), digest: [0; 32] }
    }
}

const OWNER: ClientId = ClientId::from_u128(1);
const NOW: Time = Time::from_millis(1000);

fn key(number: u8) -> ApiKey {
    ApiKey {
        id: KeyId::from_u128(u128::from(number)),
        client: OWNER,
        digest: [number; 32],
        prefix: "frk_".to_string(),
        created_at: NOW,
        expires_at: Some(NOW + Duration::from_secs(60)),
        revoked_at: None,
        last_used_at: None,
        name: None,
        scopes: KeyScopes::ALL,
    }
}

fn revoked(number: u8) -> ApiKey {
    ApiKey { revoked_at: Some(Time::ZERO), ..key(number) }
}

fn expired(number: u8) -> ApiKey {
    ApiKey { expires_at: Some(NOW), ..key(number) }
}

const GRACE: Duration = Duration::from_secs(10);

/// Renewing, by somebody who shows the key with this number.
fn renew(shown: Option<u8>) -> KeyCommand {
    let by = shown.map_or(KeyCaller::Operator, |number| KeyCaller::Key([number; 32]));
    KeyCommand::Renew { key: key(9), by, grace: GRACE, overlap: Duration::ZERO }
}

fn expired_since(number: u8, span: Duration) -> ApiKey {
    ApiKey { expires_at: Some(NOW - span), ..key(number) }
}

/// Decides one command about the keys of a client that has these.
fn decide_one(known: Vec<ApiKey>, command: KeyCommand) -> (Answer, Changes) {
    let keyed = !known.is_empty();
    tell_of(Client { keyed, ..Client::new(OWNER, Time::ZERO) }, known, command)
}

fn tell_of(client: Client, known: Vec<ApiKey>, command: KeyCommand) -> (Answer, Changes) {
    let commands = vec![Command::Key(command)];
    let batch = Batch { now: NOW, seed: 1, commands };
    assert!(wants(&batch).clients.contains(&OWNER));
    let clients = BTreeMap::from([(OWNER, client)]);
    let mut changes = decide(&batch, Rows { clients, api_keys: known, ..Rows::default() }, &Silent);
    (changes.answers.remove(0), changes)
}

fn create(rotate: bool, first_only: bool) -> KeyCommand {
    let by = if first_only { KeyCaller::Anonymous } else { KeyCaller::Operator };
    KeyCommand::Create { key: key(9), scopes: None, rotate, overlap: Duration::ZERO, by }
}

#[test]
fn a_first_key_is_made_without_one_and_the_next_needs_it() {
    let (answer, changes) = decide_one(vec![], create(false, true));
    assert_eq!(answer, Answer::Key { key: key(9), created: true });
    assert_eq!((changes.api_keys.len(), changes.clients_keyed), (1, [OWNER].into()));
    for known in [key(1), revoked(1), expired(1)] {
        let (answer, changes) = decide_one(vec![known], create(false, true));
        assert_eq!(answer, Answer::Refused(Refusal::KeyNeeded));
        assert!(changes.is_empty());
    }
    let unnoted = Client::new(OWNER, Time::ZERO);
    let (answer, _) = tell_of(unnoted, vec![revoked(1)], create(false, true));
    assert_eq!(answer, Answer::Refused(Refusal::KeyNeeded), "an older version made it");
}

#[test]
fn a_client_whose_keys_are_all_gone_has_had_one_all_the_same() {
    let client = Client { keyed: true, ..Client::new(OWNER, Time::ZERO) };
    let (answer, changes) = tell_of(client, vec![], create(false, true));
    assert_eq!(answer, Answer::Refused(Refusal::KeyNeeded));
    assert!(changes.is_empty());
    let (answer, changes) = tell_of(client, vec![], create(false, false));
    assert_eq!(answer, Answer::Key { key: key(9), created: true }, "the operator may");
    assert!(changes.clients_keyed.is_empty(), "it is known already");
}

#[test]
fn of_two_first_keys_in_one_batch_the_second_is_refused() {
    let commands = vec![
        Command::Register(Client::new(OWNER, NOW)),
        Command::Key(create(false, true)),
        Command::Key(create(false, true)),
    ];
    let changes = decide(&Batch { now: NOW, seed: 1, commands }, Rows::default(), &Silent);
    assert_eq!(changes.answers[1], Answer::Key { key: key(9), created: true });
    assert_eq!(changes.answers[2], Answer::Refused(Refusal::KeyNeeded));
    assert_eq!((changes.clients.len(), changes.clients_keyed), (1, [OWNER].into()));
}

#[test]
fn a_client_is_named_and_its_name_taken_away() {
    let named = ClientName { client: OWNER, name: Some("Billing".into()) };
    let decided = |clients, named: &ClientName, records| {
        let batch = Batch { now: NOW, seed: 1, commands: vec![Command::NameClient(named.clone())] };
        assert!(wants(&batch).clients.contains(&OWNER));
        decide(&batch, Rows { clients, records, ..Rows::default() }, &Silent)
    };
    let key = ClientName::record_key(OWNER.to_string());
    let known = || BTreeMap::from([(OWNER, Client::new(OWNER, NOW))]);
    let changes = decided(known(), &named, BTreeMap::new());
    assert_eq!((&changes.answers[0], changes.records.len()), (&Answer::Settled, 1));
    let record = changes.records[&key].new.clone().unwrap();
    assert_eq!(ClientName::of(&record), Ok(named.clone()));
    let unnamed = ClientName { name: None, ..named.clone() };
    assert_eq!(
        decided(known(), &unnamed, BTreeMap::from([(record.key.clone(), record)])).records[&key].new,
        None
    );
    let changes = decided(BTreeMap::new(), &named, BTreeMap::new());
    assert_eq!(changes.answers[0], Answer::Refused(Refusal::ClientNotFound));
}

#[test]
fn repeating_a_creation_shows_the_key_that_is_there() {
    let (answer, changes) = decide_one(vec![revoked(1), key(2)], create(false, false));
    assert_eq!(answer, Answer::Key { key: key(2), created: false });
    assert!(changes.is_empty());
}

#[test]
fn rotating_and_renewing_put_a_new_key_in_place_of_the_good_ones() {
    for command in [create(true, false), renew(None)] {
        let (answer, changes) = decide_one(vec![key(1), key(2), revoked(3)], command);
        assert_eq!(answer, Answer::Key { key: key(9), created: true });
        let written: Vec<(u128, bool)> =
            changes.api_keys.values().map(|key| (key.id.as_u128(), key.revoked_at == Some(NOW))).collect();
        assert_eq!(written, [(1, true), (2, true), (9, false)]);
    }
}

#[test]
fn a_client_without_a_good_key_gets_a_new_one_but_nothing_to_renew() {
    for known in [vec![revoked(1)], vec![expired(1)], vec![]] {
        let (answer, _) = decide_one(known.clone(), create(false, false));
        assert_eq!(answer, Answer::Key { key: key(9), created: true });
        let (answer, changes) = decide_one(known, renew(None));
        assert_eq!(answer, Answer::Refused(Refusal::NoKeyToRenew));
        assert!(changes.is_empty());
    }
}

#[test]
fn an_expired_key_renews_itself_once_and_in_time() {
    let (answer, changes) = decide_one(vec![expired(1), expired(2)], renew(Some(1)));
    assert_eq!(answer, Answer::Key { key: key(9), created: true });
    let revoked_now: Vec<bool> = changes.api_keys.values().map(|key| key.revoked_at == Some(NOW)).collect();
    assert_eq!(revoked_now, [true, true, false], "neither of the old ones renews again");
    for known in [vec![expired_since(1, GRACE)], vec![expired(1), key(2)], vec![revoked(1)]] {
        let (answer, changes) = decide_one(known, renew(Some(1)));
        assert_eq!(answer, Answer::Refused(Refusal::KeyExpired));
        assert!(changes.is_empty());
    }
}

#[test]
fn a_key_is_revoked_once_and_for_good() {
    let revoke =
        |number: u8| KeyCommand::Revoke { client: OWNER, key: key(number).id, by: KeyCaller::Operator };
    let (answer, changes) = decide_one(vec![key(1)], revoke(1));
    assert_eq!(answer, Answer::Settled);
    assert_eq!(changes.api_keys[&key(1).id].revoked_at, Some(NOW));
    let (answer, changes) = decide_one(vec![revoked(1)], revoke(1));
    assert_eq!(answer, Answer::Settled);
    assert!(changes.is_empty(), "the moment it was revoked stays");
    let (answer, _) = decide_one(vec![key(1)], revoke(2));
    assert_eq!(answer, Answer::Refused(Refusal::KeyNotFound));
}

#[test]
fn a_key_of_another_client_is_not_there() {
    let foreign = ApiKey { client: ClientId::from_u128(2), ..key(1) };
    let id = foreign.id;
    for command in [
        KeyCommand::Revoke { client: OWNER, key: id, by: KeyCaller::Operator },
        KeyCommand::Used { client: OWNER, key: id },
    ] {
        let (answer, changes) = decide_one(vec![foreign.clone()], command);
        assert_eq!(answer, Answer::Refused(Refusal::KeyNotFound));
        assert!(changes.is_empty());
    }
}

#[test]
fn keys_of_a_client_that_is_not_registered_are_refused() {
    let batch = Batch { now: NOW, seed: 1, commands: vec![Command::Key(create(false, true))] };
    let changes = decide(&batch, Rows::default(), &Silent);
    assert_eq!(changes.answers, [Answer::Refused(Refusal::ClientNotFound)]);
    assert!(changes.is_empty());
}

#[test]
fn a_good_key_is_neither_revoked_nor_expired() {
    assert!(key(1).is_good(NOW));
    assert!(!revoked(1).is_good(NOW));
    assert!(!expired(1).is_good(NOW), "the moment of expiry is too late");
}

fn named(number: u8, name: &str, scopes: KeyScopes) -> ApiKey {
    ApiKey { name: Some(name.to_string()), scopes, ..key(number) }
}

/// Making the key 9 of this name, by the key with this number.
fn create_by(by: u8, name: Option<&str>, scopes: Option<KeyScopes>, rotate: bool) -> KeyCommand {
    let key = ApiKey { name: name.map(ToString::to_string), ..key(9) };
    KeyCommand::Create { key, scopes, rotate, overlap: HOUR, by: KeyCaller::Key([by; 32]) }
}

const HOUR: Duration = Duration::from_secs(3600);
const SOME: KeyScopes = KeyScopes::NONE.with(KeyScope::Read).with(KeyScope::Keys);

#[test]
fn a_key_gives_only_scopes_that_it_has() {
    let known = || {
        vec![
            key(1),
            named(2, "ci", SOME),
            named(3, "app", KeyScopes::ALL),
            named(4, "work", SOME.without(SOME)),
        ]
    };
    let read = KeyScopes::NONE.with(KeyScope::Read);
    for (by, name, scopes, rotate, missing) in [
        (1, Some("new"), None, false, None),
        (2, Some("new"), Some(read), false, None),
        (2, Some("new"), None, false, Some(KeyScopes::ALL.without(SOME))),
        (2, Some("new"), Some(read.with(KeyScope::Work)), false, Some(KeyScopes::NONE.with(KeyScope::Work))),
        (2, None, None, true, Some(KeyScopes::ALL.without(SOME))),
        (2, None, None, false, None),
        (2, Some("ci"), None, true, None),
        (2, Some("app"), Some(read), true, Some(KeyScopes::ALL.without(SOME))),
        (3, None, None, true, None),
        (4, Some("work"), Some(read), true, Some(KeyScopes::NONE.with(KeyScope::Keys))),
        (4, Some("ci"), None, false, Some(KeyScopes::NONE.with(KeyScope::Keys))),
    ] {
        let (answer, changes) = decide_one(known(), create_by(by, name, scopes, rotate));
        match missing {
            None => assert!(matches!(answer, Answer::Key { .. }), "{by} {name:?}: {answer:?}"),
            Some(missing) => {
                assert_eq!(answer, Answer::Refused(Refusal::ScopeMissing(missing)), "{by} {name:?}");
                assert!(changes.is_empty());
            }
        }
    }
    let renew_by =
        |by| KeyCommand::Renew { key: key(9), by: KeyCaller::Key([by; 32]), grace: GRACE, overlap: HOUR };
    assert_eq!(
        decide_one(known(), renew_by(2)).0,
        Answer::Refused(Refusal::ScopeMissing(KeyScopes::ALL.without(SOME)))
    );
    let revoke =
        |by, number| KeyCommand::Revoke { client: OWNER, key: key(number).id, by: KeyCaller::Key([by; 32]) };
    assert_eq!(decide_one(known(), revoke(2, 2)).0, Answer::Settled);
    assert!(matches!(decide_one(known(), revoke(2, 1)).0, Answer::Refused(Refusal::ScopeMissing(_))));
}

#[test]
fn a_named_key_is_made_once_and_leaves_the_others_alone() {
    let known = vec![key(1), named(2, "ci", SOME)];
    let (answer, changes) = decide_one(known.clone(), create_by(1, Some("ci"), None, false));
    assert_eq!(answer, Answer::Key { key: named(2, "ci", SOME), created: false });
    assert!(changes.is_empty());
    let (answer, changes) = decide_one(known.clone(), create_by(1, Some("ci"), None, true));
    assert_eq!(answer, Answer::Key { key: named(9, "ci", SOME), created: true }, "the scopes stay");
    let written: Vec<_> = changes.api_keys.values().map(|key| (key.id.as_u128(), key.revoked_at)).collect();
    assert_eq!(written, [(2, Some(NOW + HOUR)), (9, None)]);
    let (_, changes) = decide_one(known, renew(Some(1)));
    assert!(!changes.api_keys.contains_key(&key(2).id), "a named key is not renewed with the primary one");
    let anonymous = KeyCommand::Create {
        key: named(9, "ci", KeyScopes::ALL),
        scopes: None,
        rotate: false,
        overlap: Duration::ZERO,
        by: KeyCaller::Anonymous,
    };
    assert_eq!(decide_one(vec![], anonymous).0, Answer::Refused(Refusal::KeyNeeded));
}

#[test]
fn a_client_has_twenty_named_keys_at_most() {
    let mut known: Vec<ApiKey> = (20..40).map(|number| named(number, &number.to_string(), SOME)).collect();
    known.push(key(1));
    let refused = Answer::Refused(Refusal::TooManyKeys);
    assert_eq!(decide_one(known.clone(), create_by(1, Some("more"), None, false)).0, refused);
    assert!(matches!(decide_one(known.clone(), create_by(1, Some("20"), None, true)).0, Answer::Key { .. }));
    known[0].revoked_at = Some(NOW);
    assert!(matches!(decide_one(known, create_by(1, Some("more"), None, false)).0, Answer::Key { .. }));
}

#[test]
fn a_replaced_key_is_valid_during_the_overlap_but_changes_no_keys() {
    let replaced = ApiKey { revoked_at: Some(NOW + HOUR), ..key(1) };
    assert!(replaced.is_good(NOW));
    let known = || vec![replaced.clone(), key(2)];
    for command in [
        create_by(1, None, None, true),
        create_by(1, Some("new"), None, false),
        create_by(1, None, None, false),
        renew(Some(1)),
        KeyCommand::Revoke { client: OWNER, key: key(2).id, by: KeyCaller::Key([1; 32]) },
    ] {
        let (answer, changes) = decide_one(known(), command);
        assert_eq!(answer, Answer::Refused(Refusal::KeyReplaced));
        assert!(changes.is_empty());
    }
    let revoke = KeyCommand::Revoke { client: OWNER, key: key(1).id, by: KeyCaller::Key([2; 32]) };
    let (_, changes) = decide_one(known(), revoke);
    assert!(!changes.api_keys[&key(1).id].is_good(NOW), "revoked inside its overlap");
    let (_, changes) = decide_one(known(), create(true, false));
    assert!(!changes.api_keys[&key(1).id].is_good(NOW), "replaced again, without an overlap");
    let (_, changes) = decide_one(known(), create_by(2, None, None, true));
    let ends: Vec<_> = changes.api_keys.values().map(|key| key.revoked_at).collect();
    assert_eq!(ends, [Some(NOW + HOUR), None], "an earlier end stays");
}

#[test]
fn an_expired_named_key_renews_nothing() {
    let expired = ApiKey { name: Some("ci".to_string()), ..expired(1) };
    for known in [vec![expired.clone()], vec![expired, key(2)]] {
        assert_eq!(decide_one(known, renew(Some(1))).0, Answer::Refused(Refusal::KeyExpired));
    }
}
