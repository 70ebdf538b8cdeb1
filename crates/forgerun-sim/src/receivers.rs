//! Receivers of webhooks and callbacks, and the courier that calls them. Most accept deliveries;
//! some are slow, refuse, are down, accept without an answer, or answer 410.
//!
//! They check on arrival: no delivery may come from a courier that does not hold it, and the events
//! of a job come in order. A slow courier may still deliver under an old fence; receivers detect
//! that by the delivery's id.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use forgerun_core::delivery::{
    Chain, Delivery, DeliveryFailure, DeliveryPolicy, DeliverySchedule, DeliveryStage, DeliverySubject,
};
use forgerun_core::id::DeliveryId;
use forgerun_core::time::Time;
use forgerun_engine::{AttemptReport, AttemptVerdict, Courier, DeliveryOptions, PreparedDelivery, Sending};
use forgerun_store::Store;

use crate::auditor::Auditor;
use crate::run_log::RunLog;
use crate::world::World;

/// Lease of a delivery.
pub(crate) const LEASE: Duration = Duration::from_secs(5);

/// How long the courier waits for an answer; shorter than the lease.
const PATIENCE: Duration = Duration::from_secs(2);

/// Options of the delivery loop, sometimes with tiny bounds, so that some deliveries find no slot.
pub(crate) fn options(world: &World) -> DeliveryOptions {
    let tiny = world.chance(500);
    let slots = |most: u64| 1 + world.below(if tiny { 2 } else { most }) as usize;
    DeliveryOptions {
        policy: DeliveryPolicy {
            schedule: DeliverySchedule::Doubling {
                attempts_max: 2 + world.below(3) as u32,
                base: Duration::from_millis(200),
                max: Duration::from_secs(2),
            },
            disable_after: Duration::from_secs(10),
        },
        lease: LEASE,
        good_max: slots(16),
        untried_max: slots(8),
        suspect_max: slots(8),
        per_endpoint_max: slots(8),
        waiting_max: slots(32),
        ..DeliveryOptions::default()
    }
}

/// What a receiver does with a delivery.
#[derive(Clone, Copy, Debug)]
enum ReceiverBehaviour {
    Takes,
    /// Accepts it after a while.
    Slow,
    Refuses,
    /// Refuses it with `Retry-After`.
    Busy,
    Away,
    /// Accepts it, and the answer is lost.
    Mute,
    Gone,
}

#[derive(Clone)]
pub(crate) struct Receivers {
    world: Arc<World>,
    log: RunLog,
    auditor: Arc<Auditor>,
    calm: Arc<AtomicBool>,
    state: Arc<Mutex<ReceiverState>>,
}

#[derive(Default)]
struct ReceiverState {
    under_way: BTreeMap<u64, SendUnderWay>,
    n_sends: u64,
    visits: BTreeMap<DeliveryId, Visits>,
    /// Number of the newest event that arrived, by chain.
    newest: BTreeMap<Chain, u32>,
}

/// A courier on its way.
struct SendUnderWay {
    delivery: DeliveryId,
    chain: Option<Chain>,
    until: Time,
}

/// How a delivery was received.
#[derive(Clone, Copy, Debug, Default)]
struct Visits {
    n_taken: u32,
    n_gone: u32,
    n_failed: u32,
}

impl Receivers {
    pub(crate) fn new(world: Arc<World>, log: RunLog, auditor: Arc<Auditor>) -> Receivers {
        Receivers { world, log, auditor, calm: Arc::default(), state: Arc::default() }
    }

    /// From now on all receivers accept deliveries.
    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    pub(crate) fn n_sends(&self) -> u64 {
        self.state().n_sends
    }

