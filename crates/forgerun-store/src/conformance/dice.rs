//! Chance: random commands about a small world, so that they meet.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{
    Answer, Claim, Command, Conclude, Extend, Fail, HeldJob, JobPause, LeaseProof, NewJob, Note, Output,
    Owned, Retry, Submit, Succeed, WorkError, WorkerKind,
};
use forgerun_core::delivery::Delivery;
use forgerun_core::fair::Fair;
use forgerun_core::item::{ItemEnd, ItemError, Items};
use forgerun_core::job::{Conflict, Head, Input, Job, Limit, Rate, ResultRetention};
use forgerun_core::random::SplitMix64;
use forgerun_core::retry::RetryVerdict;
use forgerun_core::rows::Changes;
use forgerun_core::time::Time;
use forgerun_core::work::{Definition, WorkKind};

use super::deliveries;
use super::make::{
    cancel, claim, client, execution, forget, id, job_with, name, outside, patient, pause, set_rate,
    submit_all, submit_once, unique,
};

const QUEUES: [&str; 3] = ["a", "b", "c"];
const WORKERS: [&str; 3] = ["ann", "bob", "cid"];
/// The first number of ids that clients choose, and how many there are. Ids that the server draws are never chosen.
const CHOSEN: u64 = 1_000_000;
const CHOSEN_MAX: u64 = 12;
const KEYS: [&str; 2] = ["tenant 1", "tenant 2"];

/// Choices that follow from a seed.
pub(super) struct Dice(SplitMix64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(SplitMix64::new(seed))
    }

    /// A number below `n`.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0.draw() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// Draws commands about jobs it has heard of.
#[derive(Default)]
pub(super) struct Commands {
    /// The number of the youngest job or execution.
    youngest: u64,
    /// Jobs that workers were given, as they were given.
    given: Vec<Job>,
    /// Deliveries that couriers were given.
    taken: Vec<Delivery>,
}

impl Commands {
    /// Listens to what became of the commands.
    pub(super) fn learn(&mut self, changes: &Changes) {
        for answer in &changes.answers {
            if let Answer::Claimed { jobs, .. } = answer {
                self.given.extend(jobs.iter().cloned());
            }
            if let Answer::Taken(taken) = answer {
                self.taken.extend(taken.deliveries.iter().cloned());
            }
        }
        let n_old = self.given.len().saturating_sub(12);
        self.given.drain(..n_old);
        let n_old = self.taken.len().saturating_sub(24);
        self.taken.drain(..n_old);
    }

    /// One command.
    pub(super) fn draw(&mut self, dice: &mut Dice, now: Time) -> Command {
        match dice.below(39) {
            0..=5 => self.submit(dice, now),
            6..=9 => draw_claim(dice),
            10 => Command::Start(self.held(dice)),
            11 => self.extend(dice),
            12..=14 => {
                let bytes = vec![dice.below(256) as u8; dice.below(40) as usize];
                let output = dice.one_in(2).then(|| Arc::new(Output::inline("x/y", bytes)));
                Command::Succeed(Succeed { held: self.held(dice), output })
            }
            15..=16 => Command::Fail(Fail { held: self.held(dice), error: draw_error(dice) }),
            17 => Command::HandBack(self.held(dice)),
            18 => cancel(self.recent(dice)),
            19 => {
                self.youngest += 1;
                let execution = execution(self.youngest);
                let owned = self.owned(dice);
                let (afresh, dead_letter) = (dice.one_in(2), dice.one_in(4));
                Command::Retry(Retry { owned, execution, afresh, dead_letter, from: None })
            }
            20 => Command::Activate(self.owned(dice)),
            21 => Command::Due(dice.below(20) as usize + 1),
            22 => forget(self.recent(dice)),
            23 => Command::Conclude(Conclude { held: self.held(dice), ends: draw_ends(dice) }),
            24 if dice.one_in(5) => set_rate(dice.pick(&QUEUES), 100 + dice.below(2000) as u32),
            24 => pause(dice.pick(&QUEUES), dice.one_in(3)),
            25 => Command::Pause(JobPause { owned: self.owned(dice), paused: dice.one_in(2) }),
            _ => deliveries::draw(dice, now, &self.taken),
        }
    }

    fn submit(&mut self, dice: &mut Dice, now: Time) -> Command {
        match dice.below(6) {
            0 => submit_once(self.new_job(dice, now), dice.pick(&KEYS), dice.below(2) as u8),
            1 => submit_all((0..dice.below(5)).map(|_| self.new_job(dice, now)).collect()),
            2 => {
                let jobs = vec![self.new_job(dice, now)];
                Command::Submit(Submit {
                    jobs,
                    idempotency: None,
                    queue_max: Some(dice.below(12)),
                    refuse_paused: false,
                })
            }
            3 => {
                let chosen = id(CHOSEN + dice.below(CHOSEN_MAX));
                submit_all(vec![NewJob { id: chosen, id_given: true, ..self.new_job(dice, now) }])
            }
            _ => submit_all(vec![self.new_job(dice, now)]),
        }
    }

    fn new_job(&mut self, dice: &mut Dice, now: Time) -> NewJob {
        self.youngest += 1;
        let input = Input { payload: vec![7; dice.below(30) as usize], ..Input::default() };
        let new = job_with(self.youngest, dice.pick(&QUEUES), |head| {
            head.created_at = now;
            head.client = client(u128::from(dice.below(2)));
            head.priority = dice.below(4) as i16 - 2;
            draw_moments(dice, now, head);
            draw_rules(dice, now, head);
            head.items = dice.one_in(4).then_some(Items { n: 2, simulated: false });
            head.callback = dice.one_in(3).then(|| format!("http://receiver/{}", dice.below(3)));
        });
        NewJob { input: Arc::new(input), ..new }
    }

