//! One HTTP/2 connection, as a client of tonic wants it.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tonic::body::Body;
use tower_service::Service;

#[derive(Clone)]
pub(super) struct Channel {
    sender: SendRequest<Body>,
    authority: String,
}

impl Channel {
    pub(super) async fn connect(address: SocketAddr) -> Channel {
        let stream = TcpStream::connect(address).await.unwrap();
        Channel::over(stream, address).await
    }

    pub(super) async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        address: SocketAddr,
    ) -> Channel {
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Channel { sender, authority: address.to_string() }
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let path = request.uri().path_and_query().unwrap().clone();
        let uri = Uri::builder().scheme("http").authority(self.authority.as_str()).path_and_query(path);
        *request.uri_mut() = uri.build().unwrap();
        Box::pin(self.sender.send_request(request))
    }
}
