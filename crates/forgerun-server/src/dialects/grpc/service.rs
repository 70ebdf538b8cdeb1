//! The services of the gRPC listener, and the errors of unknown calls: every error has details,
//! including those found before a message is read.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::http::header::HeaderMap;
use axum::http::{HeaderValue, Request, Response};
use forgerun_core::catalog::Kind;
use forgerun_core::scope::KeyScopes;
use forgerun_wire::grpc::DESCRIPTORS;
use forgerun_wire::grpc::forgerun_v1::result_service_server::ResultServiceServer;
use forgerun_wire::grpc::health::health_server::HealthServer;
use forgerun_wire::grpc::v1::ojs_service_server::OjsServiceServer;
use forgerun_wire::problem::RefusedRequest;
use hyper::body::Incoming;
use hyper::service::Service;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_reflection::server::Builder;
use tower_service::Service as _;

use super::call::{CallOrigin, MessageSize, Rpc, exchange, refused};
use super::entry::{enter, head_bytes};
use super::health::HealthOfServer;
use super::reflection::ReflectionBody;
use super::results::GET as GET_RESULT;
use super::{OjsOverGrpc, RPCS};
use crate::app::App;
use crate::auth::Who;
use crate::config::Config;
use crate::connections::StreamActivity;
use crate::http::{
    ApiError, body, real_address,
    routing::{RateCount, RouteAccess},
};
use crate::limits::{
    GRPC_MESSAGE_BYTES_MAX, REFLECTION_CALL_BYTES, REFLECTION_MESSAGE_BYTES_MAX,
    byte_budget::ByteHolder,
    unread::{UnreadAnswers, UnreadBody},
};

type ServiceAnswer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// Opens a service for each connection.
pub struct GrpcService(Arc<Services>);

struct Services {
    app: Arc<App>,
    ojs: OjsServiceServer<OjsOverGrpc>,
    results: ResultServiceServer<OjsOverGrpc>,
    health: HealthServer<HealthOfServer>,
    /// Reflection, in both versions that are in use.
    reflection: Box<dyn Fn(Request<ReflectionBody>) -> ServiceAnswer + Send + Sync>,
    reflection_alpha: Box<dyn Fn(Request<ReflectionBody>) -> ServiceAnswer + Send + Sync>,
}

/// The service of one connection.
pub struct GrpcConnection {
    services: Arc<Services>,
    address: IpAddr,
    activity: Arc<StreamActivity>,
    unread: Arc<UnreadAnswers>,
}

/// The properties of an unknown call.
const UNKNOWN: Rpc = Rpc {
    path: "/ojs.v1.OJSService",
    action: "unsupported",
    reads: false,
    access: RouteAccess::Anyone,
    scopes: KeyScopes::NONE,
    rate: RateCount::Uncounted,
    timeout: None,
    size: MessageSize::One,
};

const HEALTH: &Rpc = &super::open("/grpc.health.v1.Health", "health");

impl GrpcService {
    /// The services of this server.
    ///
    /// # Panics
    ///
    /// If the checked-in descriptors cannot be decoded, which a test detects.
    pub fn new(app: Arc<App>) -> GrpcService {
        let reflection = Builder::configure().register_encoded_file_descriptor_set(DESCRIPTORS).build_v1();
        let alpha = Builder::configure().register_encoded_file_descriptor_set(DESCRIPTORS).build_v1alpha();
        let reflection = reflection.expect("our own descriptors");
        let reflection = reflection.max_decoding_message_size(REFLECTION_MESSAGE_BYTES_MAX);
        let alpha = alpha.expect("our own descriptors");
        let alpha = alpha.max_decoding_message_size(REFLECTION_MESSAGE_BYTES_MAX);
        let ojs = Arc::new(OjsOverGrpc { app: app.clone() });
        GrpcService(Arc::new(Services {
            results: ResultServiceServer::from_arc(ojs.clone()),
            ojs: OjsServiceServer::from_arc(ojs).max_decoding_message_size(GRPC_MESSAGE_BYTES_MAX),
            health: HealthServer::new(HealthOfServer::new(app.clone())),
            reflection: Box::new(move |request| reflection.clone().call(request)),
            reflection_alpha: Box::new(move |request| alpha.clone().call(request)),
            app,
        }))
    }

    pub(crate) fn config(&self) -> &Config {
        &self.0.app.config
    }

    /// The service for a connection from this address.
    pub fn open(&self, address: IpAddr) -> GrpcConnection {
        let unread = Arc::new(UnreadAnswers::new(self.0.app.unread.clone(), false));
        GrpcConnection { services: self.0.clone(), address, activity: Arc::default(), unread }
    }
}

