//! Rate limits by caller, counted in memory without queries. Nodes on one store exchange their
//! counts ([`crate::tallies`]), so a limit holds for all of them together.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use axum::http::HeaderMap;
use forgerun_core::catalog::Kind;
use forgerun_core::client_limits::ClientLimit;
use forgerun_core::id::ClientId;
use forgerun_core::time::Time;
use forgerun_wire::problem::RefusedRequest;

use crate::config::Limits;
use crate::http::ApiError;
use crate::limits::{
    AUTH_FAILURES_LOGGED_EVERY, CALLERS_COUNTED_MAX, MISSES_PER_MINUTE, QUOTA_AFTER_S,
    REGISTRATIONS_PER_MINUTE, WRONG_KEYS_PER_MINUTE, WRONG_TOKENS_PER_MINUTE, WRONG_TOKENS_WAITING_MAX,
    rate::{Bucket, RateLimit, RateStatus},
    spending::{LimitKind, QuotaUse},
};

/// Counts the requests of clients and addresses.
pub struct Limiter {
    /// The kind of its requests in tallies.
    pub(super) requests: LimitKind,
    pub(super) rate: Option<RateLimit>,
    pub(super) quota: Option<u64>,
    pub(super) misses: RateLimit,
    pub(super) registrations: RateLimit,
    pub(super) wrong_tokens: RateLimit,
    pub(super) wrong_keys: RateLimit,
    pub(super) clients: Accounts<ClientId>,
    pub(super) addresses: Accounts<IpAddr>,
}

/// The counters of one caller.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// Requests of a client, registrations of an address.
    pub(super) requests: Bucket,
    /// The client's own limit of requests per minute; 0 for that of all clients.
    own_per_minute: AtomicU32,
    pub(super) quota: QuotaUse,
    /// Answers 403 and 404: too many suggest guessing of ids.
    pub(super) misses: Bucket,
    /// Wrong tokens on routes of the operator.
    pub(super) wrong_tokens: Bucket,
    /// Wrong credentials elsewhere.
    pub(super) wrong_keys: Bucket,
    /// Delayed answers to wrong credentials.
    late_answers: AtomicUsize,
    /// Refused credentials that are not logged yet.
    unlogged: Mutex<UnloggedFailures>,
}

/// Refused credentials of an address since its last log line.
#[derive(Debug, Default)]
struct UnloggedFailures {
    n: u64,
    logged_at: Option<Time>,
}

impl Account {
    /// Counts refused credentials. `Some` once a minute, with their number since the last time,
    /// this one included: time for a log line.
    pub(crate) fn auth_failures_to_log(&self, now: Time) -> Option<u64> {
        let mut unlogged = self.unlogged.lock().unwrap_or_else(PoisonError::into_inner);
        unlogged.n += 1;
        if unlogged.logged_at.is_some_and(|at| now.since(at) < AUTH_FAILURES_LOGGED_EVERY) {
            return None;
        }
        unlogged.logged_at = Some(now);
        Some(std::mem::take(&mut unlogged.n))
    }

    /// Sets the client's own limit of requests; `None` for that of all clients.
    pub(crate) fn set_own_rate(&self, per_minute: Option<u64>) {
        let per_minute = per_minute.map_or(0, |n| u32::try_from(n).unwrap_or(u32::MAX));
        self.own_per_minute.store(per_minute, Ordering::Relaxed);
    }

    /// The client's own limit of requests, if it has one.
    pub(super) fn own_rate(&self) -> Option<RateLimit> {
        let per_minute = self.own_per_minute.load(Ordering::Relaxed);
        (per_minute > 0).then(|| RateLimit::per_minute(per_minute))
    }

    fn is_idle(&self, now: Time) -> bool {
        let buckets = [&self.requests, &self.misses, &self.wrong_tokens, &self.wrong_keys];
        let is_logged = self.unlogged.lock().unwrap_or_else(PoisonError::into_inner).n == 0;
        is_logged && buckets.into_iter().all(|bucket| bucket.is_full(now))
    }
}

