//! Jobs over gRPC (`StreamJobs`), and errors as gRPC carries them. The rest of a worker's life, reports and heartbeats and uploads, stays with HTTP:
//! not all of it has a call in gRPC.

use forgerun_wire::grpc::error::ErrorDetails;
use forgerun_wire::grpc::v1::ojs_service_client::OjsServiceClient;
use forgerun_wire::grpc::{
    ARGS_WRAPPED_MEMBER, LEASE_TOKEN_MEMBER, PARENT_RESULTS_MEMBER, PARENT_STEPS_MEMBER, json, v1,
};
use http::{HeaderValue, Uri};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Map;
use serde_json::value::RawValue;
use tonic::{Code, Request, Status, Streaming};

use crate::client::Client;
use crate::codes::Report;
use crate::error::{ApiError, Error, Unreachable};
use crate::limits::{GRPC_PING_EVERY, GRPC_PING_TIMEOUT};
use crate::ojs::ClaimedJob;
use crate::transport::Connector;

type Channel = legacy::Client<Connector, tonic::body::Body>;

/// Where jobs are streamed from.
#[derive(Clone)]
pub(crate) struct JobSource {
    service: OjsServiceClient<Channel>,
    host: String,
    key: Option<HeaderValue>,
}

impl JobSource {
    /// The gRPC listener at this address, such as `http://127.0.0.1:9090`, with the key and the certificates of the client.
    pub(crate) fn new(client: &Client, url: &str) -> Result<JobSource, Error> {
        let wrong = || {
            Error::Usage(format!("{url:?} is no address of a gRPC listener, such as http://127.0.0.1:9090"))
        };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let host = uri.authority().map(ToString::to_string).ok_or_else(wrong)?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(wrong());
        }
        let channel = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .http2_only(true)
            .http2_keep_alive_interval(GRPC_PING_EVERY)
            .http2_keep_alive_timeout(GRPC_PING_TIMEOUT)
            .build(client.http2_connector());
        Ok(JobSource { service: OjsServiceClient::with_origin(channel, uri), host, key: client.bearer() })
    }

    /// Opens a stream.
    pub(crate) async fn open(&self, request: v1::StreamJobsRequest) -> Result<JobStream, Error> {
        let mut request = Request::new(request);
        if let Some(key) = &self.key {
            request.metadata_mut().as_mut().insert(http::header::AUTHORIZATION, key.clone());
        }
        let opened = self.service.clone().stream_jobs(request).await;
        let jobs = opened.map_err(|status| error(&status, &self.host))?.into_inner();
        Ok(JobStream { jobs, host: self.host.clone() })
    }
}

/// Jobs as they come.
pub(crate) struct JobStream {
    jobs: Streaming<v1::Job>,
    host: String,
}

impl JobStream {
    /// The next job. Safe to drop: a job that came is there at the next call.
    pub(crate) async fn next(&mut self) -> Result<ClaimedJob, Error> {
        match self.jobs.message().await {
            Ok(Some(job)) => taken(job),
            Ok(None) => Err(unreachable(&self.host, "the server ended the stream")),
            Err(status) => Err(error(&status, &self.host)),
        }
    }
}

fn unreachable(host: &str, reason: &str) -> Error {
    Error::Unreachable(Unreachable::new(host, reason, true))
}

