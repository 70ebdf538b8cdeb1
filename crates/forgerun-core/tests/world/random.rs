//! Random commands over a small world: two clients, two queues, a few keys, and workers whose
//! tokens are sometimes stale. Numbers are drawn blindly and given their meaning against the world
//! as it is, so that they shrink well.

use forgerun_core::Command;
use forgerun_core::command::{Cancel, Idempotency, JobPause, NewJob, Owned, Retry, Submit, WorkerKind};
use forgerun_core::fair::Fair;
use forgerun_core::id::{ClientId, ExecutionId};
use forgerun_core::job::{Conflict, Head, IdempotencyKey, Limit, Rate, Unique};
use forgerun_core::queue::Owner;
use forgerun_core::retry::RetryVerdict;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

use crate::world::World;
use crate::world::build::*;

/// No claim brings the jobs held by workers above this.
pub(crate) const ACTIVE_MAX: u64 = 5;

/// Commands decided together, after the clock has jumped.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// By so many milliseconds; backwards now and then.
    pub(crate) jump_ms: i64,
    pub(crate) draws: Vec<Draw>,
}

/// A command to be: what, on which job, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    what: u8,
    which: u8,
    how: u16,
}

pub(crate) fn steps(batch_max: usize) -> impl Strategy<Value = Vec<Step>> {
    let draw = (0u8..21, any::<u8>(), any::<u16>()).prop_map(|(what, which, how)| Draw { what, which, how });
    let jump_ms = prop_oneof![4 => Just(0i64), 4 => 0..3_000i64, 2 => 0..70_000i64, 1 => -5_000..0i64];
    let step = (jump_ms, prop::collection::vec(draw, 1..=batch_max));
    prop::collection::vec(step.prop_map(|(jump_ms, draws)| Step { jump_ms, draws }), 1..40)
}

/// What a drawn world may contain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taste {
    /// Everything.
    Wild,
    /// Everything, and all jobs compete for one place.
    Scarce,
    /// What a batch decides as its commands one by one would: see
    /// `splitting_a_batch_changes_nothing`.
    Splittable,
}

/// Gives commands their ids.
pub(crate) struct Drawer {
    pub(crate) taste: Taste,
    n_jobs: u128,
    n_executions: u128,
}

impl Drawer {
    pub(crate) fn new(taste: Taste) -> Drawer {
        Drawer { taste, n_jobs: 0, n_executions: 1 << 64 }
    }

    /// The commands of a batch, as the world stands before it.
    pub(crate) fn commands(&mut self, world: &World, draws: &[Draw]) -> Vec<Command> {
        let mut commands: Vec<Command> = draws.iter().map(|draw| self.command(world, *draw)).collect();
        if self.taste == Taste::Splittable {
            // What is due is looked up once, before the batch begins.
            commands.sort_by_key(|command| !matches!(command, Command::Due(_)));
            commands.dedup_by(|one, other| matches!((one, other), (Command::Due(_), Command::Due(_))));
        }
        commands
    }

    fn command(&mut self, world: &World, Draw { what, which, how }: Draw) -> Command {
        // One number more than there are jobs: now and then nobody has it.
        let n = u128::from(which) % (self.n_jobs + 1) + 1;
        let fence = world.jobs.get(&id(n)).map_or(1, |job| job.fence);
        let token = match how % 8 {
            0 => fence.saturating_sub(1),
            1 => fence + 1,
            _ => fence,
        };
        let by = Owned { job: id(n), client: [Some(client(how)), Some(CLIENT), None][usize::from(how) % 3] };
        match what {
            0..=3 => self.submission(world, how),
            4..=7 => self.claim(which, how),
            8 | 9 => start(n, token),
            10 => extend(n, token, (how & 16 != 0).then_some(Duration::from_millis(u64::from(how)))),
            11 => progress(n, token, which),
            12 => succeed(n, token),
            13 => fail_as(n, token, |error| {
                let verdicts = [
                    None,
                    None,
                    Some(RetryVerdict::Retry),
                    Some(RetryVerdict::Discard),
                    Some(RetryVerdict::DeadLetter),
                ];
                error.verdict = verdicts[usize::from(how >> 3) % 5];
            }),
            14 => hand_back(n, token),
            15 => Command::Cancel(Cancel {
                owned: by,
                execution: None,
                by: "user".into(),
                reason: "chance".into(),
                compensate: how & 1 == 0,
            }),
            16 => {
                self.n_executions += 1;
                let execution = ExecutionId::from_u128(self.n_executions);
                Command::Retry(Retry {
                    owned: by,
                    execution,
                    afresh: how & 64 != 0,
                    dead_letter: how & 96 == 96,
                    from: None,
                })
            }
            17 if how & 1 == 0 => Command::Activate(by),
            17 => Command::Forget(by),
            18 => pause(queue(how), how & 2 != 0),
            19 => Command::Pause(JobPause { owned: by, paused: how & 8 != 0 }),
            _ if self.taste == Taste::Splittable => Command::Due(usize::MAX),
            _ => Command::Due(usize::from(how) % 6),
        }
    }

