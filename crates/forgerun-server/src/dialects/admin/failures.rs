//! Failure groups. A list reads counters, however many failures there are.

use forgerun_wire::request;
use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::failure::{FailureBatch, FailureGroup, FailureId, FailureIndex};
use forgerun_core::record::Stored;
use forgerun_core::time::Time;
use forgerun_wire::admin::{AdminPage, FailureGroupView};
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::time;

use crate::app::App;
use crate::auth::OperatorRole;
use crate::http::{
    ApiError,
    query::QueryString,
    respond,
    routing::{
        Call, Reply, Route,
        operation::{CURSOR, LIMIT, Parameter},
    },
};
use crate::limits::{FAILURE_BATCHES_READ_MAX, FAILURE_READS_MAX, PAGE_MAX};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/admin/v1/failures", "failures", |call| Box::pin(list(call)))
        .role(OperatorRole::Viewer)
        .operation("adminListFailures", "List failures by their reason, those seen last first.")
        .query(&[SINCE, LIMIT, CURSOR])
        .replies(&[Reply::json::<AdminPage<FailureGroupView>>(200, "A page.")]),
    Route::get("/admin/v1/failures/{group}", "failures", |call| Box::pin(get(call)))
        .role(OperatorRole::Viewer)
        .operation("adminGetFailures", "Get one group of failures.")
        .replies(&[Reply::json::<FailureGroupView>(200, "The group.")]),
];

/// The groups of late.
const SINCE: Parameter =
    Parameter::new("since", "Only groups that were seen at this moment or later.").schema(request::time);

/// `GET /admin/v1/failures?since=…`, the group seen last first. The cursor is the place of the last
/// group.
async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    Ok(respond::json(StatusCode::OK, &listed(&call).await?))
}

pub(in crate::dialects) async fn listed(call: &Call<'_>) -> Result<AdminPage<FailureGroupView>, ApiError> {
    let query = call.query()?;
    let limit = query.limit()?;
    let since = moment(&query, "since")?;
    let before = match query.get("cursor").map(place) {
        None => None,
        Some(Some(place)) => Some(place),
        Some(None) => return Err(query.malformed("cursor", "is no cursor of this list")),
    };
    let mut groups = all(call.app).await?;
    groups.retain(|group| since.is_none_or(|since| group.last_at >= since));
    groups.sort_unstable_by_key(|group| std::cmp::Reverse((group.last_at, group.id)));
    groups.retain(|group| before.is_none_or(|before| (group.last_at, group.id) < before));
    let more = groups.len() > limit;
    groups.truncate(limit);
    let next_cursor = groups.last().filter(|_| more);
    let next_cursor = next_cursor.map(|last| format!("{}-{}", last.last_at.as_micros(), last.id));
    let now = call.app.clock.now();
    let items = groups.iter().map(|group| FailureGroupView::new(group, &call.app.base, now)).collect();
    Ok(AdminPage { items, next_cursor })
}

/// A moment in the query.
pub(super) fn moment(query: &QueryString, name: &str) -> Result<Option<Time>, ApiError> {
    match query.get(name).map(time::parse) {
        None => Ok(None),
        Some(Some(moment)) => Ok(Some(moment)),
        Some(None) => Err(query.malformed(name, "must be a time as in RFC 3339")),
    }
}

fn place(cursor: &str) -> Option<(Time, FailureId)> {
    let (micros, id) = cursor.rsplit_once('-')?;
    Some((Time::from_micros(micros.parse().ok()?), id.parse().ok()?))
}

/// `GET /admin/v1/failures/{group}`.
async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    Ok(respond::json(StatusCode::OK, &shown(&call).await?))
}

/// The group in the path, as a view.
pub(in crate::dialects) async fn shown(call: &Call<'_>) -> Result<FailureGroupView, ApiError> {
    let group = named(call).await?;
    Ok(FailureGroupView::new(&group, &call.app.base, call.app.clock.now()))
}

pub(super) async fn named(call: &Call<'_>) -> Result<FailureGroup, ApiError> {
    let id: FailureId = call.id("group").ok_or_else(not_found)?;
    let groups = all(call.app).await?;
    groups.into_iter().find(|group| group.id == id).ok_or_else(not_found)
}

fn not_found() -> ApiError {
    let refused = RefusedRequest::new(Kind::JobNotFound, "There is no such group of failures.");
    refused.fact("resource_type", "failure_group").blank().into()
}

/// All groups, with failures that are not added to them yet. Groups and batches are read one after
/// the other; if a batch is added in between, they are read again.
async fn all(app: &App) -> Result<Vec<FailureGroup>, ApiError> {
    let store = app.engine.store();
    let n_folds = async || {
        let index: Option<FailureIndex> = store.record(FailureIndex::KEY.to_owned()).await?;
        Ok::<_, ApiError>(index.map_or(0, |index| index.n_folds))
    };
    let mut before = n_folds().await?;
    for _ in 0..FAILURE_READS_MAX {
        let groups: Vec<FailureGroup> = records(app, usize::MAX).await?;
        let mut by_id: BTreeMap<FailureId, FailureGroup> =
            groups.into_iter().map(|group| (group.id, group)).collect();
        for batch in records::<FailureBatch>(app, FAILURE_BATCHES_READ_MAX).await? {
            for added in batch.groups {
                match by_id.get_mut(&added.id) {
                    Some(group) => group.merge(&added),
                    None => drop(by_id.insert(added.id, added)),
                }
            }
        }
        let after = n_folds().await?;
        if after == before {
            return Ok(by_id.into_values().collect());
        }
        before = after;
    }
    // Under constant failures the numbers are slightly old, but never count a failure twice.
    records(app, usize::MAX).await
}

async fn records<T: Stored>(app: &App, max: usize) -> Result<Vec<T>, ApiError> {
    let (mut found, mut after): (Vec<T>, String) = (Vec::new(), String::new());
    while found.len() < max {
        let page: Vec<T> = app.engine.store().records(None, after, PAGE_MAX).await?;
        let Some(last) = page.last() else { break };
        after = last.key();
        found.extend(page);
    }
    Ok(found)
}
