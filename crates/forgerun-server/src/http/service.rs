//! The HTTP service: one [`ConnectionService`] per connection, one [`Exchange`] per request.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use hyper::body::Incoming;
use hyper::service::Service;
use tokio::time::timeout;
use tower_service::Service as _;

use crate::app::App;
use crate::config::Config;
use crate::dialects;
use crate::http::{
    ApiError, Exchange,
    finish::finish,
    outgoing::Outgoing,
    panic::{Panicked, caught},
    routing::{self, Route, Table},
};
use crate::limits::unread::UnreadAnswers;

pub struct HttpService(Arc<ServiceContext>);

/// The service of one connection.
pub struct ConnectionService {
    context: Arc<ServiceContext>,
    address: IpAddr,
    /// Whether it answers probes only: its client has no certificate, and all else needs one.
    for_probes_only: bool,
}

/// Shared by all services.
struct ServiceContext {
    app: Arc<App>,
    /// The routes of each API.
    tables: Vec<Table>,
    /// Paths outside of the APIs: health, metrics, pages.
    pages: Router,
}

impl HttpService {
    /// `pages` answers paths outside of the APIs.
    pub fn new(app: Arc<App>, pages: Router) -> HttpService {
        let tables = dialects::ALL.iter().map(|api| Table::new(*api, &app.config)).collect();
        HttpService(Arc::new(ServiceContext { app, tables, pages }))
    }

    pub(crate) fn config(&self) -> &Config {
        &self.0.app.config
    }

    /// The service for a connection from this address.
    pub fn open(&self, address: IpAddr) -> ConnectionService {
        ConnectionService { context: self.0.clone(), address, for_probes_only: false }
    }
}

impl ConnectionService {
    pub(crate) fn for_probes_only(self, for_probes_only: bool) -> ConnectionService {
        ConnectionService { for_probes_only, ..self }
    }

    /// For answers of one HTTP/2 connection.
    pub(crate) fn unread_answers(&self) -> UnreadAnswers {
        UnreadAnswers::new(self.context.app.unread.clone(), true)
    }

    /// A body that counts its pieces until they are written.
    pub(crate) fn outgoing(&self, body: Body) -> Outgoing {
        Outgoing::new(body, self.context.app.unwritten.clone())
    }
}

impl Service<Request<Incoming>> for ConnectionService {
    type Response = Response<Outgoing>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Outgoing>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (context, address, for_probes_only) = (self.context.clone(), self.address, self.for_probes_only);
        Box::pin(async move {
            let request = request.map(Body::new);
            let answer = match for_probes_only && !PROBES.contains(&request.uri().path()) {
                true => context.refuse_without_certificate(request, address),
                false => context.answer(request, address).await,
            };
            Ok(answer.map(|body| Outgoing::new(body, context.app.unwritten.clone())))
        })
    }
}

/// Paths that need no client certificate, if so configured.
const PROBES: [&str; 3] = ["/health", "/ready", "/metrics"];

impl ServiceContext {
    fn refuse_without_certificate(&self, request: Request, address: IpAddr) -> Response {
        let (parts, _) = request.into_parts();
        let table = self.tables.iter().find(|table| table.covers(parts.uri.path()));
        let mut exchange = Exchange::begin(&self.app, parts, address);
        if let Some(table) = table {
            // For the form of the refusal; whether there is such a route is not its subject.
            let _ = table.find(&mut exchange);
        }
        let detail = "This server answers clients with a certificate of its authority only.";
        finish(&self.app, &exchange, Err(ApiError::new(Kind::Forbidden, detail)))
    }

    async fn answer(&self, request: Request, address: IpAddr) -> Response {
        let (parts, body) = request.into_parts();
        let Some(table) = self.tables.iter().find(|table| table.covers(parts.uri.path())) else {
            return self.show(Request::from_parts(parts, body), address).await;
        };
        let app = &*self.app;
        let mut exchange = Exchange::begin(app, parts, address);
        let answer = match exchange.check_host().and_then(|()| table.find(&mut exchange)) {
            Ok(route) => serve(app, &mut exchange, route, body).await,
            Err(error) => match table.preflight(app, &exchange) {
                Some(response) => Ok(response),
                None => Err(error),
            },
        };
        finish(app, &exchange, answer)
    }

    /// Answers a path outside of the APIs.
    async fn show(&self, request: Request<Body>, address: IpAddr) -> Response {
        let (parts, body) = request.into_parts();
        let mut exchange = Exchange::begin(&self.app, parts.clone(), address);
        exchange.route = "page";
        if let Err(refused) = exchange.check_host() {
            return finish(&self.app, &exchange, Err(refused));
        }
        let request = Request::from_parts(parts, body);
        let work = pin!(timeout(self.app.bounds.request_timeout, self.pages.clone().call(request)));
        let answer = match caught(work).await {
            Ok(Ok(Ok(page))) => Ok(page),
            Ok(Err(_)) => Err(timed_out(&exchange)),
            Err(Panicked) => Err(ApiError::internal(Kind::Internal, "a page panicked")),
        };
        finish(&self.app, &exchange, answer)
    }
}

/// Serves a request within its route's timeout, and catches panics.
async fn serve(
    app: &App,
    exchange: &mut Exchange,
    route: &'static Route,
    body: Body,
) -> Result<Response, ApiError> {
    let usual = app.bounds.request_timeout;
    let span = route.timeout.unwrap_or(usual) + exchange.prefer.wait.unwrap_or_default();
    let done = {
        let work = pin!(timeout(span, routing::serve(app, exchange, route, body)));
        caught(work).await
    };
    match done {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(timed_out(exchange)),
        Err(Panicked) => Err(ApiError::internal(Kind::Internal, "a handler panicked")),
    }
}

/// A read waits for the database only, so that is what timed out.
pub(crate) fn timed_out(exchange: &Exchange) -> ApiError {
    if exchange.is_read() {
        return ApiError::new(Kind::DependencyTimeout, "The database took longer than the server waits.");
    }
    ApiError::new(Kind::OperationTimeout, "The request took longer than the server waits.")
}
