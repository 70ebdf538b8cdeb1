//! Receivers of webhooks and callbacks, and the courier that goes to them. Most take what comes; some are slow, refuse, are away,
//! take it and say nothing, or want no more.
//!
//! What arrives is looked at where it arrives: nobody may bring what another courier holds, and what happened to a job must
//! come in order. A courier that was too slow may still come, under an old fence; that is why deliveries have an id.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use forgerun_core::delivery::{
    Chain, Delivery, DeliveryFailure, DeliveryPolicy, DeliveryStage, DeliverySubject,
};
use forgerun_core::id::DeliveryId;
use forgerun_core::time::Time;
use forgerun_engine::{AttemptReport, AttemptVerdict, Courier, DeliveryOptions, PreparedDelivery, Sending};
use forgerun_store::Store;

use crate::auditor::Auditor;
use crate::run_log::RunLog;
use crate::world::World;

/// How long a delivery is held without a word.
pub(crate) const LEASE: Duration = Duration::from_secs(5);

/// How long the courier waits for an answer; shorter than the lease.
const PATIENCE: Duration = Duration::from_secs(2);

/// Settings of the delivery loop, tiny bounds now and then, so that some find no slot.
pub(crate) fn options(world: &World) -> DeliveryOptions {
    let tiny = world.chance(500);
    let slots = |most: u64| 1 + world.below(if tiny { 2 } else { most }) as usize;
    DeliveryOptions {
        policy: DeliveryPolicy {
            attempts_max: 2 + world.below(3) as u32,
            base: Duration::from_millis(200),
            max: Duration::from_secs(2),
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
    /// Takes it, after a while.
    Slow,
    Refuses,
    /// Refuses, and says when to come back.
    Busy,
    /// Nobody is there.
    Away,
    /// Takes it, and the answer is lost.
    Mute,
    /// Wants no more.
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
    /// The number of the newest event that arrived in each chain.
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

    /// From now on everybody takes what comes.
    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    pub(crate) fn n_sends(&self) -> u64 {
        self.state().n_sends
    }

    /// What was delivered was received, what was given up has its reason, and the disk has both.
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
        self.state.lock().expect("nobody panics while receiving")
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

    /// Nobody else may be on the way with it, or with another of its chain, unless its time was over when this one was taken.
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

    /// What happened to a job comes in order, as far as couriers bring it who still hold it.
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

/// A courier on its way, until it has its answer or its node is gone.
struct SendGuard {
    receivers: Receivers,
    send: u64,
}

impl Drop for SendGuard {
    fn drop(&mut self) {
        self.receivers.state().under_way.remove(&self.send);
    }
}