    /// Delivered ones were received, given up ones have a reason, and the disk agrees.
    pub(crate) async fn reckon(&self, disk: &dyn Store) {
        let settled: Vec<Delivery> =
            self.auditor.with_ledger(|ledger| ledger.deliveries().cloned().collect());
        for delivery in settled {
            let visits = self.state().visits.get(&delivery.id).copied().unwrap_or_default();
            let has_reason = match delivery.stage {
                DeliveryStage::Blocked | DeliveryStage::Waiting(_) | DeliveryStage::Taken(_) => false,
                DeliveryStage::Delivered(_) => visits.n_taken > 0,
                DeliveryStage::Failed(_, DeliveryFailure::Gone) => visits.n_gone > 0,
                DeliveryStage::Failed(_, DeliveryFailure::Exhausted) => visits.n_failed > 0,
                DeliveryStage::Failed(_, DeliveryFailure::Disabled | DeliveryFailure::Deleted) => {
                    self.auditor.with_ledger(|ledger| ledger.was_ever_off(delivery.to.key()))
                }
            };
            if !has_reason {
                self.log.broken(format!("{delivery:?} came to this end without a reason: {visits:?}"));
            }
            if disk.delivery(delivery.id).await.expect("the store is calm").as_deref() != Some(&delivery) {
                self.log.broken(format!("delivery {} is lost, or not what was written", delivery.id));
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, ReceiverState> {
        self.state.lock().expect("no code panics while receiving")
    }

    fn manner(&self) -> ReceiverBehaviour {
        match self.world.below(40) {
            _ if self.calm.load(Ordering::Relaxed) => ReceiverBehaviour::Takes,
            0..=3 => ReceiverBehaviour::Slow,
            4..=7 => ReceiverBehaviour::Refuses,
            8 => ReceiverBehaviour::Busy,
            9..=11 => ReceiverBehaviour::Away,
            12..=14 => ReceiverBehaviour::Mute,
            15 => ReceiverBehaviour::Gone,
            _ => ReceiverBehaviour::Takes,
        }
    }

    async fn receive(&self, delivery: Delivery) -> AttemptReport {
        let manner = self.manner();
        self.log.note(|| format!("{} goes out under {}: {manner:?}", delivery.id, delivery.fence));
        let under_way = self.set_out(&delivery);
        if !matches!(manner, ReceiverBehaviour::Away) {
            self.arrive(&delivery);
        }
        self.world.pass(self.span(manner)).await;
        drop(under_way);
        let report = self.answer(manner);
        let mut state = self.state();
        let visits = state.visits.entry(delivery.id).or_default();
        match report.verdict {
            AttemptVerdict::Delivered => visits.n_taken += 1,
            AttemptVerdict::Gone => visits.n_gone += 1,
            AttemptVerdict::Failed { .. } => visits.n_failed += 1,
        }
        report
    }

    /// No other courier may be sending it, or another of its chain, unless that one's lease was
    /// over when this one was claimed.
    fn set_out(&self, delivery: &Delivery) -> SendGuard {
        let DeliveryStage::Taken(until) = delivery.stage else { unreachable!("only what is taken is sent") };
        let taken_at = until - LEASE;
        let (id, chain) = (delivery.id, delivery.chain());
        let mut state = self.state();
        let same = |other: &&SendUnderWay| other.delivery == id || chain.is_some() && other.chain == chain;
        let held = state.under_way.values().filter(same).any(|other| other.until > taken_at);
        let send = state.n_sends;
        state.n_sends += 1;
        state.under_way.insert(send, SendUnderWay { delivery: id, chain, until });
        drop(state);
        if held {
            self.log
                .broken(format!("delivery {id} was sent while another courier held it or the one before"));
        }
        SendGuard { receivers: self.clone(), send }
    }

    /// The events of a job arrive in order, as far as their couriers still hold them.
    fn arrive(&self, delivery: &Delivery) {
        let (Some(chain), DeliverySubject::Event { event, .. }) = (delivery.chain(), &delivery.about) else {
            return;
        };
        if !self.auditor.holds(delivery) {
            return;
        }
        let mut state = self.state();
        let newest = state.newest.entry(chain).or_default();
        let before = std::mem::replace(newest, event.n.max(*newest));
        drop(state);
        if before > event.n {
            self.log.broken(format!("event {} of {chain:?} came after event {before}", event.n));
        }
    }

    fn span(&self, manner: ReceiverBehaviour) -> Duration {
        match manner {
            ReceiverBehaviour::Takes
            | ReceiverBehaviour::Refuses
            | ReceiverBehaviour::Busy
            | ReceiverBehaviour::Away
            | ReceiverBehaviour::Gone => self.world.up_to_ms(200),
            ReceiverBehaviour::Slow => self.world.up_to_ms(PATIENCE.as_millis() as u64),
            ReceiverBehaviour::Mute => PATIENCE,
        }
    }

    fn answer(&self, manner: ReceiverBehaviour) -> AttemptReport {
        let failed = |retry_after| AttemptVerdict::Failed { retry_after };
        let (verdict, status) = match manner {
            ReceiverBehaviour::Takes | ReceiverBehaviour::Slow => (AttemptVerdict::Delivered, Some(204)),
            ReceiverBehaviour::Refuses => (failed(None), Some(500)),
            ReceiverBehaviour::Busy => (failed(Some(self.world.up_to_ms(10_000))), Some(503)),
            ReceiverBehaviour::Away | ReceiverBehaviour::Mute => (failed(None), None),
            ReceiverBehaviour::Gone => (AttemptVerdict::Gone, Some(410)),
        };
        AttemptReport { verdict, status, error: None }
    }
}

impl Courier for Receivers {
    fn send(&self, prepared: PreparedDelivery) -> Sending {
        let receivers = self.clone();
        Box::pin(async move { receivers.receive(prepared.delivery).await })
    }
}

/// A courier under way, until it has its answer or its node crashes.
struct SendGuard {
    receivers: Receivers,
    send: u64,
}

impl Drop for SendGuard {
    fn drop(&mut self) {
        self.receivers.state().under_way.remove(&self.send);
    }
}
