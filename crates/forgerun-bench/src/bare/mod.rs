//! The handlers that the server is compared with: what axum does when nothing is stored, and the least it does when a job
//! is stored durably. A process of its own, like the server.

mod grpc;

use std::io::{self, Write as _};
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
use forgerun_core::id::JobId;
use tokio::net::TcpListener;

use crate::baseline::Baseline;

/// Prints its addresses, and serves until it is killed.
pub(crate) async fn run(folder: &FsPath, database_url: Option<&str>) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    serve(Baseline::create(folder, database_url).await?).await
}

/// Routes: a bare POST and GET, a POST that stores its body, one that also ends the job, and a GET
/// that looks it up.
async fn serve(baseline: Baseline) -> io::Result<()> {
    let baseline = Arc::new(baseline);
    let durable = post(store).with_state(baseline.clone());
    let router = Router::new()
        .route("/durable", durable)
        .route("/durable/{id}", get(find).with_state(baseline.clone()))
        .route("/whole", post(store_and_end).with_state(baseline.clone()))
        .route("/metrics", get(count).with_state(baseline))
        .route("/bare", post(accept))
        .route("/bare/{id}", get(show));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let lines = format!("bare handlers on http://{}", listener.local_addr()?);
    let lines = format!("{lines}\nand for gRPC on {}", grpc::serve().await?);
    // Both lines at once: the parent reads the first, and has the second with it.
    io::stdout().write_all(format!("{lines}\n").as_bytes())?;
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
async fn store(State(baseline): State<Arc<Baseline>>, body: Bytes) -> Result<Response, StatusCode> {
    Ok(accepted(stored(&baseline, body).await?))
}

/// The same, and ends the job as a worker would that costs nothing.
async fn store_and_end(State(baseline): State<Arc<Baseline>>, body: Bytes) -> Result<Response, StatusCode> {
    let id = stored(&baseline, body).await?;
    baseline.end(id).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(accepted(id))
}

async fn stored(baseline: &Baseline, body: Bytes) -> Result<JobId, StatusCode> {
    serde_json::from_slice::<serde_json::Value>(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let id = next_id();
    baseline.write_job(id, body).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(id)
}

/// The metric of the real server that counts ended jobs.
async fn count(State(baseline): State<Arc<Baseline>>) -> String {
    format!("jobs_succeeded_total {}\n", baseline.n_ended())
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

/// One prepared select, and the body it found.
async fn find(State(baseline): State<Arc<Baseline>>, Path(id): Path<String>) -> Response {
    let (Baseline::Postgres(baseline), Ok(id)) = (&*baseline, id.parse::<JobId>()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match baseline.find(id).await {
        Ok(Some(body)) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}
