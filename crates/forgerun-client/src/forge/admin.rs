//! Clients, keys and webhooks of `/v1`.

use std::time::Duration;

use forgerun_wire::forge::{KeyListView, KeyRequest, RevokeRequest, RevokedView, event_names};
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{ClientId, Forge, Key, KeyEntry};
use crate::client::Call;
use crate::error::Error;
use crate::path::segment;

/// A webhook to be registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewWebhook {
    /// Who is told.
    pub url: String,
    /// Of which events.
    pub events: Vec<String>,
}

impl NewWebhook {
    /// One that is told of everything.
    pub fn of_everything(url: impl Into<String>) -> NewWebhook {
        NewWebhook { url: url.into(), events: event_names().map(str::to_owned).collect() }
    }
}

/// A webhook that was registered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Webhook {
    /// Which webhook.
    pub webhook_id: String,
    /// Who is told.
    pub url: String,
    /// What its deliveries are signed with; shown once.
    #[serde(default)]
    pub secret: Option<String>,
}

impl Forge<'_> {
    /// Registers a client, with a name for people or without. Where registration is closed, this needs the operator's token as key.
    ///
    /// # Errors
    /// [`Error::Auth`] if registration is closed.
    pub async fn create_client(&self, name: Option<&str>) -> Result<ClientId, Error> {
        let (key, mut call) = (self.client.new_key(), self.client.post("v1/clients")?);
        if let Some(name) = name {
            call = call.json(&json!({"name": name}))?;
        }
        self.client.fetch(&call.idempotent(&key)?).await
    }

    /// Names a client; `None` takes its name away. For the client itself, and for the operator.
    ///
    /// # Errors
    /// [`Error::Auth`] or [`Error::Resource`].
    pub async fn name_client(&self, client_id: &str, name: Option<&str>) -> Result<ClientId, Error> {
        let url = self.client.url(&format!("v1/clients/{}", segment(client_id)))?;
        self.client.fetch(&Call::new(Method::PATCH, url).json(&json!({"name": name}))?).await
    }

    /// The primary key of a client. Its secret is shown this once; a client that has a key gets its description instead,
    /// unless `rotate` asks for a new one that replaces it.
    ///
    /// # Errors
    /// [`Error::Auth`] or [`Error::Resource`].
    pub async fn issue_key(&self, client_id: &str, rotate: bool) -> Result<Key, Error> {
        self.create_key(client_id, &KeyRequest { rotate, ..KeyRequest::default() }).await
    }

    /// A key for a client, with a name, scopes and an expiry if the request has them.
    ///
    /// # Errors
    /// [`Error::Auth`], [`Error::Validation`] or [`Error::Resource`].
    pub async fn create_key(&self, client_id: &str, request: &KeyRequest) -> Result<Key, Error> {
        let key = self.client.new_key();
        let call = self.client.post(&keys(client_id, ""))?.json(request)?.idempotent(&key)?;
        self.client.fetch(&call).await
    }

    /// The keys of a client, without their secrets.
    ///
    /// # Errors
    /// [`Error::Auth`] or [`Error::Resource`].
    pub async fn keys(&self, client_id: &str) -> Result<Vec<KeyEntry>, Error> {
        let list: KeyListView = self.client.fetch(&self.client.get(&keys(client_id, ""))?).await?;
        Ok(list.items)
    }

    /// A new primary key in place of the present one.
    ///
    /// # Errors
    /// [`Error::Auth`] or [`Error::Resource`].
    pub async fn renew_key(&self, client_id: &str) -> Result<Key, Error> {
        self.renew_key_with_overlap(client_id, Duration::ZERO).await
    }

    /// The same; the replaced key stays valid for so many whole seconds.
    ///
    /// # Errors
    /// [`Error::Auth`], [`Error::Validation`] or [`Error::Resource`].
    pub async fn renew_key_with_overlap(&self, client_id: &str, overlap: Duration) -> Result<Key, Error> {
        let call = self.client.post(&keys(client_id, "/renew"))?;
        let call = match overlap.as_secs() {
            0 => call,
            seconds => call.json(&json!({"overlap_s": seconds}))?,
        };
        self.client.fetch(&call).await
    }

    /// Makes a key worthless.
    ///
    /// # Errors
    /// [`Error::Auth`] or [`Error::Resource`].
    pub async fn revoke_key(&self, client_id: &str, key_id: &str) -> Result<(), Error> {
        let body = RevokeRequest { key_id: key_id.to_owned() };
        let call = self.client.post(&keys(client_id, "/revoke"))?.json(&body)?.harmless();
        self.client.fetch::<RevokedView>(&call).await?;
        Ok(())
    }

    /// Registers a webhook. Its secret is shown this once.
    ///
    /// # Errors
    /// [`Error::Validation`] if the address will not do.
    pub async fn create_webhook(&self, webhook: &NewWebhook) -> Result<Webhook, Error> {
        let key = self.client.new_key();
        self.client.fetch(&self.client.post("v1/webhooks")?.json(webhook)?.idempotent(&key)?).await
    }

    /// Removes a webhook.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such webhook.
    pub async fn delete_webhook(&self, webhook_id: &str) -> Result<(), Error> {
        let url = self.client.url(&format!("v1/webhooks/{}", segment(webhook_id)))?;
        self.client.send(&Call::new(Method::DELETE, url)).await?;
        Ok(())
    }
}

fn keys(client_id: &str, rest: &str) -> String {
    format!("v1/clients/{}/keys{rest}", segment(client_id))
}
