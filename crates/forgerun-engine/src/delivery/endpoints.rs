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
//!
//! Slots of the untried and of the suspects are shared between clients: those that use them have equal parts, and one in eight
//! is left for whoever comes next. So endpoints that hang, however many, do not keep those of other clients waiting.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use forgerun_core::delivery::Endpoint;
use forgerun_core::id::ClientId;
use forgerun_core::time::Time;

use super::DeliveryOptions;
use super::courier::PreparedDelivery;

/// A good endpoint that fails so often in a row is not good any more.
const FAILURES_MAX: u32 = 3;

/// Sends under way to an endpoint that is slow but answers well.
const SLOW_LANE: usize = 16;

/// How long an endpoint without a free slot is left alone: the first time, and at most. Each time is twice as long. One that
/// is only slow gets everything in the end, so its slots should not stay empty for long.
const HOLD_MIN: Duration = Duration::from_millis(250);
const HOLD_SLOW_MAX: Duration = Duration::from_secs(2);
const HOLD_MAX: Duration = Duration::from_secs(30);

/// One slot in so many is left for clients that have none yet, among the untried and among the suspects.
const LEFT_FREE: usize = 8;

/// An endpoint that took something within this time is believed to be good before it is tried.
const RECENT: Duration = Duration::from_secs(3600);

/// Endpoints remembered although nothing is under way. One that is forgotten is untried again.
const KEPT_MAX: usize = 10_000;

/// Endpoints named to the store as closed; more are met and put off one by one.
const CLOSED_MAX: usize = 2_000;

/// The endpoints, and the slots taken.
pub(super) struct Endpoints {
    options: DeliveryOptions,
    endpoints: BTreeMap<Endpoint, EndpointState>,
    /// Slots taken, by pool.
    taken: [usize; 3],
    /// Slots taken by one client, by pool.
    held: BTreeMap<ClientId, [usize; 3]>,
    /// Sends under way that may still turn out slow, the oldest first.
    fresh: BTreeSet<(Time, u64)>,
    sends: BTreeMap<u64, SendSlot>,
    next_send: u64,
    n_waiting: usize,
    /// Endpoints for which something waits.
    lines: BTreeSet<Endpoint>,
}

