//! What a call passes before its message is decoded, and connections on which nobody calls.

use std::time::Duration;

use axum::http::Response;
use bytes::Bytes;
use http_body_util::{Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;
use tonic::body::Body;
use tower_service::Service;

use super::*;

/// A body of which nothing ever comes.
fn withheld() -> Body {
    Body::new(StreamBody::new(tokio_stream::pending::<Result<Frame<Bytes>, Status>>()))
}

/// A body with this message.
fn framed(message: Vec<u8>) -> Body {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    Body::new(Full::new(Bytes::from([&[0][..], &length, &message].concat())))
}

fn posted(path: &str, key: Option<&str>, body: Body) -> axum::http::Request<Body> {
    let request = axum::http::Request::post(path).header("content-type", "application/grpc");
    let request = request.header("te", "trailers");
    let request = match key {
        Some(key) => request.header("authorization", format!("Bearer {key}")),
        None => request,
    };
    request.body(body).unwrap()
}

fn status(response: &Response<Incoming>) -> Status {
    Status::from_header_map(response.headers()).expect("a refusal is in the head")
}

#[tokio::test]
async fn an_unknown_caller_is_refused_before_its_message_is_read() {
    let world = World::start().await;
    let mut channel = Channel::connect(world.address).await;
    for method in ["EnqueueBatch", "Fetch", "StreamJobs"] {
        let path = format!("/ojs.v1.OJSService/{method}");
        let response = channel.call(posted(&path, None, withheld())).await.unwrap();
        assert_eq!(status(&response).code(), Code::Unauthenticated, "{method}");
        let response = channel.call(posted(&path, Some("frk_wrong"), withheld())).await.unwrap();
        assert_eq!(status(&response).code(), Code::Unauthenticated, "{method}");
    }
    let path = "/forgerun.v1.ResultService/GetResult";
    let response = channel.call(posted(path, None, withheld())).await.unwrap();
    assert_eq!(status(&response).code(), Code::Unauthenticated);
}

#[tokio::test]
async fn a_message_that_does_not_arrive_is_given_up() {
    let bounds = Bounds { request_timeout: Duration::from_millis(100), ..Bounds::default() };
    let world = World::on(Arc::new(Memory::new()), &[], bounds).await;
    let mut channel = Channel::connect(world.address).await;
    for path in ["/ojs.v1.OJSService/Enqueue", "/ojs.v1.OJSService/Manifest", "/grpc.health.v1.Health/Check"]
    {
        let response = channel.call(posted(path, Some(&world.client.key), withheld())).await.unwrap();
        assert_eq!(status(&response).code(), Code::DeadlineExceeded, "{path}");
    }
}

#[tokio::test]
async fn a_message_with_too_much_in_it_is_refused_before_it_is_decoded() {
    let world = World::start().await;
    let mut channel = Channel::connect(world.address).await;
    // A field of any message that is skipped.
    let large = [&[0xfa, 0x7f, 0x80, 0x80, 0xc0, 0x01][..], &vec![0; 3 * 1024 * 1024]].concat();
    for (method, message, code, word) in [
        ("EnqueueBatch", [0x0a, 0x00].repeat(1_000_000), Code::InvalidArgument, "10000 entries"),
        ("CreateWorkflow", [0x12, 0x00].repeat(1_000_000), Code::InvalidArgument, "10000 entries"),
        ("EnqueueBatch", vec![0x0b, 0x0c], Code::InvalidArgument, "cannot be read"),
        ("Ack", large, Code::ResourceExhausted, "2097152 bytes"),
    ] {
        let path = format!("/ojs.v1.OJSService/{method}");
        let request = posted(&path, Some(&world.client.key), framed(message));
        let told = status(&channel.call(request).await.unwrap());
        assert_eq!(told.code(), code, "{method}: {told:?}");
        let said = String::from_utf8_lossy(told.details()).into_owned() + told.message();
        assert!(said.contains(word), "{method}: {told:?}");
    }
    assert!(!world.push("q").await.id.is_empty(), "and the connection goes on for others");
}

/// A listener on these terms.
async fn listening(terms: ConnectionTerms) -> (Server, SocketAddr, JoinHandle<()>) {
    let server = Server::with(&[("grpc.addr", "127.0.0.1:0")]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = GrpcService::new(server.app.clone());
    let stopping = std::future::pending();
    let serving = tokio::spawn(connections::serve_grpc(listener, service, terms, None, stopping));
    (server, address, serving)
}

#[tokio::test]
async fn a_connection_without_a_call_is_closed_and_makes_room() {
    let terms =
        ConnectionTerms { n_max: 1, head_timeout: Duration::from_millis(200), ..ConnectionTerms::default() };
    let (_server, address, serving) = listening(terms).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The preface and empty settings: all that is needed to be a connection of HTTP/2.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).await.ok();
    let mut ojs = OjsServiceClient::new(Channel::connect(address).await);
    ojs.manifest(v1::ManifestRequest {}).await.expect("its place is free again");
    serving.abort();
}

#[tokio::test]
async fn a_connection_on_which_no_call_begins_for_long_is_ended() {
    let short = Duration::from_millis(100);
    let terms = ConnectionTerms { head_timeout: short, grpc_idle: short, ..ConnectionTerms::default() };
    let (_server, address, serving) = listening(terms).await;
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let path = format!("http://{address}/ojs.v1.OJSService/Manifest");
    let response = sender.send_request(posted(&path, None, framed(Vec::new()))).await.unwrap();
    assert_eq!(response.status(), 200);
    drop(response);
    connection.await.unwrap().expect("it ends in order");
    serving.abort();
}

#[tokio::test]
async fn a_call_refuses_a_key_without_its_scope() {
    let world = World::start().await;
    let reader = world.client.scoped("reader", &["read"]).await;
    let mut ojs = world.ojs().await;
    let listed = ojs.list_queues(with_key(&reader, v1::ListQueuesRequest::default())).await;
    assert!(listed.is_ok(), "{listed:?}");
    let enqueue = v1::EnqueueRequest { r#type: "test.echo".into(), args: vec![], options: None };
    let fetch = v1::FetchRequest { queues: vec!["default".into()], ..Default::default() };
    let pause = v1::PauseQueueRequest { queue: "default".into() };
    let refusals = [
        (ojs.enqueue(with_key(&reader, enqueue.clone())).await.map(drop), "submit"),
        (ojs.fetch(with_key(&reader, fetch)).await.map(drop), "work"),
        (ojs.pause_queue(with_key(&reader, pause)).await.map(drop), "manage"),
    ];
    for (answer, scope) in refusals {
        let refused = answer.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused:?}");
        assert!(refused.message().contains(scope), "{refused:?}");
    }
    let job = world.push("default").await;
    let token = world.client.call("POST", &format!("/v1/jobs/{}/token", job.id)).send().await.expect(201);
    let holder = Client { key: token["token"].as_str().unwrap().to_owned(), ..reader };
    let get = v1::GetJobRequest { job_id: job.id };
    let refused = ojs.get_job(with_key(&holder, get)).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "a job token is for HTTP: {refused:?}");
}
