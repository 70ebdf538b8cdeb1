//! Deliveries: written with their event, claimed by couriers, settled, repeated.
//!
//! A courier holds a claimed delivery until its lease ends. A late report carries an old fence and
//! is refused: the delivery may have been sent twice, but it is counted once.

use alloc::vec::Vec;

use super::working_set::{Slot, WorkingSet};
use crate::command::{
    Answer, ClaimedDeliveries, DeliveryClaim, DeliveryCommand, Refusal, SendResult, Settle,
};
use crate::delivery::{
    Delivery, DeliveryAttempt, DeliveryFailure, DeliveryPolicy, DeliveryStage, DeliverySubject, Endpoint,
};
use crate::history::{Event, JournalEntry, JournalSubject};
use crate::id::{ClientId, DeliveryId, WebhookId};
use crate::limits;
use crate::rows::{DueWant, Wants};
use crate::time::Time;
use crate::webhook::{Disabled, DisabledReason, Health, Notice, Webhook};

pub(super) fn wants(command: &DeliveryCommand, now: Time, wants: &mut Wants) {
    match command {
        DeliveryCommand::Take(take) => {
            let before = wants.deliveries_due.map_or(0, |due| due.limit);
            let limit = before.saturating_add(take.limit).min(limits::TAKE_MAX);
            wants.deliveries_due = Some(DueWant { now, limit });
        }
        DeliveryCommand::Settle(settle) => {
            match settle.chain {
                Some(chain) => drop(wants.chains.insert(chain)),
                None => drop(wants.deliveries.insert(settle.delivery)),
            }
            wants.webhooks.extend(settle.health_of);
            if settle.health_of.is_some()
                && matches!(settle.sent, SendResult::Failed { .. } | SendResult::Gone(_))
            {
                // The failure may disable the webhook, and then its owner's other webhooks are
                // notified.
                wants.webhooks_of.insert(settle.client);
            }
        }
        DeliveryCommand::Redeliver { delivery, .. } => drop(wants.deliveries.insert(*delivery)),
    }
}

