//! Clients as owners of webhooks: register, enable, delete, and repeat given up deliveries.

use forgerun_core::Command;
use forgerun_core::command::{OwnedWebhook, WebhookChange, WebhookCommand};
use forgerun_core::history::EventName;
use forgerun_core::id::ClientId;
use forgerun_core::time::Time;
use forgerun_core::webhook::{Envelope, Events, Health, Secrets, Webhook, WebhookFilter};
use forgerun_engine::{Clock, Engine};

use crate::run::SimContext;

const HOOKS_MAX: usize = 2;

/// Runs a command on one of the client's webhooks. A refusal is fine: another action changed it
/// meanwhile.
pub(crate) async fn act(context: &SimContext, engine: &Engine, client: ClientId) {
    let Ok(webhooks) = engine.store().webhooks(client, None, HOOKS_MAX).await else { return };
    let picked = webhooks.get(context.world.below(HOOKS_MAX as u64) as usize);
    let command = match picked {
        None => WebhookCommand::Register(webhook(context, engine, client).into()),
        Some(webhook) => {
            let owned = OwnedWebhook::new(webhook.id, client);
            match context.world.below(6) {
                0 => WebhookCommand::Delete(owned),
                1 => WebhookCommand::Test(owned),
                2 => WebhookCommand::RedeliverFailed { webhook: owned, since: Time::ZERO },
                n => {
                    let enabled = Some(n > 3 || webhook.disabled.is_some());
                    let change = WebhookChange { enabled, ..WebhookChange::default() };
                    WebhookCommand::Update { webhook: owned, change }
                }
            }
        }
    };
    context.log.note(|| format!("client {client}: {command:?}"));
    let _ = engine.run(Command::Webhook(command)).await;
}

fn webhook(context: &SimContext, engine: &Engine, client: ClientId) -> Webhook {
    let (id, now) = (engine.webhook_id(), context.world.now());
    let filters = [
        Events::ALL,
        Events::only(EventName::Failed).with(Events::WEBHOOK_DISABLED),
        Events::only(EventName::Created).with(Events::only(EventName::Succeeded)),
    ];
    Webhook {
        id,
        client,
        url: format!("http://hook/{id}"),
        events: filters[context.world.below(3) as usize],
        envelope: Envelope::None,
        filter: WebhookFilter::default(),
        description: None,
        secrets: Secrets { current: vec![7; 32], previous: None },
        created_at: now,
        updated_at: now,
        disabled: None,
        health: Health::default(),
        n_notices: 0,
    }
}
