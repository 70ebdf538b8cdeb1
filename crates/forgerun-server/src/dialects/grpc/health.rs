//! `grpc.health.v1.Health`, for load balancers and orchestrators. It reports what `/ready` does,
//! without a key.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::time::Time;
use forgerun_wire::grpc::health::health_check_response::ServingStatus;
use forgerun_wire::grpc::health::health_server::Health;
use forgerun_wire::grpc::health::{HealthCheckRequest, HealthCheckResponse};
use tokio::sync::Mutex;
use tonic::{Request, Response, Status};

use super::call::EnteredCall;
use super::feed::{self, MessageFeed, Messages};
use crate::app::App;
use crate::limits::byte_budget::Reservation;

/// Check interval of a watch.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Service names: the server, and its one service.
const SERVICES: [&str; 2] = ["", "ojs.v1.OJSService"];

pub(super) struct HealthOfServer {
    app: Arc<App>,
    /// Shared by all watches: the store is checked once every [`LOOK_EVERY`].
    seen: Arc<SeenHealth>,
}

impl HealthOfServer {
    pub(super) fn new(app: Arc<App>) -> HealthOfServer {
        HealthOfServer { app, seen: Arc::default() }
    }
}

/// The last check and its result.
#[derive(Default)]
struct SeenHealth(Mutex<Option<(Time, ServingStatus)>>);

impl SeenHealth {
    /// The current health, or that of a moment ago. Locked during the check, so that others wait
    /// for the same result.
    async fn look(&self, app: &App) -> ServingStatus {
        let mut seen = self.0.lock().await;
        let now = app.clock.now();
        match *seen {
            Some((at, status)) if at <= now && now.since(at) < LOOK_EVERY && !app.is_stopping() => status,
            _ => {
                let status = of_server(app).await;
                *seen = Some((now, status));
                status
            }
        }
    }
}

async fn of_server(app: &App) -> ServingStatus {
    match app.readiness().await {
        Ok(()) => ServingStatus::Serving,
        Err(_) => ServingStatus::NotServing,
    }
}

#[tonic::async_trait]
impl Health for HealthOfServer {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if !SERVICES.contains(&&*request.get_ref().service) {
            return Err(Status::not_found("There is no such service."));
        }
        Ok(Response::new(HealthCheckResponse { status: of_server(&self.app).await.into() }))
    }

    type WatchStream = Messages<HealthCheckResponse>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let is_known = SERVICES.contains(&&*request.get_ref().service);
        let entered = request.extensions().get::<EnteredCall>().and_then(EnteredCall::take);
        let reservation = entered.map(|entered| entered.reservation);
        let (app, seen) = (self.app.clone(), self.seen.clone());
        let watched = HealthFeed { app, seen, is_known, told: None, _reservation: reservation };
        Ok(Response::new(feed::stream(watched, None)))
    }
}

/// Reports the health of a service, and every change.
pub(super) struct HealthFeed {
    app: Arc<App>,
    seen: Arc<SeenHealth>,
    /// Whether the service exists.
    is_known: bool,
    told: Option<ServingStatus>,
    /// Held as long as the call lasts.
    _reservation: Option<Reservation>,
}

impl MessageFeed for HealthFeed {
    type Message = HealthCheckResponse;

    async fn next(mut self) -> Option<(Result<HealthCheckResponse, Status>, HealthFeed)> {
        loop {
            let status = match self.is_known {
                true => self.seen.look(&self.app).await,
                false => ServingStatus::ServiceUnknown,
            };
            if self.told != Some(status) {
                self.told = Some(status);
                return Some((Ok(HealthCheckResponse { status: status.into() }), self));
            }
            if self.app.is_stopping() {
                return None;
            }
            tokio::select! {
                () = self.app.stopping() => {}
                () = self.app.clock.sleep(LOOK_EVERY) => {}
            }
        }
    }
}
