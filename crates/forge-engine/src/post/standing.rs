//! What is known of endpoints, and who gets a slot. Forgotten with the process; the health of webhooks, which the store keeps,
//! gives a first impression after a restart.
//!
//! | standing | how it is reached | slots |
//! |---|---|---|
//! | untried | nothing is known of it | one at once, from the untried |
//! | good | answered well and quickly | many at once, from the good; more may wait here |
//! | suspect | failed, or slow | one at once, or a few if it is slow but answers well; from the suspects |
//!
//! A send that takes long moves from its slot to one of the suspects' while it is under way, so that endpoints that hang
//! give back the slots of the others before they have even failed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use forge_core::delivery::Endpoint;
use forge_core::time::Time;

use super::PostOptions;
use super::parcel::Parcel;

/// A good endpoint that fails so often in a row is not good any more.
const FAILURES_MAX: u32 = 3;

/// Sends under way to an endpoint that is slow but answers well.
const SLOW_LANE: usize = 16;

/// How long an endpoint without a free slot is left alone: the first time, and at most. Each time is twice as long. One that
/// is only slow gets everything in the end, so its slots should not stay empty for long.
const HOLD_MIN: Duration = Duration::from_millis(250);
const HOLD_SLOW_MAX: Duration = Duration::from_secs(2);
const HOLD_MAX: Duration = Duration::from_secs(30);

/// An endpoint that took something within this time is believed to be good before it is tried.
const RECENT: Duration = Duration::from_secs(3600);

/// Endpoints remembered although nothing is under way. One that is forgotten is untried again.
const KEPT_MAX: usize = 10_000;

/// Endpoints named to the store as closed; more are met and put off one by one.
const CLOSED_MAX: usize = 2_000;

/// The endpoints, and the slots taken.
pub(super) struct Standings {
    options: PostOptions,
    endpoints: BTreeMap<Endpoint, Standing>,
    /// Slots taken, by pool.
    taken: [usize; 3],
    /// Sends under way that may still turn out slow, the oldest first.
    fresh: BTreeSet<(Time, u64)>,
    sends: BTreeMap<u64, Slot>,
    next_send: u64,
    n_waiting: usize,
    /// Endpoints for which something waits.
    lines: BTreeSet<Endpoint>,
}

struct Standing {
    class: Class,
    in_flight: usize,
    /// Only for a good endpoint: when each was taken, and what.
    waiting: VecDeque<(Time, Parcel)>,
    failures: u32,
    /// Nothing is to be taken for it before this.
    closed_until: Time,
    hold: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Good = 0,
    Untried = 1,
    Suspect = 2,
    /// Suspect, because it is slow.
    Slow = 3,
}

impl Class {
    /// Whose slots it uses.
    const fn pool(self) -> Class {
        match self {
            Class::Good => Class::Good,
            Class::Untried => Class::Untried,
            Class::Suspect | Class::Slow => Class::Suspect,
        }
    }
}

struct Slot {
    endpoint: Endpoint,
    began: Time,
    pool: Class,
}

/// What is to be done with a parcel.
pub(super) enum Place {
    /// Send it now, under this number.
    Send(u64, Parcel),
    /// It waits here.
    Waits,
    /// Back to the store until then.
    PutOff(Time, Parcel),
}

impl Standings {
    pub(super) fn new(options: PostOptions) -> Standings {
        Standings {
            options,
            endpoints: BTreeMap::new(),
            taken: [0; 3],
            fresh: BTreeSet::new(),
            sends: BTreeMap::new(),
            next_send: 0,
            n_waiting: 0,
            lines: BTreeSet::new(),
        }
    }

    /// How many more deliveries may be taken.
    pub(super) fn room(&self) -> usize {
        self.options.waiting_max.saturating_sub(self.n_waiting)
    }

    /// Endpoints for which nothing should be taken before a moment.
    pub(super) fn closed(&self, now: Time) -> BTreeMap<Endpoint, Time> {
        let closed = self.endpoints.iter().filter(|(_, standing)| standing.closed_until > now);
        closed
            .take(CLOSED_MAX)
            .map(|(endpoint, standing)| (endpoint.clone(), standing.closed_until))
            .collect()
    }

