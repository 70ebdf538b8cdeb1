//! A conformance run: sends requests, and records the results of checks.

use std::time::Duration;

use bytes::Bytes;
use forgerun_client::raw::Connector;
use forgerun_client::{Clock, SystemClock};
use forgerun_problem::check::{Finding, Strength};
use http::{HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;
use serde_json::Value;
use url::Url;

use super::finding::{CheckResult, Evidence, Outcome};
use super::rule::{Rule, Severity};
use super::trace::Exchange;
use super::{ConformanceError, Contract, Description, Options};
use crate::http::exchange;

pub(super) struct ConformanceRun {
    base: Url,
    key: Option<String>,
    pub(super) description: Description,
    connector: Connector,
    clock: SystemClock,
    contract: Contract,
    checks: Vec<CheckResult>,
}

#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) reference: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<Bytes>,
    /// Whether to send the key.
    with_key: bool,
}

impl Ask {
    pub(super) fn new(method: Method, reference: &str) -> Ask {
        Ask { method, reference: reference.to_owned(), headers: Vec::new(), body: None, with_key: true }
    }

    pub(super) fn get(reference: &str) -> Ask {
        Ask::new(Method::GET, reference)
    }

    pub(super) fn post(reference: &str, body: &Value) -> Ask {
        Ask::new(Method::POST, reference).raw("application/json", body.to_string())
    }

    pub(super) fn raw(self, media_type: &str, body: impl Into<Bytes>) -> Ask {
        Ask { body: Some(body.into()), ..self.header("Content-Type", media_type) }
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Ask {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn without_key(self) -> Ask {
        Ask { with_key: false, ..self }
    }
}

impl ConformanceRun {
    pub(super) fn new(options: &Options) -> Result<ConformanceRun, ConformanceError> {
        let wrong = |reason: &str| {
            ConformanceError::Usage(format!("{:?} is no address of a server: {reason}", options.url))
        };
        let mut base = Url::parse(&options.url).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(wrong("it must begin with http:// or https://"));
        }
        let path = base.path().trim_end_matches('/').to_owned();
        base.set_path(&path);
        Ok(ConformanceRun {
            base,
            key: options.key.clone(),
            description: options.description.clone(),
            connector: options.connector.clone(),
            clock: SystemClock,
            contract: Contract::Problem,
            checks: Vec::new(),
        })
    }

    /// Sets the contract of the following checks.
    pub(super) fn begin(&mut self, contract: Contract) {
        self.contract = contract;
    }

    pub(super) fn into_checks(self) -> Vec<CheckResult> {
        self.checks
    }

    pub(super) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// A random word, unique to this run.
    pub(super) fn random_word(&self) -> String {
        format!("{:016x}", self.clock.random() as u64)
    }

    /// A random UUID that no job has.
    pub(super) fn unknown_id(&self) -> String {
        let hex = format!("{:032x}", self.clock.random());
        format!("{}-{}-7{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
    }

    pub(super) async fn sleep(&self, span: Duration) {
        self.clock.sleep(span).await;
    }

    /// Sends a request. Any status is fine.
    pub(super) async fn send(&self, ask: Ask) -> Result<Exchange, ConformanceError> {
        let url = self.url_of(&ask.reference)?;
        let uri = url.as_str().split('#').next().unwrap_or_default();
        let mut request = Request::builder().method(ask.method.clone()).uri(uri);
        for (name, value) in &ask.headers {
            request = request.header(name, value);
        }
        // The key must not be sent to other hosts.
        if let (Some(key), true) = (&self.key, ask.with_key && url.origin() == self.base.origin()) {
            request = request.header(self.auth_header()?, self.auth_value(key)?);
        }
        let body = Full::new(ask.body.clone().unwrap_or_default());
        let request =
            request.body(body).map_err(|error| ConformanceError::Usage(format!("{uri}: {error}")))?;
        let answer = exchange(&self.connector, request).await?;
        Ok(Exchange::new(&ask, &url, answer))
    }

    /// Resolves a path of the description, or a link from the server.
    fn url_of(&self, reference: &str) -> Result<Url, ConformanceError> {
        // Paths of the description are relative to the path of the server's address.
        let below = reference.starts_with('/') && !reference.starts_with("//");
        let url = match below && !reference.starts_with(self.base.path()) {
            true => Url::parse(&format!("{}{reference}", self.base.as_str().trim_end_matches('/'))),
            false => self.base.join(reference),
        };
        url.map_err(|error| ConformanceError::Usage(format!("{reference:?} is no address: {error}")))
    }

    /// Whether a link leads to the server itself.
    pub(super) fn is_own(&self, reference: &str) -> bool {
        self.base.join(reference).is_ok_and(|url| url.origin() == self.base.origin())
    }

    fn auth_header(&self) -> Result<HeaderName, ConformanceError> {
        let name = &self.description.auth.header;
        name.parse().map_err(|_| ConformanceError::Usage(format!("auth.header: {name:?} is no header field")))
    }

    fn auth_value(&self, key: &str) -> Result<HeaderValue, ConformanceError> {
        let value = self.description.auth.value.replace("{key}", key);
        let wrong = |_| ConformanceError::Usage("the key has characters that no header can hold".to_owned());
        HeaderValue::try_from(value).map_err(wrong)
    }

    /// Records a check. A rule that is violated once stays violated.
    pub(super) fn check(&mut self, rule: &Rule, holds: bool, exchange: &Exchange) -> bool {
        let outcome = match holds {
            true => Outcome::Passed,
            false => Outcome::Failed(Evidence {
                sent: exchange.sent(),
                got: exchange.got(),
                mend: rule.mend.to_string(),
            }),
        };
        self.enter(rule, outcome);
        holds
    }

    /// Records that the server gave no opportunity.
    pub(super) fn skip(&mut self, rule: &Rule, reason: &str) {
        self.enter(rule, Outcome::Skipped(reason.to_owned()));
    }

    /// Records that a contract cannot be checked.
    pub(super) fn skip_all(&mut self, reason: &str) {
        let title = format!("all of {}", self.contract);
        let rule = Rule { id: "OJS-COD-01", severity: Severity::Must, title: title.into(), mend: "".into() };
        self.skip(&rule, reason);
    }

    /// Records violations found by the library.
    pub(super) fn findings(&mut self, whole: &Rule, findings: &[Finding], exchange: &Exchange) {
        self.check(whole, true, exchange);
        for finding in findings {
            let severity = match finding.strength {
                Strength::Must => Severity::Must,
                Strength::Should => Severity::Should,
            };
            let title = match finding.member.as_str() {
                "" => "the object is as it should be".to_owned(),
                member => format!("the member `{member}` is as it should be"),
            };
            let rule =
                Rule { id: finding.requirement, severity, title: title.into(), mend: finding.mend.into() };
            self.check(&rule, false, exchange);
        }
    }

    fn enter(&mut self, rule: &Rule, outcome: Outcome) {
        let known = self.checks.iter_mut().find(|check| {
            check.contract == self.contract && check.id == rule.id && check.title == rule.title
        });
        match (known, outcome) {
            (Some(CheckResult { outcome: Outcome::Failed(_), .. }), _) => {}
            (Some(_), Outcome::Skipped(_)) => {}
            (Some(known), outcome) => known.outcome = outcome,
            (None, outcome) => self.checks.push(CheckResult {
                contract: self.contract,
                id: rule.id,
                severity: rule.severity,
                title: rule.title.to_string(),
                outcome,
            }),
        }
    }
}
