//! Reading problem objects written by others, tolerantly.
//!
//! A member of the wrong type is ignored as if it were absent; unknown members are kept; an unknown
//! `jobStatus` is not terminal; `completedAt` beside a state that is not terminal is ignored. None
//! of this happens in silence: every [`Reading`] carries its [`Warning`]s. A defined member that is
//! `null` counts as absent without one.
//!
//! What is not a problem document at all is a [`ReadError`]: broken syntax, bytes that are not
//! UTF-8, too deep, too large, or the same member twice (which two readers would understand in two
//! ways). In the header field the last of two equal keys counts, because RFC 9651 says so. XML with
//! a document type is refused unread, so there are no entities to expand.

mod assemble;
mod field;
mod http;
mod json;
mod xml;

use crate::limits::{DEPTH_MAX, DOCUMENT_BYTES_MAX, FIELD_BYTES_MAX, WARNINGS_MAX};
use crate::problem::Problem;
use crate::uri::BaseUri;

pub use http::{HttpReading, Meaning};

/// Reads problem objects; set up once and used for many.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    limits: Limits,
    terminal: Vec<String>,
    base: Option<BaseUri>,
}

impl Reader {
    /// A reader with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes what the reader takes.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Names a `jobStatus` which the server documents as terminal.
    #[must_use]
    pub fn with_terminal_status(mut self, name: impl Into<String>) -> Self {
        self.terminal.push(name.into());
        self
    }

    /// Resolves relative `type` and `instance` against where the object was found.
    #[must_use]
    pub fn with_base(mut self, base: BaseUri) -> Self {
        self.base = Some(base);
        self
    }

    /// Reads `application/problem+json`, or any JSON object with members of a problem.
    ///
    /// # Errors
    /// When the document is too large, too deep, not JSON, not an object, or has a member twice.
    pub fn json(&self, document: &[u8]) -> Result<Reading, ReadError> {
        self.bounded(document, self.limits.document_bytes)?;
        json::read(self, document)
    }

    /// Reads `application/problem+xml` in UTF-8.
    ///
    /// # Errors
    /// When the document is too large, too deep, not well-formed, not a problem, has a member twice
    /// or a document type.
    pub fn xml(&self, document: &[u8]) -> Result<Reading, ReadError> {
        self.bounded(document, self.limits.document_bytes)?;
        xml::read(self, document)
    }

    /// Reads a `Problem` header field (draft -04; RFC 9457 has none).
    ///
    /// The field-only spellings `job_id`, `job_status`, `retry_after` and `processing_stage` are
    /// understood.
    ///
    /// # Errors
    /// When the value is too large or no Structured Fields Dictionary.
    pub fn field(&self, value: &[u8]) -> Result<Reading, ReadError> {
        self.bounded(value, self.limits.field_bytes)?;
        field::read(self, value)
    }

    /// Reads a `Problem` field that came in several lines.
    ///
    /// # Errors
    /// As [`Reader::field`].
    pub fn field_lines<'a>(&self, lines: impl IntoIterator<Item = &'a [u8]>) -> Result<Reading, ReadError> {
        let mut value = Vec::new();
        for line in lines {
            self.bounded(line, self.limits.field_bytes.saturating_sub(value.len()))?;
            if !value.is_empty() {
                value.extend_from_slice(b", ");
            }
            value.extend_from_slice(line);
        }
        self.field(&value)
    }

    fn bounded(&self, input: &[u8], bytes_max: usize) -> Result<(), ReadError> {
        if input.len() > bytes_max { Err(ReadError::TooLarge { bytes_max }) } else { Ok(()) }
    }

    fn depth_max(&self) -> usize {
        self.limits.depth.min(DEPTH_MAX)
    }
}

/// How much a reader takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a JSON or XML document.
    pub document_bytes: usize,
    /// Bytes of a header field, all lines together.
    pub field_bytes: usize,
    /// Levels of nesting below the top; at most [`DEPTH_MAX`], as nothing deeper can be written
    /// again.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { document_bytes: DOCUMENT_BYTES_MAX, field_bytes: FIELD_BYTES_MAX, depth: DEPTH_MAX }
    }
}

