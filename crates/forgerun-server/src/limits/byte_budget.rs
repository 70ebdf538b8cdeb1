//! A memory budget shared by many requests, with a share for each client and address.
//!
//! There are two of them. [`ByteBudget::incoming`] covers unanswered requests: HTTP bodies and gRPC
//! messages, from their first byte until their answer. [`ByteBudget::unread`] covers answers over
//! HTTP/2 that clients do not read. A holder reserves before it buffers, and dropping its
//! [`Reservation`] frees the memory. Anonymous callers have a small part of their own, so that they
//! can never take the share of clients.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forgerun_core::catalog::Kind;
use forgerun_core::id::ClientId;
use forgerun_wire::problem::RefusedRequest;

use crate::auth::Who;
use crate::config::Limits;
use crate::http::ApiError;
use crate::limits::{
    INCOMING_RETRY_AFTER_S, OJS_BATCH_BYTES_MAX, STRANGER_BYTES_MAX, STRANGERS_BYTES_MAX, UNREAD_BYTES_MAX,
    limiter::site_of,
};

/// Reserved bytes by holder.
pub struct ByteBudget {
    bounds: BudgetBounds,
    held: Mutex<HeldBytes>,
}

/// The bounds of a budget.
#[derive(Clone, Copy, Debug)]
struct BudgetBounds {
    total: usize,
    client: usize,
    /// For authenticated callers from one address, of any client.
    address: usize,
    strangers: usize,
    stranger: usize,
    /// The subject of a refusal.
    what: &'static str,
}

#[derive(Default)]
struct HeldBytes {
    total: usize,
    strangers: usize,
    shares: HashMap<Share, usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Share {
    Client(ClientId),
    Address(IpAddr),
    Stranger(IpAddr),
}

/// The caller whose share is charged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ByteHolder {
    /// An anonymous caller.
    Stranger(IpAddr),
    /// A client, or the operator (`None`).
    Known(Option<ClientId>, IpAddr),
}

impl ByteHolder {
    pub(crate) fn new(who: &Who, address: IpAddr) -> ByteHolder {
        match who {
            Who::Anonymous => ByteHolder::Stranger(site_of(address)),
            Who::Operator(_) => ByteHolder::Known(None, site_of(address)),
            Who::Client(caller) => ByteHolder::Known(Some(caller.client), site_of(address)),
        }
    }

    fn shares(self) -> [Option<Share>; 2] {
        match self {
            ByteHolder::Stranger(site) => [Some(Share::Stranger(site)), None],
            ByteHolder::Known(client, site) => [client.map(Share::Client), Some(Share::Address(site))],
        }
    }
}

impl ByteBudget {
    /// The budget of unanswered requests. A body of the largest size always fits into a client's
    /// share.
    pub(crate) fn incoming(limits: &Limits) -> ByteBudget {
        let total = limits.max_incoming_bytes;
        let largest = limits.max_body_bytes.max(OJS_BATCH_BYTES_MAX);
        ByteBudget::new(BudgetBounds {
            total,
            client: (total / 4).max(2 * largest),
            address: (total / 2).max(2 * largest),
            strangers: STRANGERS_BYTES_MAX,
            stranger: STRANGER_BYTES_MAX,
            what: "unfinished or waiting requests",
        })
    }

    /// The budget of unread answers over HTTP/2.
    pub(crate) fn unread() -> ByteBudget {
        ByteBudget::new(BudgetBounds {
            total: UNREAD_BYTES_MAX,
            client: UNREAD_BYTES_MAX / 4,
            address: UNREAD_BYTES_MAX / 2,
            strangers: STRANGERS_BYTES_MAX,
            stranger: STRANGER_BYTES_MAX,
            what: "answers that were not read",
        })
    }

    fn new(bounds: BudgetBounds) -> ByteBudget {
        ByteBudget { bounds, held: Mutex::default() }
    }

    /// Bytes reserved now.
    pub fn n_bytes(&self) -> usize {
        self.lock().total
    }

    /// An empty reservation, which can grow.
    pub(crate) fn open(self: &Arc<Self>, holder: ByteHolder) -> Reservation {
        Reservation { budget: self.clone(), holder, n_bytes: 0 }
    }

