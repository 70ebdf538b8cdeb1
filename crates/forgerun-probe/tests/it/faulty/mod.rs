//! A small job server that is right but for one fault. A job moves on each time it is asked for, so
//! nothing here takes time.

mod forge;
mod ojs;
mod operations;

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What is wrong with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Not wrong, only different.
    OtherAddresses,
    // Problem details.
    ErrorsArePlainJson,
    ErrorsAreText,
    UnknownPagesAreFine,
    StatusIsText,
    StatusDiffers,
    TypeIsRelative,
    TypeHasNoPage,
    TitleVaries,
    DetailIsATrace,
    FieldIsBroken,
    FieldStatusDiffers,
    XmlWithoutNamespace,
    // Members of jobs.
    OtherIdInLocation,
    NoLink,
    CompletedAtWhileRunning,
    SubmittedAtIsLocal,
    ReportIsPlainJson,
    StateIsMisspelt,
    EndedJobChanges,
    ReportSaysSuccess,
    RetryAfterDiffers,
    InstanceLeadsNowhere,
    SuccessIsAProblem,
    NoSubmittedAt,
    NoMembers,
    // The async-operations pattern.
    NotAccepted,
    NoLocation,
    NoRetryAfter,
    NoCorrelation,
    NoStatusUrl,
    FirstStatusIsRunning,
    UnderWayIs200,
    EndedIs202,
    FailedIs500,
    NoUpdatedAt,
    ProgressIsText,
    NoResultUrl,
    NoErrorCode,
    NoReason,
    GoneIs404,
    UnknownIs400,
    BodiesAreText,
    OpenToAll,
    OwnWords,
    GoesBack,
    NoResult,
    KeyMakesANewJob,
    OneIdForAll,
    TakesAnything,
    // Open Job Spec.
    NoManifest,
    ArgsAreChanged,
    AttemptIsNotCounted,
    AckTwice,
    CancelLate,
    CannotCancel,
    NeverRetries,
    AlwaysRetries,
    NoHistory,
    NoOccurredAt,
    ErrorsWithoutCode,
    EmptyMessages,
    RefusalsAreRetryable,
    TypeIsOptional,
    AnyArgs,
    AnyQueue,
    AnyPolicy,
    // `/v1` under load.
    LosesJobs,
    StateGoesBack,
    OutcomeIsWrong,
    OtherBytesElsewhere,
    ChainIsBroken,
    EndsTwice,
    TwoJobsForOneKey,
    KeyTakesAnyBody,
    RefusesPlainly,
    CancelLies,
    EndIsUndone,
    SameIdTwice,
    NoReport,
    BusyWithoutAnHour,
    FailsAtTimes,
}

/// Starts a server with this fault on a free port. Returns its address.
pub(crate) async fn serve(fault: Fault) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Arc::new(FaultyServer { fault, address, state: Mutex::default() });
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let server = server.clone();
            let service = service_fn(move |request| {
                let server = server.clone();
                async move { Ok::<_, Infallible>(server.answer(request).await) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    format!("http://{address}")
}

struct FaultyServer {
    fault: Fault,
    address: SocketAddr,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    n_answers: u64,
    jobs: HashMap<String, operations::Job>,
    keys: HashMap<String, String>,
    ojs: Vec<Value>,
    forge: HashMap<String, forge::Job>,
}

/// A request that has been read.
struct Asked {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Asked {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// An answer that is being made.
struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Reply {
    fn json(status: u16, body: &Value) -> Reply {
        Reply {
            status,
            headers: vec![("content-type", "application/json".to_owned())],
            body: body.to_string(),
        }
    }

    fn with(mut self, name: &'static str, value: impl ToString) -> Reply {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_string()));
        self
    }
}

impl FaultyServer {
    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let asked =
            Asked { method: head.method, path: head.uri.path().to_owned(), headers: head.headers, body };
        let reply = self.route(&asked);
        let mut response = Response::builder().status(reply.status);
        for (name, value) in reply.headers {
            response = response.header(name, value);
        }
        response.body(Full::new(reply.body.into())).unwrap()
    }

    fn route(&self, asked: &Asked) -> Reply {
        if asked.path.starts_with("/problems/") {
            let status = if self.is(Fault::TypeHasNoPage) { 404 } else { 200 };
            return Reply { status, headers: Vec::new(), body: "<p>how to mend it</p>".to_owned() }
                .with("content-type", "text/html");
        }
        if asked.path.starts_with("/ojs/") {
            return ojs::route(self, asked);
        }
        if asked.path.starts_with("/v1/") || asked.path == "/health" {
            return forge::route(self, asked);
        }
        if forge::knows(self, asked) {
            return forge::elsewhere(self, asked);
        }
        if !self.knows(asked) {
            return self.problem(asked, 401, "unauthorized", "Unauthorized", "no key");
        }
        operations::route(self, asked)
    }

    fn knows(&self, asked: &Asked) -> bool {
        match self.fault {
            Fault::OpenToAll => true,
            Fault::OtherAddresses => asked.header("x-key") == "right",
            _ => asked.headers.get(AUTHORIZATION).is_some_and(|value| value == "Bearer right"),
        }
    }

    /// A problem, as right or wrong as the server is.
    fn problem(&self, asked: &Asked, status: u16, slug: &str, title: &str, detail: &str) -> Reply {
        if asked.header("accept") == "application/problem+xml" {
            let space = if self.is(Fault::XmlWithoutNamespace) { "" } else { " xmlns=\"urn:ietf:rfc:7807\"" };
            let body = format!("<?xml version=\"1.0\"?><problem{space}><title>{title}</title></problem>");
            return Reply { status, headers: Vec::new(), body }
                .with("content-type", "application/problem+xml");
        }
        let n = {
            let mut state = self.state.lock().unwrap();
            state.n_answers += 1;
            state.n_answers
        };
        let mut object = json!({
            "type": format!("http://{}/problems/{slug}", self.address),
            "title": title,
            "status": status,
            "detail": detail,
            "instance": format!("urn:example:{n}"),
        });
        let mut said = u64::from(status);
        match self.fault {
            Fault::StatusIsText => object["status"] = status.to_string().into(),
            Fault::StatusDiffers => object["status"] = 500.into(),
            Fault::TypeIsRelative => object["type"] = format!("problems/{slug}").into(),
            Fault::TitleVaries => object["title"] = format!("{title} {n}").into(),
            Fault::DetailIsATrace => object["detail"] = "boom\n    at Main.main(Main.java:7)".into(),
            Fault::FieldStatusDiffers => said = 200,
            _ => {}
        }
        let field = match self.fault {
            Fault::FieldIsBroken => "type=about:blank; status=".to_owned(),
            _ => format!("status={said}, title=\"{title}\""),
        };
        let media_type = match self.fault {
            Fault::ErrorsArePlainJson => "application/json",
            _ => "application/problem+json",
        };
        let mut reply = Reply::json(status, &object).with("content-type", media_type).with("problem", field);
        if self.is(Fault::ErrorsAreText) {
            reply.body = "boom".to_owned();
        }
        reply
    }
}
