//! The problem object: five standard members, the async-job members, and extensions in order.
//!
//! A [`Problem`] can not break a MUST of the drafts: the builder refuses a `type` that is no URI
//! reference, a status that is none, an extension that shadows a defined member. What the drafts
//! only recommend is left to [`crate::check`].

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::extension::{self, ExtensionError};
use crate::job::{Job, JobError};
use crate::member::{JOB_NAMES, Member, Node, STANDARD_NAMES, serialize_members};
use crate::status::{Status, StatusError};
use crate::uri::{ABOUT_BLANK, BaseUri, UriError, UriRef};

/// The media type of [`Problem::to_json`] and [`Problem::to_canonical_json`].
pub const MEDIA_TYPE_JSON: &str = "application/problem+json";
/// The media type of [`Problem::to_xml`].
pub const MEDIA_TYPE_XML: &str = "application/problem+xml";

/// A problem details object.
///
/// Equality is that of JSON objects: the order of extensions is kept, but does not tell two
/// problems apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Problem {
    // Set by the builder below and by the reader, which both check what they set.
    pub(crate) type_uri: Option<UriRef>,
    pub(crate) title: Option<String>,
    pub(crate) status: Option<Status>,
    pub(crate) detail: Option<String>,
    pub(crate) instance: Option<UriRef>,
    pub(crate) job: Job,
    pub(crate) extensions: Map<String, Value>,
}

impl Problem {
    /// Starts a problem of the type with this URI.
    pub fn builder(type_uri: impl Into<String>) -> ProblemBuilder {
        Self::untyped().type_uri(type_uri)
    }

    /// Starts a problem without a type, which means the same as `about:blank`.
    pub fn untyped() -> ProblemBuilder {
        ProblemBuilder { problem: Self::default(), refused: None }
    }

    /// A problem that says no more than its status code; the title is the code's reason phrase.
    #[must_use]
    pub fn blank(status: Status) -> Self {
        Self { status: Some(status), title: status.reason().map(str::to_owned), ..Self::default() }
    }

    /// Takes the problem back into the builder, for example to translate its title.
    pub fn into_builder(self) -> ProblemBuilder {
        ProblemBuilder { problem: self, refused: None }
    }

    /// The URI that identifies the kind of problem: what programs should decide by. `about:blank`
    /// if absent.
    #[must_use]
    pub fn type_uri(&self) -> &str {
        self.type_uri.as_ref().map_or(ABOUT_BLANK, UriRef::as_str)
    }

    /// The type as it stands in the object; `None` if absent.
    #[must_use]
    pub fn type_ref(&self) -> Option<&UriRef> {
        self.type_uri.as_ref()
    }

    /// A short name of the kind of problem, for humans.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// The HTTP status code the problem was made with. Advisory: the code of the response itself
    /// rules.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.status
    }

    /// What happened this time, for humans. Not to be parsed; read the extensions instead.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// The URI of this occurrence.
    #[must_use]
    pub fn instance(&self) -> Option<&UriRef> {
        self.instance.as_ref()
    }

    /// The async-job members; empty if the problem is not about a job.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// All other members, in order.
    #[must_use]
    pub fn extensions(&self) -> &Map<String, Value> {
        &self.extensions
    }

    /// Makes `type` and `instance` absolute, as seen from where the object was found.
    ///
    /// # Errors
    /// When one is relative and the base is opaque.
    pub fn resolved(mut self, base: &BaseUri) -> Result<Self, UriError> {
        self.type_uri = self.type_uri.map(|uri| base.resolve(&uri)).transpose()?;
        self.instance = self.instance.map(|uri| base.resolve(&uri)).transpose()?;
        Ok(self)
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = Member<'_>> {
        let [type_name, title, status, detail, instance] = STANDARD_NAMES;
        let standard = [
            self.type_uri.as_ref().map(|uri| (type_name, Node::Text(uri.as_str()))),
            self.title.as_deref().map(|text| (title, Node::Text(text))),
            self.status.map(|code| (status, Node::Whole(code.code().into()))),
            self.detail.as_deref().map(|text| (detail, Node::Text(text))),
            self.instance.as_ref().map(|uri| (instance, Node::Text(uri.as_str()))),
        ];
        let extensions = self.extensions.iter().map(|(name, value)| (name.as_str(), Node::Value(value)));
        standard.into_iter().flatten().chain(self.job.members()).chain(extensions)
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_members(self.members(), serializer)
    }
}

