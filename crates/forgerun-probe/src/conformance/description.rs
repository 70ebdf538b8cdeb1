//! What has to be known of a server beforehand: where jobs are submitted, which bodies end how, who we are. A small TOML file.
//!
//! Whatever the file leaves out is as ForgeRun has it.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::duration;

/// What is particular to a server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Description {
    /// How requests say who sends them.
    pub auth: Auth,
    /// Where and how jobs are submitted, by the async-operations pattern.
    pub operations: Operations,
    /// How jobs are waited for.
    pub poll: Poll,
    /// Where Open Job Spec is served.
    pub ojs: OjsSite,
}

/// How requests say who sends them.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// The header field.
    pub header: String,
    /// Its value; `{key}` stands for the key.
    pub value: String,
}

/// Where and how jobs are submitted.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Operations {
    /// Where a job is submitted, by POST.
    pub submit: String,
    /// Where a job is shown, with `{id}` for its id. Used for ids that do not exist; real jobs are found by `Location`.
    pub status: String,
    /// The body of a job that ends well.
    pub succeeds: Value,
    /// The body of a job that is accepted and fails.
    pub fails: Value,
    /// The body of a job that takes a while; it is cancelled.
    pub slow: Value,
    /// A body that is refused.
    pub invalid: Value,
    /// How a job is cancelled, as method and path with `{id}`; empty if it cannot be.
    pub cancel: String,
    /// How a job is made to be gone, as method and path with `{id}`; empty if it cannot be. Or the path of a job that is gone already, by GET.
    pub gone: String,
    /// The header field that makes a repetition harmless; empty if there is none.
    pub idempotency_header: String,
}

/// How jobs are waited for.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Poll {
    /// How long to wait between two questions.
    #[serde(deserialize_with = "duration::deserialize")]
    pub every: Duration,
    /// How long a job may take.
    #[serde(deserialize_with = "duration::deserialize")]
    pub patience: Duration,
}

/// Where Open Job Spec is served.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OjsSite {
    /// What its paths begin with.
    pub base: String,
    /// Where the manifest is.
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

/// Why a description cannot be read: line, column and reason.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DescriptionError(String);

impl Description {
    /// Reads a description.
    ///
    /// # Errors
    /// If it is no TOML, or has keys or values that mean nothing; the message shows where.
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
