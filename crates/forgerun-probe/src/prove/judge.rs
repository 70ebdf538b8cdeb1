//! Judges a history. Pure: the same history leads to the same verdict.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::history::{AnswerKind, Event, JobEvent, Span, Tick};

/// Violations that are kept; further ones are only counted.
const SHOWN_MAX: usize = 100;

macro_rules! rules {
    ($($rule:ident = $name:literal, $what:literal;)*) => {
        /// A promise of the server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule { $($rule),* }

        impl Rule {
            pub const ALL: &'static [Rule] = &[$(Rule::$rule),*];

            pub const fn name(self) -> &'static str {
                match self { $(Rule::$rule => $name),* }
            }

            pub const fn promise(self) -> &'static str {
                match self { $(Rule::$rule => $what),* }
            }
        }
    };
}

rules! {
    EarlyAcknowledgement = "early-acknowledgement", "an acknowledged job is there, whatever was killed";
    NotEnded = "not-ended", "every job ends";
    IllegalOrder = "illegal-order", "states follow each other as documented";
    EndedTwice = "ended-twice", "a job ends once";
    DoubledSubmission = "doubled-submission", "an idempotency key makes one job";
    UniqueTwice = "unique-twice", "no two jobs hold a unique key at once";
    UnknownJob = "unknown-job", "there is no job that nothing asked for";
    LostAck = "lost-ack", "an acknowledged result is the result";
    NoFencing = "no-fencing", "a worker without a lease has no effect";
    LostCancel = "lost-cancel", "a job that was cancelled is cancelled";
    DoubleTick = "double-tick", "a tick makes one job";
    LostTick = "lost-tick", "no tick is left out";
    LostSignal = "lost-signal", "an acknowledged signal ends its wait";
    LostStep = "lost-step", "every step of a workflow is done";
    LostDelivery = "lost-delivery", "every event is delivered";
    ReorderedDelivery = "reordered-delivery", "events of a job are delivered in order";
    DamagedStore = "damaged-store", "forgerun check finds nothing";
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    pub detail: String,
}

/// How much a run has tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub faults: u64,
    pub kills: u64,
    pub submitted: u64,
    pub acknowledged: u64,
    pub refused: u64,
    pub claims: u64,
    pub acks: u64,
    /// Acknowledgements without a lease, all of which must be refused.
    pub zombies: u64,
    pub cancels: u64,
    pub ticks: u64,
    pub workflows: u64,
    pub signals: u64,
    pub deliveries: u64,
    pub jobs: u64,
    pub events: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub figures: Figures,
    /// The first of them.
    pub violations: Vec<Violation>,
    pub n_violations: u64,
}

impl Verdict {
    pub fn is_ok(&self) -> bool {
        self.n_violations == 0
    }

    fn add(&mut self, rule: Rule, detail: String) {
        self.n_violations += 1;
        if self.violations.len() < SHOWN_MAX {
            self.violations.push(Violation { rule, detail });
        }
    }
}

struct End<'a> {
    state: &'a str,
    op: Option<u64>,
    value: Option<u64>,
    events: &'a [JobEvent],
}

/// A submission with a unique key, which was accepted at some moment between the two.
struct Accepted<'a> {
    job: Option<&'a str>,
    /// When it was sent first.
    from_ms: f64,
    at_ms: f64,
}

/// What the judge knows of one job.
#[derive(Default)]
struct Job<'a> {
    /// Token and moment of each claim.
    claims: Vec<(&'a str, f64)>,
    /// When requests were sent that may have ended it.
    may_end: Vec<f64>,
    acks: Vec<(&'a str, u64, Span)>,
    end: Option<End<'a>>,
}

/// Checks every promise.
pub fn judge(history: &[Event]) -> Verdict {
    let mut judge = Judge { history, jobs: BTreeMap::new(), verdict: Verdict::default() };
    judge.gather();
    judge.submissions();
    judge.uniques();
    judge.jobs();
    judge.cancels();
    judge.ticks();
    judge.workflows();
    judge.deliveries();
    judge.verdict
}

struct Judge<'a> {
    history: &'a [Event],
    jobs: BTreeMap<&'a str, Job<'a>>,
    verdict: Verdict,
}

