//! `schemas`: by address for SDKs, and by type and version for the published suite (D30).

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::Refusal;
use forgerun_core::catalog::Kind;
use forgerun_core::id::ClientId;
use forgerun_core::schema::SchemaEntry;
use forgerun_core::scope::KeyScope;
use forgerun_wire::ojs::schema::{SchemaReader, read_schema, read_schema_of, schema_answer, schema_view};
use forgerun_wire::ojs::server::Pagination;
use forgerun_wire::time;
use serde_json::{Value, json};

use super::queues::offset;
use super::scope::{CLIENT, PAGE, Scope};
use super::{objects, reply};
use crate::http::{
    ApiError,
    routing::{Call, Reply, Route},
};
use crate::schemas;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/ojs/v1/schemas", "list_schemas", |call| Box::pin(list(call)))
        .access(CLIENT)
        .operation("ojsListSchemas", "List the JSON Schemas of the caller.")
        .query(PAGE)
        .replies(&[Reply::object(200, "A page.", &objects::SCHEMAS)]),
    Route::get("/ojs/v1/admin/schemas", "list_schemas", |call| Box::pin(list(call)))
        .access(CLIENT)
        .operation("ojsListSchemasAdmin", "List the JSON Schemas of the caller.")
        .query(PAGE)
        .replies(&[Reply::object(200, "A page.", &objects::SCHEMAS)]),
    Route::post("/ojs/v1/schemas", "register_schema", |call| Box::pin(register(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .operation("ojsRegisterSchema", "Register a JSON Schema for the arguments of a type of jobs.")
        .body(&objects::SCHEMA)
        .replies(&[Reply::object(201, "Registered.", &objects::SCHEMA_VIEW)])
        .refuses(&[Kind::UnknownJobType, Kind::Duplicate]),
    Route::get("/ojs/v1/schemas/{name}", "get_schema", |call| Box::pin(get(call)))
        .access(CLIENT)
        .operation("ojsGetSchema", "Get the JSON Schema of a type of jobs.")
        .replies(&[Reply::object(200, "The schema.", &objects::SCHEMA_VIEW)])
        .refuses(&[Kind::RouteNotFound, Kind::JobNotFound]),
    Route::delete("/ojs/v1/schemas/{name}", "delete_schema", |call| Box::pin(delete(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .operation("ojsDeleteSchema", "Delete a JSON Schema.")
        .replies(&[Reply::object(200, "Deleted.", &objects::SCHEMA_VIEW)])
        .refuses(&[Kind::RouteNotFound, Kind::JobNotFound]),
    Route::get("/ojs/v1/schemas/{name}/versions", "list_schemas", |call| Box::pin(versions(call)))
        .access(CLIENT)
        .operation("ojsListVersions", "List the versions of a JSON Schema.")
        .replies(&[Reply::object(200, "The versions.", &objects::SCHEMAS)])
        .refuses(&[Kind::RouteNotFound, Kind::JobNotFound]),
    Route::delete("/ojs/v1/schemas/{name}/{version}", "delete_schema", |call| Box::pin(delete_version(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .operation("ojsDeleteVersion", "Delete a version of a JSON Schema.")
        .replies(&[Reply::object(200, "Deleted.", &objects::SCHEMA_VIEW)])
        .refuses(&[Kind::RouteNotFound, Kind::JobNotFound]),
    Route::get("/ojs/v1/admin/schemas/{name}", "get_schema", |call| Box::pin(get_latest(call)))
        .access(CLIENT)
        .operation("ojsGetSchemaAdmin", "Get the JSON Schema of a type of jobs.")
        .replies(&[Reply::object(200, "The schema.", &objects::SCHEMA_VIEW)])
        .refuses(&[Kind::RouteNotFound, Kind::JobNotFound]),
    Route::get("/ojs/v1/admin/schemas/{name}/versions", "list_schemas", |call| Box::pin(versions(call)))
        .access(CLIENT)
        .operation("ojsListVersionsAdmin", "List the versions of a JSON Schema.")
        .replies(&[Reply::object(200, "The versions.", &objects::SCHEMAS)])
        .refuses(&[Kind::RouteNotFound, Kind::JobNotFound]),
    Route::get("/ojs/v1/admin/schemas/{name}/{version}", "get_schema", |call| Box::pin(get_version(call)))
        .access(CLIENT)
        .operation("ojsGetVersion", "Get a version of a JSON Schema.")
        .replies(&[Reply::object(200, "The schema.", &objects::SCHEMA_VIEW)])
        .refuses(&[Kind::RouteNotFound, Kind::JobNotFound]),
    Route::put("/ojs/v1/admin/schemas/{name}/{version}", "register_schema", |call| Box::pin(put(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .operation("ojsPutSchema", "Register a version of a JSON Schema.")
        .body(&objects::SCHEMA)
        .replies(&[Reply::object(201, "Registered.", &objects::SCHEMA_VIEW)])
        .refuses(&[Kind::UnknownJobType, Kind::Duplicate]),
    Route::delete("/ojs/v1/admin/schemas/{name}/{version}", "delete_schema", |call| {
        Box::pin(delete_version(call))
    })
    .access(CLIENT)
    .scope(KeyScope::Manage)
    .operation("ojsDeleteVersionAdmin", "Delete a version of a JSON Schema.")
    .replies(&[Reply::object(200, "Deleted.", &objects::SCHEMA_VIEW)])
    .refuses(&[Kind::RouteNotFound, Kind::JobNotFound]),
];

fn client(call: &Call<'_>) -> Result<ClientId, ApiError> {
    Ok(Scope::of(call)?.owner()?.client)
}

fn not_found() -> ApiError {
    forgerun_engine::Error::Refused(Refusal::SchemaNotFound).into()
}

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let query = call.query()?;
    let limit = query.limit()?;
    let offset = offset(&query, limit)?;
    let index = schemas::index(call.app, client(&call)?).await?;
    let page = Pagination::new(index.entries.len() as u64, limit, offset);
    let shown = index.entries.iter().skip(offset).take(limit);
    let shown: Vec<Value> =
        shown.map(|entry| schema_view(entry, None, SchemaReader::Address).into()).collect();
    Ok(reply::ok(&json!({"schemas": shown, "items": shown, "count": shown.len(), "pagination": page})))
}

async fn register(call: Call<'_>) -> Result<Response, ApiError> {
    let request = read_schema(&call.body)?;
    let text = request.text.clone();
    let entry = schemas::register(call.app, client(&call)?, request).await?;
    Ok(reply::json(StatusCode::CREATED, &schema_answer(&entry, &text, SchemaReader::Address)))
}

async fn put(call: Call<'_>) -> Result<Response, ApiError> {
    let request = read_schema_of(&call.text("name"), &call.text("version"), &call.body)?;
    let text = request.text.clone();
    let entry = schemas::register(call.app, client(&call)?, request).await?;
    Ok(reply::json(StatusCode::CREATED, &schema_answer(&entry, &text, SchemaReader::Version)))
}

async fn shown(call: &Call<'_>, entry: &SchemaEntry, reader: SchemaReader) -> Result<Response, ApiError> {
    let text = schemas::text(call.app, client(call)?, entry).await?.ok_or_else(not_found)?;
    Ok(reply::ok(&schema_answer(entry, &text, reader)))
}

/// The schema in the path: by its address, or the newest of a type.
async fn named(call: &Call<'_>) -> Result<SchemaEntry, ApiError> {
    let index = schemas::index(call.app, client(call)?).await?;
    let name = call.text("name");
    index.by_uri(&name).or_else(|| index.latest(&name)).cloned().ok_or_else(not_found)
}

async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    shown(&call, &named(&call).await?, SchemaReader::Address).await
}

async fn get_latest(call: Call<'_>) -> Result<Response, ApiError> {
    shown(&call, &named(&call).await?, SchemaReader::Version).await
}

async fn get_version(call: Call<'_>) -> Result<Response, ApiError> {
    let index = schemas::index(call.app, client(&call)?).await?;
    let found = index.find(&call.text("name"), &call.text("version")).ok_or_else(not_found)?;
    shown(&call, found, SchemaReader::Version).await
}

async fn versions(call: Call<'_>) -> Result<Response, ApiError> {
    let index = schemas::index(call.app, client(&call)?).await?;
    let name = call.text("name");
    let newest = index.latest(&name).ok_or_else(not_found)?;
    let version = |entry: &SchemaEntry| {
        json!({
            "version": entry.version,
            "uri": entry.uri,
            "created_at": time::millis(entry.created_at),
            "is_latest": entry == newest,
        })
    };
    let versions: Vec<Value> = index.versions(&name).rev().map(version).collect();
    Ok(reply::ok(&json!({"type": name, "job_type": name, "versions": versions})))
}

/// Deletes the schema with this address. A type may have several schemas, so it is no address.
async fn delete(call: Call<'_>) -> Result<Response, ApiError> {
    let client = client(&call)?;
    let index = schemas::index(call.app, client).await?;
    let found = index.by_uri(&call.text("name")).cloned().ok_or_else(not_found)?;
    let gone = schemas::delete(call.app, client, found.job_type, found.version).await?;
    Ok(deleted(&gone))
}

async fn delete_version(call: Call<'_>) -> Result<Response, ApiError> {
    let (job_type, version) = (call.text("name").into_owned(), call.text("version").into_owned());
    let gone = schemas::delete(call.app, client(&call)?, job_type, version).await?;
    Ok(deleted(&gone))
}

fn deleted(entry: &SchemaEntry) -> Response {
    let mut view = schema_view(entry, None, SchemaReader::Version);
    view.insert("deleted".into(), true.into());
    reply::ok(&view)
}
