//! Plans attempts. A pure function of the job and two settings: the same kind behaves the same
//! every time.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{Note, WorkError};
use forgerun_core::item::ItemEnd;
use forgerun_core::job::{Head, JobForm};
use forgerun_core::work::{Definition, End, WorkKind};

/// Shorter work reports no progress, unless its kind requires it: each report is a write.
pub(super) const PROGRESS_FROM: Duration = Duration::from_secs(1);

/// Progress reported by every kind, in percent.
const QUARTERS: [u8; 3] = [25, 50, 75];

/// Outputs of `MANY_SMALL_OUTPUTS`.
const OUTPUTS: u8 = 8;

#[derive(Debug)]
pub(super) struct AttemptPlan {
    /// Duration in real time.
    pub(super) length: Duration,
    /// Planned reports, in order.
    pub(super) marks: Vec<PlannedNote>,
    pub(super) fate: PlannedEnd,
}

/// A report at a moment of an attempt.
#[derive(Debug)]
pub(super) struct PlannedNote {
    /// Real time since the attempt began.
    pub(super) after: Duration,
    pub(super) note: Note,
    /// Must be reported, however late, before the attempt may end.
    pub(super) needed: bool,
}

#[derive(Debug)]
pub(super) enum PlannedEnd {
    /// Success, with a result of this size.
    Success {
        kind: WorkKind,
        payload_kb: u16,
    },
    Items(Arc<[ItemEnd]>),
    Failure(WorkError),
    /// No outcome: the worker stops.
    HandBack,
}

/// Plans an attempt of a job, counted from 1. The runtime limit is simulated time like the work
/// itself, so that `RUNS_OVER_TIMEOUT` times out with a scale below one, too. Scales above one
/// stretch the work alone: the timers also watch the limit of the job in real time.
pub(super) fn plan(head: &Head, attempt: u32, max_runtime: Duration, time_scale: f64) -> AttemptPlan {
    if let (JobForm::EmitEvent, Some(definition)) = (head.form, head.definition) {
        let emitted = PlannedNote { after: Duration::ZERO, note: Note::Emitted, needed: true };
        return AttemptPlan { length: Duration::ZERO, marks: vec![emitted], fate: success(definition) };
    }
    single(head, head.definition, attempt, head.timeout.unwrap_or(max_runtime), time_scale)
}

/// Plans one piece of work of the job, within `limit`.
pub(super) fn single(
    head: &Head,
    definition: Option<Definition>,
    attempt: u32,
    limit: Duration,
    time_scale: f64,
) -> AttemptPlan {
    let Some(definition) = definition else {
        let error = WorkError::new(Kind::DefinitionMissing, "the job does not say what to do");
        return AttemptPlan { length: Duration::ZERO, marks: Vec::new(), fate: PlannedEnd::Failure(error) };
    };
    let (stretch, shrink) = (time_scale.max(1.0), time_scale.min(1.0));
    let work = scaled(Duration::from_millis(definition.duration_ms.into()), stretch);
    let end = definition.work_kind.end(attempt);
    let timed_out = work >= limit || end == End::Timeout;
    let length = scaled(if timed_out { limit } else { work }, shrink);
    let fate = match end {
        End::Success if !timed_out => success(definition),
        End::Failure { kind, .. } if !timed_out => failure(kind, definition.work_kind, attempt),
        End::Success | End::Failure { .. } | End::Timeout => {
            let message = head.timeout_message(head.timeout.unwrap_or(limit));
            PlannedEnd::Failure(WorkError::new(Kind::HandlerTimeout, &message))
        }
    };
    let mut marks = marks(definition.work_kind, end, scaled(work, shrink), length);
    marks.retain(|mark| mark.after < length || mark.needed);
    AttemptPlan { length, marks, fate }
}

fn success(definition: Definition) -> PlannedEnd {
    PlannedEnd::Success { kind: definition.work_kind, payload_kb: definition.payload_kb }
}

fn failure(kind: Kind, work_kind: WorkKind, attempt: u32) -> PlannedEnd {
    let message = format!("{} fails in attempt {attempt}, as it is meant to", work_kind.as_str());
    PlannedEnd::Failure(WorkError::new(kind, &message))
}