impl<'a> Judge<'a> {
    fn gather(&mut self) {
        let figures = &mut self.verdict.figures;
        let mut damage = Vec::new();
        for event in self.history {
            match event {
                Event::Run { .. } | Event::End { .. } | Event::Gone { .. } => {}
                Event::Nack { job, span, .. } => {
                    self.jobs.entry(job).or_default().may_end.push(span.from_ms);
                }
                Event::Fault { fault, .. } => {
                    figures.faults += 1;
                    figures.kills += u64::from(fault == "kill");
                }
                Event::Submit { span, .. } => {
                    figures.submitted += 1;
                    figures.acknowledged += u64::from(span.answer == AnswerKind::Ok);
                    figures.refused += u64::from(span.answer == AnswerKind::Refused);
                }
                Event::Claim { job, token, at_ms, .. } => {
                    figures.claims += 1;
                    self.jobs.entry(job).or_default().claims.push((token, *at_ms));
                }
                Event::Ack { job, token, value, zombie, span, .. } => {
                    figures.acks += 1;
                    figures.zombies += u64::from(*zombie);
                    let job = self.jobs.entry(job).or_default();
                    job.acks.push((token, *value, *span));
                    job.may_end.push(span.from_ms);
                }
                Event::Cancel { job, span } => {
                    figures.cancels += 1;
                    self.jobs.entry(job).or_default().may_end.push(span.from_ms);
                }
                Event::Workflow { .. } => figures.workflows += 1,
                Event::Signal { .. } => figures.signals += 1,
                Event::Delivery { .. } => figures.deliveries += 1,
                Event::Final { job, state, op, tick, value, events } => {
                    figures.jobs += 1;
                    figures.events += events.len() as u64;
                    figures.ticks += u64::from(tick.is_some());
                    let end = End { state, op: *op, value: *value, events };
                    self.jobs.entry(job).or_default().end = Some(end);
                }
                Event::WorkflowFinal { .. } => {}
                Event::Check { findings } => damage.extend(findings.iter().cloned()),
            }
        }
        damage.into_iter().for_each(|finding| self.verdict.add(Rule::DamagedStore, finding));
    }

