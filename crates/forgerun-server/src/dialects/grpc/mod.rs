//! Open Job Spec over gRPC, `ojs.v1.OJSService`: the calls of `/ojs/v1` in another protocol. A
//! message is converted to the body that it would be there (`forgerun_wire::grpc::request`), is
//! handled by the same code, and the resulting job is converted to a message. So keys, limits,
//! tenants, ownership, idempotency and refusals are those of `/ojs/v1`, and there are no rules
//! here.
//!
//! | file | content |
//! |---|---|
//! | `service.rs` | the services of the listener: this one, health, reflection |
//! | `entry.rs` | checks before a message is decoded |
//! | `call.rs` | one call: authentication, limits, deadline, status and metadata |
//! | `jobs.rs`, `workers.rs`, `queues.rs`, `server.rs` | calls with one answer |
//! | `results.rs` | `forgerun.v1.ResultService`, which OJS has no call for |
//! | `stream_jobs.rs` | the stream of jobs |
//! | `stream_events.rs` | the stream of events |
//! | `feed.rs` | the base of both streams |
//! | `health.rs` | `grpc.health.v1.Health` |
//! | `reflection.rs` | the bounds of reflection, which needs no key |

mod call;
mod cron;
mod entry;
mod feed;
mod health;
mod jobs;
mod queues;
mod reflection;
mod results;
mod server;
mod service;
mod stream_events;
mod stream_jobs;
mod workers;
mod workflows;

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::scope::{KeyScope, KeyScopes};
use forgerun_wire::grpc::v1;
use forgerun_wire::grpc::v1::ojs_service_server::OjsService;
use tonic::{Request, Response, Status};

use self::call::{MessageSize, Rpc};
use self::feed::Messages;
use super::ojs::scope::{CLIENT, CLIENT_OR_OPERATOR};
use crate::app::App;
use crate::http::routing::{RateCount, RouteAccess};
use crate::limits::FETCH_TIMEOUT;

pub use service::{GrpcConnection, GrpcService};

pub(super) struct OjsOverGrpc {
    app: Arc<App>,
}

/// Defines the calls with one answer: name, messages, properties, job id, handler.
macro_rules! service {
    ($($name:ident($request:ident) -> $response:ident: $rpc:expr, |$message:ident| $subject:expr, $answer:path;)+) => {
        const RPCS: &[&Rpc] = &[STREAM_JOBS, STREAM_EVENTS, results::GET, $(&$rpc),+];

        #[tonic::async_trait]
        impl OjsService for OjsOverGrpc {
            $(async fn $name(
                &self,
                request: Request<v1::$request>,
            ) -> Result<Response<v1::$response>, Status> {
                const RPC: &Rpc = &$rpc;
                let subject: fn(&v1::$request) -> &str = |$message| $subject;
                self.unary(request, RPC, subject, |call, message| Box::pin($answer(call, message))).await
            })+

            type StreamJobsStream = Messages<v1::Job>;

            async fn stream_jobs(
                &self,
                request: Request<v1::StreamJobsRequest>,
            ) -> Result<Response<Self::StreamJobsStream>, Status> {
                self.stream(request, STREAM_JOBS, |call, message| Box::pin(stream_jobs::open(call, message))).await
            }

            type StreamEventsStream = Messages<v1::Event>;

            async fn stream_events(
                &self,
                request: Request<v1::StreamEventsRequest>,
            ) -> Result<Response<Self::StreamEventsStream>, Status> {
                self.stream(request, STREAM_EVENTS, |call, message| Box::pin(stream_events::open(call, message))).await
            }
        }
    };
}

const STREAM_JOBS: &Rpc = &of_worker("/ojs.v1.OJSService/StreamJobs", "stream_jobs").for_client();
const STREAM_EVENTS: &Rpc = &looks("/ojs.v1.OJSService/StreamEvents", "events");

/// A call of clients that changes something.
const fn acts(path: &'static str, action: &'static str) -> Rpc {
    let (access, rate, size) = (CLIENT, RateCount::Requests, MessageSize::One);
    Rpc { path, action, reads: false, access, scopes: KeyScopes::NONE, rate, timeout: None, size }
}

/// A call of clients that only reads.
const fn looks(path: &'static str, action: &'static str) -> Rpc {
    Rpc { reads: true, ..acts(path, action).scope(KeyScope::Read) }
}

/// A call without a key.
const fn open(path: &'static str, action: &'static str) -> Rpc {
    let (access, rate) = (RouteAccess::Anyone, RateCount::Uncounted);
    Rpc { access, scopes: KeyScopes::NONE, rate, ..looks(path, action) }
}

/// A call of workers, which have a limit of their own (C-99).
const fn of_worker(path: &'static str, action: &'static str) -> Rpc {
    Rpc { rate: RateCount::WorkerCalls, ..acts(path, action).for_operator().scope(KeyScope::Work) }
}

impl Rpc {
    /// Also for the operator, on behalf of any client.
    const fn for_operator(self) -> Rpc {
        Rpc { access: CLIENT_OR_OPERATOR, ..self }
    }

    /// A scope that a client's key needs.
    const fn scope(self, scope: KeyScope) -> Rpc {
        Rpc { scopes: self.scopes.with(scope), ..self }
    }

    const fn for_client(self) -> Rpc {
        Rpc { access: CLIENT, ..self }
    }

    /// With many jobs in its message.
    const fn of_many(self) -> Rpc {
        Rpc { size: MessageSize::Many, ..self }
    }

