//! Deliveries to a webhook or about a job: lists, details, repetition.

use forgerun_core::catalog::Kind;
use forgerun_core::scope::KeyScope;
use forgerun_wire::request;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::command::DeliveryCommand;
use forgerun_core::delivery::{Delivery, Endpoint};
use forgerun_core::id::DeliveryId;
use forgerun_core::limits::WEBHOOKS_MAX;
use forgerun_core::webhook::Webhook;
use forgerun_core::{Answer, Command, Refusal};
use forgerun_engine::PreparedDelivery;
use forgerun_wire::forge::{DeliveriesView, DeliveryView, parse_delivery_status};

use super::webhooks::{cursor, odd, owned, refused, run};
use crate::app::{DeliveriesOf, DeliveryFilter};
use crate::auth::ownership;
use crate::http::{
    ApiError, body, respond,
    routing::{
        Call, Reply, Route,
        operation::{CURSOR, LIMIT, Parameter},
    },
};
use crate::limits::LIST_ROWS_MAX;
use crate::webhooks::Contents;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/v1/webhooks/{webhook_id}/deliveries", "deliveries", |call| {
        Box::pin(list(call, DeliveriesAsked::Webhook))
    })
    .operation("listDeliveries", "List the deliveries to a webhook, newest first.")
    .query(&[STATUS, LIMIT, CURSOR])
    .replies(&[Reply::json::<DeliveriesView>(200, "A page.")]),
    Route::get("/v1/webhooks/{webhook_id}/deliveries/{delivery_id}", "deliveries", |call| {
        Box::pin(show(call, DeliveriesAsked::Webhook))
    })
    .operation("getDelivery", "Get a delivery to a webhook, with all that it sends.")
    .replies(&[Reply::json::<DeliveryView>(200, "The delivery.")]),
    Route::post("/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver", "redeliver", |call| {
        Box::pin(redeliver(call, DeliveriesAsked::Webhook))
    })
    .scope(KeyScope::Manage)
    .operation("redeliver", "Send a delivery to a webhook again.")
    .replies(&[Reply::json::<DeliveryView>(202, "On its way, or under way already.")])
    .refuses(&[Kind::IllegalTransition]),
    Route::get("/v1/jobs/{job_id}/deliveries", "deliveries", |call| {
        Box::pin(list(call, DeliveriesAsked::Job))
    })
    .operation("listDeliveriesOfJob", "List the deliveries about a job, newest first.")
    .query(&[STATUS, LIMIT, CURSOR])
    .replies(&[Reply::json::<DeliveriesView>(200, "A page.")]),
    Route::get("/v1/jobs/{job_id}/deliveries/{delivery_id}", "deliveries", |call| {
        Box::pin(show(call, DeliveriesAsked::Job))
    })
    .operation("getDeliveryOfJob", "Get a delivery about a job, with all that it sends.")
    .replies(&[Reply::json::<DeliveryView>(200, "The delivery.")]),
    Route::post("/v1/jobs/{job_id}/deliveries/{delivery_id}/redeliver", "redeliver", |call| {
        Box::pin(redeliver(call, DeliveriesAsked::Job))
    })
    .scope(KeyScope::Manage)
    .operation("redeliverOfJob", "Send a delivery about a job again.")
    .replies(&[Reply::json::<DeliveryView>(202, "On its way, or under way already.")])
    .refuses(&[Kind::IllegalTransition, Kind::WebhookNotFound]),
];

/// How far deliveries are.
const STATUS: Parameter = Parameter::new("status", "Only deliveries that are this far.")
    .schema(|| request::words(&["pending", "delivered", "failed"]));

/// Whose deliveries are asked for.
#[derive(Clone, Copy, Debug)]
enum DeliveriesAsked {
    Webhook,
    /// Those about the job in the path, to its callback and to webhooks.
    Job,
}

/// Newest first.
async fn list(call: Call<'_>, of: DeliveriesAsked) -> Result<Response, ApiError> {
    let app = call.app;
    let query = call.query()?;
    let (limit, before) = (query.limit()?, cursor::<DeliveryId>(&query)?);
    let status = match query.get("status") {
        Some(word) => Some(
            parse_delivery_status(word)
                .ok_or_else(|| query.invalid("status", "must be pending, delivered or failed"))?,
        ),
        None => None,
    };
    let shelf = OwnedDeliveries::open(&call, of).await?;
    // One more than is shown indicates whether there are more.
    let filter = DeliveryFilter { of: shelf.of, status, before, limit: limit + 1, look_max: LIST_ROWS_MAX };
    let page = app.engine.store().list_deliveries(filter).await?;
    let next_cursor = match page.rows.len() > limit {
        true => page.rows.get(limit - 1).map(|delivery| delivery.id),
        // Page not full, but not everything was examined: the client may continue from here.
        false => page.next,
    };
    let next_cursor = next_cursor.map(|id| id.to_string());
    let deliveries = page.rows.iter().take(limit).map(|delivery| shelf.view(delivery)).collect();
    Ok(respond::json(StatusCode::OK, &DeliveriesView { deliveries, next_cursor }))
}