    fn add(&self, holder: ByteHolder, n_bytes: usize) -> Result<(), ApiError> {
        let mut held = self.lock();
        let HeldBytes { total, strangers, shares } = &mut *held;
        let is_stranger = matches!(holder, ByteHolder::Stranger(_));
        if is_stranger && *strangers + n_bytes > self.bounds.strangers {
            return Err(self.refuse(Kind::RateLimited, self.bounds.strangers, "callers without a key hold"));
        }
        for share in holder.shares().into_iter().flatten() {
            let (max, owner) = match share {
                Share::Client(_) => (self.bounds.client, "the client holds"),
                Share::Address(_) => (self.bounds.address, "the address holds"),
                Share::Stranger(_) => (self.bounds.stranger, "callers without a key hold at this address"),
            };
            if shares.get(&share).copied().unwrap_or_default() + n_bytes > max {
                return Err(self.refuse(Kind::RateLimited, max, owner));
            }
        }
        if *total + n_bytes > self.bounds.total {
            return Err(self.refuse(Kind::QueueFull, self.bounds.total, "the server holds"));
        }
        *total += n_bytes;
        *strangers += if is_stranger { n_bytes } else { 0 };
        for share in holder.shares().into_iter().flatten() {
            *shares.entry(share).or_default() += n_bytes;
        }
        Ok(())
    }

    fn remove(&self, holder: ByteHolder, n_bytes: usize) {
        let mut held = self.lock();
        held.total -= n_bytes;
        if matches!(holder, ByteHolder::Stranger(_)) {
            held.strangers -= n_bytes;
        }
        for share in holder.shares().into_iter().flatten() {
            let left = held.shares.get(&share).copied().unwrap_or_default().saturating_sub(n_bytes);
            match left {
                0 => held.shares.remove(&share),
                left => held.shares.insert(share, left),
            };
        }
    }

    fn refuse(&self, kind: Kind, max: usize, owner: &str) -> ApiError {
        let detail = format!(
            "There is no room for more bytes of {}: {owner} as many as allowed, {max}. Send again later.",
            self.bounds.what
        );
        RefusedRequest::new(kind, detail).limited(max as u64, "at once", INCOMING_RETRY_AFTER_S).into()
    }

    fn lock(&self) -> MutexGuard<'_, HeldBytes> {
        // The counts change together, so a panic elsewhere is harmless.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes reserved by one holder.
pub(crate) struct Reservation {
    budget: Arc<ByteBudget>,
    holder: ByteHolder,
    n_bytes: usize,
}

impl Reservation {
    /// Whether its holder is anonymous.
    pub(crate) fn is_of_stranger(&self) -> bool {
        matches!(self.holder, ByteHolder::Stranger(_))
    }

    pub(crate) fn grow(&mut self, n_bytes: usize) -> Result<(), ApiError> {
        if n_bytes > 0 {
            self.budget.add(self.holder, n_bytes)?;
            self.n_bytes += n_bytes;
        }
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.n_bytes > 0 {
            self.budget.remove(self.holder, self.n_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: BudgetBounds =
        BudgetBounds { total: 100, client: 40, address: 60, strangers: 20, stranger: 10, what: "tests" };

    fn client(n: u128, last: u8) -> ByteHolder {
        ByteHolder::Known(Some(ClientId::from_u128(n)), IpAddr::from([192, 0, 2, last]))
    }

    fn stranger(last: u8) -> ByteHolder {
        ByteHolder::Stranger(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn shares_hold_and_are_free_again_when_a_reservation_is_dropped() {
        let budget = Arc::new(ByteBudget::new(BOUNDS));
        let take = |holder, n_bytes| {
            let mut reservation = budget.open(holder);
            reservation.grow(n_bytes).map(|()| reservation).map_err(|error| error.kind())
        };
        let first = take(client(1, 1), 40).unwrap();
        assert_eq!(take(client(1, 2), 1).err(), Some(Kind::RateLimited), "the client's share");
        let second = take(client(2, 1), 20).unwrap();
        assert_eq!(take(client(3, 1), 1).err(), Some(Kind::RateLimited), "the address's share");
        let third = take(client(4, 2), 40).unwrap();
        assert_eq!(take(client(5, 3), 1).err(), Some(Kind::QueueFull), "the whole");
        drop(third);
        let strange = take(stranger(1), 10).unwrap();
        assert_eq!(take(stranger(1), 1).err(), Some(Kind::RateLimited), "a stranger's share");
        let stranger_too = take(stranger(2), 10).unwrap();
        assert_eq!(take(stranger(3), 1).err(), Some(Kind::RateLimited), "that of all strangers");
        drop((first, second, strange, stranger_too));
        assert_eq!(budget.n_bytes(), 0);
        assert!(budget.lock().shares.is_empty());
    }
}
