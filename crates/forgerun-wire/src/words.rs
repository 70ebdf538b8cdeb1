//! How each dialect names what the core knows. Every projection is an exhaustive match, so a new state does not compile
//! until every dialect has a word for it.

use forgerun_core::delivery::DeliverySubject;
use forgerun_core::history::{Event, EventName};
use forgerun_core::job::{Job, JobForm};
use forgerun_core::state::{Cause, State};
use forgerun_core::webhook::DisabledReason;
use forgerun_problem::JobStatus;

/// ForgeRun's word for a state.
pub const fn forge_state(state: State) -> &'static str {
    match state {
        State::Created => "CREATED",
        State::Queued => "QUEUED",
        State::Assigned => "ASSIGNED",
        State::Running => "RUNNING",
        State::Succeeded => "SUCCEEDED",
        State::Failed => "FAILED",
        State::Canceled => "CANCELED",
    }
}

/// Reads ForgeRun's word, in any case, with either spelling of CANCELED.
pub fn parse_forge_state(word: &str) -> Option<State> {
    let word = word.to_ascii_uppercase();
    let word = if word == "CANCELLED" { "CANCELED" } else { &word };
    State::ALL.into_iter().find(|&state| forge_state(state) == word)
}

/// ForgeRun's word for how a job ended; `None` before.
pub const fn forge_outcome(state: State) -> Option<&'static str> {
    match state {
        State::Succeeded => Some("SUCCESS"),
        State::Failed => Some("FAILED"),
        State::Canceled => Some("CANCELED"),
        State::Created | State::Queued | State::Assigned | State::Running => None,
    }
}

/// ForgeRun's word for the form of a job.
pub const fn forge_type(form: JobForm) -> &'static str {
    form.as_str()
}

/// Reads ForgeRun's word for the form of a job, in any case.
pub fn parse_forge_type(word: &str) -> Option<JobForm> {
    let forms = [JobForm::Execute, JobForm::Deferred, JobForm::EmitEvent];
    forms.into_iter().find(|&form| forge_type(form).eq_ignore_ascii_case(word))
}

/// The `jobStatus` of the execution under way. Never goes back from PROCESSING to ACCEPTED within an execution.
pub fn job_status(job: &Job) -> JobStatus {
    // A retry by hand begins anew, one by the server goes on.
    let begun = job.started_at.is_some();
    match job.state {
        State::Created | State::Queued | State::Assigned if begun => JobStatus::Processing,
        State::Created | State::Queued | State::Assigned => JobStatus::Accepted,
        State::Running => JobStatus::Processing,
        State::Succeeded => JobStatus::Completed,
        State::Failed if job.timed_out() => JobStatus::TimedOut,
        State::Failed if job.is_mixed() => JobStatus::CompletedWithErrors,
        State::Failed => JobStatus::Failed,
        State::Canceled => JobStatus::Cancelled,
    }
}

/// The word of the async-operations pattern for where an execution stands. Words that only some servers have would end the
/// loops of its clients, so there are none for what lies between (C-05).
pub fn operation_status(status: &JobStatus) -> &'static str {
    match status {
        JobStatus::Accepted => "Queued",
        JobStatus::Processing | JobStatus::Other(_) => "Running",
        JobStatus::Completed => "Completed",
        JobStatus::Failed | JobStatus::TimedOut => "Failed",
        JobStatus::Cancelled => "Cancelled",
        JobStatus::CompletedWithErrors => "PartiallyCompleted",
    }
}

/// ForgeRun's name of an event, which webhooks use too.
pub const fn event_name(event: &Event) -> &'static str {
    match event.name() {
        EventName::Created => "job_created",
        EventName::Queued => "job_queued",
        EventName::Assigned => "job_assigned",
        EventName::Requeued => "job_requeued",
        EventName::Started => "job_started",
        EventName::Progress => "job_progress",
        EventName::Emitted => "job_event_emitted",
        EventName::Succeeded => "job_succeeded",
        // Subscribers of failures hear of a mixed batch; `partial` tells it apart.
        EventName::Failed | EventName::Mixed => "job_failed",
        EventName::TimedOut => "job_timed_out",
        EventName::Canceled => "job_canceled",
    }
}

/// ForgeRun's name of the event of a webhook.
pub const WEBHOOK_DISABLED: &str = "webhook_disabled";

/// What a delivery goes by that its owner asked for, to look at.
pub const WEBHOOK_TEST: &str = "webhook_test";

/// ForgeRun's name of what a delivery tells.
pub const fn told_name(about: &DeliverySubject) -> &'static str {
    match about {
        DeliverySubject::Event { event, .. } => event_name(event),
        DeliverySubject::Notice(_) => WEBHOOK_DISABLED,
        DeliverySubject::Test => WEBHOOK_TEST,
    }
}

/// Why a webhook was disabled, in a word.
pub const fn disabled_reason(reason: DisabledReason) -> &'static str {
    match reason {
        DisabledReason::Owner => "owner",
        DisabledReason::Gone => "gone",
        DisabledReason::Failing => "failing",
    }
}

/// Why a job moved, in a word.
pub const fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Submit => "submit",
        Cause::Due => "due",
        Cause::Activate => "activate",
        Cause::Claim => "claim",
        Cause::Start => "start",
        Cause::LeaseExpired => "lease_expired",
        Cause::HandBack => "hand_back",
        Cause::Finish => "finish",
        Cause::Fail => "fail",
        Cause::Timeout => "timeout",
        Cause::RunnerLost => "runner_lost",
        Cause::RetryByUser => "retry_by_user",
        Cause::RetryByPolicy => "retry_by_policy",
        Cause::CancelByUser => "cancel_by_user",
        Cause::CancelBySystem => "cancel_by_system",
        Cause::Expire => "expire",
        Cause::Replace => "replace",
        Cause::Mixed => "mixed",
    }
}

/// Percent done, as far as it is known. Of a job that went well it is, whatever its worker last said.
pub fn progress(job: &Job) -> Option<u8> {
    if job.state == State::Succeeded { Some(100) } else { job.progress }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_and_form_is_read_as_it_is_written_in_any_case() {
        for state in State::ALL {
            assert_eq!(parse_forge_state(&forge_state(state).to_lowercase()), Some(state));
        }
        assert_eq!(parse_forge_state("cancelled"), Some(State::Canceled));
        assert_eq!(parse_forge_state("DONE"), None);
        for form in [JobForm::Execute, JobForm::Deferred, JobForm::EmitEvent] {
            assert_eq!(parse_forge_type(&forge_type(form).to_lowercase()), Some(form));
        }
    }

    #[test]
    fn an_outcome_exists_exactly_for_final_states() {
        for state in State::ALL {
            assert_eq!(forge_outcome(state).is_some(), state.is_final());
        }
    }

    #[test]
    fn every_status_of_a_job_has_its_word_in_the_async_operations_dialect() {
        let words = JobStatus::REGISTERED.map(|status| operation_status(&status));
        let expected =
            ["Queued", "Running", "Completed", "Failed", "Cancelled", "Failed", "PartiallyCompleted"];
        assert_eq!(words, expected);
    }
}
