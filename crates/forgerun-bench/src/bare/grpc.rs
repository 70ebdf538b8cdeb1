//! The least that answers a gRPC call: the request is decoded, a reply is encoded, and nothing is stored.

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
    let trailers =
        HeaderMap::from_iter([("grpc-status".parse().expect("a name"), HeaderValue::from_static(status))]);
    let body = Full::new(body.freeze()).with_trailers(async { Some(Ok(trailers)) });
    let mut response = Response::new(body.boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    Ok(response)
}
