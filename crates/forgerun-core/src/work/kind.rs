//! The catalog of work kinds: one row each, and what follows from it.

use crate::catalog::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkKind {
    SuccessFast,
    /// Succeeds after an ordinary time.
    SuccessNormal,
    /// Succeeds after a long time.
    SuccessSlow,
    FailImmediate,
    /// Fails after some progress has been seen.
    FailAfterProgress,
    /// Fails for a reason that may pass.
    FailAfterRetryable,
    /// Succeeds just below the longest duration.
    RunsLong,
    /// Is stopped by the runtime limit.
    RunsOverTimeout,
    /// Succeeds after a burst of computation.
    CpuBurst,
    /// Succeeds after using much memory for a moment.
    MemorySpike,
    /// Succeeds after much reading and writing.
    IoHeavy,
    /// Succeeds with many small outputs.
    ManySmallOutputs,
    /// Succeeds with one large output.
    LargeOutput,
    /// To be cancelled while queued; left alone it succeeds.
    CancelBeforeStart,
    /// To be cancelled while running; left alone it succeeds.
    CancelDuringRun,
    /// Fails at first and succeeds on a retry.
    RetryOnFail,
    /// Fails on every attempt until no retry is left.
    RetryLimitReached,
    /// To be submitted twice with one idempotency key: one job.
    DuplicateSubmitSameKey,
    /// To be submitted twice with two idempotency keys: two jobs.
    DuplicateSubmitDifferentKey,
    /// Succeeds, and its webhook is delivered.
    WebhookSuccess,
    /// Succeeds, while the webhook receiver does not answer in time.
    WebhookTimeout,
    /// Succeeds, while the webhook receiver answers with server errors.
    Webhook5xx,
    /// Succeeds, while the delivery to the webhook is given up.
    WebhookRetriesExhausted,
    /// Succeeds, while the webhook receiver is slow.
    WebhookSlowReceiver,
    /// Runs at the time it is scheduled for.
    ScheduledOnTime,
    /// Runs late, because the server was down at its time.
    ScheduledLateRecovery,
    /// Is scheduled for a distant date.
    ScheduledFarFuture,
    /// Succeeds with a small result.
    PayloadSmall,
    /// Succeeds with a middling result.
    PayloadMedium,
    /// Succeeds with the largest result.
    PayloadLarge,
    /// Is refused at submission and never becomes a job.
    PayloadInvalid,
}

/// From this duration on a succeeding kind counts as [`WorkClass::Slow`]. The catalog has no
/// duration between 15 s and 90 s.
const SLOW_FROM_MS: u32 = 60_000;

/// By how much `RUNS_OVER_TIMEOUT` exceeds the runtime limit.
const OVER_LIMIT_MS: u32 = 1_000;

