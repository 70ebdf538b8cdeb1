//! The job envelope: what a client sends to have a job. Read once, into a value that cannot be wrong.
//!
//! Options stand in `options` or at the top; `options` wins. Members that OJS does not know are kept as they were written and
//! shown again at the same place; members that only the server may set (`state`, `attempt`, …) are not believed.

mod defaults;
mod known;

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::fair::Fair;
use forgerun_core::id::JobId;
use forgerun_core::job::{BadQueueName, Name};
use forgerun_core::limits::NAME_BYTES_MAX;
use forgerun_core::retry::RetryPolicy;
use forgerun_core::time::Time;
use forgerun_core::work::WorkKind;
use forgerun_core::workflow;
use serde_json::value::RawValue;

use super::duration::{self, Moment};
use super::kept;
use super::limit::{self, Limited};
use super::members::{Members, ViolationList};
use super::unique::{self, Uniqueness};
use super::{retry, typos};
use crate::body::{self, Deadline};
use crate::problem::{RefusedRequest, Violation};
use crate::shares;

pub(crate) use defaults::DefaultOptions;
use known::OPTIONS;
pub(super) use known::is_known;

/// Bytes of `meta` (catalogue: 64 KB).
pub const META_BYTES_MAX: usize = 64 * 1024;

const TAGS_MAX: usize = 64;

const SCHEMA_BYTES_MAX: usize = 2048;

#[derive(Clone, Debug, PartialEq)]
pub struct JobEnvelope {
    pub id: Option<JobId>,
    pub job_type: String,
    /// `None` for the server's default.
    pub queue: Option<Name>,
    /// Higher goes first.
    pub priority: i16,
    pub fair: Option<Fair>,
    pub args: Vec<u8>,
    /// Metadata as received; may be empty.
    pub meta: Vec<u8>,
    pub tags: Vec<String>,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// Lease of a claim.
    pub lease: Option<Duration>,
    /// Earliest start.
    pub scheduled_at: Option<Moment>,
    /// Latest start.
    pub expires_at: Option<Moment>,
    /// Latest end.
    pub deadline: Option<Deadline>,
    pub retry: RetryPolicy,
    pub unique: Option<Uniqueness>,
    pub limits: Vec<Limited>,
    /// Held back until it is activated.
    pub pending: bool,
    /// What the built-in worker simulates; without it the work is for workers outside.
    pub work_kind: Option<WorkKind>,
    /// What is shown again as it was given; goes with the job.
    pub kept: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// For moments counted from now.
    pub now: Time,
    /// The tenant of the request, noted in `meta.tenant_id`.
    pub tenant: Option<&'a str>,
    /// Arguments may be an object whatever the envelope looks like.
    pub strict_catalog: bool,
    /// The suite's way to ask for a schema violation is understood.
    pub test_hooks: bool,
}

/// Reads the envelope of a body.
pub fn read(body: &[u8], rules: Rules<'_>) -> Result<JobEnvelope, Box<RefusedRequest>> {
    read_members(Members::of_body(body)?, "", rules)
}

/// Reads an envelope that is part of a larger body; `at` is the path to it, with a dot behind, or empty.
pub fn read_members(
    top: Members<'_>,
    at: &str,
    rules: Rules<'_>,
) -> Result<JobEnvelope, Box<RefusedRequest>> {
    read_with_defaults(top, &[], at, rules)
}

/// The same within workflows, the innermost last.
pub(crate) fn read_with_defaults(
    top: Members<'_>,
    defaults: &[DefaultOptions<'_>],
    at: &str,
    rules: Rules<'_>,
) -> Result<JobEnvelope, Box<RefusedRequest>> {
    let mut violations = ViolationList::default();
    let options = match top.get("options") {
        None => Members::default(),
        Some(value) => Members::of_value(value).unwrap_or_else(|| {
            violations.add_value(
                Kind::MalformedRequest,
                &format!("{at}options"),
                value,
                "must be an object",
                "type",
            );
            Members::default()
        }),
    };
    let mut reader = EnvelopeReader { top, options, defaults, at, rules, violations };
    let read = reader.read();
    reader.violations.settle(Some(read))
}

struct EnvelopeReader<'a, 'r> {
    top: Members<'a>,
    options: Members<'a>,
    /// Options of the workflows around the job, the innermost last.
    defaults: &'r [DefaultOptions<'a>],
    at: &'r str,
    rules: Rules<'r>,
    violations: ViolationList,
}

