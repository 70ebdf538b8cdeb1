//! The state of endpoints, and the assignment of send slots. Kept in memory only; the stored health
//! of webhooks gives the initial state after a restart.
//!
//! | class | meaning | slots |
//! |---|---|---|
//! | untried | no attempt yet | one at a time, from the untried pool |
//! | good | answered well and quickly | many at a time, from the good pool; more may wait here |
//! | suspect | failed, or slow | one at a time, or a few if it is slow but answers well; from the
//! suspect pool |
//!
//! A slow send moves from its slot to the suspect pool while it is under way, so that hanging
//! endpoints free the slots of others before they have failed.
//!
//! The untried and suspect pools are shared between clients in equal parts, and one slot in eight
//! is reserved for clients without one. So the hanging endpoints of one client, however many, do
//! not delay those of others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use forgerun_core::delivery::Endpoint;
use forgerun_core::id::ClientId;
use forgerun_core::time::Time;

use super::DeliveryOptions;
use super::courier::PreparedDelivery;

/// Consecutive failures after which a good endpoint becomes suspect.
const FAILURES_MAX: u32 = 3;

/// Concurrent sends to an endpoint that is slow but answers well.
const SLOW_LANE: usize = 16;

/// How long an endpoint without a free slot is closed: initially, and at most; doubled each time. A
/// slow endpoint gets everything in the end, so its slots should not stay empty for long.
const HOLD_MIN: Duration = Duration::from_millis(250);
const HOLD_SLOW_MAX: Duration = Duration::from_secs(2);
const HOLD_MAX: Duration = Duration::from_secs(30);

/// One slot in this many is reserved for clients without one, in the untried and suspect pools.
const LEFT_FREE: usize = 8;

/// An endpoint that accepted a delivery within this time starts as good.
const RECENT: Duration = Duration::from_secs(3600);

/// Idle endpoints to remember. A forgotten one is untried again.
const KEPT_MAX: usize = 10_000;

/// Closed endpoints named to the store; deliveries to further ones are claimed and put off one by
/// one.
const CLOSED_MAX: usize = 2_000;

/// The endpoints, and the used slots.
pub(super) struct Endpoints {
    options: DeliveryOptions,
    endpoints: BTreeMap<Endpoint, EndpointState>,
    taken: [usize; 3],
    /// Slots used by each client, by pool.
    held: BTreeMap<ClientId, [usize; 3]>,
    /// Sends under way that are not slow yet, the oldest first.
    fresh: BTreeSet<(Time, u64)>,
    sends: BTreeMap<u64, SendSlot>,
    next_send: u64,
    n_waiting: usize,
    /// Endpoints with waiting deliveries.
    lines: BTreeSet<Endpoint>,
}

struct EndpointState {
    class: EndpointClass,
    in_flight: usize,
    /// For a good endpoint only: waiting deliveries, and when each was claimed.
    waiting: VecDeque<(Time, PreparedDelivery)>,
    failures: u32,
    /// No delivery is claimed before this.
    closed_until: Time,
    hold: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndpointClass {
    Good = 0,
    Untried = 1,
    Suspect = 2,
    /// Suspect because it is slow.
    Slow = 3,
}

impl EndpointClass {
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

/// What to do with a claimed delivery.
pub(super) enum Admission {
    /// Send it now, under this number.
    Send(u64, PreparedDelivery),
    Waits,
    /// Return it to the store until then.
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

    /// How many more deliveries may be claimed.
    pub(super) fn room(&self) -> usize {
        self.options.waiting_max.saturating_sub(self.n_waiting)
    }

    /// Closed endpoints, and until when.
    pub(super) fn closed(&self, now: Time) -> BTreeMap<Endpoint, Time> {
        let closed = self.endpoints.iter().filter(|(_, state)| state.closed_until > now);
        closed.take(CLOSED_MAX).map(|(endpoint, state)| (endpoint.clone(), state.closed_until)).collect()
    }

    /// Assigns a slot to a delivery that was just claimed.
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

    /// The longest waiting delivery with a free slot. A delivery that waited longer than its lease
    /// is dropped, since another courier has it.
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

    /// Frees the slot of a finished send.
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

    /// When the next send or waiting delivery becomes slow.
    pub(super) fn next_slow(&self) -> Option<Time> {
        let lines = self.lines.iter().filter_map(|endpoint| self.endpoints.get(endpoint)?.waits_since());
        let send = self.fresh.first().map(|&(began, _)| began);
        lines.chain(send).min().map(|since| since + self.options.slow)
    }

    /// Marks endpoints of slow sends as suspect, and returns their waiting deliveries.
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

    /// Removes and returns all waiting deliveries.
    pub(super) fn clear(&mut self) -> Vec<PreparedDelivery> {
        self.n_waiting = 0;
        self.lines.clear();
        let waiting = self.endpoints.values_mut().flat_map(|state| std::mem::take(&mut state.waiting));
        waiting.map(|(_, prepared)| prepared).collect()
    }

    /// Sets the class. Only good endpoints may have waiting deliveries, so others return theirs.
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

    /// Whether a client may have one more slot of a pool. Good slots become free within moments, so
    /// they are first come, first served.
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

/// The initial class, from the stored health.
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
    /// Since when the first delivery waits.
    fn waits_since(&self) -> Option<Time> {
        self.waiting.front().map(|(since, _)| *since)
    }

    /// Closes the endpoint for a while, longer each time; returns until when.
    fn close(&mut self, now: Time) -> Time {
        if self.closed_until <= now {
            let most = if self.class == EndpointClass::Slow { HOLD_SLOW_MAX } else { HOLD_MAX };
            self.closed_until = now + self.hold.min(most);
            self.hold = (self.hold * 2).min(most);
        }
        self.closed_until
    }
}