impl GrpcConnection {
    /// Counter of the calls on the connection.
    pub(crate) fn activity(&self) -> Arc<StreamActivity> {
        self.activity.clone()
    }

    /// Unread answers of the connection.
    pub(crate) fn unread(&self) -> Arc<UnreadAnswers> {
        self.unread.clone()
    }
}

impl Service<Request<Incoming>> for GrpcConnection {
    type Response = Response<UnreadBody<Body>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<UnreadBody<Body>>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.activity.begin();
        let authority = request.uri().authority();
        let authority = authority.and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
        let origin = CallOrigin { address: self.address, authority, unread: self.unread.clone() };
        let services = self.services.clone();
        Box::pin(async move { services.answer(request, origin).await.map(UnreadBody::of) })
    }
}

fn no_such_call() -> ApiError {
    ApiError::new(Kind::UnsupportedFeature, "There is no such call here; reflection says what there is.")
}

impl Services {
    async fn answer(
        &self,
        request: Request<Incoming>,
        origin: CallOrigin,
    ) -> Result<Response<Body>, Infallible> {
        let path = request.uri().path();
        match path.split('/').nth(1) {
            Some("grpc.reflection.v1.ServerReflection") => {
                self.reflect(&self.reflection, request, &origin).await
            }
            Some("grpc.reflection.v1alpha.ServerReflection") => {
                self.reflect(&self.reflection_alpha, request, &origin).await
            }
            Some("grpc.health.v1.Health") => match enter(&self.app, HEALTH, request, &origin).await {
                Ok(request) => self.health.clone().call(request).await,
                Err(refused) => Ok(refused),
            },
            _ => match RPCS.iter().find(|rpc| rpc.path == path) {
                Some(rpc) => self.serve(rpc, request, origin).await,
                None => Ok(self.refuse(no_such_call(), origin.address)),
            },
        }
    }

    /// A reflection call, within the bound on concurrent ones.
    async fn reflect(
        &self,
        reflection: &(dyn Fn(Request<ReflectionBody>) -> ServiceAnswer + Send + Sync),
        request: Request<Incoming>,
        origin: &CallOrigin,
    ) -> Result<Response<Body>, Infallible> {
        let address =
            real_address(&self.app.config.server.trusted_proxies, origin.address, request.headers());
        let holder = ByteHolder::new(&Who::Anonymous, address);
        let mut reservation = self.app.incoming.open(holder);
        if let Err(error) = reservation.grow(REFLECTION_CALL_BYTES + head_bytes(request.headers())) {
            return Ok(self.refuse(error, origin.address));
        }
        let request = request.map(|body| ReflectionBody::new(body, reservation));
        let answered = request.body().answered();
        let mut answer = reflection(request).await?.map(answered);
        if let Ok(charge) = origin.unread.begin(holder, 0) {
            answer.extensions_mut().insert(charge);
        }
        Ok(answer)
    }

    async fn serve(
        &self,
        rpc: &Rpc,
        request: Request<Incoming>,
        origin: CallOrigin,
    ) -> Result<Response<Body>, Infallible> {
        let request = match enter(&self.app, rpc, request, &origin).await {
            Ok(request) => request,
            Err(refused) => return Ok(refused),
        };
        let answer = if rpc.path == GET_RESULT.path {
            self.results.clone().call(request).await?
        } else {
            self.ojs.clone().call(request).await?
        };
        Ok(self.explained(answer, origin.address))
    }

    /// The answer; one with a status only, which the library refused before our code saw it, gets
    /// its details.
    fn explained(&self, response: Response<Body>, address: IpAddr) -> Response<Body> {
        let headers = response.headers();
        let Some(status) = Status::from_header_map(headers) else { return response };
        if status.code() == Code::Ok || !status.details().is_empty() {
            return response;
        }
        let error = match status.code() {
            Code::OutOfRange => body::too_large(GRPC_MESSAGE_BYTES_MAX),
            Code::Unimplemented if headers.contains_key("grpc-accept-encoding") => {
                ApiError::new(Kind::UnsupportedCompression, "Messages must not be compressed.")
            }
            Code::Unimplemented => no_such_call(),
            Code::Cancelled => return response,
            _ => {
                let detail = format!("The message cannot be read: {}.", status.message());
                RefusedRequest::new(Kind::MalformedRequest, detail).into()
            }
        };
        self.refuse(error, address)
    }

    fn refuse(&self, error: ApiError, address: IpAddr) -> Response<Body> {
        let exchange = exchange(&self.app, &UNKNOWN, HeaderMap::new(), address);
        refused(&self.app, &exchange, error).into_http()
    }
}
