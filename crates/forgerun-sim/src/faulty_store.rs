//! The disk of the simulated world: the reference store, with injected faults. It outlives the
//! engines that use it.
//!
//! Faults are injected at every step of a transaction: before it (nothing is written), after it
//! (written, but not acknowledged), and as delays on both sides, during which a node may crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forgerun_core::delivery::DeliveryStage;
use forgerun_core::log::LogBatch;
use forgerun_core::record::{Record, RecordKind, Stored};
use forgerun_core::sink::{SinkCursor, SinkPosition};
use forgerun_core::time::Time;
use forgerun_core::{Answer, Changes, Wants};
use forgerun_store::memory::Memory;
use forgerun_store::{Blobs, Boxed, Decide, Error, Fault, Page, Query, Store, Sweep, Swept, Wakeup};
use tokio::sync::broadcast;

use crate::Sabotage;
use crate::auditor::Auditor;
use crate::run_log::RunLog;
use crate::world::World;

pub(crate) struct FaultyStore {
    disk: Memory,
    world: Arc<World>,
    log: RunLog,
    pub(crate) auditor: Arc<Auditor>,
    sabotage: Option<Sabotage>,
    n_lanes: usize,
    /// Faults per thousand calls; zero once the world calms down.
    faults: AtomicU64,
}

impl FaultyStore {
    pub(crate) fn new(world: Arc<World>, log: RunLog, sabotage: Option<Sabotage>) -> FaultyStore {
        let auditor = Arc::new(Auditor::new(log.clone()));
        let faults = AtomicU64::new(world.below(60));
        let n_lanes = 1 + world.below(3) as usize;
        FaultyStore { disk: Memory::new(), world, log, auditor, sabotage, n_lanes, faults }
    }

    pub(crate) fn calm_down(&self) {
        self.faults.store(0, Ordering::Relaxed);
    }

    fn trouble(&self) -> bool {
        self.world.chance(self.faults.load(Ordering::Relaxed))
    }

    fn fault(&self, fault: Fault) -> Error {
        self.log.note(|| format!("the store fails: {fault:?}"));
        Error::new(fault, "trouble on purpose")
    }

    async fn delay(&self) {
        if self.faults.load(Ordering::Relaxed) > 0 && self.world.chance(300) {
            self.world.pass(self.world.up_to_ms(40)).await;
        }
    }

    async fn transact_badly(&self, wants: Wants, decide: Decide) -> Result<Changes, Error> {
        self.delay().await;
        if self.trouble() {
            let faults = [Fault::Unavailable, Fault::Timeout, Fault::Busy, Fault::Full];
            return Err(self.fault(faults[self.world.below(4) as usize]));
        }
        let changes = self.write(wants, decide).await?;
        self.delay().await;
        if self.trouble() {
            return Err(self.fault(Fault::Unknown));
        }
        Ok(changes)
    }