    fn submission(&mut self, world: &World, how: u16) -> Command {
        let count = if how.is_multiple_of(5) { 3 } else { 1 };
        let mut jobs: Vec<NewJob> = (0..count).map(|k| self.new_job(world, how.rotate_left(k * 5))).collect();
        let idempotency = (how & 7 == 1).then(|| {
            let key =
                IdempotencyKey { client: CLIENT, operation: "submit".into(), key: format!("{}", how % 3) };
            Arc::make_mut(&mut jobs[0].head).idempotency = Some(key.clone());
            Idempotency { key, fingerprint: [(how >> 8) as u8 % 2; 32], too_late: how & 0x700 == 0x700 }
        });
        Command::Submit(Submit {
            jobs,
            idempotency,
            queue_max: (how & 3 == 2).then_some(6),
            refuse_paused: false,
        })
    }

    fn new_job(&mut self, world: &World, how: u16) -> NewJob {
        self.n_jobs += 1;
        let flag = |bit: u16| how & (1 << bit) != 0;
        let soon = world.now + Duration::from_millis(u64::from(how % 9_000));
        job(self.n_jobs, |head: &mut Head| {
            head.client = client(how);
            head.queue = name(queue(how >> 1));
            head.priority = (how % 3) as i16;
            if flag(2) {
                auto(head);
            }
            head.hold = flag(3) && flag(4);
            head.execution_at = (flag(5) && flag(6)).then_some(soon);
            head.expires_at = (flag(7) && flag(8)).then_some(soon);
            head.deadline = (flag(8) && !flag(7) && flag(6)).then_some(soon);
            head.timeout = flag(9).then_some(secs(8));
            head.lease = flag(10).then_some(secs(4));
            head.retention = flag(11).then_some(secs(30));
            head.unique = (flag(12) && flag(3)).then(|| Unique {
                key: [(how % 2) as u8; 32],
                facets: Unique::UNFINISHED,
                until: None,
                on_conflict: [Conflict::Reject, Conflict::Ignore, Conflict::Replace][usize::from(how) % 3],
            });
            let rate = Some(Rate { count: 2, per: secs(2) });
            let fair = || Fair::new(name(["x", "y", "z"][usize::from(how) % 3]), 1 + (how % 4) as u8);
            head.fair = (self.taste != Taste::Splittable && flag(14)).then(fair).flatten();
            head.limits = match self.taste {
                Taste::Scarce => vec![limit(Some(1))],
                Taste::Wild if flag(13) && flag(1) => vec![
                    Limit { key: name("places"), concurrency: Some(2), rate: None },
                    Limit { key: name("both"), concurrency: Some(2), rate },
                    Limit { key: name("turns"), concurrency: None, rate },
                ],
                Taste::Wild if flag(13) => vec![match how % 3 {
                    0 => Limit { key: name("places"), concurrency: Some(2), rate: None },
                    1 => Limit { key: name("turns"), concurrency: None, rate },
                    _ => Limit { key: name("both"), concurrency: Some(2), rate },
                }],
                Taste::Wild | Taste::Splittable => Vec::new(),
            };
        })
    }

    fn claim(&self, which: u8, how: u16) -> Command {
        let queues = ["a", "b", "a b", "b a"][usize::from(how) % 4];
        let limit = if self.taste == Taste::Splittable { 1000 } else { usize::from(which) % 4 };
        claim_as(queues, limit, |claim| {
            claim.worker = name(if how & 8 == 0 { "w" } else { "v" });
            claim.start = how & 16 != 0;
            claim.worker_kind = match how & 0b110_0000 {
                0 => WorkerKind::BuiltIn,
                _ => WorkerKind::External(Owner::client(client(how))),
            };
            claim.active_max = Some(ACTIVE_MAX);
        })
    }
}

fn client(how: u16) -> ClientId {
    if how.is_multiple_of(4) { ClientId::from_u128(2) } else { CLIENT }
}

fn queue(how: u16) -> &'static str {
    if how & 1 == 0 { "a" } else { "b" }
}
