//! Tenants of the caller: those whose queues have jobs or settings.

use std::collections::BTreeMap;

use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::job::Name;
use forgerun_core::queue::{Owner, QueueId};
use forgerun_core::rows::{Activity, Counts};
use forgerun_core::state::Facet;
use forgerun_wire::ojs::server::Pagination;
use forgerun_wire::problem::RefusedRequest;
use serde_json::{Value, json};

use super::queues::{numbers, offset};
use super::scope::{CLIENT, PAGE, Scope};
use super::{objects, reply};
use crate::app::App;
use crate::http::{
    ApiError,
    routing::{Call, Reply, Route},
};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/ojs/v1/admin/tenants", "tenants", |call| Box::pin(list(call)))
        .access(CLIENT)
        .operation("ojsListTenants", "List the tenants of the caller that have jobs.")
        .query(PAGE)
        .replies(&[Reply::object(200, "A page.", &objects::ITEMS)]),
    Route::get("/ojs/v1/admin/tenants/{tenant}", "tenants", |call| Box::pin(get(call)))
        .access(CLIENT)
        .operation("ojsGetTenant", "Get a tenant.")
        .replies(&[Reply::object(200, "The tenant.", &objects::FACTS)]),
    Route::get("/ojs/v1/admin/tenants/{tenant}/stats", "tenants", |call| Box::pin(stats(call)))
        .access(CLIENT)
        .operation("ojsGetTenantStats", "Get the numbers of a tenant.")
        .replies(&[Reply::object(200, "The numbers.", &objects::FACTS)]),
];

/// The tenant in the path.
pub(super) fn named(call: &Call<'_>) -> Result<Name, ApiError> {
    let name = call.text("tenant").into_owned();
    Name::new(&name).filter(|_| !name.contains('/')).ok_or_else(|| {
        RefusedRequest::new(Kind::JobNotFound, "There is no such tenant.")
            .fact("resource_type", "tenant")
            .into()
    })
}

/// The queues and jobs of a tenant.
#[derive(Default)]
struct Usage {
    n_queues: usize,
    counts: Counts,
}

async fn usage(app: &App, owner: &Owner) -> Result<Usage, ApiError> {
    let mut usage = Usage::default();
    for queue in app.engine.store().queues_of(owner).await? {
        usage.n_queues += 1;
        usage.counts.merge(&queue.counts);
    }
    Ok(usage)
}

fn view(name: &str, usage: &Usage) -> Value {
    let jobs = numbers(&usage.counts, Activity::default());
    json!({
        "id": name,
        "tenant_id": name,
        "name": name,
        "state": "active",
        "stats": {"queues": usage.n_queues, "jobs": jobs.counts()},
    })
}

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, query) = (call.app, call.query()?);
    let limit = query.limit()?;
    let skipped = offset(&query, limit)?;
    let client = Scope::of(&call)?.owner()?.client;
    let mut tenants: BTreeMap<Name, Usage> = BTreeMap::new();
    for queue in app.engine.store().queues_of_client(client).await? {
        let owner = QueueId::parse(&queue.queue).owner;
        if let Some(tenant) = owner.and_then(|owner| owner.tenant) {
            let usage = tenants.entry(tenant).or_default();
            usage.n_queues += 1;
            usage.counts.merge(&queue.counts);
        }
    }
    let page = Pagination::new(tenants.len() as u64, limit, skipped);
    let shown = tenants.iter().skip(skipped).take(limit);
    let items: Vec<Value> = shown.map(|(name, usage)| view(name.as_str(), usage)).collect();
    Ok(reply::ok(&json!({"tenants": items, "items": items, "pagination": page})))
}

async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let tenant = named(&call)?;
    let owner = Owner { tenant: Some(tenant.clone()), ..Scope::of(&call)?.owner()? };
    Ok(reply::ok(&view(tenant.as_str(), &usage(call.app, &owner).await?)))
}

async fn stats(call: Call<'_>) -> Result<Response, ApiError> {
    let tenant = named(&call)?;
    let owner = Owner { tenant: Some(tenant.clone()), ..Scope::of(&call)?.owner()? };
    let Usage { counts, .. } = usage(call.app, &owner).await?;
    let numbers = numbers(&counts, Activity::default());
    let n_jobs: i64 = Facet::ALL.iter().map(|facet| counts.at(*facet)).sum();
    Ok(reply::ok(&json!({
        "tenant_id": tenant.as_str(),
        "total_jobs": n_jobs.max(0),
        "available": numbers.available,
        "active": numbers.active,
        "completed": numbers.completed,
        "discarded": numbers.discarded,
    })))
}
