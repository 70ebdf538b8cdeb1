//! The loop itself. It never awaits the store or an endpoint: each claim, send and settlement is a
//! task that reports back to the loop.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::command::{ClaimedDeliveries, DeliveryClaim, DeliveryCommand, SendResult, Settle};
use forgerun_core::delivery::{Delivery, DeliveryFailure, DeliverySubject, Endpoint};
use forgerun_core::id::{ExecutionId, JobId, WebhookId};
use forgerun_core::job::Job;
use forgerun_core::time::Time;
use forgerun_core::webhook::Webhook;
use forgerun_core::{Answer, Command, limits};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::DeliveryOptions;
use super::courier::{AttemptReport, AttemptVerdict, Courier, PreparedDelivery};
use super::endpoints::{Admission, Endpoints};
use crate::{Engine, Error};

/// On stop, sends that end within this time are settled; the rest is left to the lease.
const FINISH_WITHIN: Duration = Duration::from_secs(1);

/// Concurrent settlements. Beyond it the store is behind, and claiming more would make it worse.
const SETTLING_MAX: usize = 2048;

/// The wait after a store error.
const PAUSE: Duration = Duration::from_millis(250);

pub(super) struct DeliveryRunner {
    engine: Engine,
    courier: Arc<dyn Courier>,
    options: DeliveryOptions,
    stop: CancellationToken,
    endpoints: Endpoints,
    sends: JoinSet<(AttemptReport, Duration)>,
    in_flight: HashMap<Id, SendInFlight>,
    settling: JoinSet<()>,
    look: JoinSet<Result<TakeResult, Error>>,
    /// Whether deliveries may be due.
    due: bool,
}

struct SendInFlight {
    send: u64,
    delivery: Delivery,
    webhook: Option<Arc<Webhook>>,
    job: Option<Arc<Job>>,
    began: Time,
}

/// The result of a claim.
enum TakeResult {
    /// Nothing is due; the alarm knows the next moment.
    Nothing,
    /// Claimed deliveries, perhaps not all that are due; and those that cannot be sent.
    Found { prepared: Vec<PreparedDelivery>, pointless: Vec<(Delivery, DeliveryFailure)> },
}

impl DeliveryRunner {
    pub(super) fn new(
        engine: Engine,
        courier: Arc<dyn Courier>,
        options: DeliveryOptions,
        stop: CancellationToken,
    ) -> DeliveryRunner {
        let endpoints = Endpoints::new(options.clone());
        DeliveryRunner {
            engine,
            courier,
            options,
            stop,
            endpoints,
            sends: JoinSet::new(),
            in_flight: HashMap::new(),
            settling: JoinSet::new(),
            look: JoinSet::new(),
            due: true,
        }
    }

    /// Runs until stopped. Cancel-safe: leases return claimed deliveries.
    pub(super) async fn work(mut self) {
        while self.go_on().await {}
        self.finish().await;
    }

    /// Does all that is possible, then waits for an event. Returns whether to go on.
    async fn go_on(&mut self) -> bool {
        let now = self.engine.now();
        let late = self.endpoints.mark_slow(now);
        self.put_off(late);
        while let Some((send, prepared)) = self.endpoints.next(now) {
            self.launch(send, prepared, now);
        }
        let idle = self.look.is_empty() && self.settling.len() < SETTLING_MAX && self.endpoints.room() > 0;
        if idle && self.due {
            self.due = false;
            self.look.spawn(look_in_time(self.engine.clone(), self.take(now)));
        }
        let engine = self.engine.clone();
        let slow = self.endpoints.next_slow().map(|at| at.since(now));
        tokio::select! {
            biased;
            () = self.stop.cancelled() => return false,
            Some(ended) = self.sends.join_next_with_id() => self.sent(ended),
            Some(found) = self.look.join_next() => self.found(found),
            Some(_) = self.settling.join_next() => {}
            () = engine.delivery_alarm().wait(engine.clock(), self.options.refresh), if idle && self.look.is_empty() => {
                self.due = true;
            }
            () = sleep(&engine, slow), if slow.is_some() => {}
        }
        true
    }

    fn take(&self, now: Time) -> DeliveryClaim {
        let limit = self.endpoints.room().min(limits::TAKE_MAX);
        DeliveryClaim { limit, lease: self.options.lease, closed: self.endpoints.closed(now) }
    }

