//! What axum does when nothing is stored: the measure that the real handlers are held against.

use std::net::SocketAddr;
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

/// Serves a bare POST and GET until the process ends, and a POST that keeps what it gets in a file in `data`.
pub(super) async fn serve(data: &FsPath) -> std::io::Result<SocketAddr> {
    std::fs::create_dir_all(data)?;
    let floor = Floor::make(&data.join("floor.db")).map_err(std::io::Error::other)?;
    let durable = post(keep).with_state(Arc::new(floor));
    let router =
        Router::new().route("/durable", durable).route("/bare", post(accept)).route("/bare/{id}", get(show));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "the bare server ended");
        }
    });
    Ok(address)
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
