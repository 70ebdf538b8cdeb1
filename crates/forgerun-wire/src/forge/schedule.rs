//! Schedules: what may be asked, and what is shown. The job of a schedule is described as in a submission.

use forgerun_core::catalog::Kind;
use forgerun_core::job::{JobForm, Name};
use forgerun_core::limits::{CATCH_UP_MAX, JITTER_MAX, TEXT_BYTES_MAX};
use forgerun_core::schedule::Schedule;
use forgerun_core::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::submit::{SubmitRequest, read_submit};
use crate::body::{self, Deadline, violation};
use crate::members::UnknownMembers;
use crate::ojs::members::{Members, ViolationList};
use crate::problem::RefusedRequest;
use crate::request::RequestBody;
use crate::request_body;
use crate::schedule::{ScheduleTerms, catch_up_word, overlap_word, read_name, read_terms, skip_word};
use crate::{time, words};

request_body! {
    /// A schedule to be.
    pub SCHEDULE = "ScheduleRequest" {
        /// What it is called.
        "name": queue(),
        /// Five fields, six with the seconds in front, `@daily` and the like, or `@every 1h30m`.
        "cron": short(512),
        /// The IANA name of a time zone; UTC if absent.
        "timezone": maybe(text()),
        /// What every job is like.
        "job": reference(super::SUBMIT.name),
        /// What happens while the job of an earlier tick has not ended; skip if absent.
        "overlap_policy": maybe(words(&["skip", "allow", "cancel_previous", "enqueue"])),
        /// What happens about ticks that were missed; one if absent.
        "catch_up": maybe(words(&["none", "one", "all"])),
        /// With `all`: how many at most; 100 if absent.
        "catch_up_max": maybe(integer(1, CATCH_UP_MAX as i64)),
        /// Each job comes up to this much after its tick.
        "jitter_ms": maybe(integer(0, JITTER_MAX.as_millis() as i64)),
        /// Whether it makes jobs; unchanged if absent.
        "enabled": maybe(truth()),
        /// For people.
        "description": maybe(short(TEXT_BYTES_MAX)),
    }
    ; required &["name", "cron", "job"]
    ; parts &[&super::SUBMIT]
    ; examples {"nightly": {"value": {
        "name": "nightly-report", "cron": "0 3 * * *", "timezone": "Europe/Berlin",
        "job": {"type": "EXECUTE", "work_kind": "SUCCESS_NORMAL"},
    }}}
}

/// The same where the address has the name.
pub const SCHEDULE_CHANGE: RequestBody = SCHEDULE.variant(
    "ScheduleChange",
    "A schedule to be, whose name stands in the address; a name here must be the same.",
    &["cron", "job"],
    || {
        let job = json!({"type": "EXECUTE", "work_kind": "SUCCESS_NORMAL"});
        json!({"nightly": {"value": {"cron": "0 3 * * *", "timezone": "Europe/Berlin", "job": job}}})
    },
);

/// A schedule that a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRequest {
    /// What it is called; `None` if the body does not say, which is enough where the address does.
    pub name: Option<Name>,
    /// When it ticks, and what happens then.
    pub terms: ScheduleTerms,
    /// What every job is like.
    pub job: SubmitRequest,
    /// How the client described the job.
    pub given: Vec<u8>,
}

