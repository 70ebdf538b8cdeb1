//! Connections of the main port over TLS: HTTP/2 or HTTP/1.1, as the handshake agrees. Plain HTTP
//! is refused or redirected.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::header::{CONNECTION, CONTENT_TYPE, HOST, LOCATION, RETRY_AFTER};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use forgerun_problem::MEDIA_TYPE_JSON;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tracing::debug;

use super::http2::{Http2Bounds, OpenStream, StreamActivity, first_byte, speak};
use super::places::{AddressPlace, AddressPlaces};
use super::socket::Socket;
use super::{ConnectionTerms, TlsIdentity, accept, speak_http1};
use crate::config::PlainHttp;
use crate::http::{ConnectionService, HttpService, Outgoing};
use crate::limits::unread::{UnreadAnswers, UnreadBody};
use crate::limits::{
    HTTP2_CONNECTION_WINDOW_BYTES, HTTP2_HEAD_BYTES_MAX, HTTP2_STREAM_WINDOW_BYTES, HTTP2_STREAMS_MAX,
    TLS_HANDSHAKE_TIMEOUT,
};

/// The first byte of a TLS connection.
const HANDSHAKE: u8 = 0x16;

/// Application protocols of the main port.
pub const HTTP_PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

/// How a listener serves TLS.
#[derive(Clone, Debug)]
pub struct TlsPort {
    pub identity: TlsIdentity,
    /// The answer to plain HTTP.
    pub plain: PlainHttp,
}

/// Serves until `stopping` resolves, then until the last connection has ended.
pub async fn serve_tls(
    listener: TcpListener,
    service: HttpService,
    terms: ConnectionTerms,
    port: TlsPort,
    stopping: impl Future<Output = ()>,
) {
    let places = AddressPlaces::new(service.config(), terms.n_max);
    let room = Arc::new(Semaphore::new(terms.n_max));
    accept(listener, terms.n_max, stopping, |stream, address, mut stop, place| {
        let Some(of_address) = places.enter(address) else { return };
        let service = service.open(address);
        let streams = StreamPlaces { room: room.clone(), places: places.clone(), address };
        let port = port.clone();
        tokio::spawn(async move {
            let mut stopping = stop.clone();
            let first = tokio::select! {
                first = first_byte(&stream, terms) => first,
                _ = stopping.wait_for(|stopping| *stopping) => None,
            };
            let socket = Socket::new(stream, terms.write_stall);
            match first {
                Some(HANDSHAKE) => {
                    Box::pin(converse(socket, service, streams, port.identity, terms, &mut stop)).await;
                }
                Some(_) => Box::pin(refuse_plain(socket, port.plain, terms, stop)).await,
                None => {}
            }
            drop((place, of_address));
        });
    })
    .await;
}

async fn converse(
    socket: Socket,
    service: ConnectionService,
    streams: StreamPlaces,
    identity: TlsIdentity,
    terms: ConnectionTerms,
    stop: &mut watch::Receiver<bool>,
) {
    let stream = match timeout(TLS_HANDSHAKE_TIMEOUT, identity.acceptor().accept(socket)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "TLS handshake failed"),
        Err(_) => return debug!("TLS handshake timed out"),
    };
    let (_, session) = stream.get_ref();
    let has_certificate = session.peer_certificates().is_some();
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let service = service.for_probes_only(identity.wants_client_certificates() && !has_certificate);
    if !is_http2 {
        return speak_http1(stream, service, terms, stop.clone(), ()).await;
    }
    let bounds = Http2Bounds {
        n_streams: HTTP2_STREAMS_MAX,
        head_bytes: HTTP2_HEAD_BYTES_MAX,
        stream_window_bytes: HTTP2_STREAM_WINDOW_BYTES,
        connection_window_bytes: HTTP2_CONNECTION_WINDOW_BYTES,
        idle: terms.head_timeout,
    };
    let activity = Arc::new(StreamActivity::default());
    let unread = Arc::new(service.unread_answers());
    let watched = (activity.clone(), unread.clone());
    let service = Http2Service { service, streams, activity, unread };
    speak(TokioIo::new(stream), service, watched, bounds, terms, stop).await;
}

