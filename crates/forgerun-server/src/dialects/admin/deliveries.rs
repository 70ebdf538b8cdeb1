//! Deliveries to a webhook or about a job, and their repetition.

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::command::DeliveryCommand;
use forgerun_core::delivery::{Delivery, Endpoint};
use forgerun_core::id::{ClientId, DeliveryId, WebhookId};
use forgerun_core::limits::WEBHOOKS_MAX;
use forgerun_core::webhook::Webhook;
use forgerun_core::{Answer, Command, Refusal};
use forgerun_wire::admin::AdminPage;
use forgerun_wire::forge::DeliveryView;

use super::{audit, jobs};
use crate::app::{DeliveriesOf, DeliveryFilter};
use crate::auth::OperatorRole;
use crate::http::{
    ApiError, body,
    query::QueryString,
    respond,
    routing::{
        Call, Reply, Route,
        operation::{CURSOR, LIMIT},
    },
};
use crate::limits::LIST_ROWS_MAX;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/admin/v1/webhooks/{webhook_id}/deliveries", "deliveries", |call| {
        Box::pin(list(call, DeliveriesAbout::Webhook))
    })
    .role(OperatorRole::Viewer)
    .operation("adminListDeliveries", "List the deliveries to a webhook of any client, newest first.")
    .query(&[LIMIT, CURSOR])
    .replies(&[Reply::json::<AdminPage<DeliveryView>>(200, "A page.")]),
    Route::post("/admin/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver", "redeliver", |call| {
        Box::pin(redeliver(call, DeliveriesAbout::Webhook))
    })
    .role(OperatorRole::Operator)
    .operation("adminRedeliver", "Send a delivery to a webhook of any client again.")
    .replies(&[Reply::json::<DeliveryView>(202, "On its way, or under way already.")])
    .refuses(&[Kind::IllegalTransition]),
    Route::get("/admin/v1/jobs/{job_id}/deliveries", "deliveries", |call| {
        Box::pin(list(call, DeliveriesAbout::Job))
    })
    .role(OperatorRole::Viewer)
    .operation("adminListDeliveriesOfJob", "List the deliveries about a job of any client, newest first.")
    .query(&[LIMIT, CURSOR])
    .replies(&[Reply::json::<AdminPage<DeliveryView>>(200, "A page.")]),
    Route::post("/admin/v1/jobs/{job_id}/deliveries/{delivery_id}/redeliver", "redeliver", |call| {
        Box::pin(redeliver(call, DeliveriesAbout::Job))
    })
    .role(OperatorRole::Operator)
    .operation("adminRedeliverOfJob", "Send a delivery about a job of any client again.")
    .replies(&[Reply::json::<DeliveryView>(202, "On its way, or under way already.")])
    .refuses(&[Kind::IllegalTransition, Kind::WebhookNotFound]),
];

#[derive(Clone, Copy, Debug)]
pub(in crate::dialects) enum DeliveriesAbout {
    Webhook,
    /// Those about the job in the path, to its callback and to webhooks.
    Job,
}

async fn list(call: Call<'_>, about: DeliveriesAbout) -> Result<Response, ApiError> {
    let query = call.query()?;
    Ok(respond::json(StatusCode::OK, &listed(&call, about, &query).await?))
}

async fn redeliver(call: Call<'_>, about: DeliveriesAbout) -> Result<Response, ApiError> {
    body::expect_object(&call.body)?;
    Ok(respond::json(StatusCode::ACCEPTED, &send_again(&call, about).await?))
}

/// A page of deliveries, newest first; the cursor is the last one.
pub(in crate::dialects) async fn listed(
    call: &Call<'_>,
    about: DeliveriesAbout,
    query: &QueryString,
) -> Result<AdminPage<DeliveryView>, ApiError> {
    let limit = query.limit()?;
    let before = match query.get("cursor").map(str::parse::<DeliveryId>) {
        None => None,
        Some(Ok(before)) => Some(before),
        Some(Err(_)) => return Err(query.malformed("cursor", "is no cursor of this list")),
    };
    let found = DeliveryScope::open(call, about).await?;
    let filter =
        DeliveryFilter { of: found.of, status: None, before, limit: limit + 1, look_max: LIST_ROWS_MAX };
    let page = call.app.engine.store().list_deliveries(filter).await?;
    let next_cursor = match page.rows.len() > limit {
        true => page.rows.get(limit - 1).map(|delivery| delivery.id),
        false => page.next,
    };
    let items = page.rows.iter().take(limit).map(|delivery| found.view(delivery)).collect();
    Ok(AdminPage { items, next_cursor: next_cursor.map(|id| id.to_string()) })
}

/// Repeats the delivery in the path.
pub(in crate::dialects) async fn send_again(
    call: &Call<'_>,
    about: DeliveriesAbout,
) -> Result<DeliveryView, ApiError> {
    let found = DeliveryScope::open(call, about).await?;
    let missing = || refused(Refusal::DeliveryNotFound);
    let delivery: DeliveryId = call.id("delivery_id").ok_or_else(missing)?;
    let known = call.app.engine.store().delivery(delivery).await?;
    known.filter(|known| found.has(known)).ok_or_else(missing)?;
    let again = DeliveryCommand::Redeliver { delivery, client: found.client };
    match call.app.engine.run(Command::Delivery(again)).await? {
        Answer::Delivery(sent) => {
            audit::note(call.exchange, "redeliver", &delivery.to_string());
            Ok(found.view(&sent))
        }
        _ => Err(ApiError::internal(Kind::Internal, "a command about a delivery was answered without one")),
    }
}

fn refused(refusal: Refusal) -> ApiError {
    forgerun_engine::Error::Refused(refusal).into()
}

/// The deliveries of a path, their owner, and the webhooks they may go to.
struct DeliveryScope {
    of: DeliveriesOf,
    client: ClientId,
    webhooks: Vec<Webhook>,
}

impl DeliveryScope {
    async fn open(call: &Call<'_>, about: DeliveriesAbout) -> Result<DeliveryScope, ApiError> {
        let store = call.app.engine.store();
        match about {
            DeliveriesAbout::Webhook => {
                let missing = || refused(Refusal::WebhookNotFound);
                let id: WebhookId = call.id("webhook_id").ok_or_else(missing)?;
                let webhook = store.webhook(id).await?.ok_or_else(missing)?;
                let (of, client) = (DeliveriesOf::Webhook(id), webhook.client);
                Ok(DeliveryScope { of, client, webhooks: vec![*webhook] })
            }
            DeliveriesAbout::Job => {
                let job = jobs::found(call).await?;
                let client = job.head.client;
                let webhooks = store.webhooks(client, None, WEBHOOKS_MAX).await?;
                Ok(DeliveryScope { of: DeliveriesOf::Job(job.id), client, webhooks })
            }
        }
    }

    fn has(&self, delivery: &Delivery) -> bool {
        match self.of {
            DeliveriesOf::Webhook(id) => delivery.to == Endpoint::Webhook(id),
            DeliveriesOf::Job(id) => delivery.job() == Some(id),
        }
    }

    fn view(&self, delivery: &Delivery) -> DeliveryView {
        let url = match &delivery.to {
            Endpoint::Callback(url) => Some(url),
            Endpoint::Webhook(id) => {
                self.webhooks.iter().find(|webhook| webhook.id == *id).map(|webhook| &webhook.url)
            }
        };
        DeliveryView::new(delivery, url.map(String::as_str))
    }
}
