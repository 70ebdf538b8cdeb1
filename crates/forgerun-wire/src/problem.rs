//! A refused request as one flat object that is a problem (RFC 9457) and an OJS error at once: both code systems are always
//! there, and `code` repeats the one its dialect names.

use forgerun_core::catalog::Kind;
use forgerun_core::job::Dialect;
use forgerun_problem::{ABOUT_BLANK, CorrelationId, Problem};
use serde_json::{Map, Value, json};

use crate::language::{self, Language};
use crate::status;

/// A request that was refused, and what there is to say about it.
#[derive(Clone, Debug)]
pub struct RefusedRequest {
    /// What kind of refusal.
    pub kind: Kind,
    /// What about this occurrence, in English; helps the caller to mend it.
    pub detail: String,
    /// Facts, by name: OJS's `details`.
    pub details: Map<String, Value>,
    /// What is wrong where, for refused bodies.
    pub violations: Vec<Violation>,
    /// Accepted members, if an unknown one was sent. The answer lists them once, in its detail.
    pub accepted: Vec<String>,
    /// When to ask again.
    pub retry_after_s: Option<u64>,
    /// Whether the request only looked: then when to ask again is the header's to say, since a member would speak of
    /// submitting again (C-34).
    pub is_poll: bool,
    /// Whether the request was only early: asked again after a while, it will be answered otherwise (C-113).
    pub is_early: bool,
    /// Whether the status code says it all, and the problem has no type of its own (C-27).
    pub is_blank: bool,
    /// What the client calls its request.
    pub correlation_id: Option<CorrelationId>,
    /// In which language title and details are told.
    pub language: Language,
    /// Where the request stands in a trace, as a `traceparent`; told in the dialects whose documents ask for it (C-29).
    pub traceparent: Option<String>,
    /// The execution that is gone.
    pub execution: Option<String>,
    /// Members of this kind of refusal, at the top of the object.
    pub members: Map<String, Value>,
}

/// One thing wrong with a request body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// A JSON pointer into the body, as a URI fragment: `#/execution_at`.
    pub pointer: String,
    /// What is wrong there, in English.
    pub detail: String,
    /// The rule that is broken, in one word: `required`, `type`, `enum`, …
    pub constraint: &'static str,
}

impl RefusedRequest {
    /// A refusal of this kind.
    pub fn new(kind: Kind, detail: impl Into<String>) -> RefusedRequest {
        RefusedRequest {
            kind,
            detail: detail.into(),
            details: Map::new(),
            violations: Vec::new(),
            accepted: Vec::new(),
            retry_after_s: None,
            is_poll: false,
            is_early: false,
            is_blank: false,
            correlation_id: None,
            language: Language::English,
            traceparent: None,
            execution: None,
            members: Map::new(),
        }
    }

    /// Says what is wrong where; the first violation is also OJS's `details`.
    pub fn violations(mut self, violations: Vec<Violation>) -> RefusedRequest {
        if let Some(first) = violations.first() {
            let field = path_of(&first.pointer).replace('/', ".");
            self = self.fact("field", field).fact("constraint", first.constraint);
        }
        self.violations = violations;
        self
    }

    /// Adds a fact.
    pub fn fact(mut self, name: &str, value: impl Into<Value>) -> RefusedRequest {
        self.details.insert(name.into(), value.into());
        self
    }

    /// Names the execution that is gone.
    pub fn execution(mut self, id: impl ToString) -> RefusedRequest {
        self.execution = Some(id.to_string());
        self
    }

    /// Adds a member at the top of the object.
    pub fn member(mut self, name: &str, value: impl Into<Value>) -> RefusedRequest {
        self.members.insert(name.into(), value.into());
        self
    }

    /// Leaves it to the status code to say what kind of problem this is.
    pub fn blank(mut self) -> RefusedRequest {
        self.is_blank = true;
        self
    }

    /// Says when to ask again.
    pub fn retry_after(mut self, seconds: u64) -> RefusedRequest {
        self.retry_after_s = Some(seconds.max(1));
        self
    }