struct EndpointState {
    class: EndpointClass,
    in_flight: usize,
    /// Only for a good endpoint: when each was taken, and what.
    waiting: VecDeque<(Time, PreparedDelivery)>,
    failures: u32,
    /// Nothing is to be taken for it before this.
    closed_until: Time,
    hold: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndpointClass {
    Good = 0,
    Untried = 1,
    Suspect = 2,
    /// Suspect, because it is slow.
    Slow = 3,
}

impl EndpointClass {
    /// Whose slots it uses.
    const fn pool(self) -> EndpointClass {
        match self {
            EndpointClass::Good => EndpointClass::Good,
            EndpointClass::Untried => EndpointClass::Untried,
            EndpointClass::Suspect | EndpointClass::Slow => EndpointClass::Suspect,
        }
    }
}

struct SendSlot {
    endpoint: Endpoint,
    client: ClientId,
    began: Time,
    pool: EndpointClass,
}

/// What is to be done with a prepared delivery.
pub(super) enum Admission {
    /// Send it now, under this number.
    Send(u64, PreparedDelivery),
    /// It waits here.
    Waits,
    /// Back to the store until then.
    PutOff(Time, PreparedDelivery),
}

impl Endpoints {
    pub(super) fn new(options: DeliveryOptions) -> Endpoints {
        Endpoints {
            options,
            endpoints: BTreeMap::new(),
            taken: [0; 3],
            held: BTreeMap::new(),
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
        let closed = self.endpoints.iter().filter(|(_, state)| state.closed_until > now);
        closed.take(CLOSED_MAX).map(|(endpoint, state)| (endpoint.clone(), state.closed_until)).collect()
    }

    /// Finds a slot for a prepared delivery that was just taken.
    pub(super) fn admit(&mut self, prepared: PreparedDelivery, now: Time) -> Admission {
        let (endpoint, client) = (prepared.delivery.to.clone(), prepared.delivery.client);
        if !self.endpoints.contains_key(&endpoint) {
            self.state(&endpoint).class = first_impression(&prepared, now);
        }
        if self.has_slot(&endpoint, client) {
            return Admission::Send(self.begin(endpoint, client, now), prepared);
        }
        let state = self.state(&endpoint);
        if state.class == EndpointClass::Good {
            state.waiting.push_back((now, prepared));
            self.n_waiting += 1;
            self.lines.insert(endpoint);
            return Admission::Waits;
        }
        Admission::PutOff(state.close(now), prepared)
    }

    /// The next prepared that waits and has a slot by now: the one that waits longest. What waited for longer than it was taken for is somebody
    /// else's, and left out.
    pub(super) fn next(&mut self, now: Time) -> Option<(u64, PreparedDelivery)> {
        loop {
            let (endpoint, prepared) = self.pop_waiting()?;
            if !prepared.delivery.is_overdue(now) {
                return Some((self.begin(endpoint, prepared.delivery.client, now), prepared));
            }
        }
    }

    fn pop_waiting(&mut self) -> Option<(Endpoint, PreparedDelivery)> {
        if self.taken[EndpointClass::Good as usize] >= self.options.good_max {
            return None;
        }
        let lines = self.lines.iter().filter_map(|endpoint| Some((self.endpoints.get(endpoint)?, endpoint)));
        let ready = lines.filter(|(state, _)| state.in_flight < self.options.per_endpoint_max);
        let first = ready.min_by_key(|(state, _)| state.waits_since());
        let endpoint = first?.1.clone();
        let state = self.state(&endpoint);
        let (_, prepared) = state.waiting.pop_front()?;
        let is_last = state.waiting.is_empty();
        self.n_waiting -= 1;
        if is_last {
            self.lines.remove(&endpoint);
        }
        Some((endpoint, prepared))
    }

    /// A send is over, and its slot free.
    pub(super) fn ended(&mut self, send: u64, good: bool, now: Time) -> Vec<(Time, PreparedDelivery)> {
        let Some(slot) = self.sends.remove(&send) else { return Vec::new() };
        let SendSlot { endpoint, client, began, pool } = slot;
        self.fresh.remove(&(began, send));
        self.give_back(client, pool);
        let slow = now.since(began) >= self.options.slow;
        let state = self.state(&endpoint);
        state.in_flight -= 1;
        state.failures = if good { 0 } else { state.failures.saturating_add(1) };
        let class = match (good, slow, state.class) {
            (true, false, _) => EndpointClass::Good,
            (true, true, _) => EndpointClass::Slow,
            (false, false, EndpointClass::Good) if state.failures < FAILURES_MAX => EndpointClass::Good,
            (false, ..) => EndpointClass::Suspect,
        };
        let put_off = self.classify(&endpoint, class, now);
        self.prune();
        put_off
    }

    /// When the next send that is still under way turns out slow, or the next prepared has waited too long.
    pub(super) fn next_slow(&self) -> Option<Time> {
        let lines = self.lines.iter().filter_map(|endpoint| self.endpoints.get(endpoint)?.waits_since());
        let send = self.fresh.first().map(|&(began, _)| began);
        lines.chain(send).min().map(|since| since + self.options.slow)
    }

    /// Makes suspect what has taken too long by now, and gives back what waited for it.
    pub(super) fn mark_slow(&mut self, now: Time) -> Vec<(Time, PreparedDelivery)> {
        let mut put_off = Vec::new();
        while let Some(&(began, send)) = self.fresh.first() {
            if began + self.options.slow > now {
                break;
            }
            self.fresh.remove(&(began, send));
            let Some(slot) = self.sends.get(&send) else { continue };
            let (endpoint, client, pool) = (slot.endpoint.clone(), slot.client, slot.pool);
            if pool != EndpointClass::Suspect && self.has_share(client, EndpointClass::Suspect) {
                self.give_back(client, pool);
                self.take_slot(client, EndpointClass::Suspect);
                if let Some(slot) = self.sends.get_mut(&send) {
                    slot.pool = EndpointClass::Suspect;
                }
            }
            put_off.extend(self.classify(&endpoint, EndpointClass::Suspect, now));
        }
        let late = |endpoint: &&Endpoint| {
            let since = self.endpoints.get(*endpoint).and_then(EndpointState::waits_since);
            since.is_some_and(|since| since + self.options.slow <= now)
        };
        for endpoint in self.lines.iter().filter(late).cloned().collect::<Vec<_>>() {
            put_off.extend(self.classify(&endpoint, EndpointClass::Slow, now));
        }
        put_off
    }

    /// Everything that waits, to be given back.
    pub(super) fn clear(&mut self) -> Vec<PreparedDelivery> {
        self.n_waiting = 0;
        self.lines.clear();
        let waiting = self.endpoints.values_mut().flat_map(|state| std::mem::take(&mut state.waiting));
        waiting.map(|(_, prepared)| prepared).collect()
    }

    /// Nobody waits for an endpoint that is not good.
    fn classify(
        &mut self,
        endpoint: &Endpoint,
        class: EndpointClass,
        now: Time,
    ) -> Vec<(Time, PreparedDelivery)> {
        let state = self.state(endpoint);
        state.class = class;
        if class == EndpointClass::Good {
            state.hold = HOLD_MIN;
            state.closed_until = Time::ZERO;
            return Vec::new();
        }
        let waiting = std::mem::take(&mut state.waiting);
        if waiting.is_empty() {
            return Vec::new();
        }
        let until = state.close(now);
        self.n_waiting -= waiting.len();
        self.lines.remove(endpoint);
        waiting.into_iter().map(|(_, prepared)| (until, prepared)).collect()
    }

    fn has_slot(&mut self, endpoint: &Endpoint, client: ClientId) -> bool {
        let EndpointState { class, in_flight, .. } = *self.state(endpoint);
        let lane = match class {
            EndpointClass::Good => self.options.per_endpoint_max,
            EndpointClass::Untried | EndpointClass::Suspect => 1,
            EndpointClass::Slow => SLOW_LANE,
        };
        in_flight < lane && self.has_share(client, class.pool())
    }

    /// Whether a client may have one more slot of a pool. Those of the good are free again within moments, so there whoever
    /// comes first is served.
    fn has_share(&self, client: ClientId, pool: EndpointClass) -> bool {
        let most = match pool {
            EndpointClass::Good => self.options.good_max,
            EndpointClass::Untried => self.options.untried_max,
            EndpointClass::Suspect | EndpointClass::Slow => self.options.suspect_max,
        };
        if self.taken[pool as usize] >= most || pool == EndpointClass::Good {
            return self.taken[pool as usize] < most;
        }
        let n_held = self.held.get(&client).map_or(0, |held| held[pool as usize]);
        let n_clients = self.held.values().filter(|held| held[pool as usize] > 0).count();
        let n_clients = n_clients + usize::from(n_held == 0);
        n_held < ((most - most / LEFT_FREE) / n_clients).max(1)
    }

    fn take_slot(&mut self, client: ClientId, pool: EndpointClass) {
        self.taken[pool as usize] += 1;
        self.held.entry(client).or_default()[pool as usize] += 1;
    }

    fn give_back(&mut self, client: ClientId, pool: EndpointClass) {
        self.taken[pool as usize] -= 1;
        if let Some(held) = self.held.get_mut(&client) {
            held[pool as usize] -= 1;
            if *held == [0; 3] {
                self.held.remove(&client);
            }
        }
    }

    fn begin(&mut self, endpoint: Endpoint, client: ClientId, now: Time) -> u64 {
        let send = self.next_send;
        self.next_send += 1;
        let state = self.state(&endpoint);
        state.in_flight += 1;
        let pool = state.class.pool();
        self.take_slot(client, pool);
        if pool != EndpointClass::Suspect {
            self.fresh.insert((now, send));
        }
        self.sends.insert(send, SendSlot { endpoint, client, began: now, pool });
        send
    }

    fn state(&mut self, endpoint: &Endpoint) -> &mut EndpointState {
        self.endpoints.entry(endpoint.clone()).or_insert_with(|| EndpointState {
            class: EndpointClass::Untried,
            in_flight: 0,
            waiting: VecDeque::new(),
            failures: 0,
            closed_until: Time::ZERO,
            hold: HOLD_MIN,
        })
    }

    fn prune(&mut self) {
        if self.endpoints.len() > KEPT_MAX {
            self.endpoints.retain(|_, state| state.in_flight > 0 || !state.waiting.is_empty());
        }
    }
}

/// What others, or this process in an earlier life, have written down about an endpoint.
fn first_impression(prepared: &PreparedDelivery, now: Time) -> EndpointClass {
    match &prepared.webhook {
        Some(webhook) if webhook.health.failures > 0 => EndpointClass::Suspect,
        Some(webhook) if webhook.health.last_success_at.is_some_and(|at| now < at + RECENT) => {
            EndpointClass::Good
        }
        Some(_) => EndpointClass::Untried,
        None if prepared.delivery.log.is_empty() => EndpointClass::Untried,
        None => EndpointClass::Suspect,
    }
}

impl EndpointState {
    /// Since when the first of those that wait has waited.
    fn waits_since(&self) -> Option<Time> {
        self.waiting.front().map(|(since, _)| *since)
    }

    /// Leaves the endpoint alone for a while, longer each time; says until when.
    fn close(&mut self, now: Time) -> Time {
        if self.closed_until <= now {
            let most = if self.class == EndpointClass::Slow { HOLD_SLOW_MAX } else { HOLD_MAX };
            self.closed_until = now + self.hold.min(most);
            self.hold = (self.hold * 2).min(most);
        }
        self.closed_until
    }
}
