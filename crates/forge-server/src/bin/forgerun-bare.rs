//! What axum does when nothing is stored, and the least it does when something is: the measure that `forgerun bench http` holds
//! the real handlers against. A program of its own, so that the one that is shipped has none of it.
//!
//! Called as `forgerun-bare FOLDER`; says its address, and serves until it is killed.

use std::path::Path as FsPath;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use forge_core::id::JobId;
use forge_store::sqlite::Floor;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).ok_or_else(|| std::io::Error::other("the folder is missing"))?;
    let folder = FsPath::new(&folder);
    std::fs::create_dir_all(folder)?;
    serve(folder).await
}

/// Serves a bare POST and GET, and a POST that keeps what it gets in a file in `data`.
async fn serve(data: &FsPath) -> std::io::Result<()> {
    let floor = Floor::make(&data.join("floor.db")).map_err(std::io::Error::other)?;
    let durable = post(keep).with_state(Arc::new(floor));
    let router =
        Router::new().route("/durable", durable).route("/bare", post(accept)).route("/bare/{id}", get(show));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("bare handlers on http://{}", listener.local_addr()?);
    axum::serve(listener, router).await
}

static N_ACCEPTED: AtomicU64 = AtomicU64::new(0);

/// Parses the body and answers 202 with an id, as a submission does, but forgets it.
async fn accept(body: Bytes) -> Response {
    match serde_json::from_slice::<serde_json::Value>(&body) {
        Ok(_) => accepted(next_id()),
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

/// The same, but answers when the job is on the disk.
async fn keep(State(floor): State<Arc<Floor>>, body: Bytes) -> Response {
    if serde_json::from_slice::<serde_json::Value>(&body).is_err() {
        return StatusCode::BAD_REQUEST.into_response();
    }
    let id = next_id();
    match floor.keep(id, body).await {
        Ok(()) => accepted(id),
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

fn next_id() -> JobId {
    JobId::v7(0, u128::from(N_ACCEPTED.fetch_add(1, Ordering::Relaxed)))
}

fn accepted(id: JobId) -> Response {
    let body =
        format!("{{\"job_id\":\"{id}\",\"state\":\"QUEUED\",\"created_at\":\"2026-01-01T00:00:00.000Z\"}}");
    (StatusCode::ACCEPTED, [(CONTENT_TYPE, "application/json")], body).into_response()
}

async fn show(Path(id): Path<String>) -> Response {
    let body =
        format!("{{\"job_id\":\"{id}\",\"state\":\"QUEUED\",\"created_at\":\"2026-01-01T00:00:00.000Z\"}}");
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}