    /// Says which limit is reached, over which span it counts (`60s`, `at once`, `in all`), and when to ask again.
    pub fn limited(self, limit: u64, window: &str, after_s: u64) -> RefusedRequest {
        let after_s = after_s.max(1);
        let told = self.fact("limit", limit).fact("window", window).fact("retry_after_seconds", after_s);
        told.retry_after(after_s)
    }

    /// Says that the request was only early, and when to ask again.
    pub fn early(mut self, seconds: u64) -> RefusedRequest {
        self.is_early = true;
        self.retry_after(seconds)
    }

    /// The object for the caller of `dialect`. `base` is the public address of the server, or empty; `instance` identifies
    /// the request.
    pub fn problem(&self, dialect: Dialect, base: &str, instance: &str) -> Problem {
        let entry = self.kind.entry();
        let code = status::http(self.kind, dialect);
        let (type_uri, title) = match language::reason(code, self.language) {
            Some(reason) if self.is_blank => (ABOUT_BLANK.to_owned(), reason),
            _ => (format!("{base}/problems/{}", entry.slug), title(self.kind, dialect, self.language)),
        };
        let mut builder = Problem::builder(type_uri)
            .title(title)
            .status(code)
            .detail(self.told())
            .instance(instance)
            .extension("code", status::code(self.kind, dialect))
            .extension("rfa_code", entry.rfa)
            .extension("ojs_code", entry.ojs_or_custom())
            .extension("message", message(entry.title, &self.detail))
            .extension("details", Value::Object(self.details.clone()))
            .extension("doc_url", doc_url(self.kind, base));
        let mut job = forgerun_problem::Job::builder()
            .retryable(entry.retryable || self.is_early)
            .correlation_id(self.correlation_id.clone());
        let says_when = self.is_early || entry.retryable && !self.is_poll;
        if let (Some(seconds), true) = (self.retry_after_s, says_when) {
            job = job.retry_after_s(seconds);
        }
        if let Some(execution) = &self.execution {
            job = job.id(execution);
        }
        if let Some(stage) = status::stage(self.kind) {
            job = job.processing_stage(stage);
        }
        builder = builder.job(job);
        for (name, value) in self.members(dialect) {
            builder = builder.extension(&name, value);
        }
        builder.build().expect("every member is of our own making; what a caller said is only text")
    }

    /// Lists the accepted members, because an unknown one was sent.
    pub fn accepted(mut self, members: &[&str]) -> RefusedRequest {
        self.accepted = members.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    fn accepted_here(&self, language: Language) -> String {
        match (self.accepted.join(", "), language) {
            (none, _) if none.is_empty() => none,
            (members, Language::English) => format!(" Accepted here: {members}."),
            (members, Language::German) => format!(" Hier erlaubt: {members}."),
        }
    }

    /// The detail in the language of the refusal. A sentence without translation gives way to what the kind means in
    /// general; the particulars are in `message` and `details` all the same.
    pub(crate) fn told(&self) -> String {
        if self.language == Language::English {
            return self.detail.clone() + &self.accepted_here(self.language);
        }
        if !self.violations.is_empty() {
            return summary(&self.violations, self.language) + &self.accepted_here(self.language);
        }
        let told = language::sentence(&self.detail, self.language);
        told.unwrap_or_else(|| language::words(self.kind, self.language).meaning.to_owned())
    }
}

impl Violation {
    /// What is wrong, in this language.
    pub fn told(&self, language: Language) -> String {
        language::clause(&self.detail, self.constraint, language)
    }
}

/// The member at a pointer as messages name it; the body itself is `body`.
fn path_of(pointer: &str) -> &str {
    match pointer.trim_start_matches("#/") {
        "#" | "" => "body",
        path => path,
    }
}

/// All that is wrong with a body, in one sentence.
pub fn summary(violations: &[Violation], language: Language) -> String {
    let told = |v: &Violation| format!("`{}` {}", path_of(&v.pointer), v.told(language));
    let mut text = violations.iter().map(told).collect::<Vec<_>>().join("; ");
    if !text.ends_with('?') {
        text.push('.');
    }
    text
}

impl RefusedRequest {
    /// What the kind and the dialect add: members of its own, what is wrong where, and the place in a trace.
    fn members(&self, dialect: Dialect) -> Map<String, Value> {
        let mut members = self.members.clone();
        let listed = self
            .violations
            .iter()
            .map(|violation| json!({"detail": violation.told(self.language), "pointer": violation.pointer}));
        let listed = Value::Array(listed.collect());
        match dialect {
            Dialect::Operations => {
                members.extend(self.traceparent.clone().map(|place| ("traceId".into(), place.into())));
                if !self.violations.is_empty() {
                    members.insert("errors".into(), Value::Object(self.errors_by_path()));
                    members.insert("violations".into(), listed);
                }
            }
            Dialect::Forge | Dialect::Ojs => {
                if !self.violations.is_empty() {
                    members.insert("errors".into(), listed);
                }
            }
        }
        members
    }