/// Gathers the members of a [`Problem`]. What it refuses is told by [`ProblemBuilder::build`].
#[derive(Debug, Clone)]
#[must_use]
pub struct ProblemBuilder {
    problem: Problem,
    /// The first refusal; later ones are usually its consequences.
    refused: Option<BuildError>,
}

impl ProblemBuilder {
    /// The URI of the kind of problem; absolute where possible.
    pub fn type_uri(mut self, uri: impl Into<String>) -> Self {
        let uri = UriRef::new(uri).map_err(BuildError::Type);
        self.accept(uri, |problem, uri| problem.type_uri = Some(uri));
        self
    }

    /// A short name of the kind of problem. The same each time, translation aside.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.problem.title = Some(title.into());
        self
    }

    /// The HTTP status code: the one of the response, or off HTTP the one a synchronous answer
    /// would have had.
    pub fn status(mut self, code: u16) -> Self {
        let status = Status::new(code).map_err(BuildError::Status);
        self.accept(status, |problem, status| problem.status = Some(status));
        self
    }

    /// What happened this time and how to mend it. Never a stack trace, host name, query or path.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.problem.detail = Some(detail.into());
        self
    }

    /// The URI of this occurrence; for a job, its status resource.
    pub fn instance(mut self, uri: impl Into<String>) -> Self {
        let uri = UriRef::new(uri).map_err(BuildError::Instance);
        self.accept(uri, |problem, uri| problem.instance = Some(uri));
        self
    }

    /// The async-job members: a [`Job`] or the result of building one.
    pub fn job(mut self, job: impl IntoJob) -> Self {
        self.accept(job.into_job().map_err(BuildError::Job), |problem, job| problem.job = job);
        self
    }

    /// Adds a member of your own, or replaces its value.
    pub fn extension(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = if STANDARD_NAMES.contains(&name) || JOB_NAMES.contains(&name) {
            Err(ExtensionError::Shadows(name.to_owned()))
        } else {
            extension::checked(name, value.into(), 1)
        };
        self.accept(value.map_err(BuildError::Extension), |problem, value| {
            problem.extensions.insert(name.to_owned(), value);
        });
        self
    }

    /// Takes a standard member or an extension away again; give [`ProblemBuilder::job`] another job
    /// instead.
    pub fn without(mut self, name: &str) -> Self {
        match name {
            "type" => self.problem.type_uri = None,
            "title" => self.problem.title = None,
            "status" => self.problem.status = None,
            "detail" => self.problem.detail = None,
            "instance" => self.problem.instance = None,
            _ => drop(self.problem.extensions.shift_remove(name)),
        }
        self
    }

    /// The finished problem.
    ///
    /// # Errors
    /// The first thing that was refused.
    pub fn build(self) -> Result<Problem, BuildError> {
        match self.refused {
            Some(refused) => Err(refused),
            None => Ok(self.problem),
        }
    }

    fn accept<T>(&mut self, value: Result<T, BuildError>, put: impl FnOnce(&mut Problem, T)) {
        match value {
            Ok(value) => put(&mut self.problem, value),
            Err(error) => drop(self.refused.get_or_insert(error)),
        }
    }
}

/// What [`ProblemBuilder::job`] takes, so that building a job needs no `?` in between.
pub trait IntoJob {
    /// The job, or why there is none.
    ///
    /// # Errors
    /// As [`crate::JobBuilder::build`].
    fn into_job(self) -> Result<Job, JobError>;
}

impl IntoJob for Job {
    fn into_job(self) -> Result<Job, JobError> {
        Ok(self)
    }
}

impl IntoJob for crate::job::JobBuilder {
    fn into_job(self) -> Result<Job, JobError> {
        self.build()
    }
}

/// Why a problem object was not built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// `type` is no URI reference.
    #[error("could not set type: {0}")]
    Type(#[source] UriError),
    /// `instance` is no URI reference.
    #[error("could not set instance: {0}")]
    Instance(#[source] UriError),
    /// `status` is no status code.
    #[error("could not set status: {0}")]
    Status(#[source] StatusError),
    /// The async-job members contradict each other.
    #[error("could not set the job members: {0}")]
    Job(#[source] JobError),
    /// An extension has a taken name or an impossible value.
    #[error("could not add an extension: {0}")]
    Extension(#[source] ExtensionError),
}
