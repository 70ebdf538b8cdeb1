//! Jobs that never were, for documents and pages. They live by the rules of the core, told command by command, so what the
//! documents show is what the server says.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{
    Cancel, Claim, Conclude, Fail, HeldJob, LeaseProof, NewJob, Owned, Submit, WorkError, WorkerKind,
};
use forgerun_core::history::{Event, JournalEntry};
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::item::{ItemEnd, ItemError, Items};
use forgerun_core::job::{Head, Input, Job, Name};
use forgerun_core::rows::{Object, Rows};
use forgerun_core::time::Time;
use forgerun_core::{Batch, Command, decide};
use forgerun_problem::Problem;

use crate::language::Language;
use crate::outcome::Outcomes;

/// Noon of an ordinary day: 2026-05-28T12:00:00Z.
const NOON: Time = Time::from_millis(1_779_969_600_000);

/// The id of every example.
pub const JOB: JobId = JobId::v7(NOON.unix_ms(), 0x774b_bcce_b302_099a_8057_77d1_5c2e_91f4);

const CLIENT: ClientId = ClientId::from_u128(0x6f1b_7b46_5d6e_4a2f_9c0b_3f1f_8d1f_2a10);

/// What the examples of batches know of their items.
const PAIR: Items = Items { n: 2, simulated: false };

/// The life of a job, as far as it has been told.
pub struct ExampleJob {
    outcomes: Outcomes,
    now: Time,
    job: Option<Job>,
    told: Vec<ToldEvent>,
}

/// One event of a story.
#[derive(Clone, Debug)]
pub struct ToldEvent {
    /// What happened.
    pub event: Event,
    /// The job right after it.
    pub job: Job,
    /// The last word on the execution, if the event ended it.
    pub outcome: Option<Object>,
}

impl ExampleJob {
    /// A job is submitted. `head` says what is not usual about it.
    pub fn begin(outcomes: Outcomes, head: impl FnOnce(&mut Head)) -> ExampleJob {
        let queue = Name::new("default").expect("a name");
        let mut usual = Head::new(CLIENT, queue, NOON);
        usual.correlation_id = Some("order-4711".into());
        head(&mut usual);
        let new =
            NewJob { id: JOB, id_given: false, head: Arc::new(usual), input: Arc::new(Input::default()) };
        let submit = Submit { jobs: vec![new], idempotency: None, queue_max: None, refuse_paused: false };
        ExampleJob { outcomes, now: NOON, job: None, told: Vec::new() }.then(Command::Submit(submit))
    }

    /// A batch is submitted.
    pub fn of_batch(outcomes: Outcomes) -> ExampleJob {
        ExampleJob::begin(outcomes, |head| head.items = Some(PAIR))
    }

    /// Two seconds later this is asked.
    pub fn then(mut self, command: Command) -> ExampleJob {
        let shelf = self.job.as_ref().and_then(Job::shelf);
        let rows = Rows {
            shelves: shelf.map(|shelf| (shelf, vec![JOB])).into_iter().collect(),
            due: self.job.iter().map(|job| job.id).collect(),
            jobs: self.job.take().into_iter().collect(),
            ..Rows::default()
        };
        let before = rows.jobs.clone().pop();
        let changes =
            decide(&Batch { now: self.now, seed: 1, commands: vec![command] }, rows, &self.outcomes);
        let inserted = changes.inserted.into_iter().map(|(job, _)| job);
        let job = inserted.chain(changes.updated).last().or(before).expect("a story has a job");
        let outcome = changes.outcomes.into_iter().last().map(|outcome| outcome.object);
        for (_, event) in changes.journal.iter().filter_map(JournalEntry::job_event) {
            self.told.push(ToldEvent { event: *event, job: job.clone(), outcome: outcome.clone() });
        }
        self.job = Some(job);
        self.now = self.now + Duration::from_secs(2);
        self
    }

    /// A worker takes the job and begins.
    pub fn begins(self) -> ExampleJob {
        self.claimed(true)
    }