    fn end(&self, job: &str) -> Option<&End<'a>> {
        self.jobs.get(job)?.end.as_ref()
    }

    fn submissions(&mut self) {
        let mut by_key: HashMap<&str, &str> = HashMap::new();
        for event in self.history {
            let Event::Submit { key, job: Some(job), span, .. } = event else { continue };
            if span.answer != AnswerKind::Ok {
                continue;
            }
            if self.end(job).is_none() {
                let detail =
                    format!("job {job} was acknowledged after {:.0} ms and is not there", span.at_ms);
                self.verdict.add(Rule::EarlyAcknowledgement, detail);
            }
            if let Some(first) = by_key.insert(key, job).filter(|first| first != job) {
                let detail = format!("key {key} was answered with job {first} and with job {job}");
                self.verdict.add(Rule::DoubledSubmission, detail);
            }
        }
        self.ops();
    }

    /// Each number in a payload is in one job, and each job has one that was submitted.
    fn ops(&mut self) {
        let mut asked: HashSet<u64> = HashSet::new();
        for event in self.history {
            match event {
                Event::Submit { op, .. } => drop(asked.insert(*op)),
                Event::Workflow { steps, .. } => asked.extend(steps),
                _ => {}
            }
        }
        let mut by_op: HashMap<u64, &str> = HashMap::new();
        for (id, job) in &self.jobs {
            let Some(op) = job.end.as_ref().and_then(|end| end.op) else { continue };
            if !asked.contains(&op) {
                self.verdict
                    .add(Rule::UnknownJob, format!("job {id} has the payload {op}, which was never sent"));
            }
            if let Some(first) = by_op.insert(op, id) {
                let detail = format!("jobs {first} and {id} have the payload {op}");
                self.verdict.add(Rule::DoubledSubmission, detail);
            }
        }
    }

    /// A second job with a unique key may be accepted only after something was sent that ends the
    /// first.
    fn uniques(&mut self) {
        let mut holders: BTreeMap<&str, BTreeMap<&str, Accepted<'_>>> = BTreeMap::new();
        for event in self.history {
            let Event::Submit { unique: Some(unique), key, job, span, .. } = event else { continue };
            let accepted = holders.entry(unique).or_default().entry(key).or_insert(Accepted {
                job: None,
                from_ms: span.from_ms,
                at_ms: span.at_ms,
            });
            if let (AnswerKind::Ok, Some(job), None) = (span.answer, job, accepted.job) {
                (accepted.job, accepted.at_ms) = (Some(job.as_str()), span.at_ms);
            }
        }
        for (unique, keys) in holders {
            let mut jobs: Vec<Accepted<'_>> =
                keys.into_values().filter(|accepted| accepted.job.is_some()).collect();
            jobs.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
            for pair in jobs.windows(2) {
                let (Some(first), Some(second)) = (pair[0].job, pair[1].job) else { continue };
                let may_end = self.jobs.get(first).map_or(&[][..], |job| &job.may_end);
                let is_after = pair[0].at_ms < pair[1].from_ms;
                if is_after && !may_end.iter().any(|from_ms| *from_ms < pair[1].at_ms) {
                    let detail = format!("{unique}: job {second} was accepted while job {first} waited");
                    self.verdict.add(Rule::UniqueTwice, detail);
                }
            }
        }
    }

    fn jobs(&mut self) {
        for (id, job) in &self.jobs {
            let Some(end) = &job.end else { continue };
            if !is_final(end.state) {
                self.verdict.add(Rule::NotEnded, format!("job {id} is {}", end.state));
            }
            chain(id, end, &mut self.verdict);
            acks(id, job, end, &mut self.verdict);
        }
    }

    fn cancels(&mut self) {
        for event in self.history {
            let Event::Cancel { job, span } = event else { continue };
            if span.answer == AnswerKind::Ok && self.end(job).is_some_and(|end| end.state != "CANCELED") {
                let detail = format!("job {job} was cancelled and did not end so");
                self.verdict.add(Rule::LostCancel, detail);
            }
        }
    }

    /// Schedules of a run have a tick each second, and catch up.
    fn ticks(&mut self) {
        let mut ticks: BTreeMap<&str, Vec<(&Tick, &str)>> = BTreeMap::new();
        for event in self.history {
            if let Event::Final { job, tick: Some(tick), .. } = event {
                ticks.entry(&tick.schedule).or_default().push((tick, job));
            }
        }
        for (schedule, mut ticks) in ticks {
            ticks.sort();
            for pair in ticks.windows(2) {
                let ((first, job), (second, other)) = (pair[0], pair[1]);
                match (second_of(&first.at), second_of(&second.at)) {
                    (Some(a), Some(b)) if a == b => {
                        let detail =
                            format!("schedule {schedule}: tick {} made jobs {job} and {other}", first.at);
                        self.verdict.add(Rule::DoubleTick, detail);
                    }
                    (Some(a), Some(b)) if b == a + 1 => {}
                    _ => {
                        let detail =
                            format!("schedule {schedule}: nothing between {} and {}", first.at, second.at);
                        self.verdict.add(Rule::LostTick, detail);
                    }
                }
            }
        }
    }

    fn workflows(&mut self) {
        let mut ends = HashMap::new();
        for event in self.history {
            if let Event::WorkflowFinal { workflow, state, value, steps } = event {
                ends.insert(workflow.as_str(), (state.as_str(), *value, steps));
            }
        }
        for event in self.history {
            match event {
                Event::Workflow { workflow: Some(workflow), span, .. } if span.answer == AnswerKind::Ok => {
                    match ends.get(workflow.as_str()) {
                        None => {
                            let detail = format!("workflow {workflow} was acknowledged and is not there");
                            self.verdict.add(Rule::EarlyAcknowledgement, detail);
                        }
                        Some((state, _, steps)) => {
                            let open = steps.iter().find(|step| step.state != "SUCCEEDED");
                            if let Some(step) = open {
                                let detail = format!(
                                    "workflow {workflow} is {state}, step {} is {}",
                                    step.id, step.state
                                );
                                self.verdict.add(Rule::LostStep, detail);
                            }
                        }
                    }
                }
                Event::Signal { workflow, value, span } if span.answer == AnswerKind::Ok => {
                    let received = ends.get(workflow.as_str()).and_then(|(_, value, _)| *value);
                    if received != Some(*value) {
                        let detail =
                            format!("workflow {workflow} was sent {value} and received {received:?}");
                        self.verdict.add(Rule::LostSignal, detail);
                    }
                }
                _ => {}
            }
        }
    }

    fn deliveries(&mut self) {
        let mut arrivals: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for event in self.history {
            if let Event::Delivery { job, id, .. } = event {
                arrivals.entry(job).or_default().push(id);
            }
        }
        for (id, job) in &self.jobs {
            let Some(end) = &job.end else { continue };
            let arrived = arrivals.get(id).map_or(&[][..], Vec::as_slice);
            let there: BTreeSet<&str> = arrived.iter().copied().collect();
            let missing = end.events.iter().find(|event| !there.contains(event.id.as_str()));
            if let Some(missing) = missing {
                let detail = format!("job {id}: event {} ({}) never arrived", missing.id, missing.next);
                self.verdict.add(Rule::LostDelivery, detail);
            }
            let place: HashMap<&str, usize> =
                end.events.iter().enumerate().map(|(n, event)| (event.id.as_str(), n)).collect();
            let places: Vec<usize> = arrived.iter().filter_map(|id| place.get(id).copied()).collect();
            if let Some(pair) = places.windows(2).find(|pair| pair[0] >= pair[1]) {
                let detail = format!("job {id}: event {} arrived after event {}", pair[1] + 1, pair[0] + 1);
                self.verdict.add(Rule::ReorderedDelivery, detail);
            }
        }
    }
}

