//! What was sent to a webhook, or about a job: lists, one delivery with all that it sends, and sending it again.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use forge_core::command::DeliveryCommand;
use forge_core::delivery::{Delivery, Endpoint};
use forge_core::id::{DeliveryId, JobId, WebhookId};
use forge_core::limits::WEBHOOKS_MAX;
use forge_core::webhook::Webhook;
use forge_core::{Answer, Command, Refusal};
use forge_engine::PreparedDelivery;
use forge_wire::forge::{DeliveriesView, DeliveryView, parse_delivery_status};

use super::webhooks::{cursor, odd, owned, refused, run};
use crate::app::{App, DeliveriesOf, DeliveryFilter};
use crate::edge::query::Query;
use crate::edge::{ApiError, Caller, Exchange, body, ownership, respond};
use crate::webhooks::Contents;

/// Whose deliveries are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    /// Those to a webhook.
    Webhook(Option<WebhookId>),
    /// Those about a job, to its callback and to webhooks.
    Job(Option<JobId>),
}

/// Newest first.
pub(super) async fn list(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    of: Of,
) -> Result<Response, ApiError> {
    let query = Query::of(&exchange.uri, &["status", "limit", "cursor"])?;
    let (limit, before) = (query.limit()?, cursor::<DeliveryId>(&query)?);
    let status = match query.get("status") {
        Some(word) => Some(
            parse_delivery_status(word)
                .ok_or_else(|| query.invalid("status", "must be pending, delivered or failed"))?,
        ),
        None => None,
    };
    let shelf = Shelf::open(app, caller, of).await?;
    // One more than is shown tells whether there are more.
    let filter = DeliveryFilter { of: shelf.of, status, before, limit: limit + 1 };
    let mut deliveries = app.engine.store().deliveries(filter).await?;
    let more = deliveries.len() > limit;
    deliveries.truncate(limit);
    let next_cursor = deliveries.last().filter(|_| more).map(|delivery| delivery.id.to_string());
    let deliveries = deliveries.iter().map(|delivery| shelf.view(delivery)).collect();
    Ok(respond::json(StatusCode::OK, &DeliveriesView { deliveries, next_cursor }))
}

/// One, with all that an attempt sends but its moment and its signatures.
pub(super) async fn show(
    app: &App,
    caller: &Caller,
    of: Of,
    id: Option<DeliveryId>,
) -> Result<Response, ApiError> {
    let shelf = Shelf::open(app, caller, of).await?;
    let delivery = shelf.find(app, id).await?;
    let mut view = shelf.view(&delivery);
    let webhook = shelf.webhook(&delivery).cloned().map(Arc::new);
    // How a webhook that was deleted wanted it wrapped, nobody knows any more.
    if webhook.is_some() || matches!(delivery.to, Endpoint::Callback(_)) {
        let parcel = PreparedDelivery::read(&**app.engine.store(), *delivery, webhook).await?;
        let parcel = parcel.ok_or_else(|| refused(Refusal::DeliveryNotFound))?;
        let contents = Contents::new(&parcel, app.source());
        let headers = contents.headers();
        let headers = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        view = view.showing(headers, &contents.body);
    }
    Ok(respond::json(StatusCode::OK, &view))
}

/// Sends one again.
pub(super) async fn redeliver(
    app: &App,
    caller: &Caller,
    of: Of,
    id: Option<DeliveryId>,
    bytes: &Bytes,
) -> Result<Response, ApiError> {
    body::expect_object(bytes)?;
    let shelf = Shelf::open(app, caller, of).await?;
    let delivery = shelf.find(app, id).await?.id;
    let again = DeliveryCommand::Redeliver { delivery, client: caller.client };
    match run(app, Command::Delivery(again)).await? {
        Answer::Delivery(delivery) => Ok(respond::json(StatusCode::ACCEPTED, &shelf.view(&delivery))),
        answer => Err(odd(&answer)),
    }
}

/// Deliveries of the caller, and the webhooks they may go to.
struct Shelf {
    of: DeliveriesOf,
    webhooks: Vec<Webhook>,
}

impl Shelf {
    /// The shelf, if it is the caller's.
    async fn open(app: &App, caller: &Caller, of: Of) -> Result<Shelf, ApiError> {
        match of {
            Of::Webhook(id) => {
                let webhook = owned(app, caller, id).await?;
                Ok(Shelf { of: DeliveriesOf::Webhook(webhook.id), webhooks: vec![*webhook] })
            }
            Of::Job(id) => {
                let job = ownership::job(app, caller, id).await?.id;
                let webhooks = app.engine.store().webhooks(caller.client, None, WEBHOOKS_MAX).await?;
                Ok(Shelf { of: DeliveriesOf::Job(job), webhooks })
            }
        }
    }

    /// The delivery, if it stands here. An id that is none is an id of nothing (C-52).
    async fn find(&self, app: &App, id: Option<DeliveryId>) -> Result<Box<Delivery>, ApiError> {
        let missing = || refused(Refusal::DeliveryNotFound);
        let known = app.engine.store().delivery(id.ok_or_else(missing)?).await?;
        let here = |known: &Delivery| match self.of {
            DeliveriesOf::Webhook(id) => known.to == Endpoint::Webhook(id),
            DeliveriesOf::Job(id) => known.job() == Some(id),
        };
        known.filter(|known| here(known)).ok_or_else(missing)
    }

    /// The webhook it goes to; `None` for a callback, and for a webhook that was deleted.
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