    /// Finds a slot for a parcel that was just taken.
    pub(super) fn place(&mut self, parcel: Parcel, now: Time) -> Place {
        let endpoint = parcel.delivery.to.clone();
        if !self.endpoints.contains_key(&endpoint) {
            self.standing(&endpoint).class = first_impression(&parcel, now);
        }
        if self.has_slot(&endpoint) {
            return Place::Send(self.begin(endpoint, now), parcel);
        }
        let standing = self.standing(&endpoint);
        if standing.class == Class::Good {
            standing.waiting.push_back((now, parcel));
            self.n_waiting += 1;
            self.lines.insert(endpoint);
            return Place::Waits;
        }
        Place::PutOff(standing.close(now), parcel)
    }

    /// The next parcel that waits and has a slot by now: the one that waits longest.
    pub(super) fn next(&mut self, now: Time) -> Option<(u64, Parcel)> {
        if self.taken[Class::Good as usize] >= self.options.good_max {
            return None;
        }
        let lines = self.lines.iter().filter_map(|endpoint| Some((self.endpoints.get(endpoint)?, endpoint)));
        let ready = lines.filter(|(standing, _)| standing.in_flight < self.options.per_endpoint_max);
        let first = ready.min_by_key(|(standing, _)| standing.waits_since());
        let endpoint = first?.1.clone();
        let standing = self.standing(&endpoint);
        let (_, parcel) = standing.waiting.pop_front()?;
        let is_last = standing.waiting.is_empty();
        self.n_waiting -= 1;
        if is_last {
            self.lines.remove(&endpoint);
        }
        Some((self.begin(endpoint, now), parcel))
    }

    /// A send is over, and its slot free.
    pub(super) fn ended(&mut self, send: u64, good: bool, now: Time) -> Vec<(Time, Parcel)> {
        let Some(Slot { endpoint, began, pool }) = self.sends.remove(&send) else { return Vec::new() };
        self.fresh.remove(&(began, send));
        self.taken[pool as usize] -= 1;
        let slow = now.since(began) >= self.options.slow;
        let standing = self.standing(&endpoint);
        standing.in_flight -= 1;
        standing.failures = if good { 0 } else { standing.failures.saturating_add(1) };
        let class = match (good, slow, standing.class) {
            (true, false, _) => Class::Good,
            (true, true, _) => Class::Slow,
            (false, false, Class::Good) if standing.failures < FAILURES_MAX => Class::Good,
            (false, ..) => Class::Suspect,
        };
        let put_off = self.classify(&endpoint, class, now);
        self.prune();
        put_off
    }

    /// When the next send that is still under way turns out slow, or the next parcel has waited too long.
    pub(super) fn next_slow(&self) -> Option<Time> {
        let lines = self.lines.iter().filter_map(|endpoint| self.endpoints.get(endpoint)?.waits_since());
        let send = self.fresh.first().map(|&(began, _)| began);
        lines.chain(send).min().map(|since| since + self.options.slow)
    }

    /// Makes suspect what has taken too long by now, and gives back what waited for it.
    pub(super) fn grow_suspicious(&mut self, now: Time) -> Vec<(Time, Parcel)> {
        let mut put_off = Vec::new();
        while let Some(&(began, send)) = self.fresh.first() {
            if began + self.options.slow > now {
                break;
            }
            self.fresh.remove(&(began, send));
            let room = self.taken[Class::Suspect as usize] < self.options.suspect_max;
            let Some(slot) = self.sends.get_mut(&send) else { continue };
            if room && slot.pool != Class::Suspect {
                self.taken[slot.pool as usize] -= 1;
                self.taken[Class::Suspect as usize] += 1;
                slot.pool = Class::Suspect;
            }
            let endpoint = slot.endpoint.clone();
            put_off.extend(self.classify(&endpoint, Class::Suspect, now));
        }
        let late = |endpoint: &&Endpoint| {
            let since = self.endpoints.get(*endpoint).and_then(Standing::waits_since);
            since.is_some_and(|since| since + self.options.slow <= now)
        };
        for endpoint in self.lines.iter().filter(late).cloned().collect::<Vec<_>>() {
            put_off.extend(self.classify(&endpoint, Class::Slow, now));
        }
        put_off
    }

