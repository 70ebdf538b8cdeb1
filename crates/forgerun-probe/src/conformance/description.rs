//! The description of a server: where jobs are submitted, which bodies lead to which end, how
//! requests are authenticated. A small TOML file.
//!
//! Omitted keys default to ForgeRun's values.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::duration;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Description {
    /// Authentication of requests.
    pub auth: Auth,
    /// Submission by the async-operations pattern.
    pub operations: Operations,
    /// How jobs are polled.
    pub poll: Poll,
    /// Open Job Spec.
    pub ojs: OjsSite,
}

/// Authentication of requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    pub header: String,
    /// Header value; `{key}` stands for the key.
    pub value: String,
}

/// Submission and control of jobs.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Operations {
    /// Path for submissions, by POST.
    pub submit: String,
    /// Path of a job's status, with `{id}` for its id. Used for unknown ids; real jobs are found by
    /// `Location`.
    pub status: String,
    /// Body of a job that succeeds.
    pub succeeds: Value,
    /// Body of a job that is accepted and fails.
    pub fails: Value,
    /// Body of a job that takes a while; it is cancelled.
    pub slow: Value,
    /// Body that is refused.
    pub invalid: Value,
    /// Method and path with `{id}` that cancel a job; empty if impossible.
    pub cancel: String,
    /// Method and path with `{id}` that delete a job; empty if impossible. Or `GET` and the path of
    /// a deleted job.
    pub gone: String,
    /// Header of the idempotency key; empty if there is none.
    pub idempotency_header: String,
}

/// How jobs are polled.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Poll {
    /// Interval.
    #[serde(deserialize_with = "duration::deserialize")]
    pub every: Duration,
    /// How long a job may take.
    #[serde(deserialize_with = "duration::deserialize")]
    pub patience: Duration,
}

/// Open Job Spec.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OjsSite {
    /// Base path.
    pub base: String,
    pub manifest: String,
}

impl Default for Auth {
    fn default() -> Auth {
        Auth { header: "Authorization".to_owned(), value: "Bearer {key}".to_owned() }
    }
}

impl Default for Operations {
    fn default() -> Operations {
        Operations {
            submit: "/api/v1/jobs".to_owned(),
            status: "/api/v1/jobs/{id}".to_owned(),
            succeeds: json!({"type": "conformance.check", "work_kind": "SUCCESS_FAST"}),
            fails: json!({"type": "conformance.check", "work_kind": "FAIL_IMMEDIATE"}),
            slow: json!({"type": "conformance.check", "work_kind": "SUCCESS_SLOW"}),
            invalid: json!({"type": 42}),
            cancel: "POST /api/v1/jobs/{id}/cancel".to_owned(),
            gone: "DELETE /v1/jobs/{id}".to_owned(),
            idempotency_header: "Idempotency-Key".to_owned(),
        }
    }
}

impl Default for Poll {
    fn default() -> Poll {
        Poll { every: Duration::from_millis(250), patience: Duration::from_secs(60) }
    }
}

impl Default for OjsSite {
    fn default() -> OjsSite {
        OjsSite { base: "/ojs/v1".to_owned(), manifest: "/ojs/manifest".to_owned() }
    }
}

/// Why a description is invalid: line, column and reason.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DescriptionError(String);

impl Description {
    /// Parses a description.
    ///
    /// # Errors
    /// If it is invalid TOML, or has unknown keys or values; the message has the position.
    pub fn parse(text: &str) -> Result<Description, DescriptionError> {
        toml::from_str(text).map_err(|error| DescriptionError(error.to_string().trim_end().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_leaves_out_is_as_forgerun_has_it() {
        let read =
            Description::parse("[operations]\nsubmit = \"/tasks\"\nfails = { kind = \"boom\" }\n").unwrap();
        assert_eq!(read.operations.submit, "/tasks");
        assert_eq!(read.operations.fails, json!({"kind": "boom"}));
        assert_eq!(read.operations.status, "/api/v1/jobs/{id}");
        assert_eq!(read.auth.header, "Authorization");
    }

    #[test]
    fn a_mistake_is_shown_with_its_line_and_column() {
        let unknown = Description::parse("[operations]\nsubmitt = \"/tasks\"\n").unwrap_err().to_string();
        assert!(unknown.contains("line 2, column 1") && unknown.contains("submitt"), "{unknown}");
        let span = Description::parse("[poll]\nevery = \"soon\"\n").unwrap_err().to_string();
        assert!(span.contains("line 2") && span.contains("500ms"), "{span}");
    }
}