    const fn within(self, span: Duration) -> Rpc {
        Rpc { timeout: Some(span), ..self }
    }
}

service! {
    manifest(ManifestRequest) -> ManifestResponse:
        open("/ojs.v1.OJSService/Manifest", "manifest"), |_message| "", server::manifest;
    health(HealthRequest) -> HealthResponse:
        open("/ojs.v1.OJSService/Health", "health"), |_message| "", server::health;
    enqueue(EnqueueRequest) -> EnqueueResponse:
        acts("/ojs.v1.OJSService/Enqueue", "submit").scope(KeyScope::Submit), |_message| "", jobs::enqueue;
    enqueue_batch(EnqueueBatchRequest) -> EnqueueBatchResponse:
        acts("/ojs.v1.OJSService/EnqueueBatch", "submit").scope(KeyScope::Submit).of_many(), |_message| "", jobs::enqueue_batch;
    get_job(GetJobRequest) -> GetJobResponse:
        looks("/ojs.v1.OJSService/GetJob", "get").for_operator(), |message| &message.job_id, jobs::get;
    cancel_job(CancelJobRequest) -> CancelJobResponse:
        acts("/ojs.v1.OJSService/CancelJob", "cancel").scope(KeyScope::Submit).for_operator(), |message| &message.job_id, jobs::cancel;
    activate_job(ActivateJobRequest) -> ActivateJobResponse:
        acts("/ojs.v1.OJSService/ActivateJob", "activate").scope(KeyScope::Submit).for_operator(), |message| &message.job_id, jobs::activate;
    fetch(FetchRequest) -> FetchResponse:
        of_worker("/ojs.v1.OJSService/Fetch", "fetch").within(FETCH_TIMEOUT), |_message| "", workers::fetch;
    ack(AckRequest) -> AckResponse:
        of_worker("/ojs.v1.OJSService/Ack", "ack"), |message| &message.job_id, workers::ack;
    nack(NackRequest) -> NackResponse:
        of_worker("/ojs.v1.OJSService/Nack", "nack"), |message| &message.job_id, workers::nack;
    heartbeat(HeartbeatRequest) -> HeartbeatResponse:
        of_worker("/ojs.v1.OJSService/Heartbeat", "heartbeat"), |_message| "", workers::heartbeat;
    list_queues(ListQueuesRequest) -> ListQueuesResponse:
        looks("/ojs.v1.OJSService/ListQueues", "queues"), |_message| "", queues::list;
    queue_stats(QueueStatsRequest) -> QueueStatsResponse:
        looks("/ojs.v1.OJSService/QueueStats", "queues"), |_message| "", queues::stats;
    pause_queue(PauseQueueRequest) -> PauseQueueResponse:
        acts("/ojs.v1.OJSService/PauseQueue", "pause").scope(KeyScope::Manage).for_operator(), |_message| "", queues::pause;
    resume_queue(ResumeQueueRequest) -> ResumeQueueResponse:
        acts("/ojs.v1.OJSService/ResumeQueue", "resume").scope(KeyScope::Manage).for_operator(), |_message| "", queues::resume;
    list_dead_letter(ListDeadLetterRequest) -> ListDeadLetterResponse:
        looks("/ojs.v1.OJSService/ListDeadLetter", "dead_letters"), |_message| "", queues::list_dead_letters;
    retry_dead_letter(RetryDeadLetterRequest) -> RetryDeadLetterResponse:
        acts("/ojs.v1.OJSService/RetryDeadLetter", "retry").scope(KeyScope::Submit), |message| &message.job_id, queues::retry_dead_letter;
    delete_dead_letter(DeleteDeadLetterRequest) -> DeleteDeadLetterResponse:
        acts("/ojs.v1.OJSService/DeleteDeadLetter", "delete").scope(KeyScope::Submit), |message| &message.job_id, queues::delete_dead_letter;
    register_cron(RegisterCronRequest) -> RegisterCronResponse:
        acts("/ojs.v1.OJSService/RegisterCron", "register_cron").scope(KeyScope::Manage).scope(KeyScope::Submit), |_message| "", cron::register;
    unregister_cron(UnregisterCronRequest) -> UnregisterCronResponse:
        acts("/ojs.v1.OJSService/UnregisterCron", "delete_cron").scope(KeyScope::Manage), |_message| "", cron::unregister;
    list_cron(ListCronRequest) -> ListCronResponse:
        looks("/ojs.v1.OJSService/ListCron", "list_crons"), |_message| "", cron::list;
    create_workflow(CreateWorkflowRequest) -> CreateWorkflowResponse:
        acts("/ojs.v1.OJSService/CreateWorkflow", "submit_workflow").scope(KeyScope::Submit).of_many(), |_message| "", workflows::create;
    get_workflow(GetWorkflowRequest) -> GetWorkflowResponse:
        looks("/ojs.v1.OJSService/GetWorkflow", "get").for_operator(), |message| &message.workflow_id, workflows::get;
    cancel_workflow(CancelWorkflowRequest) -> CancelWorkflowResponse:
        acts("/ojs.v1.OJSService/CancelWorkflow", "cancel").scope(KeyScope::Submit).for_operator(), |message| &message.workflow_id, workflows::cancel;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::routing::Callers;

    #[test]
    fn every_call_of_clients_names_its_scope() {
        for rpc in RPCS {
            let is_open = rpc.access.callers() == Callers::Anyone;
            assert_eq!(rpc.scopes.is_empty(), is_open, "{}", rpc.path);
        }
    }
}
