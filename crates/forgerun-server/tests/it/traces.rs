//! Traces, as a collector gets them from the real server.

use forgerun_store::testing::free_port;
use serde_json::{Value, json};

use crate::api::http::{Answer, Call};
use crate::collector::{Collector, Span};
use crate::process::{Server, forgerun};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A server that tells `endpoint`, where simulated work takes no time; and a client of it.
struct Traced {
    server: Server,
    client: String,
    key: String,
    key_id: String,
}

impl Traced {
    async fn start(endpoint: &str) -> Traced {
        let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", "memory:"]);
        command.env("FORGERUN_TELEMETRY__OTLP_ENDPOINT", endpoint).env("FORGERUN_SIM__TIME_SCALE", "0");
        let server = Server::start(&mut command);
        let client = Call::new(server.address, "POST", "/v1/clients").send().await.expect(201);
        let client = text(&client, "client_id");
        let keys = format!("/v1/clients/{client}/keys");
        let key = Call::new(server.address, "POST", &keys).send().await.expect(201);
        Traced { server, client, key: text(&key, "api_key"), key_id: text(&key, "key_id") }
    }

    fn call(&self, method: &str, path: &str) -> Call {
        let bearer = format!("Bearer {}", self.key);
        Call::new(self.server.address, method, path).header("authorization", &bearer)
    }

    /// Submits a job and waits for its end; its id.
    async fn job(&self, work_kind: &str, headers: &[(&str, &str)]) -> String {
        let body = json!({"type": "EXECUTE", "work_kind": work_kind, "payload": {"pin": "top secret"}});
        let call = self.call("POST", "/v1/jobs").header("prefer", "wait=30").json(body);
        let call = headers.iter().fold(call, |call, (name, value)| call.header(name, value));
        text(&call.send().await.expect(202), "job_id")
    }

    async fn post(&self, path: &str) -> Answer {
        self.call("POST", path).send().await
    }
}

fn text(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap().to_owned()
}

fn n_of(spans: &[Span], trace: &str, name: &str) -> usize {
    spans.iter().filter(|span| span.trace_id == trace && span.name == name).count()
}

#[tokio::test]
async fn a_job_is_one_trace_from_its_submission_to_its_report() {
    let mut collector = Collector::start().await;
    let traced = Traced::start(&collector.endpoint).await;
    let sampled = format!("00-{TRACE}-{PARENT}-01");
    let job = traced.job("SUCCESS_FAST", &[("traceparent", &sampled)]).await;
    collector
        .until(|spans| n_of(spans, TRACE, "execution") == 1 && n_of(spans, TRACE, "POST /v1/jobs") == 1)
        .await;

    let submit = collector.only(TRACE, "POST /v1/jobs");
    assert_eq!((submit.kind, submit.parent_span_id.as_deref()), (2, Some(PARENT)));
    assert_eq!(submit.attribute("forgerun.action"), Some("submit"));
    assert_eq!(submit.attribute("http.response.status_code"), Some("202"));
    let execution = collector.only(TRACE, "execution");
    assert_eq!(execution.parent_span_id.as_ref(), Some(&submit.span_id));
    assert_eq!(execution.attribute("forgerun.client_id"), Some(traced.client.as_str()));
    let mut clock = execution.span().0;
    for name in ["enqueue", "assign", "start", "run", "report"] {
        let step = collector.only(TRACE, name);
        assert_eq!((step.kind, step.parent_span_id.as_ref()), (1, Some(&execution.span_id)), "{name}");
        assert_eq!(step.attribute("forgerun.job_id"), Some(job.as_str()));
        // Each begins where the one before ended.
        assert_eq!(step.span().0, clock, "{name} of {:#?}", collector.trace(TRACE));
        clock = step.span().1;
    }
    assert_eq!(execution.span().1, clock);
    assert_eq!(collector.trace(TRACE).len(), 7);
    for secret in ["top secret", traced.key.as_str()] {
        assert!(!collector.raw.contains(secret), "{secret} in {}", collector.raw);
    }
}

