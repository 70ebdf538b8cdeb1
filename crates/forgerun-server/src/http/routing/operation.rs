//! What the OpenAPI document says of a route beside what follows from the route itself. It stands
//! with the route, as constants; the document is folded from the routes that are served
//! (`documents/openapi`).
//!
//! What follows by itself: who may ask, parameters of the path, header fields of every answer, the
//! members of a body, and refusals that come with access, rate, verb, body and parameters.

use forgerun_core::catalog::Kind;
use forgerun_wire::request::{self, RequestBody, text};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

/// What is said of a route.
#[derive(Clone, Copy)]
pub struct Operation {
    /// What generated clients call it. Empty for a route that the document leaves out.
    pub id: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Parameters of the query.
    pub query: &'static [Parameter],
    /// Header fields of requests that it looks at.
    pub headers: &'static [Parameter],
    /// The body, and whether there must be one.
    pub body: Option<(&'static RequestBody, bool)>,
    /// Answers that are no refusals.
    pub replies: &'static [Reply],
    /// What it is refused for, beside what follows from the rest.
    pub refusals: &'static [Kind],
    /// Whether a job token of its job may read it.
    pub job_token: bool,
}

impl Operation {
    /// Nothing is said yet.
    pub const NONE: Operation = Operation {
        id: "",
        summary: "",
        query: &[],
        headers: &[],
        body: None,
        replies: &[],
        refusals: &[],
        job_token: false,
    };

    /// What generated clients call it, and what it does.
    pub const fn new(id: &'static str, summary: &'static str) -> Operation {
        Operation { id, summary, ..Operation::NONE }
    }
}

/// A parameter of the query, or a header field of a request.
#[derive(Clone, Copy)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Its JSON Schema.
    pub schema: fn() -> Value,
    /// A value; empty for none.
    pub example: &'static str,
}

impl Parameter {
    /// A parameter that is any text.
    pub const fn new(name: &'static str, about: &'static str) -> Parameter {
        Parameter { name, about, schema: text, example: "" }
    }

    /// A header field.
    pub const fn header(name: &'static str, about: &'static str, example: &'static str) -> Parameter {
        Parameter { example, ..Parameter::new(name, about) }
    }

    /// With this JSON Schema.
    pub const fn schema(self, schema: fn() -> Value) -> Parameter {
        Parameter { schema, ..self }
    }
}

/// An answer that is no refusal.
#[derive(Clone, Copy)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// When it is given, or what it holds.
    pub about: &'static str,
    /// The body.
    pub content: ReplyContent,
    /// Header fields of its own; those with a question mark at the end are not always there.
    pub headers: &'static [&'static str],
}

/// The body of an answer.
#[derive(Clone, Copy)]
pub enum ReplyContent {
    /// There is none.
    Nothing,
    /// JSON in the media types of the API.
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// An object that is described by a table, as JSON in the media types of the API.
    Object(&'static RequestBody),
    /// Bytes of these media types, and JSON of its own schema.
    Types(&'static [&'static str], Option<fn(&mut SchemaGenerator) -> Schema>),
}

impl Reply {
    /// This view as JSON.
    pub const fn json<T: JsonSchema>(status: u16, about: &'static str) -> Reply {
        let content = ReplyContent::Json(SchemaGenerator::subschema_for::<T>);
        Reply { status, about, content, headers: &[] }
    }

    /// This object as JSON.
    pub const fn object(status: u16, about: &'static str, object: &'static RequestBody) -> Reply {
        Reply { status, about, content: ReplyContent::Object(object), headers: &[] }
    }

    /// No body.
    pub const fn empty(status: u16, about: &'static str, headers: &'static [&'static str]) -> Reply {
        Reply { status, about, content: ReplyContent::Nothing, headers }
    }

    /// Bytes of these types.
    pub const fn types(status: u16, about: &'static str, types: &'static [&'static str]) -> Reply {
        Reply { status, about, content: ReplyContent::Types(types, None), headers: &[] }
    }

    /// Bytes of these types, or this view as `application/json`.
    pub const fn types_or_json<T: JsonSchema>(
        status: u16,
        about: &'static str,
        types: &'static [&'static str],
    ) -> Reply {
        let content = ReplyContent::Types(types, Some(SchemaGenerator::subschema_for::<T>));
        Reply { status, about, content, headers: &[] }
    }

    /// With these header fields.
    pub const fn headers(self, headers: &'static [&'static str]) -> Reply {
        Reply { headers, ..self }
    }
}

/// How many entries a page has.
pub(crate) const LIMIT: Parameter = Parameter::new("limit", "Entries in a page.")
    .schema(|| json!({"type": "integer", "minimum": 1, "maximum": 200, "default": 50}));

/// Where a page begins.
pub(crate) const CURSOR: Parameter = Parameter::new("cursor", "The `next_cursor` of the page before.");

/// Where a page of events begins.
pub(crate) const EVENT_CURSOR: Parameter =
    Parameter::new("cursor", "The `next_cursor` of the page before, or the id of an event.");

/// Where a stream goes on.
pub(crate) const LAST_EVENT_ID: Parameter = Parameter::header(
    "Last-Event-ID",
    "The last event that the stream sent: it goes on after it.",
    "01890a5d-ac96-7001-bcce-b302099a8057",
);