impl WorkKind {
    /// Every kind, in the order of the catalog.
    pub const ALL: &'static [WorkKind] = &{
        let mut all = [WorkKind::SuccessFast; TABLE.len()];
        let mut index = 0;
        while index < TABLE.len() {
            all[index] = TABLE[index].kind;
            index += 1;
        }
        all
    };

    /// The spelling on the wire, in logs and in metrics.
    pub fn as_str(self) -> &'static str {
        self.row().name
    }

    pub fn parse(text: &str) -> Option<WorkKind> {
        TABLE.iter().find(|row| row.name == text).map(|row| row.kind)
    }

    /// What the kind does, by attempt.
    pub fn behaviour(self) -> Behaviour {
        self.row().behaviour
    }

    /// How long one attempt runs if nothing stops it; longer than `max_runtime_ms` only if that is
    /// meant (`RUNS_OVER_TIMEOUT`) or the limit is set below what the catalog needs.
    pub fn duration_ms(self, max_runtime_ms: u32) -> u32 {
        match self.row().length {
            Length::Ms(duration_ms) => duration_ms,
            Length::OverLimit => max_runtime_ms.saturating_add(OVER_LIMIT_MS),
        }
    }

    /// Size of the result in units of 1024 bytes.
    pub fn payload_kb(self) -> u16 {
        self.row().payload_kb
    }

    /// Whether the first attempt is meant to fail. False for `PAYLOAD_INVALID`, which has no
    /// attempt.
    pub fn should_fail(self) -> bool {
        match self.behaviour() {
            Behaviour::Succeeds | Behaviour::Refused => false,
            Behaviour::Fails
            | Behaviour::FailsAfterProgress
            | Behaviour::FailsRetryable
            | Behaviour::RunsOverTimeout
            | Behaviour::FailsFirst
            | Behaviour::FailsAlways => true,
        }
    }

    pub fn class(self) -> WorkClass {
        if self.behaviour() != Behaviour::Succeeds {
            WorkClass::Failure
        } else if self.duration_ms(0) < SLOW_FROM_MS {
            WorkClass::Success
        } else {
            WorkClass::Slow
        }
    }

    /// How attempt number `attempt` ends, counted from 1 over the whole life of the job.
    pub fn end(self, attempt: u32) -> End {
        let failure = |kind| End::Failure { kind, after_progress: false };
        match self.behaviour() {
            Behaviour::Succeeds => End::Success,
            Behaviour::Fails => failure(Kind::HandlerError),
            Behaviour::FailsAfterProgress => End::Failure { kind: Kind::HandlerError, after_progress: true },
            Behaviour::FailsRetryable | Behaviour::FailsAlways => failure(Kind::HandlerTransient),
            Behaviour::RunsOverTimeout => End::Timeout,
            Behaviour::FailsFirst if attempt <= 1 => failure(Kind::HandlerTransient),
            Behaviour::FailsFirst => End::Success,
            // Refused at submission; if one was stored anyway, it must not be retried for ever.
            Behaviour::Refused => failure(Kind::NonRetryable),
        }
    }

    fn row(self) -> &'static KindRow {
        &TABLE[self as usize]
    }
}

/// How an attempt ends if no cancel or crash comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// It succeeds after its duration.
    Success,
    /// It fails after its duration.
    Failure {
        /// Always of job level.
        kind: Kind,
        /// Whether progress must be reported before the failure.
        after_progress: bool,
    },
    /// The runtime limit stops it.
    Timeout,
}

/// What a kind does, by attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Behaviour {
    Succeeds,
    /// Every attempt fails, and retries are pointless.
    Fails,
    /// Like [`Behaviour::Fails`], but only after some progress.
    FailsAfterProgress,
    /// Every attempt fails for a reason that might pass.
    FailsRetryable,
    /// Every attempt exceeds the runtime limit.
    RunsOverTimeout,
    /// The first attempt fails, later ones succeed.
    FailsFirst,
    /// Every attempt fails until no retry is left, although each failure might pass.
    FailsAlways,
    /// The submission is refused, so there is no attempt.
    Refused,
}

/// The three classes that random choices must cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkClass {
    Success,
    Failure,
    Slow,
}

struct KindRow {
    kind: WorkKind,
    name: &'static str,
    length: Length,
    payload_kb: u16,
    behaviour: Behaviour,
}

#[derive(Clone, Copy)]
enum Length {
    Ms(u32),
    OverLimit,
}

const fn row(
    kind: WorkKind,
    name: &'static str,
    length: Length,
    payload_kb: u16,
    behaviour: Behaviour,
) -> KindRow {
    KindRow { kind, name, length, payload_kb, behaviour }
}

