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
//! | `nested.rs` | workflows that are steps of others |
//! | `for_each.rs` | steps with a job per element of a list |
//! | `added_steps.rs` | steps added by a running step |
//! | `waits.rs` | waiting steps, signals, deadlines of workflows |
//! | `checkpoints.rs` | checkpoints of jobs |
//! | `audit.rs` | the audit trail: entries with their changes, and their removal |
//! | `nodes.rs` | nodes: heartbeats, and what they report to each other |
//! | `keys.rs` | clients and their API keys |
//! | `client_limits.rs` | limits of clients, and what they use |
//! | `webhooks.rs` | webhooks, and the keys that deliveries are signed with |
//! | `deliveries.rs` | deliveries: written, claimed, settled, repeated |
//! | `turns.rs` | turns of fair keys |
//! | `pause.rs` | jobs and workflows: paused, resumed |
//! | `due.rs` | effects of time: schedules, leases, timeouts, expiry, retention |
//! | `records.rs` | records in the working set |
//! | `working_set.rs` | the working set, and the only way to move a job |
//! | `set_aside.rs` | unreadable rows: set aside and restored |
//! | `outbox.rs` | the part of the working set for webhooks |

mod added_steps;
mod audit;
mod checkpoints;
mod claim;
mod client_limits;
mod conclude;
mod control;
mod deliveries;
mod due;
mod failures;
mod for_each;
mod keys;
mod nested;
mod nodes;
mod outbox;
mod pause;
mod queues;
mod records;
mod redrives;
mod schedules;
mod schemas;
mod set_aside;
mod sinks;
mod submit;
mod turns;
mod waits;
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
use crate::command::{Answer, Command, Refusal};
use crate::job::Shelf;
use crate::limits;
use crate::memo::MemoIndex;
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
        wants_of(command, batch.now, &mut wants);
    }
    wants
}

fn wants_of(command: &Command, now: Time, wants: &mut Wants) {
    match command {
        Command::Submit(submit) => submit::wants(submit, wants),
        Command::Workflow(new) => workflows::wants(new, wants),
        Command::AddSteps(add) => added_steps::wants(add, wants),
        Command::ListElements(list) => for_each::wants(list, wants),
        Command::Signal(signal) => waits::wants(signal, wants),
        Command::Claim(claim) => claim::wants(claim, wants),
        Command::Start(held) | Command::HandBack(held) => drop(wants.jobs.insert(held.job)),
        Command::Snooze(snooze) => work::wants_snooze(snooze, wants),
        Command::Extend(extend) => drop(wants.jobs.insert(extend.held.job)),
        Command::Upload(upload) => drop(wants.jobs.insert(upload.held.job)),
        Command::Succeed(succeed) => drop(wants.jobs.insert(succeed.held.job)),
        Command::Fail(fail) => drop(wants.jobs.insert(fail.held.job)),
        Command::Conclude(conclude) => drop(wants.jobs.insert(conclude.held.job)),
        Command::Cancel(cancel) => drop(wants.jobs.insert(cancel.owned.job)),
        Command::Pause(pause) => drop(wants.jobs.insert(pause.owned.job)),
        Command::Retry(retry) => {
            wants.jobs.insert(retry.owned.job);
            wants.uniques_of.insert(retry.owned.job);
        }
        Command::Activate(owned) => drop(wants.jobs.insert(owned.job)),
        Command::Forget(owned) => {
            wants.jobs.insert(owned.job);
            wants.records.insert(Checkpoint::record_key(owned.job.to_string()));
            wants.records.insert(MemoIndex::record_key(owned.job.to_string()));
        }
        Command::Due(limit) => {
            let before = wants.due.map_or(0, |due| due.limit);
            let limit = before.saturating_add(*limit).min(limits::DUE_JOBS_MAX);
            wants.due = Some(DueWant { now, limit });
        }
        Command::Key(key) => drop(wants.clients.insert(key.client())),
        Command::NameClient(named) => {
            wants.clients.insert(named.client);
            wants.records.insert(ClientName::record_key(named.key()));
        }
        Command::LimitClient(limits) => {
            wants.clients.insert(limits.client);
            client_limits::wants(limits.client, wants);
        }
        Command::Webhook(webhook) => webhooks::wants(webhook, wants),
        Command::Delivery(delivery) => deliveries::wants(delivery, now, wants),
        Command::Signing(_) => wants.signing_keys = true,
        Command::Restore(row) => set_aside::wants(*row, wants),
        Command::Queue(command) => queues::wants(command, wants),
        Command::Worker(command) => workers::wants(command, wants),
        Command::Sink(command) => sinks::wants(command, wants),
        Command::Failure(command) => failures::wants(command, wants),
        Command::Redrive(command) => redrives::wants(command, wants),
        Command::Schedule(command) => schedules::wants(command, wants),
        Command::Checkpoint(command) => checkpoints::wants(command, wants),
        Command::Node(node) => drop(wants.records.insert(Node::record_key(node.key()))),
        Command::Tally(tally) => drop(wants.records.insert(NodeTally::record_key(tally.key()))),
        Command::EndSession(ended) => {
            wants.records.insert(EndedSession::record_key(ended.key()));
        }
        Command::TokenKey(key) => drop(wants.records.insert(TokenKey::record_key(key.key()))),
        Command::Spend(counts) => {
            wants.records.extend(counts.iter().map(|count| QuotaCount::record_key(count.key())));
        }
        Command::Schema(command) => schemas::wants(command, wants),
        Command::Audited(audited) => audit::wants(audited, now, wants),
        Command::Register(_) => {}
    }
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
        answers.push(set.execute(command).unwrap_or_else(Answer::Refused));
    }
    set.finish(answers)
}