#[tokio::test]
async fn a_retry_is_in_the_trace_of_its_job() {
    let mut collector = Collector::start().await;
    let traced = Traced::start(&collector.endpoint).await;
    let job = traced.job("FAIL_IMMEDIATE", &[]).await;
    traced.post(&format!("/v1/jobs/{job}/retry")).await.expect(200);
    // A job that brings no trace is a trace of its own.
    let trace = job.replace('-', "");
    let request = "POST /v1/jobs/{job_id}/retry";
    collector.until(|spans| n_of(spans, &trace, "execution") == 2 && n_of(spans, &trace, request) == 1).await;

    let submit = collector.only(&trace, "POST /v1/jobs");
    assert_eq!(submit.parent_span_id, None);
    assert_eq!(collector.only(&trace, request).parent_span_id.as_ref(), Some(&submit.span_id));
    let executions: Vec<Span> =
        collector.trace(&trace).into_iter().filter(|span| span.name == "execution").collect();
    for execution in &executions {
        assert_eq!(execution.parent_span_id.as_ref(), Some(&submit.span_id));
        assert_eq!(execution.status.code, 2, "{execution:?}");
        assert!(execution.status.message.is_some());
    }
    let retry = collector.only(&trace, "retry");
    assert_eq!(retry.parent_span_id.as_ref(), Some(&executions[1].span_id));
    assert_eq!(n_of(&collector.spans, &trace, "run"), 2);
    assert_eq!(n_of(&collector.spans, &trace, "report"), 2);
}

#[tokio::test]
async fn a_cancel_is_in_the_trace_of_its_caller_and_leads_to_that_of_the_job() {
    let mut collector = Collector::start().await;
    let traced = Traced::start(&collector.endpoint).await;
    let later = json!({"type": "DEFERRED", "execution_at": "2999-01-01T00:00:00Z"});
    let submitted = traced.call("POST", "/v1/jobs").json(later).send().await.expect(202);
    let job = text(&submitted, "job_id");
    let trace = job.replace('-', "");
    let cancel = traced.call("POST", &format!("/v1/jobs/{job}/cancel"));
    cancel.header("traceparent", &format!("00-{TRACE}-{PARENT}-01")).send().await.expect(200);
    let request = "POST /v1/jobs/{job_id}/cancel";
    collector.until(|spans| n_of(spans, TRACE, request) == 1 && n_of(spans, &trace, "execution") == 1).await;

    let cancel = collector.only(TRACE, request);
    assert_eq!(cancel.parent_span_id.as_deref(), Some(PARENT));
    let submit = collector.only(&trace, "POST /v1/jobs");
    let links: Vec<_> = cancel.links.iter().map(|link| (&link.trace_id, &link.span_id)).collect();
    assert_eq!(links, [(&trace, &submit.span_id)]);
    let ended = collector.only(&trace, "execution");
    assert_eq!(ended.attribute("forgerun.next_state"), Some("CANCELED"));
    assert_eq!(ended.status.code, 0);
}

#[tokio::test]
async fn a_request_is_named_after_its_method_and_its_route() {
    let mut collector = Collector::start().await;
    let traced = Traced::start(&collector.endpoint).await;
    let delete =
        traced.call("DELETE", "/v1/jobs/no-id").header("traceparent", &format!("00-{TRACE}-{PARENT}-01"));
    delete.send().await.expect(404);
    collector.until(|spans| n_of(spans, TRACE, "DELETE /v1/jobs/{job_id}") == 1).await;
    let deletion = collector.only(TRACE, "DELETE /v1/jobs/{job_id}");
    assert_eq!(deletion.attribute("forgerun.action"), Some("delete"));
}