/// In the order of the enum, so that a kind is its own index.
static TABLE: [KindRow; 31] = {
    use Behaviour::*;
    use Length::{Ms, OverLimit};
    use WorkKind::*;
    [
        row(SuccessFast, "SUCCESS_FAST", Ms(1_000), 4, Succeeds),
        row(SuccessNormal, "SUCCESS_NORMAL", Ms(10_000), 16, Succeeds),
        row(SuccessSlow, "SUCCESS_SLOW", Ms(90_000), 32, Succeeds),
        row(FailImmediate, "FAIL_IMMEDIATE", Ms(500), 1, Fails),
        row(FailAfterProgress, "FAIL_AFTER_PROGRESS", Ms(20_000), 8, FailsAfterProgress),
        row(FailAfterRetryable, "FAIL_AFTER_RETRYABLE", Ms(5_000), 8, FailsRetryable),
        row(RunsLong, "RUNS_LONG", Ms(110_000), 32, Succeeds),
        row(WorkKind::RunsOverTimeout, "RUNS_OVER_TIMEOUT", OverLimit, 8, Behaviour::RunsOverTimeout),
        row(CpuBurst, "CPU_BURST", Ms(8_000), 4, Succeeds),
        row(MemorySpike, "MEMORY_SPIKE", Ms(12_000), 64, Succeeds),
        row(IoHeavy, "IO_HEAVY", Ms(15_000), 32, Succeeds),
        row(ManySmallOutputs, "MANY_SMALL_OUTPUTS", Ms(9_000), 16, Succeeds),
        row(LargeOutput, "LARGE_OUTPUT", Ms(9_000), 256, Succeeds),
        row(CancelBeforeStart, "CANCEL_BEFORE_START", Ms(5_000), 4, Succeeds),
        row(CancelDuringRun, "CANCEL_DURING_RUN", Ms(10_000), 4, Succeeds),
        row(RetryOnFail, "RETRY_ON_FAIL", Ms(3_000), 4, FailsFirst),
        row(RetryLimitReached, "RETRY_LIMIT_REACHED", Ms(3_000), 4, FailsAlways),
        row(DuplicateSubmitSameKey, "DUPLICATE_SUBMIT_SAME_KEY", Ms(2_000), 4, Succeeds),
        row(DuplicateSubmitDifferentKey, "DUPLICATE_SUBMIT_DIFFERENT_KEY", Ms(2_000), 4, Succeeds),
        row(WebhookSuccess, "WEBHOOK_SUCCESS", Ms(2_000), 4, Succeeds),
        row(WebhookTimeout, "WEBHOOK_TIMEOUT", Ms(2_000), 4, Succeeds),
        row(Webhook5xx, "WEBHOOK_5XX", Ms(2_000), 4, Succeeds),
        row(WebhookRetriesExhausted, "WEBHOOK_RETRIES_EXHAUSTED", Ms(2_000), 4, Succeeds),
        row(WebhookSlowReceiver, "WEBHOOK_SLOW_RECEIVER", Ms(2_000), 4, Succeeds),
        row(ScheduledOnTime, "SCHEDULED_ON_TIME", Ms(2_000), 4, Succeeds),
        row(ScheduledLateRecovery, "SCHEDULED_LATE_RECOVERY", Ms(2_000), 4, Succeeds),
        row(ScheduledFarFuture, "SCHEDULED_FAR_FUTURE", Ms(2_000), 4, Succeeds),
        row(PayloadSmall, "PAYLOAD_SMALL", Ms(2_000), 1, Succeeds),
        row(PayloadMedium, "PAYLOAD_MEDIUM", Ms(2_000), 16, Succeeds),
        row(PayloadLarge, "PAYLOAD_LARGE", Ms(2_000), 256, Succeeds),
        row(PayloadInvalid, "PAYLOAD_INVALID", Ms(0), 0, Refused),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_RUNTIME_MS: u32 = 125_000;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        assert_eq!(WorkKind::ALL.len(), 31);
        for (position, kind) in WorkKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, position);
        }
    }

    /// Typed from the source, not from the table above.
    #[test]
    fn every_kind_has_the_values_of_the_source() {
        let source = "
            SUCCESS_FAST 1000 false 4
            SUCCESS_NORMAL 10000 false 16
            SUCCESS_SLOW 90000 false 32
            FAIL_IMMEDIATE 500 true 1
            FAIL_AFTER_PROGRESS 20000 true 8
            FAIL_AFTER_RETRYABLE 5000 true 8
            RUNS_LONG 110000 false 32
            RUNS_OVER_TIMEOUT 126000 true 8
            CPU_BURST 8000 false 4
            MEMORY_SPIKE 12000 false 64
            IO_HEAVY 15000 false 32
            MANY_SMALL_OUTPUTS 9000 false 16
            LARGE_OUTPUT 9000 false 256
            CANCEL_BEFORE_START 5000 false 4
            CANCEL_DURING_RUN 10000 false 4
            RETRY_ON_FAIL 3000 true 4
            RETRY_LIMIT_REACHED 3000 true 4
            DUPLICATE_SUBMIT_SAME_KEY 2000 false 4
            DUPLICATE_SUBMIT_DIFFERENT_KEY 2000 false 4
            WEBHOOK_SUCCESS 2000 false 4
            WEBHOOK_TIMEOUT 2000 false 4
            WEBHOOK_5XX 2000 false 4
            WEBHOOK_RETRIES_EXHAUSTED 2000 false 4
            WEBHOOK_SLOW_RECEIVER 2000 false 4
            SCHEDULED_ON_TIME 2000 false 4
            SCHEDULED_LATE_RECOVERY 2000 false 4
            SCHEDULED_FAR_FUTURE 2000 false 4
            PAYLOAD_SMALL 2000 false 1
            PAYLOAD_MEDIUM 2000 false 16
            PAYLOAD_LARGE 2000 false 256
            PAYLOAD_INVALID 0 false 0";
        let lines = source.lines().filter(|line| !line.is_empty());
        assert_eq!(lines.clone().count(), WorkKind::ALL.len());
        for (line, kind) in lines.zip(WorkKind::ALL) {
            let (name, duration_ms) = (kind.as_str(), kind.duration_ms(MAX_RUNTIME_MS));
            let found = std::format!("{name} {duration_ms} {} {}", kind.should_fail(), kind.payload_kb());
            assert_eq!(found, line.trim());
        }
    }

    #[test]
    fn a_kind_is_parsed_from_its_exact_spelling_only() {
        for kind in WorkKind::ALL {
            assert_eq!(WorkKind::parse(kind.as_str()), Some(*kind));
        }
        for text in ["", "NOPE", "success_fast", "SUCCESS_FAST ", "SuccessFast"] {
            assert_eq!(WorkKind::parse(text), None, "{text}");
        }
    }

    #[test]
    fn running_over_the_limit_follows_the_limit_without_overflow() {
        assert_eq!(WorkKind::RunsOverTimeout.duration_ms(2_000), 3_000);
        assert_eq!(WorkKind::RunsOverTimeout.duration_ms(u32::MAX), u32::MAX);
    }

    #[test]
    fn each_attempt_ends_as_the_kind_says() {
        let failure = |kind| End::Failure { kind, after_progress: false };
        let transient = failure(Kind::HandlerTransient);
        let check =
            |kind: WorkKind, ends: [End; 3]| assert_eq!([1, 2, 3].map(|n| kind.end(n)), ends, "{kind:?}");
        check(WorkKind::FailImmediate, [failure(Kind::HandlerError); 3]);
        check(
            WorkKind::FailAfterProgress,
            [End::Failure { kind: Kind::HandlerError, after_progress: true }; 3],
        );
        check(WorkKind::FailAfterRetryable, [transient; 3]);
        check(WorkKind::RunsOverTimeout, [End::Timeout; 3]);
        check(WorkKind::RetryOnFail, [transient, End::Success, End::Success]);
        check(WorkKind::RetryLimitReached, [transient; 3]);
        check(WorkKind::PayloadInvalid, [failure(Kind::NonRetryable); 3]);
        for kind in WorkKind::ALL.iter().filter(|kind| kind.behaviour() == Behaviour::Succeeds) {
            check(*kind, [End::Success; 3]);
        }
    }

    #[test]
    fn should_fail_speaks_of_the_first_attempt() {
        for kind in WorkKind::ALL.iter().filter(|kind| kind.behaviour() != Behaviour::Refused) {
            assert_eq!(kind.should_fail(), kind.end(1) != End::Success, "{kind:?}");
        }
    }

    #[test]
    fn slow_kinds_succeed_late_and_failing_kinds_are_never_slow() {
        let slow = WorkKind::ALL.iter().filter(|kind| kind.class() == WorkClass::Slow);
        assert!(slow.eq(&[WorkKind::SuccessSlow, WorkKind::RunsLong]));
        let n_failing = WorkKind::ALL.iter().filter(|kind| kind.class() == WorkClass::Failure).count();
        assert_eq!(n_failing, 7);
    }
}
