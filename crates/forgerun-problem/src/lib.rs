#![doc = include_str!("../README.md")]
//!
//! # Map
//!
//! | you want to | look at |
//! |---|---|
//! | build a problem | [`Problem::builder`], [`Job::builder`], [`ItemOutcome`] |
//! | write it | [`Problem::to_json`], [`Problem::to_canonical_json`], [`Problem::to_xml`], [`FieldWriter`] |
//! | read one | [`read::Reader`] |
//! | decide whether and when to retry | [`advice`], [`polling`] |
//! | judge someone's object | [`check`] |
//! | publish a schema | [`schema`] |

#![warn(missing_docs)]

pub mod advice;
#[cfg(feature = "axum")]
pub mod axum;
pub mod check;
mod correlation;
mod extension;
mod field;
mod item;
mod job;
mod job_status;
mod json;
pub mod limits;
mod member;
#[cfg(feature = "negotiate")]
pub mod negotiate;
pub mod polling;
mod problem;
pub mod read;
pub mod schema;
mod status;
mod timestamp;
mod uri;
mod xml;

pub use correlation::CorrelationId;
pub use extension::ExtensionError;
pub use field::{FIELD_NAME, FieldType, FieldWriter, JOB_SPELLINGS};
pub use item::{ItemOutcome, ItemStatus};
pub use job::{Job, JobBuilder, JobError};
pub use job_status::{JobStatus, OtherStatus};
pub use json::{Digest, canonical};
pub use member::{ITEM_NAMES, JOB_NAMES, RECOMMENDED_STAGES, STANDARD_NAMES};
pub use problem::{BuildError, IntoJob, MEDIA_TYPE_JSON, MEDIA_TYPE_XML, Problem, ProblemBuilder};
pub use status::{Status, StatusError};
pub use timestamp::{Timestamp, TimestampError};
pub use uri::{ABOUT_BLANK, BaseUri, UriError, UriRef};
pub use xml::XML_NAMESPACE;