#[tokio::test]
async fn the_life_of_a_key_is_one_trace() {
    let mut collector = Collector::start().await;
    let traced = Traced::start(&collector.endpoint).await;
    let revoke = traced.call("POST", &format!("/v1/clients/{}/keys/revoke", traced.client));
    revoke.json(json!({"key_id": traced.key_id})).send().await.expect(200);
    let trace = traced.key_id.replace('-', "");
    collector.until(|spans| spans.iter().filter(|span| span.trace_id == trace).count() == 2).await;
    for (route, action) in [("keys", "create_key"), ("keys/revoke", "revoke_key")] {
        let span = collector.only(&trace, &format!("POST /v1/clients/{{client_id}}/{route}"));
        assert_eq!(span.attribute("forgerun.action"), Some(action));
        assert_eq!(span.attribute("forgerun.key_id"), Some(traced.key_id.as_str()));
    }
}

#[tokio::test]
async fn a_trace_that_is_not_sampled_is_not_told_and_a_stop_sends_the_rest() {
    let mut collector = Collector::start().await;
    let traced = Traced::start(&collector.endpoint).await;
    let not_sampled = format!("00-{TRACE}-{PARENT}-00");
    traced.job("SUCCESS_FAST", &[("traceparent", &not_sampled)]).await;
    let told = traced.job("SUCCESS_FAST", &[]).await;
    let server = traced.server;
    server.signal("TERM");
    // On a thread of its own: the collector answers on this one.
    let ended = tokio::task::spawn_blocking(move || server.wait()).await.unwrap();
    assert_eq!(ended.code, Some(0));
    let trace = told.replace('-', "");
    collector.until(|spans| n_of(spans, &trace, "execution") == 1).await;
    assert!(!collector.raw.contains(TRACE), "{}", collector.raw);
}

#[tokio::test]
async fn a_collector_that_is_away_costs_spans_and_nothing_else() {
    let mut traced = Traced::start(&format!("http://127.0.0.1:{}", free_port())).await;
    traced.job("SUCCESS_FAST", &[]).await;
    traced.server.wait_for_log("trace export failed");
    let metrics = traced.server.get("/metrics");
    let dropped = metrics.lines().find_map(|line| line.strip_prefix("trace_spans_dropped_total "));
    assert!(dropped.unwrap().parse::<u64>().unwrap() > 0, "{metrics}");
    traced.server.signal("TERM");
    assert_eq!(traced.server.wait().code, Some(0));
}

#[tokio::test]
async fn attempts_to_deliver_a_webhook_are_in_the_trace_of_the_job() {
    let mut collector = Collector::start().await;
    let traced = Traced::start(&collector.endpoint).await;
    let callback = format!("http://127.0.0.1:{}/hook?token=secret", free_port());
    let body = json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "callback": callback});
    let sampled = format!("00-{TRACE}-{PARENT}-01");
    let submit = traced.call("POST", "/v1/jobs").header("traceparent", &sampled).json(body);
    let job = text(&submit.send().await.expect(202), "job_id");
    collector.until(|spans| n_of(spans, TRACE, "webhook") >= 2 && n_of(spans, TRACE, "execution") == 1).await;
    let execution = collector.only(TRACE, "execution");
    let attempts: Vec<Span> =
        collector.trace(TRACE).into_iter().filter(|span| span.name == "webhook").collect();
    for attempt in &attempts {
        assert_eq!((attempt.kind, attempt.parent_span_id.as_ref()), (3, Some(&execution.span_id)));
        assert_eq!(attempt.attribute("forgerun.job_id"), Some(job.as_str()));
        assert_eq!((attempt.status.code, attempt.status.message.as_deref()), (2, Some("connect")));
    }
    assert_ne!(attempts[0].span_id, attempts[1].span_id);
    assert_eq!(attempts[0].attribute("forgerun.delivery_id"), attempts[1].attribute("forgerun.delivery_id"));
    assert!(!collector.raw.contains("token=secret"));
}