/// Reads the body of a registration. `named` says that the address has the name already.
pub fn read_schedule(
    bytes: &[u8],
    named: bool,
    unknown: UnknownMembers,
) -> Result<ScheduleRequest, Box<RefusedRequest>> {
    let top = Members::of_body(bytes)?;
    let mut violations = ViolationList::default();
    let name = if named && !top.has("name") { None } else { read_name(&top, &mut violations) };
    let terms = read_terms(&top, &mut violations);
    let job = top.get("job").map(|job| job.get().as_bytes());
    if job.is_none() {
        let detail = "is the job to submit at each tick, as in POST /v1/jobs, and required";
        violations.add(Kind::MalformedRequest, "job", detail, "required");
    }
    let given = violations.settle(job)?.to_vec();
    let job = read_submit(&given, unknown).map_err(|refused| within_job(*refused))?;
    let forbidden = match () {
        () if job.form == JobForm::Deferred => Some(("type", "must not be DEFERRED: the schedule says when")),
        () if job.execution_at.is_some() => {
            Some(("execution_at", "must be left out: the schedule says when"))
        }
        () if job.idempotency_key.is_some() => {
            Some(("idempotency_key", "must be left out: each tick makes one job already"))
        }
        () if matches!(job.deadline, Some(Deadline::At(_))) => {
            Some(("deadline", "must be a duration: it is counted from each run"))
        }
        () => None,
    };
    match forbidden {
        Some((member, detail)) => {
            let violation = violation(&format!("job/{member}"), detail, "forbidden");
            Err(body::refused(Kind::InvalidArgs, vec![violation], &[]))
        }
        None => Ok(ScheduleRequest { name, terms, job, given }),
    }
}

/// A refusal of the job, in the words of the whole.
fn within_job(mut refused: RefusedRequest) -> Box<RefusedRequest> {
    for violation in &mut refused.violations {
        violation.pointer = violation.pointer.replacen("#/", "#/job/", 1);
    }
    if refused.violations.is_empty() {
        return Box::new(refused);
    }
    let RefusedRequest { kind, violations, accepted, .. } = refused;
    Box::new(RefusedRequest { accepted, ..*body::refused(kind, violations, &[]) })
}

/// A schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Schedule"))]
pub struct ScheduleView {
    /// Its name.
    pub name: String,
    /// The cron expression.
    pub cron: String,
    /// The time zone that it is read in.
    pub timezone: String,
    /// What every job is like.
    pub job: ScheduledJobView,
    /// What happens while an earlier job has not ended.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Overlap"))]
    pub overlap_policy: String,
    /// What happens about missed ticks.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::CatchUp"))]
    pub catch_up: String,
    /// How many missed ticks are made up for at most.
    pub catch_up_max: Option<u32>,
    /// How long after its tick a job may come.
    pub jitter_ms: u64,
    /// Whether it makes jobs.
    pub enabled: bool,
    /// Since when it makes none.
    pub paused_at: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// The next tick; null while it is paused.
    pub next_run_at: Option<String>,
    /// The next ticks.
    pub next_runs: Vec<String>,
    /// The newest tick that made a job, or when somebody asked for one.
    pub last_run_at: Option<String>,
    /// That job.
    pub last_job_id: Option<String>,
    /// The newest tick that made none.
    pub last_skip: Option<SkippedTickView>,
    /// How many jobs it made.
    pub run_count: u64,
    /// How many ticks made none.
    pub skip_count: u64,
    /// How many ticks were missed and not made up for.
    pub missed_count: u64,
    /// When it was first registered.
    pub created_at: String,
    /// When its owner last changed it.
    pub updated_at: String,
}

/// The job of a schedule, in few words.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ScheduledJob"))]
pub struct ScheduledJobView {
    /// EXECUTE or EMIT_EVENT.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Form"))]
    pub form: String,
    /// What kind of work it is, for workers outside.
    pub job_type: Option<String>,
    /// What is simulated; null for real work.
    pub work_kind: Option<String>,
    /// Whether its jobs are simulated.
    #[serde(default)]
    pub simulated: bool,
    /// Where its jobs wait.
    pub queue: String,
    /// Higher goes first.
    pub priority: i16,
}

/// A tick that made no job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SkippedTick"))]
pub struct SkippedTickView {
    /// Which.
    pub at: String,
    /// Why.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::SkipReason"))]
    pub reason: String,
}

