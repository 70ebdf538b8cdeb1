//! The decision function: a batch of commands and the rows they need become changes.
//!
//! [`wants`] names the rows a batch needs; a store loads them; [`decide`] runs the commands in
//! order, each on the result of the ones before, and returns what to write and answer. A refused
//! command changes nothing and does not affect the others.
//!
//! | file | commands |
//! |---|---|
//! | `submit.rs` | submit, with idempotency and unique keys |
//! | `claim.rs` | claim, with pauses and limits |
//! | `work.rs` | start, extend, succeed, fail, hand back |
//! | `conclude.rs` | conclude: how a batch ends |
//! | `control.rs` | cancel, retry, activate, forget |
//! | `queues.rs` | settings of queues: pauses and bounds |
//! | `workers.rs` | external workers: heartbeats, directives, losses |
//! | `sinks.rs` | sinks: which node sends, and its position |
//! | `failures.rs` | failures: noted, counted, forgotten |
//! | `redrives.rs` | redrives: begun, and run step by step |
//! | `schedules.rs` | schedules: registered, paused, triggered, and their ticks |
//! | `schemas.rs` | schemas of job types: registered, deleted |
//! | `workflows.rs` | workflows: begun, and moved on when a step ends |
//! | `checkpoints.rs` | checkpoints of jobs |
//! | `nodes.rs` | nodes: heartbeats, and what they report to each other |
//! | `keys.rs` | clients and their API keys |
//! | `client_limits.rs` | limits of clients, and what they use |
//! | `webhooks.rs` | webhooks, and the keys that deliveries are signed with |
//! | `deliveries.rs` | deliveries: written, claimed, settled, repeated |
//! | `due.rs` | effects of time: schedules, leases, timeouts, expiry, retention |
//! | `records.rs` | records in the working set |
//! | `working_set.rs` | the working set, and the only way to move a job |
//! | `set_aside.rs` | unreadable rows: set aside and restored |
//! | `outbox.rs` | the part of the working set for webhooks |

mod checkpoints;
mod claim;
mod client_limits;
mod conclude;
mod control;
mod deliveries;
mod due;
mod failures;
mod keys;
mod nodes;
mod outbox;
mod queues;
mod records;
mod redrives;
mod schedules;
mod schemas;
mod set_aside;
mod sinks;
mod submit;
mod webhooks;
mod work;
mod workers;
mod workflows;
mod working_set;

#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use crate::checkpoint::Checkpoint;
use crate::client::ClientName;
use crate::command::{Answer, Command};
use crate::job::Shelf;
use crate::limits;
use crate::node::Node;
use crate::quota::QuotaCount;
use crate::record::Stored;
use crate::rows::{Changes, DueWant, Render, Rows, Wants};
use crate::session::EndedSession;
use crate::tally::NodeTally;
use crate::time::Time;
use crate::token_key::TokenKey;
use working_set::WorkingSet;

/// Commands decided together, in one transaction.
#[derive(Clone, Debug)]
pub struct Batch {
    pub now: Time,
    pub seed: u64,
    pub commands: Vec<Command>,
}