fn is_final(state: &str) -> bool {
    ["SUCCEEDED", "FAILED", "CANCELED"].contains(&state)
}

/// Which state may follow which.
const MOVES: [(Option<&str>, &[&str]); 5] = [
    (None, &["CREATED"]),
    (Some("CREATED"), &["QUEUED", "CANCELED"]),
    (Some("QUEUED"), &["ASSIGNED", "CANCELED"]),
    (Some("ASSIGNED"), &["RUNNING", "QUEUED", "CANCELED"]),
    // Progress does not change the state.
    (Some("RUNNING"), &["SUCCEEDED", "FAILED", "CANCELED", "RUNNING"]),
];

fn chain(id: &str, end: &End<'_>, verdict: &mut Verdict) {
    let (mut before, mut n_ends): (Option<&str>, u32) = (None, 0);
    for event in end.events {
        let allowed = MOVES.iter().find(|(from, _)| *from == before).map_or(&[][..], |(_, to)| *to);
        // A failed attempt that is retried goes back to its queue.
        let is_retry = before == Some("FAILED") && event.next == "QUEUED";
        if event.prev.as_deref() != before || !(is_retry || allowed.contains(&event.next.as_str())) {
            let detail = format!("job {id}: {} follows {}", event.next, before.unwrap_or("nothing"));
            verdict.add(Rule::IllegalOrder, detail);
        }
        n_ends += u32::from(is_final(&event.next) && !event.will_retry);
        before = Some(&event.next);
    }
    if n_ends > 1 {
        verdict.add(Rule::EndedTwice, format!("job {id} ended {n_ends} times"));
    }
}

/// Of all acknowledgements of a job, one is accepted, it came from the worker that held the job,
/// and its result is the job's.
fn acks(id: &str, job: &Job<'_>, end: &End<'_>, verdict: &mut Verdict) {
    let accepted: Vec<_> = job.acks.iter().filter(|(_, _, span)| span.answer == AnswerKind::Ok).collect();
    for (token, value, span) in &accepted {
        let later = job.claims.iter().find(|(other, at_ms)| {
            let own = job.claims.iter().find(|(own, _)| own == token);
            other != token && own.is_some_and(|(_, own_ms)| own_ms < at_ms) && *at_ms < span.from_ms
        });
        if let Some((other, _)) = later {
            let detail = format!("job {id}: the ack with {token} was accepted after {other} was handed out");
            verdict.add(Rule::NoFencing, detail);
        }
        if end.state != "SUCCEEDED" || end.value != Some(*value) {
            let detail = format!(
                "job {id}: result {value} was accepted, the job is {} with {:?}",
                end.state, end.value
            );
            verdict.add(Rule::LostAck, detail);
        }
    }
    let refused = job
        .acks
        .iter()
        .find(|(_, value, span)| span.answer == AnswerKind::Refused && end.value == Some(*value));
    if let Some((token, value, _)) = refused {
        let detail = format!("job {id}: result {value} of {token} was refused and is the job's result");
        verdict.add(Rule::NoFencing, detail);
    }
}

/// Seconds since the epoch of a time such as `2026-11-19T21:00:05Z`; `None` if it is malformed.
fn second_of(text: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    // Days since the epoch, by the civil calendar; years begin in March.
    let (y, m) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (m * 306 + 5) / 10 + day - 1 - 719_468;
    Some(days * 86_400 + number(11..13)? * 3600 + number(14..16)? * 60 + number(17..19)?)
}
