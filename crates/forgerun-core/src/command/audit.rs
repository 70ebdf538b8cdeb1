//! Commands that are recorded in the audit trail, and what the trail calls them.

use alloc::format;
use alloc::string::{String, ToString};

use super::{
    Command, DeliveryCommand, KeyCommand, Owned, QueueCommand, RedriveCommand, ScheduleCommand,
    SchemaCommand, SignalTarget, SigningCommand, WebhookCommand, WorkerCommand,
};
use crate::audit::{AuditAction, AuditActor};
use crate::schedule::ScheduleId;

/// A change with its entry in the audit trail, or an entry alone.
#[derive(Clone, Debug)]
pub struct Audited {
    pub by: AuditActor,
    pub change: AuditedChange,
}

#[derive(Clone, Debug)]
pub enum AuditedChange {
    /// The entry is written if the command is not refused, in the same transaction.
    Command(Command),
    /// Something that changes no row, such as a log-in.
    Event(AuditAction),
}

impl Command {
    /// Whether it is about what clients set up, and not about work: then it is audited whatever its
    /// caller.
    pub const fn is_about_setup(&self) -> bool {
        match self {
            Command::Register(_) | Command::NameClient(_) | Command::LimitClient(_) => true,
            Command::Queue(_) | Command::Schedule(_) | Command::Webhook(_) | Command::Schema(_) => true,
            Command::Key(key) => !matches!(key, KeyCommand::Used { .. }),
            _ => false,
        }
    }

    /// What the audit trail calls it; `None` for work itself (submissions, claims, ends) and for
    /// what the server does by itself.
    pub fn audited_as(&self) -> Option<AuditAction> {
        let (action, target) = match self {
            Command::Cancel(cancel) => ("cancel_job", cancel.owned.job.to_string()),
            Command::Pause(pause) => {
                let action = if pause.paused { "pause_job" } else { "resume_job" };
                (action, pause.owned.job.to_string())
            }
            Command::Signal(signal) => ("signal_workflow", of_signal(&signal.to)),
            Command::Retry(retry) => ("retry_job", retry.owned.job.to_string()),
            Command::Activate(owned) => ("activate_job", owned.job.to_string()),
            Command::Forget(owned) => ("delete_job", owned.job.to_string()),
            Command::Register(client) => ("register_client", client.id.to_string()),
            Command::NameClient(named) => ("name_client", named.client.to_string()),
            Command::LimitClient(limits) => ("limit_client", limits.client.to_string()),
            Command::Key(key) => of_key(key)?,
            Command::Queue(queue) => of_queue(queue),
            Command::Worker(WorkerCommand::Direct { worker, to }) => {
                ("direct_worker", format!("{} to {to:?}", worker.key()))
            }
            Command::Worker(WorkerCommand::Forget(known)) => ("forget_worker", known.worker.key()),
            Command::Webhook(webhook) => of_webhook(webhook),
            Command::Delivery(DeliveryCommand::Redeliver { delivery, .. }) => {
                ("redeliver", delivery.to_string())
            }
            Command::Signing(SigningCommand::Rotate { key, .. }) => {
                ("rotate_signing_key", key.id.to_string())
            }
            Command::Redrive(RedriveCommand::Begin { redrive, .. }) => {
                ("redrive", redrive.failure.to_string())
            }
            Command::Schedule(schedule) => of_schedule(schedule)?,
            Command::Schema(schema) => {
                let (client, job_type, version) = schema.subject();
                let action = match schema {
                    SchemaCommand::Register { .. } => "register_schema",
                    SchemaCommand::Delete { .. } => "delete_schema",
                };
                (action, format!("{job_type} {version} of client {client}"))
            }
            Command::Restore(row) => ("restore_row", format!("{row:?}")),
            Command::EndSession(_) => ("logout", String::new()),
            Command::Submit(_)
            | Command::Workflow(_)
            | Command::AddSteps(_)
            | Command::ListElements(_)
            | Command::Claim(_)
            | Command::Start(_)
            | Command::Upload(_)
            | Command::Extend(_)
            | Command::Succeed(_)
            | Command::Fail(_)
            | Command::Conclude(_)
            | Command::HandBack(_)
            | Command::Snooze(_)
            | Command::Due(_)
            | Command::Worker(WorkerCommand::Heartbeat(_) | WorkerCommand::Lost(_))
            | Command::Sink(_)
            | Command::Delivery(DeliveryCommand::Take(_) | DeliveryCommand::Settle(_))
            | Command::Signing(SigningCommand::Ensure(_))
            | Command::Failure(_)
            | Command::Redrive(RedriveCommand::Step(_))
            | Command::Checkpoint(_)
            | Command::Node(_)
            | Command::Tally(_)
            | Command::Spend(_)
            | Command::TokenKey(_)
            | Command::Audited(_) => return None,
        };
        Some(AuditAction::new(action, target))
    }
}

fn of_signal(to: &SignalTarget) -> String {
    match to {
        SignalTarget::Named { workflow: Owned { job, .. }, name }
        | SignalTarget::Job { job: Owned { job, .. }, name } => format!("{name} of {job}"),
        SignalTarget::Token(token) => format!("step {}", token.job),
    }
}

fn of_key(key: &KeyCommand) -> Option<(&'static str, String)> {
    let of_client = |id: &dyn core::fmt::Display| format!("{id} of client {}", key.client());
    match key {
        KeyCommand::Create { key, .. } => Some(("create_key", of_client(&key.id))),
        KeyCommand::Renew { key, .. } => Some(("renew_key", of_client(&key.id))),
        KeyCommand::Revoke { key, .. } => Some(("revoke_key", of_client(key))),
        KeyCommand::Used { .. } => None,
    }
}

fn of_queue(command: &QueueCommand) -> (&'static str, String) {
    let action = match command.change.paused {
        Some(true) => "pause_queue",
        Some(false) => "resume_queue",
        None => "bound_queue",
    };
    (action, command.queue.key().as_str().into())
}

fn of_webhook(command: &WebhookCommand) -> (&'static str, String) {
    let action = match command {
        WebhookCommand::Register(_) => "register_webhook",
        WebhookCommand::Update { .. } => "update_webhook",
        WebhookCommand::Rotate { .. } => "rotate_webhook_secret",
        WebhookCommand::Delete(_) => "delete_webhook",
        WebhookCommand::Test(_) => "test_webhook",
        WebhookCommand::RedeliverFailed { .. } => "redeliver_failed",
    };
    (action, command.webhook().webhook.to_string())
}

fn of_schedule(command: &ScheduleCommand) -> Option<(&'static str, String)> {
    let action = match command {
        ScheduleCommand::Put(_) => "put_schedule",
        ScheduleCommand::Pause(_) => "pause_schedule",
        ScheduleCommand::Resume(_) => "resume_schedule",
        ScheduleCommand::Trigger(_) => "trigger_schedule",
        ScheduleCommand::Delete(_) => "delete_schedule",
        ScheduleCommand::Fire(_) | ScheduleCommand::PutOff(_) => return None,
    };
    let id: &ScheduleId = command.id();
    Some((action, id.key()))
}