pub fn wants(batch: &Batch) -> Wants {
    let mut wants = Wants::default();
    for command in &batch.commands {
        match command {
            Command::Submit(submit) => submit::wants(submit, &mut wants),
            Command::Workflow(new) => workflows::wants(new, &mut wants),
            Command::Claim(claim) => claim::wants(claim, &mut wants),
            Command::Start(held) | Command::HandBack(held) => drop(wants.jobs.insert(held.job)),
            Command::Snooze(snooze) => drop(wants.jobs.insert(snooze.held.job)),
            Command::Extend(extend) => drop(wants.jobs.insert(extend.held.job)),
            Command::Upload(upload) => drop(wants.jobs.insert(upload.held.job)),
            Command::Succeed(succeed) => drop(wants.jobs.insert(succeed.held.job)),
            Command::Fail(fail) => drop(wants.jobs.insert(fail.held.job)),
            Command::Conclude(conclude) => drop(wants.jobs.insert(conclude.held.job)),
            Command::Cancel(cancel) => drop(wants.jobs.insert(cancel.owned.job)),
            Command::Retry(retry) => {
                wants.jobs.insert(retry.owned.job);
                wants.uniques_of.insert(retry.owned.job);
            }
            Command::Activate(owned) => drop(wants.jobs.insert(owned.job)),
            Command::Forget(owned) => {
                wants.jobs.insert(owned.job);
                wants.records.insert(Checkpoint::record_key(owned.job.to_string()));
            }
            Command::Due(limit) => {
                let before = wants.due.map_or(0, |due| due.limit);
                let limit = before.saturating_add(*limit).min(limits::DUE_JOBS_MAX);
                wants.due = Some(DueWant { now: batch.now, limit });
            }
            Command::Key(key) => drop(wants.clients.insert(key.client())),
            Command::NameClient(named) => {
                wants.clients.insert(named.client);
                wants.records.insert(ClientName::record_key(named.key()));
            }
            Command::LimitClient(limits) => {
                wants.clients.insert(limits.client);
                client_limits::wants(limits.client, &mut wants);
            }
            Command::Webhook(webhook) => webhooks::wants(webhook, &mut wants),
            Command::Delivery(delivery) => deliveries::wants(delivery, batch.now, &mut wants),
            Command::Signing(_) => wants.signing_keys = true,
            Command::Restore(row) => set_aside::wants(*row, &mut wants),
            Command::Queue(command) => queues::wants(command, &mut wants),
            Command::Worker(command) => workers::wants(command, &mut wants),
            Command::Sink(command) => sinks::wants(command, &mut wants),
            Command::Failure(command) => failures::wants(command, &mut wants),
            Command::Redrive(command) => redrives::wants(command, &mut wants),
            Command::Schedule(command) => schedules::wants(command, &mut wants),
            Command::Checkpoint(command) => checkpoints::wants(command, &mut wants),
            Command::Node(node) => drop(wants.records.insert(Node::record_key(node.key()))),
            Command::Tally(tally) => drop(wants.records.insert(NodeTally::record_key(tally.key()))),
            Command::EndSession(ended) => {
                wants.records.insert(EndedSession::record_key(ended.key()));
            }
            Command::TokenKey(key) => drop(wants.records.insert(TokenKey::record_key(key.key()))),
            Command::Spend(counts) => {
                wants.records.extend(counts.iter().map(|count| QuotaCount::record_key(count.key())));
            }
            Command::Schema(command) => schemas::wants(command, &mut wants),
            Command::Register(_) => {}
        }
    }
    wants
}

/// The shelves that the claims of a batch read, and how deep.
fn shelves_asked(batch: &Batch) -> BTreeMap<Shelf, usize> {
    let mut wants = Wants::default();
    for command in &batch.commands {
        if let Command::Claim(claim) = command {
            claim::wants(claim, &mut wants);
        }
    }
    wants.shelves
}

/// Decides a batch. Deterministic: the same batch and rows give the same changes.
pub fn decide(batch: &Batch, rows: Rows, render: &dyn Render) -> Changes {
    let mut set = WorkingSet::new(batch, rows, render);
    let mut answers = Vec::with_capacity(batch.commands.len());
    for command in &batch.commands {
        let answer = match command {
            Command::Submit(submit) => set.submit(submit),
            Command::Workflow(new) => set.workflow(new),
            Command::Claim(claim) => set.claim(claim),
            Command::Start(held) => set.start(held),
            Command::Extend(extend) => set.extend(extend),
            Command::Upload(upload) => set.upload(upload),
            Command::Succeed(succeed) => set.succeed(succeed),
            Command::Fail(fail) => set.fail(fail),
            Command::Conclude(conclude) => set.conclude(conclude),
            Command::HandBack(held) => set.hand_back(held, Duration::ZERO),
            Command::Snooze(snooze) => set.hand_back(&snooze.held, snooze.delay),
            Command::Cancel(cancel) => set.cancel(cancel),
            Command::Retry(retry) => set.retry(retry),
            Command::Activate(owned) => set.activate(owned),
            Command::Due(limit) => Ok(set.due(*limit)),
            Command::Forget(owned) => set.forget(owned),
            Command::Register(client) => Ok(set.register(client)),
            Command::Key(key) => set.key(key),
            Command::NameClient(named) => set.name_client(named),
            Command::LimitClient(limits) => set.limit_client(limits),
            Command::Queue(command) => Ok(set.set_queue(command)),
            Command::Worker(command) => set.worker(command),
            Command::Sink(command) => set.sink(command),
            Command::Failure(command) => Ok(set.failure(command)),
            Command::Redrive(command) => set.redrive(command),
            Command::Schedule(command) => set.schedule(command),
            Command::Checkpoint(command) => set.checkpoint(command),
            Command::Node(node) => Ok(set.store_record(node)),
            Command::Tally(tally) => Ok(set.store_record(&**tally)),
            Command::EndSession(ended) => Ok(set.store_record(ended)),
            Command::TokenKey(key) => Ok(set.ensure_token_key(key)),
            Command::Spend(counts) => Ok(set.spend(counts)),
            Command::Schema(command) => set.schema(command),
            Command::Webhook(webhook) => set.webhook(webhook),
            Command::Delivery(delivery) => set.delivery(delivery),
            Command::Signing(signing) => Ok(set.signing(signing)),
            Command::Restore(row) => Ok(set.restore(*row)),
        };
        answers.push(answer.unwrap_or_else(Answer::Refused));
    }
    set.finish(answers)
}
