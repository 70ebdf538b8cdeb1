//! Clients and their keys: creation, repetition, renewal, revocation.

use alloc::vec::Vec;
use core::time::Duration;

use super::working_set::WorkingSet;
use crate::client::{ApiKey, Client, ClientName};
use crate::command::{Answer, KeyCommand, Refusal};
use crate::id::{ClientId, KeyId};
use crate::record::Stored;

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
            KeyCommand::Create { first_only: true, .. } if keyed || self.has_key(client) => {
                Err(Refusal::KeyNeeded)
            }
            KeyCommand::Create { key, rotate, .. } => Ok(self.create_key(key, *rotate)),
            KeyCommand::Renew { key, shown, grace } => self.renew_key(key, *shown, *grace),
            KeyCommand::Revoke { key, .. } => {
                let known = self.api_keys.get(key).filter(|known| known.client == client);
                known.ok_or(Refusal::KeyNotFound)?;
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

    fn create_key(&mut self, key: &ApiKey, rotate: bool) -> Answer {
        let newest = self.good_keys(key.client).last().and_then(|id| self.api_keys.get(id)).cloned();
        match newest {
            Some(key) if !rotate => Answer::Key { key, created: false },
            Some(_) | None => {
                self.revoke_all(key.client);
                self.put_key(key)
            }
        }
    }

    /// Replaces all keys of the client by a new one. An expired key may renew itself within the
    /// grace period only if the client has no valid one: a leaked old key must not replace a valid
    /// one.
    fn renew_key(
        &mut self,
        key: &ApiKey,
        shown: Option<[u8; 32]>,
        grace: Duration,
    ) -> Result<Answer, Refusal> {
        let now = self.now;
        let mut known = self.api_keys.values().filter(|known| known.client == key.client);
        let shown = shown.and_then(|digest| known.find(|known| known.digest == digest));
        match (shown, self.good_keys(key.client).is_empty()) {
            (Some(shown), true) if shown.is_good_within(now, grace) => {}
            (Some(shown), false) if shown.is_good(now) => {}
            (Some(_), _) => return Err(Refusal::KeyExpired),
            (None, true) => return Err(Refusal::NoKeyToRenew),
            (None, false) => {}
        }
        let all: Vec<KeyId> =
            self.api_keys.values().filter(|known| known.client == key.client).map(|known| known.id).collect();
        // Expired ones too, or they could renew again.
        all.into_iter().for_each(|id| self.revoke(id));
        Ok(self.put_key(key))
    }

    /// Whether the client has a key, valid or not. A key made by a node of an older version is not
    /// noted with the client.
    fn has_key(&self, client: ClientId) -> bool {
        self.api_keys.values().any(|known| known.client == client)
    }

    /// The valid keys of a client, oldest first.
    fn good_keys(&self, client: ClientId) -> Vec<KeyId> {
        let good = self.api_keys.values().filter(|key| key.client == client && key.is_good(self.now));
        good.map(|key| key.id).collect()
    }

    fn revoke_all(&mut self, client: ClientId) {
        self.good_keys(client).into_iter().for_each(|id| self.revoke(id));
    }

    /// Revokes a key; a second revocation keeps the first moment.
    fn revoke(&mut self, id: KeyId) {
        if let Some(mut key) = self.api_keys.get(&id).filter(|key| key.revoked_at.is_none()).cloned() {
            key.revoked_at = Some(self.now);
            self.save_key(key);
        }
    }

    fn put_key(&mut self, key: &ApiKey) -> Answer {
        if let Some(client) = self.clients.get_mut(&key.client).filter(|client| !client.keyed) {
            client.keyed = true;
            self.changes.clients_keyed.insert(client.id);
        }
        self.save_key(key.clone());
        Answer::Key { key: key.clone(), created: true }
    }

    fn save_key(&mut self, key: ApiKey) {
        self.api_keys.insert(key.id, key.clone());
        self.changes.api_keys.insert(key.id, key);
    }
}