    /// A worker takes the job, and begins if it likes.
    pub fn claimed(self, start: bool) -> ExampleJob {
        let worker_kind = if self.job().head.is_simulated() {
            WorkerKind::BuiltIn
        } else {
            WorkerKind::External(self.job().head.owner())
        };
        let claim = Claim {
            worker: Name::new("worker-1").expect("a name"),
            worker_kind,
            queues: vec![self.job().head.queue.clone()],
            limit: 1,
            lease: None,
            lease_default: Duration::from_secs(30),
            start,
            active_max: None,
        };
        self.then(Command::Claim(claim))
    }

    /// The attempt fails, and the worker has nothing to add to what the kind means.
    pub fn fails(self, kind: Kind) -> ExampleJob {
        let fail = Fail { held: self.held(), error: WorkError::new(kind, "") };
        self.then(Command::Fail(fail))
    }

    /// The batch ends with one item done and one not.
    pub fn ends_mixed(self) -> ExampleJob {
        let conclude = Conclude { held: self.held(), ends: mixed().into() };
        self.then(Command::Conclude(conclude))
    }

    /// The client calls the job off.
    pub fn is_cancelled(self) -> ExampleJob {
        let owned = Owned { job: JOB, client: Some(CLIENT) };
        let reason = "the client asked for it".to_owned();
        self.then(Command::Cancel(Cancel {
            owned,
            execution: None,
            by: "user".to_owned(),
            reason,
            compensate: true,
        }))
    }

    /// Whoever holds the job now.
    pub fn held(&self) -> HeldJob {
        HeldJob { job: JOB, proof: LeaseProof::Token(self.job().fence), client: None }
    }

    /// The job as it stands.
    pub fn job(&self) -> &Job {
        self.job.as_ref().expect("a story begins with a job")
    }

    /// All that happened.
    pub fn told(&self) -> &[ToldEvent] {
        &self.told
    }
}

/// How the items of a mixed batch end.
fn mixed() -> [ItemEnd; 2] {
    let kind = Kind::HandlerTransient;
    let error = ItemError { kind, message: kind.entry().meaning.into(), retryable: true };
    let end = |id: &str, error| ItemEnd { id: id.into(), error };
    [end("0", None), end("1", Some(error))]
}

/// The problem of a job that failed in this way.
pub fn failure(kind: Kind, outcomes: &Outcomes, language: Language) -> Problem {
    let head = |head: &mut Head| {
        head.language = language.stored();
        head.items = (kind == Kind::BatchPartial).then_some(PAIR);
    };
    let story = ExampleJob::begin(outcomes.clone(), head).begins();
    match kind {
        Kind::Cancelled => outcomes.failure(story.is_cancelled().job(), &[]),
        Kind::BatchPartial => outcomes.failure(story.ends_mixed().job(), &mixed()),
        _ => outcomes.failure(story.fails(kind).job(), &[]),
    }
}

#[cfg(test)]
mod tests {
    use forgerun_core::catalog::ErrorLevel;
    use forgerun_problem::check::{Carrier, Level as Conformance, inspect_on};
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_example_of_every_way_to_fail_conforms_fully_in_both_languages() {
        let outcomes = Outcomes { base: "https://forge.example".into(), ..Outcomes::default() };
        for kind in Kind::ALL.iter().filter(|kind| kind.entry().level == ErrorLevel::Job) {
            for language in Language::ALL {
                let problem = failure(*kind, &outcomes, language);
                assert!(problem.type_uri().ends_with(kind.entry().slug), "{kind:?}");
                assert_eq!(problem.title(), Some(crate::language::words(*kind, language).title));
                let Value::Object(object) = serde_json::from_str(&problem.to_json()).unwrap() else {
                    panic!()
                };
                let report = inspect_on(&object, Carrier::Report);
                assert_eq!((report.level, report.findings), (Conformance::Full, vec![]), "{kind:?}");
            }
        }
    }

    #[test]
    fn a_story_is_told_event_by_event() {
        let story = ExampleJob::begin(Outcomes::default(), |_| {}).begins().fails(Kind::HandlerError);
        let states: Vec<_> = story.told().iter().map(|told| told.event.name()).collect();
        use forgerun_core::history::EventName::{Assigned, Created, Failed, Queued, Started};
        assert_eq!(states, [Created, Queued, Assigned, Started, Failed]);
        assert!(story.told().last().unwrap().outcome.is_some());
    }
}