impl WorkingSet<'_> {
    /// Writes a delivery of the event for every listening endpoint.
    pub(super) fn announce(&mut self, slot: Slot, event: Event) {
        let (job, head) = (self.job(slot).id, self.job(slot).head.clone());
        for to in self.outbox.listeners(&head, &event) {
            let about = DeliverySubject::Event { job, event };
            let delivery = self.new_delivery(head.client, to, about, event.at);
            self.outbox.add(delivery, self.now);
        }
    }

    pub(super) fn new_delivery(
        &mut self,
        client: ClientId,
        to: Endpoint,
        about: DeliverySubject,
        created_at: Time,
    ) -> Delivery {
        let (n, bits) = match about {
            DeliverySubject::Event { job, event } => (event.n, job.as_u128() as u64),
            DeliverySubject::Notice(notice) => (notice.n, notice.webhook.as_u128() as u64),
            DeliverySubject::Test => (0, self.random()),
        };
        Delivery {
            id: DeliveryId::of(created_at.unix_ms(), n, bits, to.key()),
            client,
            to,
            about,
            created_at,
            stage: DeliveryStage::Blocked,
            chained: matches!(about, DeliverySubject::Event { .. }),
            attempts: 0,
            fence: 0,
            log: Vec::new(),
        }
    }

    pub(super) fn delivery(&mut self, command: &DeliveryCommand) -> Result<Answer, Refusal> {
        match command {
            DeliveryCommand::Take(take) => Ok(Answer::Taken(self.take_deliveries(take))),
            DeliveryCommand::Settle(settle) => self.settle(settle),
            DeliveryCommand::Redeliver { delivery, client } => self.redeliver(*delivery, *client),
        }
    }

    fn take_deliveries(&mut self, take: &DeliveryClaim) -> ClaimedDeliveries {
        let limit = take.limit.min(limits::TAKE_MAX);
        let mut taken =
            ClaimedDeliveries { more: self.outbox.due.len() >= limit, ..ClaimedDeliveries::default() };
        let rest = self.outbox.due.split_off(self.outbox.due.len().min(limit));
        let until = self.now + take.lease;
        for id in core::mem::replace(&mut self.outbox.due, rest) {
            let Some(mut delivery) = self.outbox.delivery(id).cloned() else {
                // Unreadable, and set aside.
                taken.more = true;
                continue;
            };
            if delivery.due_at().is_none_or(|at| at > self.now) {
                // Changed by an earlier command of the batch, or the store indexes a wrong moment:
                // writing it again corrects that.
                self.outbox.save(delivery, self.now);
                continue;
            }
            if let Some(&opens_at) = take.closed.get(&delivery.to) {
                delivery.stage = DeliveryStage::Waiting(opens_at.max(self.now));
                taken.n_put_off += 1;
            } else {
                delivery.stage = DeliveryStage::Taken(until);
                delivery.attempts = delivery.attempts.saturating_add(1);
                delivery.fence = delivery.fence.saturating_add(1);
                if let Endpoint::Webhook(id) = delivery.to
                    && let Some(webhook) = self.outbox.webhook(id)
                    && taken.webhooks.iter().all(|known| known.id != id)
                {
                    taken.webhooks.push(webhook.clone());
                }
                taken.deliveries.push(delivery.clone());
            }
            self.outbox.save(delivery, self.now);
        }
        taken
    }

    fn settle(&mut self, settle: &Settle) -> Result<Answer, Refusal> {
        let known = self.outbox.delivery(settle.delivery).cloned();
        let mut delivery = known.ok_or(Refusal::DeliveryNotFound)?;
        if delivery.fence != settle.fence || !matches!(delivery.stage, DeliveryStage::Taken(_)) {
            return Err(Refusal::DeliveryLost);
        }
        let random = self.random();
        delivery.stage = self.next_stage(&delivery, settle, random);
        match &settle.sent {
            SendResult::Delivered(attempt)
            | SendResult::Failed { attempt, .. }
            | SendResult::Gone(attempt) => {
                record(&mut delivery, attempt);
            }
            SendResult::Dropped(_) | SendResult::PutOff(_) => {
                delivery.attempts = delivery.attempts.saturating_sub(1)
            }
        }
        if let Some(webhook) = settle.health_of.and_then(|id| self.outbox.webhook(id)).cloned() {
            self.note_health(webhook, settle, &delivery);
        }
        self.outbox.save(delivery.clone(), self.now);
        Ok(Answer::Delivery(delivery.into()))
    }

    fn next_stage(&self, delivery: &Delivery, settle: &Settle, random: u64) -> DeliveryStage {
        match &settle.sent {
            SendResult::Delivered(_) => DeliveryStage::Delivered(self.now),
            SendResult::Gone(_) => DeliveryStage::Failed(self.now, DeliveryFailure::Gone),
            SendResult::Dropped(failure) => DeliveryStage::Failed(self.now, *failure),
            SendResult::PutOff(until) => DeliveryStage::Waiting((*until).max(self.now)),
            SendResult::Failed { .. } if delivery.attempts >= settle.policy.schedule.attempts_max() => {
                DeliveryStage::Failed(self.now, DeliveryFailure::Exhausted)
            }
            SendResult::Failed { retry_after, .. } => {
                DeliveryStage::Waiting(self.now + settle.policy.wait(delivery.attempts, *retry_after, random))
            }
        }
    }

    /// Updates the health of the webhook after an attempt.
    fn note_health(&mut self, mut webhook: Webhook, settle: &Settle, delivery: &Delivery) {
        let (now, health) = (self.now, &mut webhook.health);
        let disable = match &settle.sent {
            SendResult::Delivered(_) => {
                let noted = health.last_success_at.is_some_and(|at| now < at + limits::LAST_SUCCESS);
                if noted && health.failures == 0 {
                    return;
                }
                *health = Health {
                    last_success_at: Some(now),
                    last_failure_at: health.last_failure_at,
                    ..Health::default()
                };
                None
            }
            SendResult::Failed { .. } | SendResult::Gone(_) => {
                health.failures = health.failures.saturating_add(1);
                health.given_up = health.given_up.saturating_add(u32::from(!delivery.stage.is_open()));
                health.failing_since = health.failing_since.or(Some(now));
                health.last_failure_at = Some(now);
                match settle.sent {
                    SendResult::Gone(_) => Some(DisabledReason::Gone),
                    _ if has_failed_enough(health, &settle.policy, now) => Some(DisabledReason::Failing),
                    _ => None,
                }
            }
            SendResult::Dropped(_) | SendResult::PutOff(_) => return,
        };
        let disable = disable.filter(|_| webhook.disabled.is_none());
        let notice = disable.map(|reason| webhook.disable(Disabled { at: now, reason }));
        let client = webhook.client;
        self.outbox.save_webhook(webhook, &mut self.changes);
        if let Some(notice) = notice {
            self.give_notice(client, notice);
        }
    }

    /// Notifies the owner of a disabled webhook through the remaining ones. The disabled webhook is
    /// not among them, so a cascade of failing notifications ends.
    fn give_notice(&mut self, client: ClientId, notice: Notice) {
        self.changes.journal.push(JournalEntry { client, about: JournalSubject::Webhook(notice) });
        for to in self.outbox.noticed(client) {
            let delivery = self.new_delivery(client, to, DeliverySubject::Notice(notice), notice.disabled.at);
            self.outbox.add(delivery, self.now);
        }
    }

    fn redeliver(&mut self, id: DeliveryId, client: ClientId) -> Result<Answer, Refusal> {
        let delivery = self.outbox.delivery(id).cloned().ok_or(Refusal::DeliveryNotFound)?;
        if delivery.client != client {
            return Err(Refusal::Foreign);
        }
        if let Endpoint::Webhook(webhook) = delivery.to {
            self.enabled(webhook)?;
        }
        let delivery = self.send_again(delivery);
        Ok(Answer::Delivery(delivery.into()))
    }

    /// Refuses if the webhook is disabled.
    pub(super) fn enabled(&self, webhook: WebhookId) -> Result<(), Refusal> {
        match self.outbox.webhook(webhook) {
            None => Err(Refusal::WebhookNotFound),
            Some(webhook) if webhook.disabled.is_some() => Err(Refusal::WebhookDisabled),
            Some(_) => Ok(()),
        }
    }

    /// Makes a delivery due now, with a full budget if it was settled. It leaves its chain, so it
    /// does not wait for later events. A blocked or claimed one stays as it is.
    pub(super) fn send_again(&mut self, delivery: Delivery) -> Delivery {
        let now = self.now;
        let again = match delivery.stage {
            DeliveryStage::Blocked | DeliveryStage::Taken(_) => return delivery,
            DeliveryStage::Waiting(_) => Delivery { stage: DeliveryStage::Waiting(now), ..delivery },
            DeliveryStage::Delivered(_) | DeliveryStage::Failed(..) => {
                Delivery { stage: DeliveryStage::Waiting(now), chained: false, attempts: 0, ..delivery }
            }
        };
        self.outbox.save(again.clone(), now);
        again
    }
}

fn has_failed_enough(health: &Health, policy: &DeliveryPolicy, now: Time) -> bool {
    let long_enough = health.failing_since.is_some_and(|since| since + policy.disable_after <= now);
    long_enough && health.given_up >= limits::GIVEN_UP_MAX
}

fn record(delivery: &mut Delivery, attempt: &DeliveryAttempt) {
    if delivery.log.len() >= limits::ATTEMPTS_KEPT {
        delivery.log.remove(0);
    }
    let mut attempt = attempt.clone();
    if let Some(error) = &mut attempt.error {
        let end = (0..=limits::ATTEMPT_ERROR_BYTES_MAX).rev().find(|&at| error.is_char_boundary(at));
        error.truncate(end.unwrap_or(0).min(error.len()));
    }
    delivery.log.push(attempt);
}