    /// One of the youngest jobs, one with a chosen id, or an execution's number, which is nobody's.
    fn recent(&self, dice: &mut Dice) -> u64 {
        if dice.one_in(8) {
            return CHOSEN + dice.below(CHOSEN_MAX);
        }
        self.youngest.saturating_sub(dice.below(30))
    }

    fn owned(&self, dice: &mut Dice) -> Owned {
        let client = dice.one_in(3).then(|| client(u128::from(dice.below(2))));
        Owned { job: id(self.recent(dice)), client }
    }

    fn held(&self, dice: &mut Dice) -> HeldJob {
        if self.given.is_empty() || dice.one_in(8) {
            return HeldJob { job: id(self.recent(dice)), proof: LeaseProof::Anyone, client: None };
        }
        let given = &self.given[dice.below(self.given.len() as u64) as usize];
        let proof = match dice.below(6) {
            0 => LeaseProof::Worker(name(dice.pick(&WORKERS))),
            1 => LeaseProof::Anyone,
            _ => LeaseProof::Token(given.fence),
        };
        HeldJob { job: given.id, proof, client: None }
    }

    fn extend(&self, dice: &mut Dice) -> Command {
        let note = match dice.below(3) {
            0 => None,
            1 => Some(Note::Emitted),
            _ => Some(Note::Progress { percent: dice.below(130) as u8, message: Some("on the way".into()) }),
        };
        let lease = dice.one_in(2).then(|| Duration::from_secs(dice.below(60)));
        Command::Extend(Extend { held: self.held(dice), lease, note })
    }
}

fn draw_moments(dice: &mut Dice, now: Time, head: &mut Head) {
    let mut soon = |n: u64| Duration::from_secs(1 + dice.below(n));
    let (wait, life, lease, timeout, kept) = (soon(60), soon(120), soon(60), soon(60), soon(200));
    head.execution_at = dice.one_in(4).then(|| now + wait);
    head.expires_at = dice.one_in(5).then(|| now + life);
    head.deadline = dice.one_in(8).then(|| now + life * 2);
    head.lease = dice.one_in(3).then_some(lease);
    head.timeout = dice.one_in(4).then_some(timeout);
    head.retention = dice.one_in(2).then_some(kept);
    let day = Duration::from_secs(24 * 3600);
    head.result_retention =
        dice.one_in(2).then_some(ResultRetention { small: kept, medium: kept / 2, large: day });
    head.hold = dice.one_in(10);
}

fn draw_rules(dice: &mut Dice, now: Time, head: &mut Head) {
    head.retry = if dice.one_in(3) {
        head.retry.clone()
    } else {
        patient(1 + dice.below(4) as u32, Duration::from_secs(dice.below(20)))
    };
    if dice.one_in(4) {
        head.definition = Some(Definition::of(WorkKind::SuccessFast, 120_000));
    }
    if dice.one_in(4) {
        let conflict = dice.pick(&[Conflict::Reject, Conflict::Ignore, Conflict::Replace]);
        let until = dice.one_in(3).then(|| now + Duration::from_secs(dice.below(60)));
        head.unique = Some(forgerun_core::job::Unique { until, ..unique(dice.below(3) as u8, conflict) });
    }
    if dice.one_in(3) {
        head.fair = Fair::new(name(dice.pick(&KEYS)), 1 + dice.below(3) as u8);
    }
    if dice.one_in(3) {
        let rate = Rate { count: 1 + dice.below(3) as u32, per: Duration::from_secs(30) };
        head.limits = vec![Limit {
            key: name(dice.pick(&KEYS)),
            concurrency: dice.one_in(2).then(|| 1 + dice.below(3) as u32),
            rate: dice.one_in(2).then_some(rate),
        }];
        if dice.one_in(3) {
            head.limits.push(Limit { key: name("another key"), concurrency: Some(1), rate: None });
        }
    }
}

fn draw_claim(dice: &mut Dice) -> Command {
    let first = dice.below(3) as usize;
    let queues = [QUEUES[first], QUEUES[(first + 1) % 3]];
    Command::Claim(Claim {
        worker: name(dice.pick(&WORKERS)),
        worker_kind: if dice.one_in(3) { WorkerKind::BuiltIn } else { outside() },
        lease: dice.one_in(3).then(|| Duration::from_secs(dice.below(40))),
        start: dice.one_in(2),
        active_max: dice.one_in(5).then(|| dice.below(20)),
        ..claim(&queues[..1 + dice.below(2) as usize], dice.below(5) as usize)
    })
}

/// Two items, as every drawn batch has.
fn draw_ends(dice: &mut Dice) -> Arc<[ItemEnd]> {
    let mut end = |id: &str| ItemEnd {
        id: id.into(),
        error: dice.one_in(2).then(|| ItemError {
            kind: Kind::HandlerError,
            message: "no".into(),
            retryable: dice.one_in(2),
        }),
    };
    [end("a"), end("b")].into()
}

fn draw_error(dice: &mut Dice) -> WorkError {
    let kind = dice.pick(&[Kind::HandlerTransient, Kind::HandlerTransient, Kind::HandlerTimeout]);
    let verdict = dice.pick(&[
        None,
        None,
        None,
        Some(RetryVerdict::Retry),
        Some(RetryVerdict::Discard),
        Some(RetryVerdict::DeadLetter),
    ]);
    WorkError {
        retryable: dice.pick(&[None, None, Some(false)]),
        verdict,
        ..WorkError::new(kind, "it broke")
    }
}