    async fn write(&self, wants: Wants, mut decide: Decide) -> Result<Changes, Error> {
        let strike = self.world.chance(100);
        match self.sabotage.filter(|_| strike) {
            Some(Sabotage::LostWrite) => {
                // Answers as if all had been written, and writes nothing.
                let kept = Arc::new(std::sync::Mutex::new(None));
                let keep = kept.clone();
                let pretend: Decide = Box::new(move |rows| {
                    *keep.lock().expect("used once") = Some(decide(rows));
                    Changes::default()
                });
                self.disk.transact(wants, pretend).await?;
                Ok(kept.lock().expect("used once").take().expect("the disk decided"))
            }
            Some(Sabotage::LostEvent) => {
                let forget: Decide = Box::new(move |rows| {
                    let mut changes = decide(rows);
                    changes.journal.pop();
                    changes
                });
                self.audited(wants, forget).await
            }
            Some(Sabotage::LostClaim) => {
                let forget: Decide = Box::new(move |rows| {
                    let mut changes = decide(rows);
                    if changes.answers.iter().any(|answer| matches!(answer, Answer::Claimed { .. })) {
                        changes.updated.clear();
                    }
                    changes
                });
                self.audited(wants, forget).await
            }
            Some(Sabotage::LostStep) => {
                let forget: Decide = Box::new(move |rows| {
                    let mut changes = decide(rows);
                    changes.inserted.retain(|(job, _)| job.head.workflow.is_none());
                    changes
                });
                self.audited(wants, forget).await
            }
            Some(Sabotage::LostDelivery) => {
                let forget: Decide = Box::new(move |rows| {
                    let mut changes = decide(rows);
                    changes.deliveries.pop();
                    changes
                });
                self.audited(wants, forget).await
            }
            Some(Sabotage::SharedDelivery) => {
                let share: Decide = Box::new(move |rows| {
                    let mut changes = decide(rows);
                    let taken = changes.deliveries_changed.iter_mut();
                    for delivery in taken.filter(|known| matches!(known.stage, DeliveryStage::Taken(_))) {
                        delivery.stage = DeliveryStage::Taken(Time::ZERO);
                    }
                    changes
                });
                self.audited(wants, share).await
            }
            Some(Sabotage::HastyDelivery) => {
                let hurry: Decide = Box::new(move |rows| {
                    let mut changes = decide(rows);
                    for delivery in
                        changes.deliveries.iter_mut().filter(|new| new.stage == DeliveryStage::Blocked)
                    {
                        delivery.stage = DeliveryStage::Waiting(delivery.created_at);
                    }
                    changes
                });
                self.audited(wants, hurry).await
            }
            Some(Sabotage::HastySink) => {
                let hurry: Decide = Box::new(move |rows| {
                    let mut changes = decide(rows);
                    changes
                        .records
                        .values_mut()
                        .filter_map(|change| change.new.as_mut())
                        .for_each(hurry_sink);
                    changes
                });
                self.audited(wants, hurry).await
            }
            Some(Sabotage::RepeatedTick) => {
                let stay: Decide = Box::new(move |rows| {
                    let mut changes = decide(rows);
                    if changes.inserted.iter().any(|(job, _)| job.head.schedule.is_some()) {
                        changes.records.retain(|key, _| key.kind != RecordKind::Schedule);
                    }
                    changes
                });
                self.audited(wants, stay).await
            }
            Some(Sabotage::FencingOff | Sabotage::OwnershipOff) | None => self.audited(wants, decide).await,
        }
    }

    async fn audited(&self, wants: Wants, decide: Decide) -> Result<Changes, Error> {
        match self.disk.transact(wants, decide).await {
            Ok(changes) => {
                self.auditor.see(&changes);
                Ok(changes)
            }
            Err(error) => {
                // The store itself has no faults: a rejection means that the rules wrote something
                // wrong.
                self.log.broken(format!("the disk could not write: {error}"));
                Err(error)
            }
        }
    }
}

/// Moves the position of a sink past what the broker has confirmed.
fn hurry_sink(record: &mut Record) {
    if let (RecordKind::Sink, Ok(sink)) = (record.key.kind, SinkCursor::of(record)) {
        let position = SinkPosition::after(sink.position.row + 3);
        *record = SinkCursor { position, ..sink }.to_record(record.version);
    }
}

impl Store for FaultyStore {
    fn transact(&self, wants: Wants, decide: Decide) -> Boxed<'_, Changes> {
        Box::pin(self.transact_badly(wants, decide))
    }

    fn read(&self, query: Query) -> Boxed<'_, Page> {
        Box::pin(async move {
            if self.trouble() {
                return Err(self.fault(Fault::Unavailable));
            }
            self.disk.read(query).await
        })
    }

    fn sweep(&self, sweep: Sweep) -> Boxed<'_, Swept> {
        self.disk.sweep(sweep)
    }

    fn append_logs(&self, batches: Vec<LogBatch>, bytes_max: u64) -> Boxed<'_, Vec<Option<u64>>> {
        self.disk.append_logs(batches, bytes_max)
    }

    fn blobs(&self) -> &dyn Blobs {
        self.disk.blobs()
    }

    fn wakeups(&self) -> broadcast::Receiver<Wakeup> {
        self.disk.wakeups()
    }

    fn lanes(&self) -> usize {
        self.n_lanes
    }
}
