//! The error catalog: every way a request or a job can go wrong, each exactly once.
//!
//! A [`Kind`] is what the rules decide. Its [`CatalogEntry`] holds what is the same for every
//! caller: the codes of the two vocabularies (`RFA_*` and Open Job Spec), slug and title of the
//! problem type, whether a retry can help, and the pipeline stage. The rows are in `table.rs`, the
//! closed Open Job Spec set in `ojs.rs`.
//!
//! Deliberately not here: HTTP statuses, gRPC codes and AMQP mechanisms. They differ by dialect, so
//! each dialect maps the kind itself. Messages about one occurrence are not here either; `meaning`
//! and `remedy` describe the kind in general and are safe to show to any caller.

mod ojs;
mod table;

pub use ojs::{Category, is_custom_code, ojs_category, ojs_retryable};
pub use table::Kind;

/// The entry of a [`Kind`], the same in every dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogEntry {
    pub kind: Kind,
    pub level: ErrorLevel,
    /// The `RFA_*` code. Several kinds may share one.
    pub rfa: &'static str,
    /// The canonical Open Job Spec code; `None` if the closed set has no code for the condition.
    pub ojs: Option<&'static str>,
    /// Last segment of the problem type's address. Kinds that share a slug share the title.
    pub slug: &'static str,
    pub title: &'static str,
    /// Whether a later retry of the request or job can succeed. This is advice, not permission: a
    /// manual retry is limited by the retry budget alone.
    pub retryable: bool,
    /// Pipeline stage; `None` if the kind has no stage, or only the occurrence knows it.
    pub stage: Option<ProcessingStage>,
    pub meaning: &'static str,
    pub remedy: &'static str,
}

impl CatalogEntry {
    /// The Open Job Spec code: the canonical one, else the `RFA_*` code, which is a legal custom
    /// code.
    pub fn ojs_or_custom(&self) -> &'static str {
        self.ojs.unwrap_or(self.rfa)
    }
}

/// Who receives the error: the sender of a request, or the owner of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorLevel {
    /// The request was refused or could not be served. Nothing was done.
    Request,
    /// An accepted job failed. Reading about it still succeeds.
    Job,
}

/// A pipeline stage, the `processingStage` of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcessingStage {
    Validation,
    Authorization,
    Queuing,
    Processing,
    Rendering,
    Conversion,
    Storage,
    Delivery,
}

impl ProcessingStage {
    /// Every stage, in pipeline order.
    pub const ALL: &'static [ProcessingStage] = &[
        ProcessingStage::Validation,
        ProcessingStage::Authorization,
        ProcessingStage::Queuing,
        ProcessingStage::Processing,
        ProcessingStage::Rendering,
        ProcessingStage::Conversion,
        ProcessingStage::Storage,
        ProcessingStage::Delivery,
    ];

    /// The spelling on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ProcessingStage::Validation => "validation",
            ProcessingStage::Authorization => "authorization",
            ProcessingStage::Queuing => "queuing",
            ProcessingStage::Processing => "processing",
            ProcessingStage::Rendering => "rendering",
            ProcessingStage::Conversion => "conversion",
            ProcessingStage::Storage => "storage",
            ProcessingStage::Delivery => "delivery",
        }
    }

    pub fn parse(text: &str) -> Option<ProcessingStage> {
        ProcessingStage::ALL.iter().copied().find(|stage| stage.as_str() == text)
    }
}

impl Kind {
    /// The inverse of [`Kind::name`]; `None` for a name this version does not know.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::format;
    use std::string::String;