impl<'a> EnvelopeReader<'a, '_> {
    fn read(&mut self) -> JobEnvelope {
        self.specversion();
        let job_type = self.job_type();
        let args = self.args();
        let id = self.id();
        let queue = self.queue();
        let priority = self.priority();
        let fair = self.fair();
        let meta = self.meta();
        let tags = self.tags();
        let timeout = self.span("timeout_ms", "timeout");
        let lease = self.span("visibility_timeout_ms", "visibility_timeout");
        let scheduled_at = self.moment(&["delay_until", "scheduled_at"]);
        let expires_at = self.moment(&["expires_at"]);
        let deadline = self.deadline();
        let retry = self.retry();
        let unique =
            self.option(&["unique"]).and_then(|(at, value)| unique::read(&at, value, &mut self.violations));
        let limits = self.limits();
        let pending = self.option(&["pending"]).and_then(|(at, value)| {
            self.violations.typed(Kind::MalformedRequest, &at, Some(value), "true or false")
        });
        let work_kind = self.work_kind();
        self.typos(&args, &meta);
        self.schema();
        self.hooks(&args, &meta);
        let kept = self.kept(scheduled_at.as_ref(), expires_at.as_ref());
        JobEnvelope {
            id,
            job_type: job_type.unwrap_or_default(),
            queue,
            priority: priority.unwrap_or(0),
            fair,
            args,
            meta,
            tags,
            timeout,
            lease,
            scheduled_at,
            expires_at,
            deadline,
            retry,
            unique,
            limits,
            pending: pending.unwrap_or(false),
            work_kind,
            kept,
        }
    }

    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.at)
    }

    /// An option by the first of its names that is there, in `options` first, with the path to it.
    fn option(&self, names: &[&str]) -> Option<(String, &'a RawValue)> {
        let own = names.iter().find_map(|name| self.within_options(name));
        let own = own.or_else(|| {
            names.iter().find_map(|name| self.top.get(name).map(|value| (self.path(name), value)))
        });
        own.or_else(|| {
            self.defaults.iter().rev().find_map(|defaults| names.iter().find_map(|name| defaults.get(name)))
        })
    }

    fn within_options(&self, name: &str) -> Option<(String, &'a RawValue)> {
        self.options.get(name).map(|value| (format!("{}options.{name}", self.at), value))
    }

    fn work_kind(&mut self) -> Option<WorkKind> {
        let (path, value) = self.option(&["work_kind"])?;
        let Ok(word) = serde_json::from_str::<String>(value.get()) else {
            self.violations.add_value(Kind::MalformedRequest, &path, value, "must be a string", "type");
            return None;
        };
        let read = body::work_kind(&word);
        read.map_err(|Violation { detail, constraint, .. }| {
            self.violations.add_value(Kind::InvalidArgs, &path, value, detail, constraint);
        })
        .ok()
    }

    fn specversion(&mut self) {
        let Some(value) = self.top.get("specversion") else { return };
        let version: Option<String> = serde_json::from_str(value.get()).ok();
        if !version.is_some_and(|version| version == "1" || version.starts_with("1.")) {
            let path = self.path("specversion");
            self.violations.add_value(Kind::UnsupportedFeature, &path, value, "must be 1.0", "unsupported");
        }
    }

    fn job_type(&mut self) -> Option<String> {
        let Some(value) = self.top.get("type") else {
            self.violations.add(Kind::MalformedRequest, &self.path("type"), "is required", "required");
            return None;
        };
        let text: Option<String> = serde_json::from_str(value.get()).ok();
        match text {
            Some(text) if text.len() > NAME_BYTES_MAX => {
                let path = self.path("type");
                self.violations.add(Kind::JobTypeTooLong, &path, "must have at most 255 bytes", "maxLength");
                None
            }
            Some(text) if is_job_type(&text) => Some(text),
            _ => {
                let detail = "must be lower-case words joined by dots, such as email.send";
                let path = self.path("type");
                self.violations.add_value(Kind::UnknownJobType, &path, value, detail, "format");
                None
            }
        }
    }

    /// An array. An object is taken in the catalogue's form of the envelope, whose options stand at the top (C-95); the
    /// published cases refuse it otherwise.
    fn args(&mut self) -> Vec<u8> {
        let Some((_, value)) = self.top.0.iter().find(|(name, _)| name == "args") else {
            self.violations.add(Kind::MalformedRequest, &self.path("args"), "is required", "required");
            return Vec::new();
        };
        let at_top = |name: &str| self.top.get(name).is_some();
        let catalog_form = !self.top.has("options") && (at_top("queue") || at_top("retry_policy"));
        let object_allowed = catalog_form || self.rules.strict_catalog;
        let text = value.get();
        if !(text.starts_with('[') || object_allowed && text.starts_with('{')) {
            let path = self.path("args");
            self.violations.add_value(Kind::InvalidArgs, &path, value, "must be a JSON array", "type");
        }
        text.as_bytes().to_vec()
    }

    fn id(&mut self) -> Option<JobId> {
        let value = self.top.get("id")?;
        let text: Option<String> = serde_json::from_str(value.get()).ok();
        let id = text.filter(|text| is_v7(text)).and_then(|text| text.parse().ok());
        if id.is_none() {
            let path = self.path("id");
            self.violations.add_value(
                Kind::MalformedRequest,
                &path,
                value,
                "must be a lower-case UUID of version 7",
                "format",
            );
        }
        id
    }

    fn queue(&mut self) -> Option<Name> {
        let (path, value) = self.option(&["queue"])?;
        let text: Option<String> = serde_json::from_str(value.get()).ok();
        match text.map_or(Err(BadQueueName::Form), |text| Name::queue(&text)) {
            Ok(queue) if queue.as_str() == workflow::QUEUE => {
                let detail = "is the queue of workflows themselves; choose another name";
                self.violations.add_value(Kind::InvalidQueue, &path, value, detail, "reserved");
                None
            }
            Ok(queue) => Some(queue),
            Err(BadQueueName::TooLong) => {
                self.violations.add(
                    Kind::QueueNameTooLong,
                    &path,
                    "must have at most 255 bytes",
                    "maxLength",
                );
                None
            }
            Err(BadQueueName::Form) => {
                self.violations.add_value(Kind::InvalidQueue, &path, value, BadQueueName::RULE, "format");
                None
            }
        }
    }

    fn priority(&mut self) -> Option<i16> {
        let (path, value) = self.option(&["priority"])?;
        let named = serde_json::from_str::<String>(value.get()).ok();
        let number = match named.map(|name| name.to_ascii_lowercase()).as_deref() {
            Some("high") => Some(10),
            Some("normal") => Some(0),
            Some("low") => Some(-10),
            Some(_) => None,
            None => serde_json::from_str::<i16>(value.get()).ok(),
        };
        let priority = number.filter(|number| (-100..=100).contains(number));
        if priority.is_none() {
            let detail = "must be an integer from -100 to 100";
            self.violations.add_value(Kind::MalformedRequest, &path, value, detail, "range");
        }
        priority
    }

    /// `rate_limit`, or `limits`.
    fn limits(&mut self) -> Vec<Limited> {
        let one = self.option(&["rate_limit"]);
        let Some((at, value)) = self.option(&["limits"]) else {
            return one
                .and_then(|(at, value)| limit::read(&at, value, &mut self.violations))
                .into_iter()
                .collect();
        };
        if one.is_some() {
            let detail = "must not stand beside `rate_limit`: put it among `limits`";
            self.violations.add(Kind::MalformedRequest, &at, detail, "forbidden");
        }
        limit::read_all(&at, value, &mut self.violations)
    }

    fn fair(&mut self) -> Option<Fair> {
        let (path, value) = self.option(&["fair"])?;
        let read = shares::read(value);
        if let Err(bad) = &read {
            let path = if bad.member.is_empty() { path } else { format!("{path}.{}", bad.member) };
            self.violations.add(Kind::MalformedRequest, &path, bad.detail, bad.constraint);
        }
        read.ok()
    }

    fn meta(&mut self) -> Vec<u8> {
        let at_top = self.top.get("meta").map(|value| (self.path("meta"), value));
        let within = ["metadata", "meta"].iter().filter_map(|name| self.within_options(name));
        let defaults = self
            .defaults
            .iter()
            .flat_map(|defaults| ["metadata", "meta"].iter().filter_map(|name| defaults.get(name)));
        let given: Vec<(String, &RawValue)> = defaults.chain(at_top).chain(within).collect();
        let mut parts: Vec<Members<'a>> = Vec::new();
        let mut bytes = Vec::new();
        for (path, value) in given {
            if value.get().len() > META_BYTES_MAX {
                let detail = format!("must have at most {META_BYTES_MAX} bytes");
                self.violations.add(Kind::MetadataTooLarge, &path, detail, "maxLength");
                continue;
            }
            let Some(members) = Members::of_value(value) else {
                self.violations.add_value(Kind::InvalidMetadata, &path, value, "must be an object", "type");
                continue;
            };
            parts.push(members);
            bytes = value.get().as_bytes().to_vec();
        }
        let tenant = self.rules.tenant.map(|tenant| serde_json::Value::from(tenant).to_string());
        if parts.len() < 2 && tenant.is_none() {
            return bytes;
        }
        let mut merged = kept::ObjectWriter::default();
        for part in &parts {
            for (name, value) in &part.0 {
                merged.put(name, value.get());
            }
        }
        let mut bytes_max = META_BYTES_MAX;
        if let Some(tenant) = &tenant {
            merged.put("tenant_id", tenant);
            bytes_max += tenant.len() + r#","tenant_id":"#.len();
        }
        let merged = merged.finish();
        if merged.len() > bytes_max {
            let detail = format!("must have at most {META_BYTES_MAX} bytes, with what options add to it");
            self.violations.add(Kind::MetadataTooLarge, &self.path("meta"), detail, "maxLength");
        }
        merged
    }

    fn tags(&mut self) -> Vec<String> {
        let Some((path, value)) = self.option(&["tags"]) else { return Vec::new() };
        let tags: Option<Vec<String>> = serde_json::from_str(value.get()).ok();
        let tags =
            tags.filter(|tags| tags.len() <= TAGS_MAX && tags.iter().all(|tag| tag.len() <= NAME_BYTES_MAX));
        if tags.is_none() {
            let detail = "must be a list of at most 64 strings of at most 255 bytes";
            self.violations.add_value(Kind::MalformedRequest, &path, value, detail, "type");
        }
        tags.unwrap_or_default()
    }

    /// A span by its name in milliseconds, or by the other in seconds or ISO 8601.
    fn span(&mut self, ms: &str, other: &str) -> Option<Duration> {
        let (path, value) = self.option(&[ms, other])?;
        let text = value.get();
        let span = if path.ends_with("_ms") {
            serde_json::from_str(text).ok().map(Duration::from_millis)
        } else if text.starts_with('"') {
            serde_json::from_str::<String>(text).ok().and_then(|text| duration::parse(&text))
        } else {
            serde_json::from_str(text).ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        };
        let span = span.filter(|span| !span.is_zero() && *span <= duration::LONGEST);
        if span.is_none() {
            self.violations.add_value(
                Kind::MalformedRequest,
                &path,
                value,
                "must be a time above zero",
                "range",
            );
        }
        span
    }

    fn moment(&mut self, names: &[&str]) -> Option<Moment> {
        let (path, value) = self.option(names)?;
        let text: Option<String> = serde_json::from_str(value.get()).ok();
        let moment = text.and_then(|text| duration::moment(&text, self.rules.now));
        if moment.is_none() {
            let detail = "must be RFC 3339 with a zone, or a duration from now such as +PT2S";
            self.violations.add_value(Kind::MalformedRequest, &path, value, detail, "format");
        }
        moment
    }

    fn deadline(&mut self) -> Option<Deadline> {
        let (path, value) = self.option(&["deadline"])?;
        let text: Option<String> = serde_json::from_str(value.get()).ok();
        let span = |text: &str| duration::parse(text.strip_prefix('+').unwrap_or(text));
        let deadline = text.and_then(|text| body::parse_deadline(&text, span));
        if deadline.is_none() {
            let detail = "must be a duration above zero, such as PT30S or 1h30m, or RFC 3339 with a zone";
            self.violations.add_value(Kind::MalformedRequest, &path, value, detail, "format");
        }
        deadline
    }

    fn retry(&mut self) -> RetryPolicy {
        let mut policy = match self.option(&["retry", "retry_policy"]) {
            Some((at, value)) => retry::read(&at, value, &mut self.violations),
            None => retry::defaults(),
        };
        if let Some((path, value)) = self.option(&["max_attempts"]) {
            match serde_json::from_str::<u32>(value.get()) {
                // The policy itself is nearer.
                Ok(_) if self.retry_given().is_some_and(retry::says_attempts) => {}
                Ok(attempts) => policy.attempts_max = attempts.max(1),
                Err(_) => {
                    let detail = "must be an integer of at least 0";
                    self.violations.add_value(Kind::InvalidRetryPolicy, &path, value, detail, "minimum");
                }
            }
        }
        policy
    }

    fn retry_given(&self) -> Option<&'a RawValue> {
        self.option(&["retry", "retry_policy"]).map(|(_, value)| value)
    }

    fn schema(&mut self) {
        let path = self.path("schema");
        let Some(value) = self.top.get("schema") else { return };
        let text: Option<String> = serde_json::from_str(value.get()).ok();
        if !text.is_some_and(|text| !text.is_empty() && text.len() <= SCHEMA_BYTES_MAX) {
            self.violations.add_value(
                Kind::MalformedRequest,
                &path,
                value,
                "must be the address of a schema",
                "type",
            );
        }
    }

    fn hooks(&mut self, args: &[u8], meta: &[u8]) {
        let asked = self.rules.test_hooks
            && serde_json::from_slice::<serde_json::Value>(meta)
                .is_ok_and(|meta| meta["ojs_validate"] == true);
        let is_empty = args.iter().filter(|byte| !byte.is_ascii_whitespace()).eq(b"[]");
        if asked && is_empty {
            let path = self.path("args");
            self.violations.add(Kind::SchemaMismatch, &path, "must not be empty", "minItems");
        }
    }

    /// Refuses members of the options whose names nearly are known ones, and keys of `unique` that exist nowhere (C-122).
    fn typos(&mut self, args: &[u8], meta: &[u8]) {
        typos::check(&format!("{}options", self.at), &self.options, &OPTIONS, &mut self.violations);
        if let Some((at, members)) = self.object(&["retry", "retry_policy"]) {
            typos::check(&at, &members, &retry::MEMBERS, &mut self.violations);
        }
        if let Some((at, members)) = self.object(&["unique"]) {
            typos::check(&at, &members, &unique::MEMBERS, &mut self.violations);
            unique::check_keys(&at, &members, args, meta, &mut self.violations);
        }
    }

    /// An option that is an object, with the path to it.
    fn object(&self, names: &[&str]) -> Option<(String, Members<'a>)> {
        let (at, value) = self.option(names)?;
        Some((at, Members::of_value(value)?))
    }

    /// What is shown again as it was given.
    fn kept(&self, scheduled_at: Option<&Moment>, expires_at: Option<&Moment>) -> Vec<u8> {
        let mut given = kept::ObjectWriter::default();
        let verbatim = |moment: Option<&Moment>| {
            moment?.given.as_ref().map(|text| serde_json::Value::from(text.as_str()).to_string())
        };
        for (name, moment) in [("scheduled_at", scheduled_at), ("expires_at", expires_at)] {
            if let Some(text) = verbatim(moment) {
                given.put(name, &text);
            }
        }
        for (name, value) in [
            ("schema", self.top.get("schema")),
            ("retry", self.retry_given()),
            ("unique", self.option(&["unique"]).map(|(_, value)| value)),
            ("rate_limit", self.option(&["rate_limit"]).map(|(_, value)| value)),
            ("limits", self.option(&["limits"]).map(|(_, value)| value)),
            ("fair", self.option(&["fair"]).map(|(_, value)| value)),
        ] {
            if let Some(value) = value {
                given.put(name, value.get());
            }
        }
        let mut unknown = kept::ObjectWriter::default();
        for (name, value) in &self.top.0 {
            let name = name.as_ref();
            if !is_known(name) {
                unknown.put(name, value.get());
            }
        }
        if !unknown.is_empty() {
            let unknown = unknown.finish();
            given.put("unknown", std::str::from_utf8(&unknown).expect("JSON is text"));
        }
        if given.is_empty() { Vec::new() } else { given.finish() }
    }
}

/// Whether a text is an OJS job type: words of lower-case letters, digits, `_` and `-`, each beginning with a letter, joined
/// by dots.
pub fn is_job_type(text: &str) -> bool {
    let word = |word: &str| {
        word.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
            && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
    };
    text.len() <= NAME_BYTES_MAX && text.split('.').all(word)
}

/// Whether a text is a lower-case UUID of version 7.
pub fn is_v7(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            14 => *byte == b'7',
            19 => matches!(byte, b'8' | b'9' | b'a' | b'b'),
            _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
        })
}

#[cfg(test)]
mod tests;
