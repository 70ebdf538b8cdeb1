//! API keys: creating them, and dropping cached ones on changes.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use forgerun_core::client::ApiKey;
use forgerun_core::command::KeyCommand;
use forgerun_core::id::ClientId;
use forgerun_core::{Answer, Command};
use forgerun_problem::Digest;

use crate::app::App;
use crate::http::ApiError;

/// Prefix of every secret, so that leaked ones are recognised.
const SECRET_START: &str = "frk_";

/// Characters of a secret that stay visible.
const PREFIX_CHARS: usize = 12;

pub(crate) struct ChangedKey {
    pub(crate) key: ApiKey,
    /// Whether the command created it.
    pub(crate) created: bool,
}

/// Runs a command about keys; the cached keys are dropped before the answer.
pub(crate) async fn changed(app: &App, command: KeyCommand) -> Result<Option<ChangedKey>, ApiError> {
    let client = command.client();
    let answer = app.engine.run(Command::Key(command)).await;
    app.keys_changed(client);
    match answer? {
        Answer::Key { key, created } => Ok(Some(ChangedKey { key, created })),
        _ => Ok(None),
    }
}

/// A new key and its secret.
pub(crate) fn fresh(app: &App, client: ClientId) -> (ApiKey, String) {
    let mut random = [0; 32];
    random[..16].copy_from_slice(&app.clock.random().to_be_bytes());
    random[16..].copy_from_slice(&app.clock.random().to_be_bytes());
    let secret = format!("{SECRET_START}{}", URL_SAFE_NO_PAD.encode(random));
    let now = app.clock.now();
    let ttl: Duration = app.config.auth.key_ttl;
    let key = ApiKey {
        id: app.engine.key_id(),
        client,
        digest: Digest::of(secret.as_bytes()).0,
        prefix: secret[..PREFIX_CHARS].to_owned(),
        created_at: now,
        expires_at: Some(now + ttl),
        revoked_at: None,
        last_used_at: None,
    };
    (key, secret)
}
