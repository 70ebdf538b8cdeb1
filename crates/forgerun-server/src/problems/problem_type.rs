//! The content of a page. Kinds that share a slug share a page.

use forgerun_core::catalog::{CatalogEntry, ErrorLevel, Kind};
use forgerun_core::job::Dialect;
use forgerun_problem::Problem;
use forgerun_wire::language::{self, Language};
use forgerun_wire::outcome::Outcomes;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::{example, status};
use serde::{Serialize, Serializer};

use super::labels::labels;
use crate::limits::{POLL_AFTER_S, TROUBLE_AFTER_S};

#[derive(Debug, Serialize)]
pub(super) struct ProblemType {
    #[serde(rename = "type")]
    pub(super) type_uri: String,
    pub(super) slug: &'static str,
    pub(super) title: &'static str,
    pub(super) language: &'static str,
    #[serde(serialize_with = "level")]
    pub(super) level: ErrorLevel,
    pub(super) status: Statuses,
    pub(super) retryable: bool,
    /// Retry advice as text.
    pub(super) retry: &'static str,
    pub(super) stage: Option<&'static str>,
    pub(super) codes: Vec<ProblemCode>,
    pub(super) extensions: Extensions,
    #[serde(serialize_with = "problem")]
    pub(super) example: Problem,
    /// URL of the index.
    pub(super) index: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Statuses {
    pub(super) v1: Vec<u16>,
    pub(super) api: Vec<u16>,
    pub(super) ojs: Vec<u16>,
}

/// One of the kinds of a type.
#[derive(Debug, Serialize)]
pub(super) struct ProblemCode {
    pub(super) rfa_code: &'static str,
    pub(super) ojs_code: &'static str,
    pub(super) meaning: &'static str,
    pub(super) remedy: &'static str,
    pub(super) doc_url: String,
}

/// Further members of such a problem, with their types in JSON and in the `Problem` field.
#[derive(Debug, Serialize)]
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