    fn entries() -> impl Iterator<Item = &'static CatalogEntry> {
        Kind::ALL.iter().map(|kind| kind.entry())
    }

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (position, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, position);
            assert_eq!(kind.entry().kind, *kind);
        }
    }

    #[test]
    fn there_are_sixty_two_request_kinds_and_nine_job_kinds() {
        let n_at = |level| entries().filter(|entry| entry.level == level).count();
        assert_eq!((n_at(ErrorLevel::Request), n_at(ErrorLevel::Job)), (62, 9));
    }

    #[test]
    fn a_kind_is_found_by_its_name() {
        assert_eq!(Kind::HandlerTimeout.name(), "HandlerTimeout");
        for kind in Kind::ALL {
            assert_eq!(kind.name(), format!("{kind:?}"));
            assert_eq!(Kind::from_name(kind.name()), Some(*kind));
        }
        assert_eq!(Kind::from_name("handlertimeout"), None);
    }

    #[test]
    fn every_rfa_code_starts_with_rfa_and_a_context_word() {
        let contexts = ["REQUEST", "AUTH", "JOB", "EXEC", "STORAGE", "DEPENDENCY", "CONFIG", "INTERNAL"];
        for entry in entries() {
            let mut words = entry.rfa.split('_');
            assert_eq!(words.next(), Some("RFA"), "{:?}", entry.kind);
            assert!(words.next().is_some_and(|word| contexts.contains(&word)), "{:?}", entry.kind);
        }
    }

    #[test]
    fn the_rfa_codes_are_those_of_the_source_and_five_of_ours() {
        let source = [
            "RFA_REQUEST_MALFORMED",
            "RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE",
            "RFA_REQUEST_METHOD_NOT_ALLOWED",
            "RFA_REQUEST_NOT_ACCEPTABLE",
            "RFA_REQUEST_PAYLOAD_TOO_LARGE",
            "RFA_REQUEST_RATE_LIMITED",
            "RFA_AUTH_INVALID_CREDENTIALS",
            "RFA_AUTH_TOKEN_EXPIRED",
            "RFA_AUTH_FORBIDDEN",
            "RFA_AUTH_API_KEY_DISABLED",
            "RFA_JOB_VALIDATION_FAILED",
            "RFA_JOB_NOT_FOUND",
            "RFA_JOB_CONFLICT",
            "RFA_EXEC_QUEUE_FULL",
            "RFA_EXEC_TIMEOUT",
            "RFA_EXEC_IDEMPOTENCY_CONFLICT",
            "RFA_EXEC_WORKER_UNAVAILABLE",
            "RFA_STORAGE_DB_ERROR",
            "RFA_STORAGE_UNAVAILABLE",
            "RFA_DEPENDENCY_TIMEOUT",
            "RFA_CONFIG_INVALID",
            "RFA_INTERNAL",
        ];
        assert_eq!(source.len(), 22);
        // The first two appear in job reports only.
        let ours = ["RFA_EXEC_JOB_FAILED", "RFA_EXEC_BATCH_PARTIAL"];
        let of_requests = [
            "RFA_REQUEST_ROUTE_NOT_FOUND",
            "RFA_REQUEST_PRECONDITION_FAILED",
            "RFA_STORAGE_CONTENT_UNREADABLE",
        ];
        let expected: BTreeSet<&str> = source.into_iter().chain(ours).chain(of_requests).collect();
        assert_eq!(entries().map(|entry| entry.rfa).collect::<BTreeSet<_>>(), expected);
        assert!(entries().all(|entry| entry.level == ErrorLevel::Job || !ours.contains(&entry.rfa)));
    }

    #[test]
    fn every_ojs_code_is_canonical_and_every_rfa_code_a_legal_custom_code() {
        for entry in entries() {
            assert!(entry.ojs.is_none_or(|code| ojs_category(code).is_some()), "{:?}", entry.kind);
            assert!(is_custom_code(entry.rfa), "{:?}", entry.kind);
        }
    }

    #[test]
    fn only_conditions_without_a_canonical_word_use_the_rfa_code_as_custom_code() {
        let custom = entries().filter(|entry| entry.ojs.is_none()).map(|entry| entry.kind);
        assert!(custom.eq([
            Kind::MethodNotAllowed,
            Kind::NotAcceptable,
            Kind::PreconditionFailed,
            Kind::ContentUnreadable,
            Kind::BatchPartial
        ]));
        assert_eq!(Kind::NotAcceptable.entry().ojs_or_custom(), "RFA_REQUEST_NOT_ACCEPTABLE");
        assert_eq!(Kind::JobNotFound.entry().ojs_or_custom(), "NOT_FOUND");
    }

    #[test]
    fn every_canonical_code_has_a_kind() {
        let used: BTreeSet<&str> = entries().filter_map(|entry| entry.ojs).collect();
        assert!(used.into_iter().eq(ojs::sorted_codes()));
    }

    #[test]
    fn retryable_agrees_with_the_ojs_code_except_where_the_retry_policy_decides() {
        for entry in entries() {
            let Some(code) = entry.ojs else {
                assert!(!entry.retryable, "{:?}", entry.kind);
                continue;
            };
            if ojs_category(code) != Some(Category::Execution) {
                assert_eq!(Some(entry.retryable), ojs_retryable(code), "{:?}", entry.kind);
            }
        }
    }

    #[test]
    fn validation_conflict_and_auth_are_never_retryable() {
        let never = ["RFA_JOB_VALIDATION_FAILED", "RFA_JOB_CONFLICT", "RFA_EXEC_IDEMPOTENCY_CONFLICT"];
        for entry in entries().filter(|entry| entry.retryable) {
            assert!(!never.contains(&entry.rfa), "{:?}", entry.kind);
            assert!(!entry.rfa.starts_with("RFA_AUTH_"), "{:?}", entry.kind);
            assert!(
                !matches!(entry.stage, Some(ProcessingStage::Validation | ProcessingStage::Authorization)),
                "{:?}",
                entry.kind
            );
        }
    }

    /// The async-operations document (§12.2.2) names them in general.
    #[test]
    fn what_passes_is_worth_another_try_and_what_stays_wrong_is_not() {
        for (what, kinds, retryable) in [
            ("timeouts", &[Kind::DependencyTimeout, Kind::OperationTimeout, Kind::HandlerTimeout][..], true),
            (
                "trouble with the database",
                &[Kind::StorageError, Kind::StorageTimeout, Kind::ReplicationLag],
                true,
            ),
            ("too many requests", &[Kind::RateLimited, Kind::QueueFull], true),
            (
                "passing absence",
                &[Kind::StorageUnavailable, Kind::WorkerUnavailable, Kind::HandlerTransient],
                true,
            ),
            ("bad input", &[Kind::MalformedRequest, Kind::InvalidArgs, Kind::SchemaMismatch], false),
            ("broken rules", &[Kind::IllegalTransition, Kind::Duplicate, Kind::NonRetryable], false),
            ("bad credentials", &[Kind::Unauthenticated, Kind::KeyExpired, Kind::Forbidden], false),
            ("what is not there", &[Kind::JobNotFound, Kind::Expired, Kind::ResultNotFound], false),
        ] {
            for kind in kinds {
                assert_eq!(kind.entry().retryable, retryable, "{what}: {kind:?}");
            }
        }
    }

    #[test]
    fn a_timeout_a_transient_failure_and_a_lost_runner_are_worth_another_try() {
        let retryable = entries().filter(|entry| entry.level == ErrorLevel::Job && entry.retryable);
        assert!(retryable.map(|entry| entry.kind).eq([
            Kind::HandlerTransient,
            Kind::HandlerTimeout,
            Kind::RunnerLost,
            Kind::ReportFailed,
        ]));
    }

    #[test]
    fn a_repeated_slug_has_one_title_and_one_level() {
        let mut seen = BTreeMap::new();
        for entry in entries() {
            let first = seen.entry(entry.slug).or_insert((entry.title, entry.level));
            assert_eq!(*first, (entry.title, entry.level), "{:?}", entry.kind);
        }
    }

    #[test]
    fn a_slug_is_made_of_lower_case_words_and_hyphens() {
        for entry in entries() {
            let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
            assert!(entry.slug.split('-').all(is_word), "{:?}", entry.kind);
        }
    }

    #[test]
    fn the_titles_given_by_the_source_stand_as_they_are() {
        assert_eq!(Kind::Unauthenticated.entry().title, "Unauthorized");
        assert_eq!(Kind::JobNotFound.entry().title, "Job not found");
        assert_eq!(Kind::Expired.entry().title, "Job Expired");
    }

    #[test]
    fn meaning_and_remedy_are_one_sentence_each() {
        let is_sentence = |text: &str| {
            text.starts_with(|first: char| first.is_ascii_uppercase())
                && text.ends_with('.')
                && text.matches(". ").count() == 0
                && !text.contains("  ")
        };
        for entry in entries() {
            assert!(is_sentence(entry.meaning), "{:?}: {}", entry.kind, entry.meaning);
            assert!(is_sentence(entry.remedy), "{:?}: {}", entry.kind, entry.remedy);
        }
        let meanings: BTreeSet<&str> = entries().map(|entry| entry.meaning).collect();
        assert_eq!(meanings.len(), Kind::ALL.len());
    }

    #[test]
    fn a_stage_is_spelled_as_its_name_in_lower_case() {
        for stage in ProcessingStage::ALL {
            let name: String = format!("{stage:?}").to_ascii_lowercase();
            assert_eq!(stage.as_str(), name);
            assert_eq!(ProcessingStage::parse(&name), Some(*stage));
        }
        assert_eq!(ProcessingStage::ALL.len(), 8);
        assert_eq!(ProcessingStage::parse("Storage"), None);
    }
}