impl ScheduleView {
    /// The schedule as it stands, with its next ticks.
    pub fn new(schedule: &Schedule, next_runs: &[Time]) -> ScheduleView {
        let (catch_up, catch_up_max) = catch_up_word(schedule.catch_up);
        let head = &schedule.head;
        let enabled = schedule.paused_at.is_none();
        ScheduleView {
            name: schedule.id.name.to_string(),
            cron: schedule.expression.clone(),
            timezone: schedule.zone.clone(),
            job: ScheduledJobView {
                form: words::forge_type(head.form).into(),
                job_type: Some(head.job_type.clone()).filter(|text| !text.is_empty()),
                work_kind: head.definition.as_ref().map(|work| work.work_kind.as_str().to_owned()),
                simulated: head.is_simulated(),
                queue: head.queue.to_string(),
                priority: head.priority,
            },
            overlap_policy: overlap_word(schedule.overlap).into(),
            catch_up: catch_up.into(),
            catch_up_max,
            jitter_ms: schedule.jitter.as_millis() as u64,
            enabled,
            paused_at: schedule.paused_at.map(time::millis),
            description: schedule.description.clone(),
            next_run_at: schedule.next_at.filter(|_| enabled).map(time::millis),
            next_runs: next_runs.iter().map(|tick| time::millis(*tick)).collect(),
            last_run_at: schedule.last_at.map(time::millis),
            last_job_id: schedule.last_job.map(|job| job.to_string()),
            last_skip: schedule
                .last_skip
                .map(|(tick, why)| SkippedTickView { at: time::millis(tick), reason: skip_word(why).into() }),
            run_count: schedule.n_runs,
            skip_count: schedule.n_skipped,
            missed_count: schedule.n_missed,
            created_at: time::millis(schedule.created_at),
            updated_at: time::millis(schedule.updated_at),
        }
    }
}

/// A page of schedules.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Schedules"))]
pub struct SchedulesView {
    /// The schedules, by name.
    pub schedules: Vec<ScheduleView>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<ScheduleRequest, (Kind, Vec<String>)> {
        read_schedule(body.as_bytes(), false, UnknownMembers::Refuse).map_err(|refused| {
            (refused.kind, refused.violations.iter().map(|violation| violation.pointer.clone()).collect())
        })
    }

    #[test]
    fn the_job_of_a_schedule_is_a_submission() {
        let request = read(r#"{"name":"a","cron":"@daily","job":{"type":"EXECUTE","queue":"q"}}"#).unwrap();
        assert_eq!((request.job.form, request.job.queue.as_deref()), (JobForm::Execute, Some("q")));
        assert_eq!(request.given, br#"{"type":"EXECUTE","queue":"q"}"#);
        let unnamed =
            read_schedule(br#"{"cron":"@daily","job":{"type":"EXECUTE"}}"#, true, UnknownMembers::Refuse);
        assert_eq!(unnamed.unwrap().name, None);
    }

    #[test]
    fn what_is_wrong_with_the_job_is_named_where_it_stands() {
        for (job, kind, pointer) in [
            ("7", Kind::MalformedRequest, None),
            ("{}", Kind::MalformedRequest, Some("#/job/type")),
            (r#"{"type":"EXECUTE","colour":1}"#, Kind::InvalidArgs, Some("#/job/colour")),
            (r#"{"type":"EXECUTE","priority":500}"#, Kind::InvalidArgs, Some("#/job/priority")),
            (
                r#"{"type":"DEFERRED","execution_at":"2030-01-01T00:00:00Z"}"#,
                Kind::InvalidArgs,
                Some("#/job/type"),
            ),
            (r#"{"type":"EXECUTE","idempotency_key":"k"}"#, Kind::InvalidArgs, Some("#/job/idempotency_key")),
        ] {
            let body = format!(r#"{{"name":"a","cron":"@daily","job":{job}}}"#);
            let expected: Vec<String> = pointer.map(str::to_owned).into_iter().collect();
            assert_eq!(read(&body).unwrap_err(), (kind, expected), "{job}");
        }
        assert_eq!(
            read(r#"{"name":"a","cron":"@daily"}"#).unwrap_err(),
            (Kind::MalformedRequest, vec!["#/job".to_owned()])
        );
    }
}
