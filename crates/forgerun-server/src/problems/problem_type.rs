//! The content of a page. Kinds that share a slug share a page.

use forgerun_core::catalog::{CatalogEntry, ErrorLevel, Kind};
use forgerun_core::job::Dialect;
use forgerun_problem::Problem;
use forgerun_wire::language::{self, Language};
use forgerun_wire::outcome::Outcomes;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::{example, status};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::labels::labels;
use crate::limits::{POLL_AFTER_S, TROUBLE_AFTER_S};

/// A problem type.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ProblemType {
    /// What `type` says.
    #[serde(rename = "type")]
    pub(super) type_uri: String,
    /// Its name.
    pub(super) slug: &'static str,
    /// What `title` says.
    pub(super) title: &'static str,
    /// The language of titles and sentences.
    pub(super) language: &'static str,
    /// What it is about: `request` or `job`.
    #[serde(serialize_with = "level")]
    #[schemars(with = "String")]
    pub(super) level: ErrorLevel,
    /// The HTTP status codes, by dialect.
    pub(super) status: Statuses,
    /// Whether to try again.
    pub(super) retryable: bool,
    /// Retry advice as text.
    pub(super) retry: &'static str,
    /// What `processingStage` says.
    pub(super) stage: Option<&'static str>,
    /// The ways to meet it.
    pub(super) codes: Vec<ProblemCode>,
    /// The members that such a problem has beside the standard ones, with their types.
    pub(super) extensions: Extensions,
    /// Such a problem.
    #[serde(serialize_with = "problem")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub(super) example: Problem,
    /// URL of the index.
    pub(super) index: String,
}

/// HTTP statuses by dialect.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Statuses {
    /// Under `/v1`.
    pub(super) v1: Vec<u16>,
    /// Under `/api/v1`.
    pub(super) api: Vec<u16>,
    /// Under `/ojs/v1`.
    pub(super) ojs: Vec<u16>,
}

/// One of the kinds behind a type.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ProblemCode {
    /// ForgeRun's code.
    pub(super) rfa_code: &'static str,
    /// The code of Open Job Spec.
    pub(super) ojs_code: &'static str,
    /// What happened.
    pub(super) meaning: &'static str,
    /// What to do about it.
    pub(super) remedy: &'static str,
    /// Where the code is explained.
    pub(super) doc_url: String,
}

/// The members that such a problem has beside the standard ones, with their types in JSON and in
/// the `Problem` field.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Extensions {
    pub(super) code: &'static str,
    pub(super) rfa_code: &'static str,
    pub(super) ojs_code: &'static str,
    pub(super) retryable: &'static str,
    #[serde(rename = "retryAfter", skip_serializing_if = "Option::is_none")]
    pub(super) retry_after: Option<&'static str>,
}

impl Extensions {
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let always = [
            ("code", self.code),
            ("rfa_code", self.rfa_code),
            ("ojs_code", self.ojs_code),
            ("retryable", self.retryable),
        ];
        always.into_iter().chain(self.retry_after.map(|text| ("retryAfter", text)))
    }
}

impl ProblemType {
    pub(super) fn new(base: &str, slug: &'static str, language: Language) -> ProblemType {
        let kinds: Vec<Kind> = entries(slug).map(|entry| entry.kind).collect();
        let first = kinds[0].entry();
        let labels = labels(language);
        ProblemType {
            type_uri: format!("{base}/problems/{slug}"),
            slug,
            title: language::words(first.kind, language).title,
            language: language.tag(),
            level: first.level,
            status: Statuses {
                v1: statuses(&kinds, Dialect::Forge),
                api: statuses(&kinds, Dialect::Operations),
                ojs: statuses(&kinds, Dialect::Ojs),
            },
            retryable: first.retryable || is_only_early(first.kind),
            retry: match (first.level, first.retryable) {
                _ if is_only_early(first.kind) => labels.retry_when_ended,
                (ErrorLevel::Job, _) if first.kind == Kind::BatchPartial => labels.retry_items,
                (ErrorLevel::Request, true) => labels.retry_request,
                (ErrorLevel::Request, false) => labels.no_retry_request,
                (ErrorLevel::Job, true) => labels.retry_job,
                (ErrorLevel::Job, false) => labels.no_retry_job,
            },
            stage: first.stage.map(|stage| stage.as_str()),
            codes: kinds.iter().map(|kind| code(*kind, base, language)).collect(),
            extensions: Extensions {
                code: labels.member_code,
                rfa_code: labels.member_text,
                ojs_code: labels.member_text,
                retryable: labels.member_retryable,
                retry_after: (first.retryable || is_only_early(first.kind))
                    .then_some(labels.member_retry_after),
            },
            example: example_of(first, base, language),
            index: format!("{base}/problems"),
        }
    }
}

/// Whether such a refusal may mean "too early", so that the same request succeeds later (C-113).
const fn is_only_early(kind: Kind) -> bool {
    matches!(kind, Kind::ResultNotReady | Kind::ReportNotFound)
}

/// Every slug once, in the order of the catalog.
pub(super) fn slugs() -> Vec<&'static str> {
    let mut slugs: Vec<&str> = Vec::new();
    for kind in Kind::ALL {
        let slug = kind.entry().slug;
        if !slugs.contains(&slug) {
            slugs.push(slug);
        }
    }
    slugs
}

fn entries(slug: &str) -> impl Iterator<Item = &'static CatalogEntry> {
    Kind::ALL.iter().map(|kind| kind.entry()).filter(move |entry| entry.slug == slug)
}

fn code(kind: Kind, base: &str, language: Language) -> ProblemCode {
    let (entry, words) = (kind.entry(), language::words(kind, language));
    ProblemCode {
        rfa_code: entry.rfa,
        ojs_code: entry.ojs_or_custom(),
        meaning: words.meaning,
        remedy: words.remedy,
        doc_url: forgerun_wire::problem::doc_url(kind, base),
    }
}

fn statuses(kinds: &[Kind], dialect: Dialect) -> Vec<u16> {
    let mut codes: Vec<u16> = kinds.iter().map(|kind| status::http(*kind, dialect)).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// A problem of this kind, made by the code that makes all of them.
fn example_of(entry: &CatalogEntry, base: &str, language: Language) -> Problem {
    match entry.level {
        ErrorLevel::Job => {
            let outcomes = Outcomes { base: base.to_owned(), ..Outcomes::default() };
            example::failure(entry.kind, &outcomes, language)
        }
        ErrorLevel::Request => {
            let mut refused = RefusedRequest::new(entry.kind, entry.meaning);
            refused.language = language;
            if entry.retryable {
                refused = refused.retry_after(TROUBLE_AFTER_S);
            }
            if is_only_early(entry.kind) {
                refused = refused.early(POLL_AFTER_S);
            }
            refused.problem(Dialect::Forge, base, "urn:uuid:01890a5d-ac96-774b-bcce-b302099a8057")
        }
    }
}

fn level<S: Serializer>(level: &ErrorLevel, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(word(*level))
}

/// The name of a level in JSON and XML.
pub(super) const fn word(level: ErrorLevel) -> &'static str {
    match level {
        ErrorLevel::Request => "request",
        ErrorLevel::Job => "job",
    }
}

fn problem<S: Serializer>(problem: &Problem, serializer: S) -> Result<S::Ok, S::Error> {
    let value: serde_json::Value = serde_json::from_str(&problem.to_json()).expect("we wrote it");
    value.serialize(serializer)
}
