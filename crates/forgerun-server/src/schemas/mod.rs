//! JSON Schemas of job types: registration and validation.
//!
//! | file | content |
//! |---|---|
//! | `cache.rs` | cached schemas, so that submissions need no query |
//!
//! Every dialect uses [`misfits`], through the checks of submissions: a schema is about a job type,
//! whatever the dialect.

mod cache;

use std::sync::Arc;

use forgerun_core::catalog::Kind;
use forgerun_core::command::SchemaCommand;
use forgerun_core::id::ClientId;
use forgerun_core::schema::{SchemaEntry, SchemaIndex, SchemaText};
use forgerun_core::{Answer, Command};
use forgerun_schema::limits::WORK_MAX;
use forgerun_schema::{InvalidSchema, Misfit, SchemaDocument, values};
use forgerun_wire::body::{refused, violation};
use forgerun_wire::ojs::kept::Kept;
use forgerun_wire::ojs::schema::SchemaRequest;
use serde_json::Value;

use crate::app::App;
use crate::http::ApiError;
use crate::limits::SCHEMA_WORK_AT_ONCE;
use crate::submission::Submission;

pub use cache::SchemaCache;

pub async fn register(app: &App, client: ClientId, request: SchemaRequest) -> Result<SchemaEntry, ApiError> {
    let SchemaRequest { job_type, version, uri, text } = request;
    check(app, client, &text, "schema").await?;
    asked(app, SchemaCommand::Register { client, job_type, version, uri, text }).await
}

/// Refuses a schema that is invalid or too costly; `place` names its member.
pub async fn check(app: &App, client: ClientId, text: &[u8], place: &str) -> Result<(), ApiError> {
    let parsed = parsed(app, client, text.to_vec()).await?;
    let unfit = match parsed {
        Ok(document) => document.too_costly().map(|detail| InvalidSchema { pointer: String::new(), detail }),
        Err(unfit) => Some(unfit),
    };
    if let Some(unfit) = unfit {
        let place = format!("{place}{}", unfit.pointer);
        return Err(
            refused(Kind::MalformedRequest, vec![violation(&place, &unfit.detail, "schema")], &[]).into()
        );
    }
    Ok(())
}

/// Parses a schema on a separate thread: compiling patterns can take a while.
async fn parsed(
    app: &App,
    client: ClientId,
    text: Vec<u8>,
) -> Result<Result<SchemaDocument, InvalidSchema>, ApiError> {
    app.schemas.apart(client, move || SchemaDocument::parse(&text)).await
}

/// The violations of a value by a schema that was accepted earlier.
pub async fn misfits_of(
    app: &App,
    client: ClientId,
    schema: Vec<u8>,
    value: &[u8],
) -> Result<Vec<Misfit>, ApiError> {
    match parsed(app, client, schema).await? {
        Ok(document) => judged(app, client, Arc::new(document), value).await,
        Err(unfit) => Ok(vec![Misfit { pointer: unfit.pointer, detail: unfit.detail }]),
    }
}

/// Deletes a schema; returns it.
pub async fn delete(
    app: &App,
    client: ClientId,
    job_type: String,
    version: String,
) -> Result<SchemaEntry, ApiError> {
    asked(app, SchemaCommand::Delete { client, job_type, version }).await
}

async fn asked(app: &App, command: SchemaCommand) -> Result<SchemaEntry, ApiError> {
    let (client, ..) = command.subject();
    let answer = app.engine.run(Command::Schema(command)).await;
    app.schemas.forget(client);
    match answer? {
        Answer::Schema(entry) => Ok(*entry),
        answer => unreachable!("a command about a schema was answered with {answer:?}"),
    }
}

pub async fn index(app: &App, client: ClientId) -> Result<SchemaIndex, ApiError> {
    let found: Option<SchemaIndex> = app.engine.store().record(client.to_string()).await?;
    Ok(found.unwrap_or_else(|| SchemaIndex::new(client)))
}

/// The text of a schema; `None` if it was deleted meanwhile.
pub async fn text(app: &App, client: ClientId, entry: &SchemaEntry) -> Result<Option<Vec<u8>>, ApiError> {
    let key = SchemaText::key_of(client, &entry.job_type, &entry.version);
    let found: Option<SchemaText> = app.engine.store().record(key).await?;
    Ok(found.map(|found| found.text))
}

/// The violations of a job's arguments. A job may name a schema by its address, or a version of its
/// type's. A job without a schema is valid.
pub async fn misfits(app: &App, submission: &Submission) -> Result<Vec<Misfit>, ApiError> {
    let head = &submission.head;
    let schemas = app.schemas.of(app, head.client).await?;
    let Some(index) = schemas.index() else { return Ok(Vec::new()) };
    let kept = Kept::of(&submission.input.extra);
    let text_of = |raw: &serde_json::value::RawValue| match serde_json::from_str(raw.get()) {
        Ok(Value::String(text)) => Some(text),
        Ok(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let named = kept.schema.and_then(text_of).and_then(|uri| index.by_uri(&uri).cloned());
    let version = kept.unknown.get("version").and_then(text_of);
    let of_type = || match version {
        Some(version) => index.find(&head.job_type, &version).cloned(),
        None => index.latest(&head.job_type).cloned(),
    };
    let Some(entry) = named.or_else(of_type) else { return Ok(Vec::new()) };
    let Some(document) = schemas.document(app, &entry).await? else { return Ok(Vec::new()) };
    judged(app, head.client, document, &submission.input.payload).await
}

/// Validates arguments; large ones on a separate thread.
async fn judged(
    app: &App,
    client: ClientId,
    document: Arc<SchemaDocument>,
    payload: &[u8],
) -> Result<Vec<Misfit>, ApiError> {
    let args: Value = match payload {
        [] => Value::Array(Vec::new()),
        payload => match serde_json::from_slice(payload) {
            Ok(args) => args,
            Err(error) => {
                let detail = format!("cannot be checked: {error}");
                return Ok(vec![Misfit { pointer: String::new(), detail }]);
            }
        },
    };
    let work = document.work(values(&args), payload.len());
    if work > WORK_MAX {
        let detail = "are too many to be checked by the schema of this type".to_owned();
        return Ok(vec![Misfit { pointer: String::new(), detail }]);
    }
    if work <= SCHEMA_WORK_AT_ONCE {
        return Ok(document.judge(&args, work));
    }
    app.schemas.apart(client, move || document.judge(&args, work)).await
}
