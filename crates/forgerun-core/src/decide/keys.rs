//! Clients and their keys: creation, repetition, renewal, revocation.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use super::working_set::WorkingSet;
use crate::client::{ApiKey, Client, ClientName};
use crate::command::{Answer, KeyCaller, KeyCommand, Refusal};
use crate::id::{ClientId, KeyId};
use crate::limits;
use crate::record::Stored;
use crate::scope::{KeyScope, KeyScopes};
use crate::time::Time;

impl WorkingSet<'_> {
    pub(super) fn register(&mut self, client: &Client) -> Answer {
        self.clients.insert(client.id, *client);
        self.changes.clients.push(*client);
        Answer::Settled
    }

    pub(super) fn name_client(&mut self, named: &ClientName) -> Result<Answer, Refusal> {
        self.clients.get(&named.client).ok_or(Refusal::ClientNotFound)?;
        match named.name {
            Some(_) => self.put_record(named),
            None => self.remove_record(ClientName::record_key(named.key())),
        }
        Ok(Answer::Settled)
    }

    pub(super) fn key(&mut self, command: &KeyCommand) -> Result<Answer, Refusal> {
        let client = command.client();
        let keyed = self.clients.get(&client).ok_or(Refusal::ClientNotFound)?.keyed;
        match command {
            KeyCommand::Create { by: KeyCaller::Anonymous, key, .. }
                if keyed || key.name.is_some() || self.has_key(client) =>
            {
                Err(Refusal::KeyNeeded)
            }
            KeyCommand::Create { key, scopes, rotate, overlap, by } => {
                let replacing = rotate.then_some(*overlap);
                self.create_key(key, *scopes, replacing, *by)
            }
            KeyCommand::Renew { key, by, grace, overlap } => self.renew_key(key, *by, *grace, *overlap),
            KeyCommand::Revoke { key, by, .. } => {
                let known = self.api_keys.get(key).filter(|known| known.client == client);
                let known = known.ok_or(Refusal::KeyNotFound)?;
                self.check_key_caller(client, *by, known.scopes)?;
                self.revoke(*key);
                Ok(Answer::Settled)
            }
            KeyCommand::Used { key, .. } => {
                let known = self.api_keys.get(key).filter(|known| known.client == client);
                let mut known = known.cloned().ok_or(Refusal::KeyNotFound)?;
                known.last_used_at = Some(self.now);
                self.save_key(known);
                Ok(Answer::Settled)
            }
        }
    }

    /// Refuses a caller that may not change keys with these scopes. The rule that keeps scopes from
    /// growing: a key changes only keys whose scopes it has, and only while it is not replaced.
    fn check_key_caller(&self, client: ClientId, by: KeyCaller, scopes: KeyScopes) -> Result<(), Refusal> {
        let KeyCaller::Key(digest) = by else { return Ok(()) };
        let caller = self.key_of(client, digest).ok_or(Refusal::KeyNotFound)?;
        if caller.is_replaced() {
            return Err(Refusal::KeyReplaced);
        }
        let missing = scopes.with(KeyScope::Keys).without(caller.scopes);
        if missing.is_empty() { Ok(()) } else { Err(Refusal::ScopeMissing(missing)) }
    }

    /// `replacing` is the overlap of a rotation.
    fn create_key(
        &mut self,
        key: &ApiKey,
        scopes: Option<KeyScopes>,
        replacing: Option<Duration>,
        by: KeyCaller,
    ) -> Result<Answer, Refusal> {
        let newest = self.current_keys(key.client, key.name.as_deref()).last().cloned();
        let scopes = scopes.or(newest.as_ref().map(|newest| newest.scopes)).unwrap_or(KeyScopes::ALL);
        let scopes = if key.name.is_some() { scopes } else { KeyScopes::ALL };
        match newest.filter(|newest| newest.is_good(self.now)) {
            Some(newest) if replacing.is_none() => {
                self.check_key_caller(key.client, by, KeyScopes::NONE)?;
                Ok(Answer::Key { key: newest, created: false })
            }
            Some(newest) => {
                self.check_key_caller(key.client, by, newest.scopes)?;
                self.put_key(key, scopes, replacing.unwrap_or_default(), by)
            }
            None => {
                if key.name.is_some() && self.names_of_keys(key) >= limits::NAMED_KEYS_MAX {
                    return Err(Refusal::TooManyKeys);
                }
                self.put_key(key, scopes, replacing.unwrap_or_default(), by)
            }
        }
    }

    /// Replaces the primary key of the client by a new one. An expired key may renew itself within
    /// the grace period only if the client has no valid one: a leaked old key must not replace a
    /// valid one.
    fn renew_key(
        &mut self,
        key: &ApiKey,
        by: KeyCaller,
        grace: Duration,
        overlap: Duration,
    ) -> Result<Answer, Refusal> {
        let now = self.now;
        let shown = match by {
            KeyCaller::Key(digest) => self.key_of(key.client, digest),
            KeyCaller::Operator | KeyCaller::Anonymous => None,
        };
        let has_good = self.current_keys(key.client, None).any(|known| known.is_good(now));
        match (shown, has_good) {
            (Some(shown), false) if shown.name.is_none() && shown.is_good_within(now, grace) => {}
            (Some(shown), _) if shown.is_good(now) => {}
            (Some(_), _) => return Err(Refusal::KeyExpired),
            (None, false) => return Err(Refusal::NoKeyToRenew),
            (None, true) => {}
        }
        self.put_key(key, KeyScopes::ALL, overlap, by)
    }

    /// The key of a client with this digest, valid or not.
    fn key_of(&self, client: ClientId, digest: [u8; 32]) -> Option<&ApiKey> {
        self.api_keys.values().find(|key| key.client == client && key.digest == digest)
    }

    /// The keys of this name that are neither revoked nor replaced, oldest first. They may have
    /// expired.
    fn current_keys(&self, client: ClientId, name: Option<&str>) -> impl Iterator<Item = &ApiKey> {
        let of_client = self.api_keys.values().filter(move |key| key.client == client);
        of_client.filter(move |key| key.name.as_deref() == name && !key.is_replaced())
    }

    /// How many other names the keys of the client have.
    fn names_of_keys(&self, new: &ApiKey) -> usize {
        let of_client = self.api_keys.values().filter(|key| key.client == new.client && !key.is_replaced());
        let names =
            of_client.filter_map(|key| key.name.as_ref()).filter(|name| Some(*name) != new.name.as_ref());
        names.collect::<BTreeSet<_>>().len()
    }

    /// Whether the client has a key, valid or not. A key made by a node of an older version is not
    /// noted with the client.
    fn has_key(&self, client: ClientId) -> bool {
        self.api_keys.values().any(|known| known.client == client)
    }

    /// Revokes a key now; a second revocation keeps the first moment.
    fn revoke(&mut self, id: KeyId) {
        self.revoke_at(id, self.now);
    }

    /// Revokes a key at this moment, or earlier if that was decided before.
    fn revoke_at(&mut self, id: KeyId, at: Time) {
        let is_later = |key: &&ApiKey| {
            key.revoked_at.is_none_or(|revoked_at| at < revoked_at && !key.is_revoked(self.now))
        };
        if let Some(mut key) = self.api_keys.get(&id).filter(is_later).cloned() {
            key.revoked_at = Some(at);
            self.save_key(key);
        }
    }

    /// Writes a key, and revokes those of the same name after `overlap`; expired ones at once, so
    /// that they cannot renew themselves.
    fn put_key(
        &mut self,
        key: &ApiKey,
        scopes: KeyScopes,
        overlap: Duration,
        by: KeyCaller,
    ) -> Result<Answer, Refusal> {
        self.check_key_caller(key.client, by, scopes)?;
        let now = self.now;
        let of_name = |known: &&ApiKey| known.client == key.client && known.name == key.name;
        let replaced: Vec<(KeyId, Time)> = self
            .api_keys
            .values()
            .filter(of_name)
            .map(|known| (known.id, if known.is_good(now) { now + overlap } else { now }))
            .collect();
        replaced.into_iter().for_each(|(id, at)| self.revoke_at(id, at));
        if let Some(client) = self.clients.get_mut(&key.client).filter(|client| !client.keyed) {
            client.keyed = true;
            self.changes.clients_keyed.insert(client.id);
        }
        let key = ApiKey { scopes, ..key.clone() };
        self.save_key(key.clone());
        Ok(Answer::Key { key, created: true })
    }

    fn save_key(&mut self, key: ApiKey) {
        self.api_keys.insert(key.id, key.clone());
        self.changes.api_keys.insert(key.id, key);
    }
}