/// One delivery, with all that an attempt sends except its time and signatures.
async fn show(call: Call<'_>, of: DeliveriesAsked) -> Result<Response, ApiError> {
    let app = call.app;
    let shelf = OwnedDeliveries::open(&call, of).await?;
    let delivery = shelf.find(&call).await?;
    let mut view = shelf.view(&delivery);
    let webhook = shelf.webhook(&delivery).cloned().map(Arc::new);
    // The envelope of a deleted webhook is unknown.
    if webhook.is_some() || matches!(delivery.to, Endpoint::Callback(_)) {
        let prepared = PreparedDelivery::read(&**app.engine.store(), *delivery, webhook).await?;
        let prepared = prepared.ok_or_else(|| refused(Refusal::DeliveryNotFound))?;
        let contents = Contents::new(&prepared, app.source());
        let headers = contents.headers();
        let headers = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        view = view.showing(headers, &contents.body);
    }
    Ok(respond::json(StatusCode::OK, &view))
}

async fn redeliver(call: Call<'_>, of: DeliveriesAsked) -> Result<Response, ApiError> {
    body::expect_object(&call.body)?;
    let shelf = OwnedDeliveries::open(&call, of).await?;
    let delivery = shelf.find(&call).await?.id;
    let again = DeliveryCommand::Redeliver { delivery, client: call.caller().client };
    match run(call.app, Command::Delivery(again)).await? {
        Answer::Delivery(delivery) => Ok(respond::json(StatusCode::ACCEPTED, &shelf.view(&delivery))),
        answer => Err(odd(&answer)),
    }
}

/// The caller's deliveries, and the webhooks they may go to.
struct OwnedDeliveries {
    of: DeliveriesOf,
    webhooks: Vec<Webhook>,
}

impl OwnedDeliveries {
    /// Checks that the webhook or job is the caller's.
    async fn open(call: &Call<'_>, of: DeliveriesAsked) -> Result<OwnedDeliveries, ApiError> {
        let (app, caller) = (call.app, call.caller());
        match of {
            DeliveriesAsked::Webhook => {
                let webhook = owned(call).await?;
                Ok(OwnedDeliveries { of: DeliveriesOf::Webhook(webhook.id), webhooks: vec![*webhook] })
            }
            DeliveriesAsked::Job => {
                let job = ownership::job(app, caller, call.job()).await?.id;
                let webhooks = app.engine.store().webhooks(caller.client, None, WEBHOOKS_MAX).await?;
                Ok(OwnedDeliveries { of: DeliveriesOf::Job(job), webhooks })
            }
        }
    }

    /// The delivery in the path, if it belongs here. A malformed id is an unknown one (C-52).
    async fn find(&self, call: &Call<'_>) -> Result<Box<Delivery>, ApiError> {
        let missing = || refused(Refusal::DeliveryNotFound);
        let id = call.id::<DeliveryId>("delivery_id").ok_or_else(missing)?;
        let known = call.app.engine.store().delivery(id).await?;
        let here = |known: &Delivery| match self.of {
            DeliveriesOf::Webhook(id) => known.to == Endpoint::Webhook(id),
            DeliveriesOf::Job(id) => known.job() == Some(id),
        };
        known.filter(|known| here(known)).ok_or_else(missing)
    }

    /// Its webhook; `None` for a callback, and for a deleted webhook.
    fn webhook(&self, delivery: &Delivery) -> Option<&Webhook> {
        self.webhooks.iter().find(|webhook| delivery.to == Endpoint::Webhook(webhook.id))
    }

    fn view(&self, delivery: &Delivery) -> DeliveryView {
        let url = match &delivery.to {
            Endpoint::Callback(url) => Some(url),
            Endpoint::Webhook(_) => self.webhook(delivery).map(|webhook| &webhook.url),
        };
        DeliveryView::new(delivery, url.map(String::as_str))
    }
}
