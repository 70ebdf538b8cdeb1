//! What a limiter reports to other nodes, and gets from them.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use forgerun_core::id::ClientId;
use forgerun_core::quota::QuotaCount;
use forgerun_core::time::Time;

use crate::limits::{
    limiter::{Account, Limiter},
    rate::{Bucket, RateLimit},
};

/// A limit shared by all nodes. The numbers are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum LimitKind {
    Requests = 1,
    /// Answers to a client that help guessing.
    Misses = 2,
    Registrations = 3,
    /// Answers to an address that help guessing.
    AddressMisses = 4,
    /// Wrong operator's tokens from an address.
    WrongTokens = 5,
    WrongKeys = 6,
    WorkerCalls = 7,
    BridgeMessages = 8,
}

impl LimitKind {
    /// `None` for a number that this version does not know.
    pub(crate) const fn from_u8(number: u8) -> Option<LimitKind> {
        match number {
            1 => Some(LimitKind::Requests),
            2 => Some(LimitKind::Misses),
            3 => Some(LimitKind::Registrations),
            4 => Some(LimitKind::AddressMisses),
            5 => Some(LimitKind::WrongTokens),
            6 => Some(LimitKind::WrongKeys),
            7 => Some(LimitKind::WorkerCalls),
            8 => Some(LimitKind::BridgeMessages),
            _ => None,
        }
    }
}

pub(crate) type SpendingKey = (LimitKind, u128);

/// A caller's use of a limit on other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpentElsewhere {
    /// Newly used.
    More(u64),
    /// The limit is fully available again at this moment: what older nodes report about a caller.
    Until(Time),
}

/// A client's use of its quota.
#[derive(Debug, Default)]
pub(crate) struct QuotaUse {
    /// On all nodes, as last read from the store.
    known: AtomicU64,
    /// On this node, not added to the store yet.
    untold: AtomicU64,
}

impl QuotaUse {
    /// Counts a request within the quota.
    pub(super) fn take(&self, quota: u64) -> bool {
        let known = self.known.load(Ordering::Relaxed);
        let one_more = |untold: u64| (known.saturating_add(untold) < quota).then_some(untold + 1);
        self.untold.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// The store has added `told`, and its total is now `known`.
    fn settle(&self, told: u64, known: u64) {
        self.untold.fetch_sub(told, Ordering::Relaxed);
        self.known.fetch_max(known, Ordering::Relaxed);
    }
}

impl Limiter {
    /// Whether clients have a quota.
    pub(crate) fn has_quota(&self) -> bool {
        self.quota.is_some()
    }

    /// Passes the use since the last call, by caller, and when the limit is fully available again.
    pub(crate) fn take_untold(&self, mut see: impl FnMut(SpendingKey, u64, Time)) {
        let mut show = |kind, caller, bucket: &Bucket| {
            let spent = bucket.take_untold();
            if spent > 0 {
                see((kind, caller), spent, bucket.full_at());
            }
        };
        self.clients.visit(|client, account| {
            show(self.requests, client.as_u128(), &account.requests);
            show(LimitKind::Misses, client.as_u128(), &account.misses);
        });
        self.addresses.visit(|address, account| {
            let address = bits(address);
            show(LimitKind::Registrations, address, &account.requests);
            show(LimitKind::AddressMisses, address, &account.misses);
            show(LimitKind::WrongTokens, address, &account.wrong_tokens);
            show(LimitKind::WrongKeys, address, &account.wrong_keys);
        });
    }

    /// Counts a caller's use on other nodes, if it is a limit of this limiter.
    pub(crate) fn add_remote(&self, (kind, caller): SpendingKey, spent: SpentElsewhere, now: Time) {
        let of_client = || self.client(ClientId::from_u128(caller), now);
        let of_address = || self.address(address(caller), now);
        let count = |account: &Account, bucket: fn(&Account) -> &Bucket, limit: &RateLimit| match spent {
            SpentElsewhere::More(n) => bucket(account).spent_elsewhere(limit, n, now),
            SpentElsewhere::Until(full_at) => bucket(account).not_full_before(full_at),
        };
        match (kind, &self.rate) {
            (kind, rate) if kind == self.requests => {
                let account = of_client();
                let own = account.own_rate();
                if let Some(rate) = own.as_ref().or(rate.as_ref()) {
                    count(&account, |account| &account.requests, rate);
                }
            }
            // Handled by the limiter of requests only.
            _ if self.requests != LimitKind::Requests => {}
            (LimitKind::Misses, _) => count(&of_client(), |account| &account.misses, &self.misses),
            (LimitKind::Registrations, _) => {
                count(&of_address(), |account| &account.requests, &self.registrations);
            }
            (LimitKind::AddressMisses, _) => count(&of_address(), |account| &account.misses, &self.misses),
            (LimitKind::WrongTokens, _) => {
                count(&of_address(), |account| &account.wrong_tokens, &self.wrong_tokens);
            }
            (LimitKind::WrongKeys, _) => {
                count(&of_address(), |account| &account.wrong_keys, &self.wrong_keys);
            }
            (LimitKind::Requests | LimitKind::WorkerCalls | LimitKind::BridgeMessages, _) => {}
        }
    }

    /// Quota use that is not stored yet: of at most `max` clients, the largest first.
    pub(crate) fn quota_untold(&self, max: usize) -> Vec<QuotaCount> {
        let mut untold: Vec<(u64, QuotaCount)> = Vec::new();
        self.clients.visit(|client, account| {
            let n_requests = account.quota.untold.load(Ordering::Relaxed);
            if n_requests > 0 {
                let in_all = account.quota.known.load(Ordering::Relaxed).saturating_add(n_requests);
                untold.push((in_all, QuotaCount { client, n_requests }));
            }
        });
        untold.sort_unstable_by_key(|(in_all, _)| std::cmp::Reverse(*in_all));
        untold.into_iter().take(max).map(|(_, count)| count).collect()
    }

    /// The store has added `told`, and the clients' totals are now `spent`.
    pub(crate) fn quota_told(&self, told: &[QuotaCount], spent: &[QuotaCount], now: Time) {
        for (told, spent) in told.iter().zip(spent) {
            self.client(told.client, now).quota.settle(told.n_requests, spent.n_requests);
        }
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn address(bits: u128) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(bits)).to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_known_again_by_its_bits() {
        for text in ["127.0.0.1", "255.255.255.255", "2001:db8::", "::"] {
            let known: IpAddr = text.parse().unwrap();
            assert_eq!(address(bits(known)), known);
        }
    }

    #[test]
    fn a_quota_holds_exactly_here_and_takes_over_what_the_store_knows() {
        let quota = QuotaUse::default();
        assert!(quota.take(3) && quota.take(3));
        // Meanwhile another node has counted one.
        quota.settle(2, 3);
        assert!(!quota.take(3), "all is spent");
        assert!(quota.take(4) && !quota.take(4));
    }
}