/// A problem as it was understood, and what was not.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The problem.
    pub problem: Problem,
    /// What was ignored or changed, in the order it was met; at most [`WARNINGS_MAX`]. Worth a line
    /// in a log.
    pub warnings: Vec<Warning>,
}

/// Something a reader ignored or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// The member has another type than defined and counts as absent.
    #[error("{member} was ignored: its value is of the wrong type")]
    WrongType {
        /// The member's name.
        member: String,
    },
    /// The member has the right type but an impossible value and counts as absent.
    #[error("{member} was ignored: its value is not allowed")]
    InvalidValue {
        /// The member's name.
        member: String,
    },
    /// A completion time on a job that is not complete.
    #[error("completedAt was ignored: jobStatus {status} is not terminal")]
    CompletedAtIgnored {
        /// The state beside which it stood.
        status: String,
    },
    /// The time was not in UTC; it was converted.
    #[error("{member} was converted: it was not in UTC")]
    ConvertedToUtc {
        /// The member's name.
        member: String,
    },
    /// The correlation id had characters that are not safe to print; they were dropped.
    #[error("correlationId was sanitised")]
    Sanitized,
    /// The extension holds an integer beyond ±(2^53 - 1), now rounded to a double.
    #[error("{member} was rounded: it holds an integer beyond 2^53 - 1")]
    Rounded {
        /// The member's name.
        member: String,
    },
    /// An entry of `results` lacks its id or has no possible status.
    #[error("results[{index}] was ignored: it is no outcome of an item")]
    ItemIgnored {
        /// Its zero-based place.
        index: usize,
    },
    /// A relative `type` or `instance` could not be resolved against the base.
    #[error("a relative reference was left so: the base is opaque")]
    NotResolved,
    /// The `status` member disagrees with the response, which rules.
    #[error("status {member} differs from the response's {response}, which rules")]
    StatusDiffers {
        /// The member.
        member: u16,
        /// The response's code.
        response: u16,
    },
}

/// Why nothing was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// More bytes than the reader takes.
    #[error("the document has more than {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// More levels than the reader takes.
    #[error("the document nests deeper than {depth_max} levels")]
    TooDeep {
        /// The limit.
        depth_max: usize,
    },
    /// Not UTF-8, or declared to be something else.
    #[error("the document is not in UTF-8")]
    NotUtf8,
    /// Not JSON, not well-formed XML, no dictionary; or a number no double can hold.
    #[error("the document is not well-formed {syntax}: {reason}")]
    Malformed {
        /// Which syntax was expected.
        syntax: Syntax,
        /// What the parser said.
        reason: String,
    },
    /// JSON, but not an object; XML, but not a `problem` element in the namespace.
    #[error("the document is no problem object")]
    NotAProblem,
    /// The same member twice in one object.
    #[error("the document has the member {member:?} twice")]
    Duplicate {
        /// The member's name.
        member: String,
    },
    /// XML with a document type, which could declare entities.
    #[error("the document has a document type declaration")]
    DocumentType,
    /// XML that refers to an entity other than the five predefined ones.
    #[error("the document refers to the undeclared entity {name:?}")]
    UnknownEntity {
        /// The entity's name.
        name: String,
    },
}

/// What a document was read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// JSON.
    Json,
    /// XML 1.0 with namespaces.
    Xml,
    /// A Structured Fields Dictionary (RFC 9651).
    Dictionary,
}

impl std::fmt::Display for Syntax {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Json => "JSON",
            Self::Xml => "XML",
            Self::Dictionary => "structured field",
        })
    }
}

/// Warnings met so far, bounded.
#[derive(Debug, Default)]
struct Warnings(Vec<Warning>);

impl Warnings {
    fn push(&mut self, warning: Warning) {
        if self.0.len() < WARNINGS_MAX {
            self.0.push(warning);
        }
    }
}