    /// By the path of the member, all that is wrong with it (C-31).
    fn errors_by_path(&self) -> Map<String, Value> {
        let mut errors = Map::new();
        for violation in &self.violations {
            let path = path_of(&violation.pointer).replace('/', ".");
            let entry = errors.entry(path).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(details) = entry {
                details.push(violation.told(self.language).into());
            }
        }
        errors
    }
}

/// The title of a kind. The async-operations pattern has one for all that is wrong with a body.
fn title(kind: Kind, dialect: Dialect, language: Language) -> &'static str {
    match (dialect, status::http(kind, dialect)) {
        (Dialect::Operations, 400) => language::of_any_bad_body(language),
        (Dialect::Operations | Dialect::Forge | Dialect::Ojs, _) => language::words(kind, language).title,
    }
}

/// Where a code is explained, on this server: the page of the canonical code, or that of the problem type.
pub fn doc_url(kind: Kind, base: &str) -> String {
    let entry = kind.entry();
    match entry.ojs {
        Some(code) => format!("{base}/ojs/errors/{code}"),
        None => format!("{base}/problems/{}", entry.slug),
    }
}

/// OJS's `message`: never empty, always English.
fn message(title: &str, detail: &str) -> String {
    if detail.is_empty() { title.into() } else { detail.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_makes_a_problem_with_both_codes_in_every_dialect() {
        for &kind in Kind::ALL {
            for dialect in [Dialect::Forge, Dialect::Operations, Dialect::Ojs] {
                let problem = RefusedRequest::new(kind, "it went wrong").retry_after(3).problem(
                    dialect,
                    "",
                    "urn:uuid:x",
                );
                let json: Value = serde_json::from_str(&problem.to_json()).unwrap();
                for member in
                    ["type", "title", "status", "detail", "instance", "code", "rfa_code", "ojs_code"]
                {
                    assert!(!json[member].is_null(), "{kind:?} lacks {member}");
                }
                for member in ["message", "details", "retryable", "doc_url"] {
                    assert!(!json[member].is_null(), "{kind:?} lacks {member}");
                }
                assert_eq!(
                    json["code"],
                    json[if dialect == Dialect::Forge { "rfa_code" } else { "ojs_code" }]
                );
                assert_eq!(json["retryAfter"].is_null(), !kind.entry().retryable, "{kind:?}");
            }
        }
    }

    #[test]
    fn a_poll_that_was_too_eager_is_not_told_when_to_submit_again() {
        let mut refused = RefusedRequest::new(Kind::RateLimited, "too fast").retry_after(3);
        refused.is_poll = true;
        let problem = refused.problem(Dialect::Forge, "", "urn:uuid:x");
        assert_eq!(problem.job().retry_after_s(), None);
        assert_eq!(problem.job().retryable(), Some(true));
    }

    #[test]
    fn a_blank_problem_is_named_by_its_status() {
        let problem = RefusedRequest::new(Kind::JobNotFound, "no such page").blank().problem(
            Dialect::Forge,
            "",
            "urn:uuid:x",
        );
        assert_eq!((problem.type_uri(), problem.title()), ("about:blank", Some("Not Found")));
    }

    #[test]
    fn a_german_problem_is_german_throughout_and_its_message_english() {
        let violation = |name: &str, detail: &str, constraint| Violation {
            pointer: format!("#/{name}"),
            detail: detail.into(),
            constraint,
        };
        let wrong =
            vec![violation("type", "is required", "required"), violation("queue", "is odd", "format")];
        let detail = summary(&wrong, Language::English);
        let mut refused = RefusedRequest::new(Kind::MalformedRequest, detail.clone()).violations(wrong);
        refused.language = Language::German;
        let problem = refused.problem(Dialect::Forge, "", "urn:uuid:x");
        let json: Value = serde_json::from_str(&problem.to_json()).unwrap();
        assert_eq!(json["title"], "Fehlerhafte Anfrage");
        assert_eq!(json["detail"], "`type` ist eine Pflichtangabe; `queue` verletzt die Regel `format`.");
        assert_eq!(json["errors"][0]["detail"], "ist eine Pflichtangabe");
        assert_eq!(json["message"], detail);
    }

    #[test]
    fn a_summary_ends_with_one_mark() {
        let wrong = |detail: &str| Violation {
            pointer: "#/typ".into(),
            detail: detail.into(),
            constraint: "unknown",
        };
        let told = |details: &[&str]| {
            summary(&details.iter().map(|detail| wrong(detail)).collect::<Vec<_>>(), Language::English)
        };
        assert_eq!(told(&["did you mean `type`?"]), "`typ` did you mean `type`?");
        assert_eq!(
            told(&["did you mean `type`?", "is missing"]),
            "`typ` did you mean `type`?; `typ` is missing."
        );
    }

    #[test]
    fn a_sentence_without_translation_is_told_in_general() {
        let mut refused = RefusedRequest::new(Kind::JobNotFound, "The dog ate it.");
        refused.language = Language::German;
        let problem = refused.problem(Dialect::Forge, "", "urn:uuid:x");
        assert_eq!(problem.detail(), Some("Es gibt keinen Auftrag mit dieser Kennung."));
        refused.is_blank = true;
        let problem = refused.problem(Dialect::Forge, "", "urn:uuid:x");
        assert_eq!(problem.title(), Some("Nicht gefunden"));
    }

    #[test]
    fn the_first_violation_is_ojs_detail_too() {
        let violation =
            Violation { pointer: "#/type".into(), detail: "is missing".into(), constraint: "required" };
        let refused = RefusedRequest::new(Kind::MalformedRequest, "bad body").violations(vec![violation]);
        let json: Value =
            serde_json::from_str(&refused.problem(Dialect::Forge, "", "urn:uuid:x").to_json()).unwrap();
        assert_eq!(json["details"], json!({"field": "type", "constraint": "required"}));
        assert_eq!(json["errors"], json!([{"detail": "is missing", "pointer": "#/type"}]));
    }

    #[test]
    fn the_async_operations_dialect_lists_errors_by_path_and_names_the_trace() {
        let violation = |pointer: &str, detail: &str| Violation {
            pointer: pointer.into(),
            detail: detail.into(),
            constraint: "range",
        };
        let violations =
            vec![violation("#/parameters/year", "is odd"), violation("#/parameters/year", "is old")];
        let mut refused = RefusedRequest::new(Kind::InvalidArgs, "bad body").violations(violations);
        refused.traceparent = Some("00-1-2-01".into());
        let read = |dialect| -> Value {
            serde_json::from_str(&refused.problem(dialect, "", "urn:uuid:x").to_json()).unwrap()
        };
        let json = read(Dialect::Operations);
        assert_eq!(json["title"], "One or more validation errors occurred.");
        assert_eq!(json["errors"], json!({"parameters.year": ["is odd", "is old"]}));
        assert_eq!(json["violations"], read(Dialect::Forge)["errors"]);
        assert_eq!(json["details"], json!({"field": "parameters.year", "constraint": "range"}));
        assert_eq!((&json["traceId"], &read(Dialect::Forge)["traceId"]), (&json!("00-1-2-01"), &Value::Null));
    }

    #[test]
    fn members_of_a_refusal_stand_at_the_top() {
        let refused = RefusedRequest::new(Kind::Expired, "gone").member("expiredAt", "then");
        let json = refused.problem(Dialect::Operations, "", "urn:uuid:x").to_json();
        assert!(json.contains("\"expiredAt\":\"then\"") && json.contains("\"status\":410"), "{json}");
    }
}