    fn found(&mut self, found: Result<Result<TakeResult, Error>, JoinError>) {
        match found.unwrap_or(Err(Error::Overloaded)) {
            Ok(TakeResult::Nothing) => {}
            Ok(TakeResult::Found { prepared, pointless }) => {
                self.due = true;
                for (delivery, failure) in pointless {
                    self.settle(delivery, None, None, SendResult::Dropped(failure));
                }
                let now = self.engine.now();
                // A delivery held longer than its lease is not sent: another courier has it.
                for prepared in prepared.into_iter().filter(|prepared| !prepared.delivery.is_overdue(now)) {
                    match self.endpoints.admit(prepared, now) {
                        Admission::Send(send, prepared) => self.launch(send, prepared, now),
                        Admission::Waits => {}
                        Admission::PutOff(until, prepared) => self.put_off(vec![(until, prepared)]),
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "claiming deliveries failed: retrying");
                self.due = true;
            }
        }
    }

    fn launch(&mut self, send: u64, prepared: PreparedDelivery, began: Time) {
        let (delivery, webhook, job) =
            (prepared.delivery.clone(), prepared.webhook.clone(), prepared.job.clone());
        let (engine, courier) = (self.engine.clone(), self.courier.clone());
        let task = self.sends.spawn(async move {
            let report = courier.send(prepared).await;
            (report, engine.now().since(began))
        });
        self.in_flight.insert(task.id(), SendInFlight { send, delivery, webhook, job, began });
    }

    fn sent(&mut self, ended: Result<(Id, (AttemptReport, Duration)), JoinError>) {
        let (id, report, took) = match ended {
            Ok((id, (report, took))) => (id, report, took),
            Err(broken) => {
                tracing::error!(error = %broken, "courier failed");
                let error = Some("the sender broke off".into());
                let verdict = AttemptVerdict::Failed { retry_after: None };
                (broken.id(), AttemptReport { verdict, status: None, error }, Duration::ZERO)
            }
        };
        let Some(SendInFlight { send, delivery, webhook, job, began }) = self.in_flight.remove(&id) else {
            return;
        };
        let good = report.verdict == AttemptVerdict::Delivered;
        let late = self.endpoints.ended(send, good, self.engine.now());
        self.put_off(late);
        self.settle(delivery, webhook, job.as_deref(), report.into_sent(began, took));
    }

    fn put_off(&mut self, prepared: Vec<(Time, PreparedDelivery)>) {
        for (until, prepared) in prepared {
            self.settle(prepared.delivery, prepared.webhook, None, SendResult::PutOff(until));
        }
    }

    fn settle(
        &mut self,
        delivery: Delivery,
        webhook: Option<Arc<Webhook>>,
        job: Option<&Job>,
        sent: SendResult,
    ) {
        let (engine, until) = (self.engine.clone(), self.engine.now() + self.options.lease);
        let settle = Settle {
            delivery: delivery.id,
            client: delivery.client,
            chain: delivery.chain(),
            fence: delivery.fence,
            health_of: webhook.as_ref().and_then(|webhook| health_of(webhook, &sent, engine.now())),
            sent,
            policy: self.options.policy.about(job),
        };
        self.settling.spawn(settle_until(engine, settle, until));
    }

    /// Returns waiting deliveries, gives sends a moment to end, and settles those.
    async fn finish(mut self) {
        let now = self.engine.now();
        let waiting = self.endpoints.clear();
        self.put_off(waiting.into_iter().map(|prepared| (now, prepared)).collect());
        let engine = self.engine.clone();
        let mut over = engine.clock().sleep(FINISH_WITHIN);
        loop {
            tokio::select! {
                biased;
                Some(ended) = self.sends.join_next_with_id() => self.sent(ended),
                Some(_) = self.settling.join_next() => {}
                () = &mut over => break,
                else => return,
            }
        }
        self.sends.abort_all();
        let settled = async { while self.settling.join_next().await.is_some() {} };
        tokio::select! {
            biased;
            () = settled => {}
            () = engine.clock().sleep(FINISH_WITHIN) => {}
        }
    }
}

async fn sleep(engine: &Engine, span: Option<Duration>) {
    if let Some(span) = span {
        engine.clock().sleep(span).await;
    }
}

/// The webhook whose health to update. Successes of a healthy endpoint are noted only once in a
/// while, so that settlements do not all wait for one row.
fn health_of(webhook: &Webhook, sent: &SendResult, now: Time) -> Option<WebhookId> {
    let health = &webhook.health;
    let noted =
        health.failures == 0 && health.last_success_at.is_some_and(|at| now < at + limits::LAST_SUCCESS);
    match sent {
        SendResult::Delivered(_) if noted => None,
        SendResult::Delivered(_) | SendResult::Failed { .. } | SendResult::Gone(_) => Some(webhook.id),
        SendResult::Dropped(_) | SendResult::PutOff(_) => None,
    }
}

/// Settles a delivery, with retries while the store fails and the lease lasts.
async fn settle_until(engine: Engine, settle: Settle, until: Time) {
    loop {
        let command = Command::Delivery(DeliveryCommand::Settle(settle.clone().into()));
        match engine.commands().run(command).await {
            Ok(Answer::Delivery(_)) => return,
            Ok(answer) => unreachable!("a settlement was answered with {answer:?}"),
            // Its job is deleted, or it took so long that another courier has it.
            Err(Error::Refused(refusal)) => {
                tracing::debug!(delivery.id = %settle.delivery, ?refusal, "delivery not settled: lease lost");
                return;
            }
            Err(Error::Stopped) => return,
            Err(error) if engine.now() >= until => {
                tracing::warn!(delivery.id = %settle.delivery, %error, "delivery not settled");
                return;
            }
            Err(Error::Overloaded | Error::Store(_)) => engine.clock().sleep(PAUSE).await,
        }
    }
}

/// Claims, and waits a while before it reports a store error.
async fn look_in_time(engine: Engine, take: DeliveryClaim) -> Result<TakeResult, Error> {
    let found = look(&engine, take).await;
    if found.is_err() {
        engine.clock().sleep(PAUSE).await;
    }
    found
}

/// Claims due deliveries, if any.
async fn look(engine: &Engine, take: DeliveryClaim) -> Result<TakeResult, Error> {
    // Cleared before the query, so that a moment set meanwhile is kept.
    engine.delivery_alarm().clear();
    match engine.store().next_delivery().await? {
        Some(at) if at <= engine.now() => {}
        Some(at) => {
            engine.delivery_alarm().learn(at);
            return Ok(TakeResult::Nothing);
        }
        None => return Ok(TakeResult::Nothing),
    }
    let taken = match engine.commands().run(Command::Delivery(DeliveryCommand::Take(take))).await? {
        Answer::Taken(taken) => taken,
        answer => unreachable!("a courier was answered with {answer:?}"),
    };
    if taken.deliveries.is_empty() && taken.n_put_off == 0 && !taken.more {
        // Another node holds the due rows, or the clock went back: an immediate query would find
        // the same.
        return Ok(TakeResult::Nothing);
    }
    load(engine, taken).await
}

/// Loads the rows that a courier needs.
async fn load(engine: &Engine, taken: ClaimedDeliveries) -> Result<TakeResult, Error> {
    let webhooks: BTreeMap<WebhookId, Arc<Webhook>> =
        taken.webhooks.into_iter().map(|webhook| (webhook.id, Arc::new(webhook))).collect();
    let ids: BTreeSet<JobId> = taken.deliveries.iter().filter_map(Delivery::job).collect();
    let jobs: BTreeMap<JobId, Arc<Job>> = match ids.is_empty() {
        true => BTreeMap::new(),
        false => {
            let jobs = engine.store().jobs_by_id(ids.into_iter().collect()).await?;
            jobs.into_iter().map(|job| (job.id, Arc::new(job))).collect()
        }
    };
    let end = |delivery: &Delivery| match &delivery.about {
        DeliverySubject::Event { job, event } => jobs.get(job)?.execution_ended(event),
        DeliverySubject::Notice(_) | DeliverySubject::Test => None,
    };
    let ends: BTreeSet<ExecutionId> = taken.deliveries.iter().filter_map(end).collect();
    let outcomes: BTreeMap<ExecutionId, _> = match ends.is_empty() {
        true => BTreeMap::new(),
        false => {
            let outcomes = engine.store().outcomes(ends.into_iter().collect()).await?;
            outcomes.into_iter().map(|outcome| (outcome.execution, Arc::new(outcome))).collect()
        }
    };
    let (mut prepared, mut pointless) = (Vec::new(), Vec::new());
    for delivery in taken.deliveries {
        let webhook = match &delivery.to {
            Endpoint::Callback(_) => None,
            Endpoint::Webhook(id) => match webhooks.get(id) {
                Some(webhook) if webhook.disabled.is_none() => Some(webhook.clone()),
                Some(_) => {
                    pointless.push((delivery, DeliveryFailure::Disabled));
                    continue;
                }
                None => {
                    pointless.push((delivery, DeliveryFailure::Deleted));
                    continue;
                }
            },
        };
        let job = delivery.job().and_then(|id| jobs.get(&id)).cloned();
        if job.is_none() && delivery.job().is_some() {
            // Deleted since, with its job.
            continue;
        }
        let outcome = end(&delivery).and_then(|execution| outcomes.get(&execution)).cloned();
        prepared.push(PreparedDelivery { delivery, webhook, job, outcome });
    }
    Ok(TakeResult::Found { prepared, pointless })
}
