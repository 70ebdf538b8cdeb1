//! What callers can make the server hold over gRPC: messages that never end, and answers that are
//! not read.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tonic::Code;
use tonic::body::Body;
use tower_service::Service;

use super::*;

/// A body that begins with these bytes and never ends.
fn half(bytes: Vec<u8>) -> Body {
    let first = tokio_stream::once(Ok::<_, Status>(Frame::data(Bytes::from(bytes))));
    Body::new(StreamBody::new(first.chain(tokio_stream::pending())))
}

/// The first bytes of a message that announces `n_announced`.
fn announced(n_announced: u32, n_sent: usize) -> Vec<u8> {
    [&[0][..], &n_announced.to_be_bytes(), &vec![0; n_sent]].concat()
}

fn posted(path: &str, body: Body) -> axum::http::Request<Body> {
    let request = axum::http::Request::post(path).header("content-type", "application/grpc");
    request.header("te", "trailers").body(body).unwrap()
}

fn code(response: &axum::http::Response<Incoming>) -> Code {
    Status::from_header_map(response.headers()).expect("a refusal is in the head").code()
}

const HEALTH: &str = "/grpc.health.v1.Health/Check";
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

#[tokio::test]
async fn messages_of_strangers_are_small_and_have_a_bound_together() {
    let world = World::start().await;
    let mut channel = Channel::connect(world.address).await;
    for path in [HEALTH, "/ojs.v1.OJSService/Manifest"] {
        let response = channel.call(posted(path, half(announced(1 << 20, 9 * 1024)))).await.unwrap();
        assert_eq!(code(&response), Code::ResourceExhausted, "{path}");
    }
    // Each is within its own bound, and together they are not.
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..200 {
        calls.spawn(channel.call(posted(HEALTH, half(announced(8 * 1024, 6 * 1024)))));
    }
    let refused = timeout(Duration::from_secs(9), calls.join_next()).await;
    let refused = refused.expect("before any of them takes too long").unwrap().unwrap().unwrap();
    assert_eq!(code(&refused), Code::ResourceExhausted);
    assert!(world.server.app.incoming.n_bytes() <= 1024 * 1024);
    assert!(!world.push("q").await.id.is_empty(), "clients are served");
}

#[tokio::test]
async fn reflection_takes_small_messages_and_few_calls() {
    let world = World::start().await;
    let mut channel = Channel::connect(world.address).await;
    for (message, code) in [
        (announced(1 << 20, 0), Code::ResourceExhausted),
        (announced(4 << 10, 4 << 10), Code::InvalidArgument),
        (vec![0, 0, 0, 0, 2, 0xff, 0xff], Code::InvalidArgument),
    ] {
        let refused = channel.call(posted(REFLECTION, half(message))).await.unwrap();
        let body = http_body_util::BodyExt::collect(refused.into_body());
        let ended = timeout(Duration::from_secs(9), body).await.expect("refused at once").unwrap();
        let status = ended.trailers().and_then(Status::from_header_map).expect("the status comes last");
        assert_eq!(status.code(), code, "{status}");
        assert!(!status.message().is_empty());
        assert!(ended.to_bytes().is_empty(), "nothing is answered");
    }
    let mut open = Vec::new();
    let refused = loop {
        assert!(open.len() < 40, "there is no bound");
        let response = channel.call(posted(REFLECTION, half(announced(100, 0)))).await.unwrap();
        match Status::from_header_map(response.headers()) {
            Some(status) => break status.code(),
            None => open.push(response),
        }
    };
    assert_eq!(refused, Code::ResourceExhausted);
    assert!(open.len() > 20, "{}", open.len());
}

/// A connection on which nothing of any answer fits, and the job whose view is asked for there: 900
/// kB.
struct ClosedWindow {
    job: String,
    sender: http2::SendRequest<Body>,
    connection: tokio::task::JoinHandle<hyper::Result<()>>,
}

impl ClosedWindow {
    async fn open(world: &World) -> ClosedWindow {
        let text = prost_types::value::Kind::StringValue("x".repeat(900_000));
        let args = vec![prost_types::Value { kind: Some(text) }];
        let request = v1::EnqueueRequest { r#type: "a".into(), args, options: None };
        let job = world.ojs().await.enqueue(world.request(request)).await.unwrap().into_inner().job.unwrap();
        let stream = TcpStream::connect(world.address).await.unwrap();
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.initial_stream_window_size(0);
        let (sender, connection) = http.handshake::<_, Body>(TokioIo::new(stream)).await.unwrap();
        ClosedWindow { job: job.id, sender, connection: tokio::spawn(connection) }
    }

    async fn ask(&mut self, world: &World) -> axum::http::Response<Incoming> {
        let message = prost::Message::encode_to_vec(&v1::GetJobRequest { job_id: self.job.clone() });
        let framed = [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat();
        let mut request = posted("/", Body::new(http_body_util::Full::new(Bytes::from(framed))));
        let uri = format!("http://{}/ojs.v1.OJSService/GetJob", world.address);
        *request.uri_mut() = uri.parse().unwrap();
        let bearer = format!("Bearer {}", world.client.key).parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        self.sender.send_request(request).await.unwrap()
    }
}

#[tokio::test]
async fn answers_that_are_not_read_have_a_bound() {
    let world = World::with(&[("limits.write_stall_s", "3600")]).await;
    let mut window = ClosedWindow::open(&world).await;
    let mut answers = Vec::new();
    let refused = loop {
        assert!(answers.len() < 60, "there is no bound");
        let response = window.ask(&world).await;
        match Status::from_header_map(response.headers()) {
            Some(status) => break status.code(),
            None => answers.push(response),
        }
    };
    assert_eq!(refused, Code::ResourceExhausted);
    let held = world.server.app.unread.n_bytes();
    assert!(held <= 32 * 1024 * 1024, "{held} bytes held by {} answers", answers.len());
}

#[tokio::test]
async fn a_connection_whose_answers_are_not_read_ends_and_frees_them() {
    let world = World::with(&[("limits.write_stall_s", "1")]).await;
    let mut window = ClosedWindow::open(&world).await;
    let answer = window.ask(&world).await;
    assert!(world.server.app.unread.n_bytes() > 0);
    let ended = timeout(Duration::from_secs(20), window.connection).await;
    assert!(ended.is_ok(), "a connection whose answers are not read is closed");
    drop(answer);
    let freed = async {
        while world.server.app.unread.n_bytes() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), freed).await.expect("and what they held is free again");
    assert_eq!(world.job(&window.job).await.id, window.job, "readers are served");
}
