//! Job tokens: they read one job, for a browser that must not have a key. A token holds the job,
//! its client and its end, signed with a key that all nodes share. Nothing is stored per token: it
//! ends with its time, or finds nothing once the job is deleted.

use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::job::Job;
use forgerun_core::scope::{KeyScope, KeyScopes};
use forgerun_core::time::Time;
use forgerun_core::token_key::TokenKey;
use forgerun_wire::problem::RefusedRequest;
use tokio::sync::OnceCell;

use super::caller::{self, Caller, Credentials, Who};
use crate::app::App;
use crate::http::{ApiError, Exchange, routing::RouteAccess};

/// Prefix of every token. Keys begin otherwise.
const TOKEN_START: &str = "frj_";

/// The query parameter with a token, for `EventSource`, which sends no headers.
pub(crate) const TOKEN_PARAMETER: &str = "token";

/// Bytes of the job, the client and the end of validity.
const CLAIMS_BYTES: usize = 16 + 16 + 8;

/// Separates these signatures from others.
const PURPOSE: &[u8] = b"forgerun job token v1";

/// Makes and verifies job tokens.
#[derive(Default)]
pub(crate) struct JobTokens(OnceCell<hmac::Key>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct JobToken {
    job: JobId,
    client: ClientId,
    until: Time,
}

impl JobTokens {
    /// The job token of a request: its bearer token, or the parameter of its query if the route is
    /// for job tokens and there is no `Authorization`.
    pub(crate) fn presented(exchange: &Exchange, access: RouteAccess) -> Option<String> {
        if matches!(access, RouteAccess::Anyone) {
            return None;
        }
        match caller::credentials(&exchange.headers) {
            Credentials::Bearer(token) => token.starts_with(TOKEN_START).then(|| token.to_owned()),
            Credentials::Unreadable => None,
            Credentials::None if exchange.operation.job_token => {
                let pairs = exchange.uri.query()?.split('&');
                let token = pairs.filter_map(|pair| pair.split_once('='));
                token
                    .into_iter()
                    .find(|(name, _)| *name == TOKEN_PARAMETER)
                    .map(|(_, token)| token.to_owned())
            }
            Credentials::None => None,
        }
    }

    /// Authenticates a request with a job token.
    pub(crate) async fn admit(
        &self,
        app: &App,
        exchange: &mut Exchange,
        text: &str,
    ) -> Result<Who, ApiError> {
        let Some(token) = JobToken::read(self.key(app).await?, text) else {
            return Err(caller::unknown_token(app, exchange).await);
        };
        if token.until <= exchange.began {
            return Err(ApiError::new(Kind::Unauthenticated, "The job token has expired."));
        }
        let account = app.limiter.client(token.client, exchange.began);
        let caller = Caller {
            client: token.client,
            account,
            key: None,
            expires_at: Some(token.until),
            scopes: KeyScopes::NONE.with(KeyScope::Read),
            session: None,
        };
        exchange.caller = Some(caller.clone());
        if exchange.operation.job_token && exchange.is_read() && exchange.subject == Some(token.job) {
            return Ok(Who::Client(caller));
        }
        let detail = "A job token reads its own job, events, logs and result, and nothing else.";
        Err(RefusedRequest::new(Kind::Forbidden, detail).fact("reason", "job_token").into())
    }

    /// A token that reads a job until then.
    pub(crate) async fn issue(
        &self,
        app: &App,
        job: &Job,
        span: Duration,
    ) -> Result<(String, Time), ApiError> {
        let until = Time::from_millis((app.clock.now() + span).unix_ms() as i64);
        let token = JobToken { job: job.id, client: job.head.client, until };
        Ok((token.write(self.key(app).await?), until))
    }

    /// The key of all nodes; the first node that needs it makes it.
    async fn key(&self, app: &App) -> Result<&hmac::Key, ApiError> {
        let load = || async {
            let store = app.engine.store();
            if let Some(key) = store.record::<TokenKey>(TokenKey::record_name()).await? {
                return Ok::<_, ApiError>(hmac::Key::new(hmac::HMAC_SHA256, &key.secret));
            }
            let mut secret = [0; 32];
            secret[..16].copy_from_slice(&app.clock.random().to_be_bytes());
            secret[16..].copy_from_slice(&app.clock.random().to_be_bytes());
            app.engine.run(Command::TokenKey(TokenKey { secret })).await?;
            // Another node may have been first.
            let key = store.record::<TokenKey>(TokenKey::record_name()).await?;
            let missing = || ApiError::internal(Kind::Internal, "the key of job tokens was not stored");
            Ok(hmac::Key::new(hmac::HMAC_SHA256, &key.ok_or_else(missing)?.secret))
        };
        self.0.get_or_try_init(load).await
    }
}

impl JobToken {
    fn write(self, key: &hmac::Key) -> String {
        let mut bytes = Vec::with_capacity(CLAIMS_BYTES + 32);
        bytes.extend(self.job.to_bytes());
        bytes.extend(self.client.to_bytes());
        bytes.extend(self.until.as_micros().to_be_bytes());
        let signature = hmac::sign(key, &signed(&bytes));
        bytes.extend(signature.as_ref());
        format!("{TOKEN_START}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The token, if it is signed with this key. It may have expired.
    fn read(key: &hmac::Key, text: &str) -> Option<JobToken> {
        let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix(TOKEN_START)?).ok()?;
        let (claims, signature) = bytes.split_at_checked(CLAIMS_BYTES)?;
        hmac::verify(key, &signed(claims), signature).ok()?;
        let (job, rest) = claims.split_first_chunk()?;
        let (client, until) = rest.split_first_chunk()?;
        Some(JobToken {
            job: JobId::from_u128(u128::from_be_bytes(*job)),
            client: ClientId::from_u128(u128::from_be_bytes(*client)),
            until: Time::from_micros(i64::from_be_bytes(until.try_into().ok()?)),
        })
    }
}

fn signed(claims: &[u8]) -> Vec<u8> {
    [PURPOSE, claims].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_by_its_key_and_not_if_a_bit_differs() {
        let key = |byte| hmac::Key::new(hmac::HMAC_SHA256, &[byte; 32]);
        let token = JobToken {
            job: JobId::from_u128(7 << 90),
            client: ClientId::from_u128(9),
            until: Time::from_micros(1_234_567),
        };
        let text = token.write(&key(1));
        assert_eq!(JobToken::read(&key(1), &text), Some(token));
        assert_eq!(JobToken::read(&key(2), &text), None, "another key");
        let bytes = URL_SAFE_NO_PAD.decode(&text[TOKEN_START.len()..]).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut forged = bytes.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let forged = format!("{TOKEN_START}{}", URL_SAFE_NO_PAD.encode(forged));
            assert_eq!(JobToken::read(&key(1), &forged), None, "bit {bit}");
        }
        for cut in [CLAIMS_BYTES, CLAIMS_BYTES + 1, bytes.len() - 1, 0] {
            let forged = format!("{TOKEN_START}{}", URL_SAFE_NO_PAD.encode(&bytes[..cut]));
            assert_eq!(JobToken::read(&key(1), &forged), None, "without its signature");
        }
        assert_eq!(JobToken::read(&key(1), &text.replace(TOKEN_START, "frk_")), None);
    }
}