    /// Everything that waits, to be given back.
    pub(super) fn clear(&mut self) -> Vec<Parcel> {
        self.n_waiting = 0;
        self.lines.clear();
        let waiting = self.endpoints.values_mut().flat_map(|standing| std::mem::take(&mut standing.waiting));
        waiting.map(|(_, parcel)| parcel).collect()
    }

    /// Nobody waits for an endpoint that is not good.
    fn classify(&mut self, endpoint: &Endpoint, class: Class, now: Time) -> Vec<(Time, Parcel)> {
        let standing = self.standing(endpoint);
        standing.class = class;
        if class == Class::Good {
            standing.hold = HOLD_MIN;
            standing.closed_until = Time::ZERO;
            return Vec::new();
        }
        let waiting = std::mem::take(&mut standing.waiting);
        if waiting.is_empty() {
            return Vec::new();
        }
        let until = standing.close(now);
        self.n_waiting -= waiting.len();
        self.lines.remove(endpoint);
        waiting.into_iter().map(|(_, parcel)| (until, parcel)).collect()
    }

    fn has_slot(&mut self, endpoint: &Endpoint) -> bool {
        let Standing { class, in_flight, .. } = *self.standing(endpoint);
        let (lane, most) = match class {
            Class::Good => (self.options.per_endpoint_max, self.options.good_max),
            Class::Untried => (1, self.options.untried_max),
            Class::Suspect => (1, self.options.suspect_max),
            Class::Slow => (SLOW_LANE, self.options.suspect_max),
        };
        in_flight < lane && self.taken[class.pool() as usize] < most
    }

    fn begin(&mut self, endpoint: Endpoint, now: Time) -> u64 {
        let send = self.next_send;
        self.next_send += 1;
        let standing = self.standing(&endpoint);
        standing.in_flight += 1;
        let pool = standing.class.pool();
        self.taken[pool as usize] += 1;
        if pool != Class::Suspect {
            self.fresh.insert((now, send));
        }
        self.sends.insert(send, Slot { endpoint, began: now, pool });
        send
    }

    fn standing(&mut self, endpoint: &Endpoint) -> &mut Standing {
        self.endpoints.entry(endpoint.clone()).or_insert_with(|| Standing {
            class: Class::Untried,
            in_flight: 0,
            waiting: VecDeque::new(),
            failures: 0,
            closed_until: Time::ZERO,
            hold: HOLD_MIN,
        })
    }

    fn prune(&mut self) {
        if self.endpoints.len() > KEPT_MAX {
            self.endpoints.retain(|_, standing| standing.in_flight > 0 || !standing.waiting.is_empty());
        }
    }
}

/// What others, or this process in an earlier life, have written down about an endpoint.
fn first_impression(parcel: &Parcel, now: Time) -> Class {
    match &parcel.webhook {
        Some(webhook) if webhook.health.failures > 0 => Class::Suspect,
        Some(webhook) if webhook.health.last_success_at.is_some_and(|at| now < at + RECENT) => Class::Good,
        Some(_) => Class::Untried,
        None if parcel.delivery.log.is_empty() => Class::Untried,
        None => Class::Suspect,
    }
}

impl Standing {
    /// Since when the first of those that wait has waited.
    fn waits_since(&self) -> Option<Time> {
        self.waiting.front().map(|(since, _)| *since)
    }

    /// Leaves the endpoint alone for a while, longer each time; says until when.
    fn close(&mut self, now: Time) -> Time {
        if self.closed_until <= now {
            let most = if self.class == Class::Slow { HOLD_SLOW_MAX } else { HOLD_MAX };
            self.closed_until = now + self.hold.min(most);
            self.hold = (self.hold * 2).min(most);
        }
        self.closed_until
    }
}