async fn refuse_plain(socket: Socket, plain: PlainHttp, terms: ConnectionTerms, stop: watch::Receiver<bool>) {
    let answer = service_fn(move |request| std::future::ready(Ok(to_tls(&request, plain))));
    speak_http1(socket, answer, terms, stop, ()).await;
}

/// The answer to a request that came without TLS.
fn to_tls(request: &Request<Incoming>, plain: PlainHttp) -> Response<Body> {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
    let url = format!("https://{host}{path}");
    // A host that makes no address gets no redirect.
    let is_usable = !host.is_empty() && url.parse::<Uri>().is_ok_and(|url| url.host().is_some());
    let mut response = match plain {
        PlainHttp::Redirect if is_usable => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
            let url = HeaderValue::try_from(url).expect("a parsed address is visible ASCII");
            response.headers_mut().insert(LOCATION, url);
            response
        }
        PlainHttp::Redirect | PlainHttp::Refuse => {
            let detail = "This port speaks TLS only; use an address that begins with https://.";
            problem(StatusCode::BAD_REQUEST, "Bad Request", detail)
        }
    };
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn problem(status: StatusCode, title: &str, detail: &str) -> Response<Body> {
    let body = serde_json::json!({"title": title, "status": status.as_u16(), "detail": detail});
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE_JSON));
    response
}

/// Places of requests: each counts like a connection, for its address and in total.
struct StreamPlaces {
    room: Arc<Semaphore>,
    places: Arc<AddressPlaces>,
    address: IpAddr,
}

type StreamPlace = (OwnedSemaphorePermit, AddressPlace);

impl StreamPlaces {
    fn enter(&self) -> Option<StreamPlace> {
        Some((self.room.clone().try_acquire_owned().ok()?, self.places.enter(self.address)?))
    }
}

/// The service of an HTTP/2 connection.
struct Http2Service {
    service: ConnectionService,
    streams: StreamPlaces,
    activity: Arc<StreamActivity>,
    unread: Arc<UnreadAnswers>,
}

type Http2Answer = Response<Http2Body<Outgoing>>;

impl Service<Request<Incoming>> for Http2Service {
    type Response = Http2Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Http2Answer, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let open = self.activity.open();
        let is_head = request.method() == Method::HEAD;
        let Some(place) = self.streams.enter() else {
            let detail = "Too many requests are open at this address.";
            let mut refused = problem(StatusCode::TOO_MANY_REQUESTS, "Too Many Requests", detail);
            refused.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            let refused = refused.map(|body| self.service.outgoing(body));
            let refused = UnreadBody::of(refused).map(|body| Http2Body { body, open, _place: None });
            return Box::pin(std::future::ready(Ok(refused)));
        };
        let mut request = as_http1(request);
        request.extensions_mut().insert(self.unread.clone());
        let answer = self.service.call(request);
        Box::pin(async move {
            let mut open = open;
            let answer = UnreadBody::of(answer.await?);
            // These have no body that could be read to its end.
            open.is_done = is_head || answer.body().is_end_stream();
            Ok(answer.map(|body| Http2Body { body, open, _place: Some(place) }))
        })
    }
}

/// The request as HTTP/1.1 writes it: the host in a header, the target without it. Two hosts are
/// refused like two `Host` headers.
fn as_http1(mut request: Request<Incoming>) -> Request<Incoming> {
    let authority = request.uri().authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
    if let Some(authority) = authority {
        let headers = request.headers_mut();
        if !headers.get_all(HOST).iter().eq([&authority]) {
            headers.append(HOST, authority);
        }
    }
    if let Some(path) = request.uri().path_and_query().cloned() {
        *request.uri_mut() = Uri::from(path);
    }
    request
}

/// The body of an answer, which counts as reset if it is dropped before its end.
struct Http2Body<B> {
    body: UnreadBody<B>,
    open: OpenStream,
    _place: Option<StreamPlace>,
}

impl<B> HttpBody for Http2Body<B>
where
    UnreadBody<B>: HttpBody + Unpin,
    B: Unpin,
{
    type Data = <UnreadBody<B> as HttpBody>::Data;
    type Error = <UnreadBody<B> as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.open.is_done |= frame.is_none() || self.body.is_end_stream();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