/// How long to wait for the end of a job.
pub(crate) const PREFER: Parameter =
    Parameter::header("Prefer", "`wait=N`: hold the answer until the job has ended.", "wait=5");

/// Makes a repetition harmless.
const IDEMPOTENCY_KEY: Parameter = Parameter::header(
    "Idempotency-Key",
    "Makes a repetition harmless; a key in the body goes first.",
    "a1b2c3d4-e5f6-7890-abcd-ef1234567890",
);

/// The language of texts.
pub(crate) const ACCEPT_LANGUAGE: Parameter = Parameter::header(
    "Accept-Language",
    "The language of titles and details: English, or German.",
    "de, en;q=0.5",
);

/// How a request is traced.
pub(crate) const TRACING: &[Parameter] = &[CORRELATION_ID, ACCEPT_LANGUAGE, TRACEPARENT];

const CORRELATION_ID: Parameter =
    Parameter::header("X-Correlation-ID", "The client's own id of the request; sanitised.", "order-4711");

const TRACEPARENT: Parameter = Parameter::header(
    "traceparent",
    "W3C Trace Context.",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
);

/// What submissions look at.
pub(crate) const SUBMITTING: &[Parameter] =
    &[CORRELATION_ID, ACCEPT_LANGUAGE, TRACEPARENT, IDEMPOTENCY_KEY, PREFER];

/// The version that the caller has.
pub(crate) const IF_NONE_MATCH: Parameter = Parameter::header(
    "If-None-Match",
    "The `ETag` of the version that the caller has.",
    "\"5f2b7c1d9e0a4f3b8c6d7e12\"",
);

/// How a part of a result is asked for, or nothing of what is there already.
pub(crate) const RESULT_PARTS: &[Parameter] = &[
    Parameter::header(
        "Range",
        "One range of bytes; several at once are answered with the whole.",
        "bytes=1048576-",
    ),
    Parameter::header(
        "If-Range",
        "The `ETag` of the part that is there already; otherwise the whole is sent.",
        "\"5f2b7c1d9e0a4f3b8c6d7e12\"",
    ),
    IF_NONE_MATCH,
];

/// A result whole, in part, or not again.
pub(crate) const RESULT: &[Reply] = &[
    Reply::types(200, "The result, in the type its worker gave it or as a file.", &["*/*"]).headers(&[
        "ETag",
        "Vary",
        "Accept-Ranges",
        "Repr-Digest",
        "Content-Disposition?",
        "Content-Digest?",
    ]),
    Reply::types(206, "The part that was asked for.", &["*/*"]).headers(&[
        "ETag",
        "Vary",
        "Accept-Ranges",
        "Repr-Digest",
        "Content-Disposition?",
        "Content-Range",
    ]),
    Reply::empty(304, "The copy is the result.", &["ETag", "Vary"]),
];

/// What a request for a result is refused for.
pub(crate) const OF_RESULT: &[Kind] = &[
    Kind::ResultNotReady,
    Kind::ResultNotFound,
    Kind::ResultExpired,
    Kind::PreconditionFailed,
    Kind::RangeNotSatisfiable,
    Kind::QueueFull,
];

/// Header fields of the answer to a submission.
pub(crate) const ACCEPTED: &[&str] =
    &["Location", "Link", "Retry-After", "Preference-Applied?", "Idempotent-Replayed?"];

/// A stream has nothing more to send.
pub(crate) const STREAM_ENDED: Reply =
    Reply::empty(204, "The job has ended and the stream has sent everything.", &["Vary"]);

/// Jobs that have some tags.
pub(crate) const TAG: Parameter =
    Parameter::new("tag", "Only jobs with this tag; given several times, or with commas, all must match.");

/// Jobs between two attempts.
pub(crate) const RETRYING: Parameter =
    Parameter::new("retrying", "Only jobs that failed and wait for their next attempt.")
        .schema(|| json!({"type": "boolean", "enum": [true]}));

/// Jobs by the end of their ids.
pub(crate) const ID_SUFFIX: Parameter = Parameter::new(
    "id_suffix",
    "Only jobs whose id ends like this, at most 20, among the newest 10,000 of the list; `next_cursor` goes on with older ones.",
)
.schema(|| json!({"type": "string", "pattern": "^[0-9a-fA-F-]{6,35}$"}));

/// The name of a queue.
pub(crate) const QUEUE: Parameter =
    Parameter::new("queue", "Only jobs of this queue.").schema(request::queue);

/// Words for states.
pub(crate) const STATE: Parameter = Parameter::new("state", "In one of these states; several with commas.");

/// A client.
pub(crate) const CLIENT: Parameter = Parameter::new("client", "Of this client.");

/// The names of parameters.
pub(crate) const fn names<const N: usize>(parameters: &[Parameter; N]) -> [&'static str; N] {
    let (mut names, mut place) = ([""; N], 0);
    while place < N {
        names[place] = parameters[place].name;
        place += 1;
    }
    names
}

/// An id.
pub(crate) fn uuid() -> Value {
    json!({"type": "string", "format": "uuid"})
}