impl Limiter {
    pub fn new(limits: &Limits) -> Limiter {
        Limiter {
            requests: LimitKind::Requests,
            rate: limits.rate_per_minute.map(RateLimit::per_minute),
            quota: limits.quota,
            misses: RateLimit::per_minute(MISSES_PER_MINUTE),
            registrations: RateLimit::per_minute(REGISTRATIONS_PER_MINUTE),
            wrong_tokens: RateLimit::per_minute(WRONG_TOKENS_PER_MINUTE),
            wrong_keys: RateLimit::per_minute(WRONG_KEYS_PER_MINUTE),
            clients: Accounts::default(),
            addresses: Accounts::default(),
        }
    }

    /// The limit on worker calls, if configured.
    pub fn of_workers(limits: &Limits) -> Option<Limiter> {
        let of_rate = |rate| Limiter::with_rate(limits, LimitKind::WorkerCalls, rate);
        limits.worker_rate_per_minute.map(of_rate)
    }

    /// The limit on broker messages, if it differs from that of their client.
    pub fn of_bridge(limits: &Limits, per_minute: Option<u32>) -> Option<Limiter> {
        per_minute.map(|rate| Limiter::with_rate(limits, LimitKind::BridgeMessages, rate))
    }

    /// A limit per minute, without a quota; 0 for none.
    fn with_rate(limits: &Limits, requests: LimitKind, per_minute: u32) -> Limiter {
        let rate = (per_minute > 0).then(|| RateLimit::per_minute(per_minute));
        Limiter { requests, rate, quota: None, ..Limiter::new(limits) }
    }

    /// The account of a client, which callers may keep.
    pub(crate) fn client(&self, client: ClientId, now: Time) -> Arc<Account> {
        // A spent quota must not be forgotten; if all accounts are kept, the bound clears them.
        let keep_idle = self.quota.is_some();
        self.clients.get(client, |account| keep_idle || !account.is_idle(now))
    }

    /// The account of an address, for anonymous callers.
    pub(crate) fn address(&self, address: IpAddr, now: Time) -> Arc<Account> {
        self.addresses.get(site_of(address), |account| !account.is_idle(now))
    }

    /// Counts a request of a client. The rate status is for the headers of the answer, whatever
    /// that is.
    pub(crate) fn request(&self, account: &Account, now: Time) -> (Option<RateStatus>, Result<(), ApiError>) {
        let own = account.own_rate();
        let rate_status = own.as_ref().or(self.rate.as_ref()).map(|pace| account.requests.take(pace, now));
        if let Some(too_early_s) = rate_status.and_then(|rate_status| rate_status.too_early_s) {
            let refused = RefusedRequest::new(Kind::RateLimited, "More requests in a minute than allowed.");
            let limit = rate_status.map_or(0, |rate_status| rate_status.limit);
            let refused = refused.limited(limit.into(), MINUTE, too_early_s);
            let refused = match own {
                Some(_) => refused.fact("limit", ClientLimit::RatePerMinute.word()).fact("max", limit),
                None => refused,
            };
            return (rate_status, Err(refused.into()));
        }
        let Some(quota) = self.quota else { return (rate_status, Ok(())) };
        if !account.quota.take(quota) {
            let refused =
                RefusedRequest::new(Kind::QuotaExceeded, format!("The quota of {quota} requests is spent."));
            return (rate_status, Err(refused.limited(quota, "in all", QUOTA_AFTER_S).into()));
        }
        (rate_status, Ok(()))
    }

    /// Writes the rate limit headers.
    pub(crate) fn write(&self, rate_status: &RateStatus, headers: &mut HeaderMap) {
        match &self.rate {
            Some(pace) if pace.limit() == rate_status.limit => rate_status.write(pace, headers),
            // The client's own.
            Some(_) | None => rate_status.write(&RateLimit::per_minute(rate_status.limit), headers),
        }
    }

    /// Counts a registration from an address: it needs no credentials, so it is limited (ruling
    /// C-93).
    pub(crate) fn registration(&self, address: IpAddr, now: Time) -> Result<(), ApiError> {
        self.open_request(address, now, "More registrations in a minute than allowed.")
    }

    /// Counts a request with the token of a signal, against the same limit.
    pub(crate) fn signal(&self, address: IpAddr, now: Time) -> Result<(), ApiError> {
        self.open_request(address, now, "More signals by token in a minute than allowed.")
    }

    /// Counts a step of a log-in with the identity provider, against the same limit.
    pub(crate) fn login(&self, address: IpAddr, now: Time) -> Result<(), ApiError> {
        self.open_request(address, now, "More log-ins in a minute than allowed.")
    }