fn marks(work_kind: WorkKind, end: End, work: Duration, length: Duration) -> Vec<PlannedNote> {
    let mark = |percent: u8, message, needed| {
        let after = (work * u32::from(percent) / 100).min(length);
        PlannedNote { after, note: Note::Progress { percent, message }, needed }
    };
    let after_progress = matches!(end, End::Failure { after_progress: true, .. });
    if length < PROGRESS_FROM {
        return if after_progress { vec![mark(50, None, true)] } else { Vec::new() };
    }
    if work_kind == WorkKind::ManySmallOutputs {
        let output = |n: u8| {
            let percent = (u16::from(n) * 100 / u16::from(OUTPUTS)) as u8;
            mark(percent, Some(format!("output {n} of {OUTPUTS}")), false)
        };
        return (1..OUTPUTS).map(output).collect();
    }
    QUARTERS.map(|percent| mark(percent, None, after_progress && percent == 50)).into()
}

/// Saturates instead of panicking.
fn scaled(span: Duration, factor: f64) -> Duration {
    if factor == 1.0 {
        return span;
    }
    Duration::try_from_secs_f64(span.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use forgerun_core::id::ClientId;
    use forgerun_core::job::Name;
    use forgerun_core::time::Time;

    use super::*;

    const MAX_RUNTIME: Duration = Duration::from_secs(125);

    fn head(kind: Option<WorkKind>) -> Head {
        let mut head = Head::new(ClientId::from_u128(1), Name::new("a").unwrap(), Time::ZERO);
        head.definition = kind.map(|kind| Definition::of(kind, 125_000));
        head
    }

    fn kind_of(plan: &AttemptPlan) -> Option<Kind> {
        match &plan.fate {
            PlannedEnd::Failure(error) => Some(error.kind),
            PlannedEnd::Success { .. } | PlannedEnd::Items(_) | PlannedEnd::HandBack => None,
        }
    }

    #[test]
    fn a_job_without_a_definition_fails_at_once() {
        let plan = plan(&head(None), 1, MAX_RUNTIME, 1.0);
        assert_eq!((plan.length, kind_of(&plan)), (Duration::ZERO, Some(Kind::DefinitionMissing)));
    }

    #[test]
    fn the_limit_shrinks_with_the_work_but_does_not_grow_with_it() {
        let length = |kind, time_scale| {
            let plan = plan(&head(Some(kind)), 1, MAX_RUNTIME, time_scale);
            (plan.length.as_millis(), kind_of(&plan))
        };
        let timeout = Some(Kind::HandlerTimeout);
        assert_eq!(length(WorkKind::RunsOverTimeout, 1.0), (125_000, timeout));
        assert_eq!(length(WorkKind::RunsOverTimeout, 0.01), (1_250, timeout));
        assert_eq!(length(WorkKind::RunsOverTimeout, 0.0), (0, timeout));
        assert_eq!(length(WorkKind::RunsOverTimeout, 1000.0), (125_000, timeout));
        assert_eq!(length(WorkKind::RunsLong, 1.0), (110_000, None));
        assert_eq!(length(WorkKind::RunsLong, 0.0), (0, None));
        assert_eq!(length(WorkKind::RunsLong, 2.0), (125_000, timeout));
    }

    #[test]
    fn the_limit_of_the_job_goes_before_the_general_one() {
        let mut short = head(Some(WorkKind::FailAfterProgress));
        short.timeout = Some(Duration::from_secs(20));
        let plan = plan(&short, 1, MAX_RUNTIME, 0.5);
        assert_eq!((plan.length.as_secs(), kind_of(&plan)), (10, Some(Kind::HandlerTimeout)));
    }

    #[test]
    fn marks_are_said_in_order_and_before_the_end() {
        for kind in WorkKind::ALL {
            for time_scale in [0.0, 0.001, 0.3, 1.0, 7.0] {
                let plan = plan(&head(Some(*kind)), 1, MAX_RUNTIME, time_scale);
                assert!(plan.marks.is_sorted_by_key(|mark| mark.after), "{kind:?}");
                assert!(plan.marks.iter().all(|mark| mark.after <= plan.length), "{kind:?}");
            }
        }
    }
}
