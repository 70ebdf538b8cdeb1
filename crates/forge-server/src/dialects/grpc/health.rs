//! `grpc.health.v1.Health`: what load balancers and orchestrators ask. It says what `/ready` says, and needs no key.

use std::sync::Arc;
use std::time::Duration;

use forge_wire::grpc::health::health_check_response::ServingStatus;
use forge_wire::grpc::health::health_server::Health;
use forge_wire::grpc::health::{HealthCheckRequest, HealthCheckResponse};
use tonic::{Request, Response, Status};

use super::feed::{self, MessageFeed, Messages};
use crate::app::App;

/// How often a watch looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What can be asked about: the server, and its one service.
const SERVICES: [&str; 2] = ["", "ojs.v1.OJSService"];

pub(super) struct HealthOfServer {
    pub(super) app: Arc<App>,
}

async fn look(app: &App, service: &str) -> ServingStatus {
    if !SERVICES.contains(&service) {
        return ServingStatus::ServiceUnknown;
    }
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
        match look(&self.app, &request.get_ref().service).await {
            ServingStatus::ServiceUnknown => Err(Status::not_found("There is no such service.")),
            status => Ok(Response::new(HealthCheckResponse { status: status.into() })),
        }
    }

    type WatchStream = Messages<HealthCheckResponse>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let service = request.into_inner().service;
        let service = SERVICES.into_iter().find(|known| *known == service);
        let watched = HealthFeed { app: self.app.clone(), service, told: None };
        Ok(Response::new(feed::stream(watched, None)))
    }
}

/// Says how a service is, and whenever that changes.
pub(super) struct HealthFeed {
    app: Arc<App>,
    /// `None` for one that is not there.
    service: Option<&'static str>,
    told: Option<ServingStatus>,
}

impl MessageFeed for HealthFeed {
    type Message = HealthCheckResponse;

    async fn next(mut self) -> Option<(Result<HealthCheckResponse, Status>, HealthFeed)> {
        loop {
            let status = match self.service {
                Some(service) => look(&self.app, service).await,
                None => ServingStatus::ServiceUnknown,
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