    fn open_request(&self, address: IpAddr, now: Time, detail: &str) -> Result<(), ApiError> {
        let rate_status = self.address(address, now).requests.take(&self.registrations, now);
        match rate_status.too_early_s {
            Some(seconds) => Err(too_many(detail, &self.registrations, seconds)),
            None => Ok(()),
        }
    }

    /// Counts a wrong token on a route of the operator. `Some` if its answer is delayed
    /// ([`WRONG_TOKEN_DELAY`]); refused if too many of its address are delayed already. The right
    /// token is never counted (C-125).
    pub(crate) fn wrong_token(
        &self,
        account: &Arc<Account>,
        now: Time,
    ) -> Result<Option<LateAnswer>, ApiError> {
        late(account, &account.wrong_tokens, &self.wrong_tokens, now)
    }

    /// The same for wrong credentials elsewhere, with more immediate answers.
    pub(crate) fn wrong_key(
        &self,
        account: &Arc<Account>,
        now: Time,
    ) -> Result<Option<LateAnswer>, ApiError> {
        late(account, &account.wrong_keys, &self.wrong_keys, now)
    }

    /// Counts an answer that helps guessing; beyond the limit it is replaced (ruling C-43).
    pub(crate) fn miss(&self, account: &Account, now: Time) -> Result<(), ApiError> {
        match account.misses.take(&self.misses, now).too_early_s {
            Some(seconds) => {
                let detail = "Too many requests for what does not exist or belongs to others.";
                Err(too_many(detail, &self.misses, seconds))
            }
            None => Ok(()),
        }
    }
}

/// The unit of counting addresses: an IPv6 network of 2^64, since a caller with one address there
/// has all of them.
pub(crate) fn site_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & (u128::MAX << 64)).into()),
        IpAddr::V4(_) => address,
    }
}

/// A delayed answer to wrong credentials; few per address.
pub(crate) struct LateAnswer(Arc<Account>);

impl Drop for LateAnswer {
    fn drop(&mut self) {
        self.0.late_answers.fetch_sub(1, Ordering::Relaxed);
    }
}

fn late(
    account: &Arc<Account>,
    bucket: &Bucket,
    limit: &RateLimit,
    now: Time,
) -> Result<Option<LateAnswer>, ApiError> {
    let Some(seconds) = bucket.take(limit, now).too_early_s else { return Ok(None) };
    let n_before = account.late_answers.fetch_add(1, Ordering::Relaxed);
    let late = LateAnswer(account.clone());
    if n_before < WRONG_TOKENS_WAITING_MAX {
        Ok(Some(late))
    } else {
        Err(too_many(WRONG_TOKENS, limit, seconds))
    }
}

const WRONG_TOKENS: &str = "Too many wrong tokens from this address.";

/// The period of request limits, as refusals name it.
const MINUTE: &str = "60s";

fn too_many(detail: &str, limit: &RateLimit, after_s: u64) -> ApiError {
    RefusedRequest::new(Kind::RateLimited, detail).limited(limit.limit().into(), MINUTE, after_s).into()
}

/// A bounded map of accounts.
pub(super) struct Accounts<K>(RwLock<HashMap<K, Arc<Account>>>);

impl<K> Default for Accounts<K> {
    fn default() -> Self {
        Accounts(RwLock::default())
    }
}

impl<K: Copy> Accounts<K> {
    pub(super) fn visit(&self, mut see: impl FnMut(K, &Account)) {
        let accounts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        accounts.iter().for_each(|(name, account)| see(*name, account));
    }
}

impl<K: Eq + Hash> Accounts<K> {
    /// The account of `name`. When full, only those worth keeping stay, or none.
    fn get(&self, name: K, worth_keeping: impl Fn(&Account) -> bool) -> Arc<Account> {
        // The maps have no half-made state, so a panic elsewhere is harmless.
        if let Some(account) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&name) {
            return account.clone();
        }
        let mut accounts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if accounts.len() >= CALLERS_COUNTED_MAX {
            accounts.retain(|_, account| worth_keeping(account));
        }
        if accounts.len() >= CALLERS_COUNTED_MAX {
            accounts.clear();
        }
        accounts.entry(name).or_default().clone()
    }
}