impl WorkingSet<'_> {
    fn execute(&mut self, command: &Command) -> Result<Answer, Refusal> {
        match command {
            Command::Submit(submit) => self.submit(submit),
            Command::Workflow(new) => self.workflow(new),
            Command::AddSteps(add) => self.add_steps(add),
            Command::ListElements(list) => self.list_elements(list),
            Command::Signal(signal) => self.signal(signal),
            Command::Claim(claim) => self.claim(claim),
            Command::Start(held) => self.start(held),
            Command::Extend(extend) => self.extend(extend),
            Command::Upload(upload) => self.upload(upload),
            Command::Succeed(succeed) => self.succeed(succeed),
            Command::Fail(fail) => self.fail(fail),
            Command::Conclude(conclude) => self.conclude(conclude),
            Command::HandBack(held) => self.hand_back(held, Duration::ZERO),
            Command::Snooze(snooze) => self.snooze(snooze),
            Command::Cancel(cancel) => self.cancel(cancel),
            Command::Pause(pause) => self.pause(pause),
            Command::Retry(retry) => self.retry(retry),
            Command::Activate(owned) => self.activate(owned),
            Command::Due(limit) => Ok(self.due(*limit)),
            Command::Forget(owned) => self.forget(owned),
            Command::Register(client) => Ok(self.register(client)),
            Command::Key(key) => self.key(key),
            Command::NameClient(named) => self.name_client(named),
            Command::LimitClient(limits) => self.limit_client(limits),
            Command::Queue(command) => Ok(self.set_queue(command)),
            Command::Worker(command) => self.worker(command),
            Command::Sink(command) => self.sink(command),
            Command::Failure(command) => Ok(self.failure(command)),
            Command::Redrive(command) => self.redrive(command),
            Command::Schedule(command) => self.schedule(command),
            Command::Checkpoint(command) => self.checkpoint(command),
            Command::Node(node) => Ok(self.store_record(node)),
            Command::Tally(tally) => Ok(self.store_record(&**tally)),
            Command::EndSession(ended) => Ok(self.store_record(ended)),
            Command::TokenKey(key) => Ok(self.ensure_token_key(key)),
            Command::Spend(counts) => Ok(self.spend(counts)),
            Command::Schema(command) => self.schema(command),
            Command::Webhook(webhook) => self.webhook(webhook),
            Command::Delivery(delivery) => self.delivery(delivery),
            Command::Signing(signing) => Ok(self.signing(signing)),
            Command::Audited(audited) => self.audited(audited),
            Command::Restore(row) => Ok(self.restore(*row)),
        }
    }
}