fn taken(job: v1::Job) -> Result<ClaimedJob, Error> {
    let wrong = |why| Error::Protocol(format!("a job {why}"));
    let mut args = String::new();
    json::write_list(&job.args, &mut args).map_err(wrong)?;
    let mut text = String::new();
    json::write_struct(&job.meta.unwrap_or_default(), &mut text).map_err(wrong)?;
    let mut meta: Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
    let lease_token = meta.remove(LEASE_TOKEN_MEMBER).and_then(|token| token.as_str().map(str::to_owned));
    let args_wrapped = meta.remove(ARGS_WRAPPED_MEMBER).and_then(|wrapped| wrapped.as_bool());
    let parents = meta.remove(PARENT_RESULTS_MEMBER);
    let steps = meta.remove(PARENT_STEPS_MEMBER);
    let raw_results = parents.and_then(|list| serde_json::from_value(list).ok());
    Ok(ClaimedJob {
        id: job.id,
        job_type: job.r#type,
        queue: job.queue,
        attempt: u32::try_from(job.attempt).unwrap_or_default(),
        args: RawValue::from_string(args).ok(),
        args_wrapped,
        meta,
        tags: job.tags,
        timeout_ms: job.timeout.map(|span| (span.seconds * 1000 + i64::from(span.nanos) / 1_000_000) as u64),
        lease_token,
        traceparent: Some(job.trace_id).filter(|trace| !trace.is_empty()),
        workflow_id: None,
        parent_steps: steps.and_then(|list| serde_json::from_value(list).ok()).unwrap_or_default(),
        parent_results: raw_results.unwrap_or_default(),
    })
}

/// The error behind a status. The code stands in `ErrorInfo`, whatever the status is; a status without details did not come from the server, but
/// from the way to it.
fn error(status: &Status, host: &str) -> Error {
    let details = ErrorDetails::read(status.details());
    let Some(info) = details.info else {
        return match status.code() {
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Aborted => unreachable(host, status.message()),
            code => Error::Protocol(format!("{code:?}: {}", status.message())),
        };
    };
    let report = Report::from_grpc(&info.reason, &info.metadata);
    let request_id = info.metadata.get("request_id").cloned();
    let mut error = ApiError::of_report(report, None);
    error.message = status.message().to_owned();
    error.retry_after = details.retry_delay.or(error.retry_after);
    error.request_id = request_id;
    error.into_error()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forgerun_wire::grpc::error::ErrorInfo;
    use forgerun_wire::grpc::moment;

    use super::*;
    use crate::codes::Category;

    #[test]
    fn the_code_is_read_from_the_details_of_a_status() {
        let facts = [("queue", "q"), ("retryable", "true"), ("request_id", "r-1")];
        let metadata = facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let info = ErrorInfo { reason: "OJS_QUEUE_FULL".into(), domain: "openjobspec.org".into(), metadata };
        let details = ErrorDetails {
            info: Some(info),
            retry_delay: Some(Duration::from_secs(7)),
            ..ErrorDetails::default()
        };
        let status = details.status(Code::ResourceExhausted, "Full.");
        let error = error(&status, "host");
        let said = error.api().unwrap();
        assert_eq!((said.code.as_str(), said.canonical.as_deref()), ("QUEUE_FULL", Some("QUEUE_FULL")));
        assert_eq!((said.category, said.retryable), (Category::Resource, true));
        assert_eq!((said.message.as_str(), said.details["queue"].as_str()), ("Full.", Some("q")));
        assert_eq!(
            (said.retry_after, said.request_id.as_deref()),
            (Some(Duration::from_secs(7)), Some("r-1"))
        );
    }

    #[test]
    fn a_status_without_details_is_trouble_on_the_way() {
        assert!(error(&Status::unavailable("gone"), "host").is_retryable());
        assert!(!error(&Status::internal("odd"), "host").is_retryable());
    }

    #[test]
    fn a_job_is_taken_with_its_token_and_arguments() {
        let job = v1::Job {
            id: "i".into(),
            r#type: "a.b".into(),
            args: json::read_list(br#"[1,{"a":"x"}]"#),
            meta: json::read_struct(br#"{"locale":"de","forgerun.lease_token":"t.1"}"#),
            timeout: Some(moment::duration(Duration::from_secs(2))),
            attempt: 3,
            ..Default::default()
        };
        let taken = taken(job).unwrap();
        assert_eq!((taken.input(), taken.lease_token.as_deref()), (r#"[1,{"a":"x"}]"#, Some("t.1")));
        assert_eq!((taken.meta.len(), taken.timeout_ms, taken.attempt), (1, Some(2000), 3));
    }
}
