//! What axum does when nothing is stored, and the least it does when something is: the measure that
//! `forgerun bench http` holds the real handlers against. A program of its own, so that the one
//! that is shipped has none of it.
//!
//! Called as `forgerun-bare FOLDER [DATABASE_URL]`; says its address, and serves until it is
//! killed. With the URL of an empty PostgreSQL database it keeps and finds jobs there.

use std::io::Write as _;
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
use forgerun_store::{Error, postgres, sqlite};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).ok_or_else(|| std::io::Error::other("the folder is missing"))?;
    let folder = FsPath::new(&folder);
    std::fs::create_dir_all(folder)?;
    let floor = match std::env::args().nth(2) {
        None => AnyFloor::Sqlite(
            sqlite::SqliteFloor::make(&folder.join("floor.db")).map_err(std::io::Error::other)?,
        ),
        Some(url) => {
            AnyFloor::Postgres(postgres::PostgresFloor::make(&url).await.map_err(std::io::Error::other)?)
        }
    };
    serve(floor).await
}

/// The least that keeps a job.
enum AnyFloor {
    Sqlite(sqlite::SqliteFloor),
    Postgres(postgres::PostgresFloor),
}

impl AnyFloor {
    async fn write_job(&self, id: JobId, body: Bytes) -> Result<(), Error> {
        match self {
            AnyFloor::Sqlite(floor) => floor.write_job(id, body).await,
            AnyFloor::Postgres(floor) => floor.write_job(id, body).await,
        }
    }

    async fn end(&self, id: JobId) -> Result<(), Error> {
        match self {
            AnyFloor::Sqlite(floor) => floor.end(id).await,
            AnyFloor::Postgres(floor) => floor.end(id).await,
        }
    }

    fn n_ended(&self) -> u64 {
        match self {
            AnyFloor::Sqlite(floor) => floor.n_ended(),
            AnyFloor::Postgres(floor) => floor.n_ended(),
        }
    }
}

/// Serves a bare POST and GET, a POST that keeps what it gets, one that ends it besides, and a GET
/// that looks it up.
async fn serve(floor: AnyFloor) -> std::io::Result<()> {
    let floor = Arc::new(floor);
    let durable = post(keep).with_state(floor.clone());
    let router = Router::new()
        .route("/durable", durable)
        .route("/durable/{id}", get(find).with_state(floor.clone()))
        .route("/whole", post(keep_and_end).with_state(floor.clone()))
        .route("/metrics", get(count).with_state(floor))
        .route("/bare", post(accept))
        .route("/bare/{id}", get(show));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let told = format!("bare handlers on http://{}", listener.local_addr()?);
    let told = format!("{told}\nand for gRPC on {}", grpc::serve().await?);
    // Both lines at once: whoever started this reads the first, and has the second with it.
    std::io::stdout().write_all(format!("{told}\n").as_bytes())?;
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
async fn keep(State(floor): State<Arc<AnyFloor>>, body: Bytes) -> Result<Response, StatusCode> {
    Ok(accepted(kept(&floor, body).await?))
}

/// The same, and has it ended by a worker that costs nothing.
async fn keep_and_end(State(floor): State<Arc<AnyFloor>>, body: Bytes) -> Result<Response, StatusCode> {
    let id = kept(&floor, body).await?;
    floor.end(id).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(accepted(id))
}

async fn kept(floor: &AnyFloor, body: Bytes) -> Result<JobId, StatusCode> {
    serde_json::from_slice::<serde_json::Value>(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let id = next_id();
    floor.write_job(id, body).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(id)
}

/// How many jobs have ended, in the words of the real server.
async fn count(State(floor): State<Arc<AnyFloor>>) -> String {
    format!("jobs_succeeded_total {}\n", floor.n_ended())
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

/// One prepared select, and what it found.
async fn find(State(floor): State<Arc<AnyFloor>>, Path(id): Path<String>) -> Response {
    let (AnyFloor::Postgres(floor), Ok(id)) = (&*floor, id.parse::<JobId>()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match floor.find(id).await {
        Ok(Some(body)) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// The least that answers a gRPC call: the message is read, another is sent back, and nothing is
/// kept.
mod grpc {
    use std::convert::Infallible;
    use std::net::SocketAddr;

    use bytes::{BufMut, Bytes, BytesMut};
    use forgerun_wire::grpc::v1::{EnqueueRequest, EnqueueResponse, Job};
    use http_body_util::{BodyExt, Full};
    use hyper::body::Incoming;
    use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
    use hyper::server::conn::http2;
    use hyper::service::service_fn;
    use hyper::{Request, Response};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use prost::Message;
    use tokio::net::TcpListener;

    /// Bytes before a message: whether it is compressed, and its length.
    const PREFIX: usize = 5;

    pub(super) async fn serve() -> std::io::Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let connection = http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service_fn(answer));
                tokio::spawn(connection);
            }
        });
        Ok(address)
    }

    type Answer = Response<http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>>;

    async fn answer(request: Request<Incoming>) -> Result<Answer, hyper::Error> {
        let bytes = request.into_body().collect().await?.to_bytes();
        let status = match bytes.get(PREFIX..).map(EnqueueRequest::decode) {
            Some(Ok(_)) => "0",
            _ => "3",
        };
        let job = Job { id: super::next_id().to_string(), queue: "default".into(), ..Job::default() };
        let message = EnqueueResponse { job: Some(job) }.encode_to_vec();
        let mut body = BytesMut::with_capacity(PREFIX + message.len());
        body.put_u8(0);
        body.put_u32(message.len() as u32);
        body.put_slice(&message);
        let trailers = HeaderMap::from_iter([(
            "grpc-status".parse().expect("a name"),
            HeaderValue::from_static(status),
        )]);
        let body = Full::new(body.freeze()).with_trailers(async { Some(Ok(trailers)) });
        let mut response = Response::new(body.boxed_unsync());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        Ok(response)
    }
}
