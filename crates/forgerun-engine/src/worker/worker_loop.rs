//! One loop of the built-in worker, with slots. Each round sends all due reports, and a claim for
//! the free slots if there is known work, to the committer at once. Without known work it places a
//! standing claim for these slots, which the batch with new jobs executes. Between two rounds the
//! loop sleeps until the next due report, or until it is woken or gets jobs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forgerun_core::command::{Claim, Content, Output, WorkerKind};
use forgerun_core::id::JobId;
use forgerun_core::job::{Job, Name};
use forgerun_core::queue::QueueId;
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_core::{Answer, Command, limits};
use forgerun_store::QueueCounts;
use tokio::sync::broadcast::{self, error::RecvError, error::TryRecvError};
use tokio_util::sync::CancellationToken;

use super::batch;
use super::queue_hints::{HintedQueues, QueueHints};
use super::run::{ReportAnswer, Run, RunReport};
use super::{Gauges, WorkerOptions};
use crate::wakeups::StandingClaim;
use crate::{Engine, Error, IntakeError};

/// On stop, work that ends within this time is finished: a hand-back would repeat all of it.
const FINISH_WITHIN: Duration = Duration::from_secs(1);

/// How long a stopping worker tries to report to a failing store. The leases return the rest.
const STOP_MAX: Duration = Duration::from_secs(5);

/// The first and the longest wait after a store error: short against any lease.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

pub(super) struct WorkerLoop {
    engine: Engine,
    options: Arc<WorkerOptions>,
    gauges: Arc<Gauges>,
    name: Name,
    queue_hints: QueueHints,
    called_off: broadcast::Receiver<Arc<[JobId]>>,
    stop: CancellationToken,
    engine_stop: CancellationToken,
    runs: Vec<Run>,
    /// A standing claim, and its number of slots.
    standing: Option<(StandingClaim, usize)>,
    /// The first queue of the last claim.
    last_queue: Option<Name>,
    /// Whether a claim may accompany the reports that make room for it: only if the store decides
    /// them in this order.
    claims_with_ends: bool,
    /// Nothing is sent before this, because of a store error.
    pause_until: Time,
    pause: Duration,
    /// Set once the worker stops: when to give up on a failing store.
    stop_by: Option<Time>,
    last_now: Time,
}

/// Commands sent to the committer at once.
#[derive(Default)]
struct CommandRound {
    commands: Vec<Command>,
    /// The run of each command, by position in `runs`, ascending.
    reports: Vec<(usize, RunReport)>,
    /// Set if the last command is a claim.
    look: Option<HintedQueues>,
}

impl WorkerLoop {
    pub(super) fn new(
        engine: Engine,
        options: Arc<WorkerOptions>,
        gauges: Arc<Gauges>,
        number: usize,
        stop: CancellationToken,
    ) -> WorkerLoop {
        // A node name that leaves no room for a number is used unchanged.
        let name = Name::new(&format!("{}-{number}", options.node)).unwrap_or_else(|| options.node.clone());
        let queue_hints = engine.queue_hints();
        WorkerLoop {
            called_off: queue_hints.called_off(),
            queue_hints,
            stop,
            engine_stop: engine.stop_signal(),
            runs: Vec::new(),
            standing: None,
            last_queue: None,
            claims_with_ends: engine.store().lanes() <= 1,
            pause_until: Time::ZERO,
            pause: PAUSE_MIN,
            stop_by: None,
            last_now: engine.now(),
            engine,
            options,
            gauges,
            name,
        }
    }

    /// Runs until stopped. Cancel-safe: its jobs come back when their leases end.
    pub(super) async fn work(mut self) {
        loop {
            let now = self.now();
            self.receive_reports(now);
            if let Some((claim, _)) = &mut self.standing
                && let Some(answer) = claim.try_answer()
            {
                self.receive(answer, now).await;
            }
            let is_idle = self.runs.is_empty() && self.standing.is_none();
            if self.engine.is_stopping() || (self.stop_by.is_some() && is_idle) {
                break;
            }
            if now < self.pause_until {
                self.wait(now).await;
                continue;
            }
            self.learn_queues(now).await;
            if !self.keep_results(now).await {
                continue;
            }
            let round = self.round(now);
            self.stand(&round);
            if round.commands.is_empty() {
                self.wait(now).await;
            } else {
                self.carry_out(round).await;
            }
        }
        self.release_places(self.runs.len());
    }

    /// The current time. If the clock was set back, the runs are moved, so that their work does not
    /// take longer.
    fn now(&mut self) -> Time {
        let now = self.engine.now();
        let back = self.last_now.since(now);
        if !back.is_zero() {
            self.runs.iter_mut().for_each(|run| run.shift_back(back));
            self.pause_until = self.pause_until - back;
            self.stop_by = self.stop_by.map(|stop_by| stop_by - back);
        }
        self.last_now = now;
        now
    }

    /// Processes pending messages. Not left to [`Self::wait`]: a busy loop never waits.
    fn receive_reports(&mut self, now: Time) {
        loop {
            match self.called_off.try_recv() {
                Ok(jobs) => self.ask_about(&jobs, now),
                Err(TryRecvError::Lagged(_)) => self.runs.iter_mut().for_each(|run| run.ask(now)),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        if self.stop_by.is_none() && self.stop.is_cancelled() {
            self.stop_by = Some(now + STOP_MAX);
            let latest = now + FINISH_WITHIN;
            self.runs.iter_mut().for_each(|run| run.give_up_unless_over_by(latest, now));
            self.withdraw();
        }
    }

    /// Withdraws the standing claim; returns the number of slots that stay reserved, because a
    /// batch has taken it.
    fn withdraw(&mut self) -> usize {
        if let Some((claim, n_slots)) = &mut self.standing
            && !claim.withdraw()
        {
            return *n_slots;
        }
        self.standing = None;
        0
    }

    /// Places a standing claim for the slots that neither the runs nor this round's claim use.
    fn stand(&mut self, round: &CommandRound) {
        let n_free = if round.look.is_some() { 0 } else { self.n_free(0) };
        let is_up_to_date = self.standing.as_ref().map_or(0, |(_, n_slots)| *n_slots) == n_free;
        if !is_up_to_date && self.withdraw() == 0 && n_free > 0 {
            let claim = self.claim(Vec::new(), n_free);
            self.standing = Some((self.engine.wakeups().leave_built_in(claim), n_free));
        }
    }

    /// A cancellation is only a hint, perhaps about an earlier attempt: the answer to a lease
    /// extension decides.
    fn ask_about(&mut self, jobs: &[JobId], now: Time) {
        self.runs.iter_mut().filter(|run| jobs.contains(&run.job())).for_each(|run| run.ask(now));
    }

    fn n_free(&self, n_ending: usize) -> usize {
        if self.stop_by.is_some() {
            return 0;
        }
        let n_busy = self.runs.len() - if self.claims_with_ends { n_ending } else { 0 };
        self.options.concurrency.saturating_sub(n_busy).min(limits::CLAIM_JOBS_MAX)
    }

    /// Queries the store for queues with work, if the hints are incomplete.
    async fn learn_queues(&mut self, now: Time) {
        if self.n_free(0) == 0 || !self.queue_hints.take_missed() {
            return;
        }
        // If cancelled here, the hints stay incomplete.
        let unread = QueueReadDuty(Some(self.queue_hints.clone()));
        match self.engine.store().queues().await {
            Ok(queues) => {
                unread.done();
                let waiting = |stats: &&QueueCounts| {
                    QueueId::is_shared(&stats.queue) && stats.counts.of(State::Queued) > 0
                };
                self.queue_hints.announce_queues(queues.iter().filter(waiting).map(|stats| &stats.queue));
            }
            Err(error) => {
                tracing::warn!(%error, "reading queues failed: retrying");
                self.make_pause(now);
            }
        }
    }

    /// Stores the results of finished attempts before their end is reported. Returns whether all
    /// were stored.
    async fn keep_results(&mut self, now: Time) -> bool {
        let mut place = 0;
        while let Some(run) = self.runs.get_mut(place) {
            let Some(output) = run.result_to_keep(now) else {
                place += 1;
                continue;
            };
            let kept = store_output(&self.engine, output).await;
            let trouble = kept.as_ref().err().map(ToString::to_string).unwrap_or_default();
            match run.kept(kept, self.engine.now()) {
                ReportAnswer::GoesOn => {}
                ReportAnswer::NotHeard if self.stop_by.is_none_or(|stop_by| now < stop_by) => {
                    tracing::warn!(worker = %self.name, error = trouble, "storing a result failed: retrying");
                    self.make_pause(now);
                    return false;
                }
                ReportAnswer::NotHeard | ReportAnswer::Over => {
                    self.runs.swap_remove(place);
                    self.release_places(1);
                }
            }
        }
        true
    }

    fn round(&mut self, now: Time) -> CommandRound {
        let mut round = CommandRound::default();
        for (place, run) in self.runs.iter_mut().enumerate() {
            if run.next_at() <= now
                && let Some((step, command)) = run.report(now)
            {
                round.reports.push((place, step));
                round.commands.push(command);
            }
        }
        let n_ending = round.reports.iter().filter(|(_, step)| *step == RunReport::End).count();
        if self.n_free(n_ending) > 0
            && now >= self.pause_until
            && let Some(look) = self.queue_hints.look(self.last_queue.as_ref())
        {
            let limit = self.n_free(n_ending).saturating_sub(self.withdraw());
            if limit > 0 {
                round.commands.push(Command::Claim(self.claim(look.queues.clone(), limit)));
                self.last_queue = look.queues.first().cloned();
                round.look = Some(look);
            }
        }
        round
    }

    fn claim(&self, queues: Vec<Name>, limit: usize) -> Claim {
        Claim {
            worker: self.name.clone(),
            worker_kind: WorkerKind::BuiltIn,
            queues,
            limit,
            lease: None,
            lease_default: self.options.lease,
            start: true,
            active_max: self.options.active_max,
        }
    }

    async fn carry_out(&mut self, round: CommandRound) {
        let mut answers = self.engine.commands().run_all(round.commands).await;
        let claimed = round.look.and_then(|look| Some((look, answers.pop()?)));
        let now = self.now();
        let mut trouble = None;
        // Backwards, so that a removal does not shift the remaining positions.
        for ((place, step), answer) in round.reports.into_iter().zip(answers).rev() {
            let error = answer.as_ref().err().cloned();
            if let (RunReport::Sign { .. }, Ok(_)) = (step, &answer) {
                self.gauges.beat(now);
            }
            match self.runs[place].settle(step, answer, now) {
                ReportAnswer::GoesOn => {}
                ReportAnswer::NotHeard if self.stop_by.is_none_or(|stop_by| now < stop_by) => trouble = error,
                ReportAnswer::NotHeard | ReportAnswer::Over => {
                    self.runs.swap_remove(place);
                    self.release_places(1);
                }
            }
        }
        match claimed {
            Some((look, Ok(Answer::Claimed { jobs, more, capped }))) => {
                self.take(jobs, now).await;
                if capped {
                    self.queue_hints.found_cap(&look);
                } else if more {
                    self.queue_hints.found_more();
                } else {
                    self.queue_hints.found_nothing_left(&look);
                }
            }
            Some((_, Ok(answer))) => unreachable!("a claim was answered with {answer:?}"),
            Some((_, Err(error))) => trouble = Some(error),
            None => {}
        }
        match trouble {
            Some(Error::Stopped) => {}
            Some(error) => {
                tracing::warn!(worker = %self.name, %error, "report or claim failed: retrying");
                self.make_pause(now);
            }
            None => self.pause = PAUSE_MIN,
        }
    }

    /// Receives the jobs of the standing claim. The commit has announced those left; after an error
    /// there are none.
    async fn receive(&mut self, answer: Result<Answer, Error>, now: Time) {
        self.standing = None;
        if let Ok(Answer::Claimed { jobs, .. }) = answer {
            self.take(jobs, now).await;
        }
    }

    async fn take(&mut self, jobs: Vec<Job>, now: Time) {
        self.gauges.busy.fetch_add(jobs.len(), Ordering::Relaxed);
        for job in &jobs {
            tracing::debug!(
                job.id = %job.id, worker = %self.name, queue = %job.head.queue, attempt = job.attempt,
                definition = ?job.head.definition, "work started"
            );
        }
        for job in &jobs {
            let run = match batch::read(&**self.engine.store(), job).await {
                Ok(parts) => Run::new(job, parts, &self.options, now),
                Err(error) => {
                    tracing::warn!(job.id = %job.id, %error, "batch items unreadable: handed back");
                    self.make_pause(now);
                    Run::new(job, None, &self.options, now).handed_back(now)
                }
            };
            self.runs.push(run);
        }
        if self.stop_by.is_some() {
            let latest = now + FINISH_WITHIN;
            self.runs.iter_mut().for_each(|run| run.give_up_unless_over_by(latest, now));
        }
    }

    fn make_pause(&mut self, now: Time) {
        self.pause_until = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    fn release_places(&self, n: usize) {
        self.gauges.busy.fetch_sub(n, Ordering::Relaxed);
    }

    /// Returns when there may be something to do. Cancel-safe.
    async fn wait(&mut self, now: Time) {
        let paused = now < self.pause_until;
        let until = if paused { Some(self.pause_until) } else { self.runs.iter().map(Run::next_at).min() };
        let may_claim = !paused && self.n_free(0) > 0;
        let engine = self.engine.clone();
        let nap = async {
            match until {
                Some(at) => engine.clock().sleep(at.since(now)).await,
                None => std::future::pending().await,
            }
        };
        let given = async {
            match &mut self.standing {
                Some((claim, _)) => claim.answer().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.engine_stop.cancelled() => {}
            () = self.stop.cancelled(), if self.stop_by.is_none() => {}
            heard = self.called_off.recv() => match heard {
                Ok(jobs) => self.ask_about(&jobs, now),
                Err(RecvError::Lagged(_)) => self.runs.iter_mut().for_each(|run| run.ask(now)),
                Err(RecvError::Closed) => {}
            },
            answer = given => self.receive(answer, now).await,
            () = self.queue_hints.announced(), if may_claim => {}
            () = nap => {}
        }
    }
}

/// Stores an output: a small one stays in memory, a large one becomes a blob.
async fn store_output(engine: &Engine, output: Output) -> Result<Output, IntakeError> {
    let Output { media_type, file_name, content } = output;
    match content {
        Content::Inline(bytes) => {
            let mut intake = engine.begin_result(media_type, file_name);
            intake.write(bytes.into()).await?;
            intake.finish().await
        }
        Content::Stored(_) => Ok(Output { media_type, file_name, content }),
    }
}

/// The duty to query the queues: returned if it is dropped unfulfilled.
struct QueueReadDuty(Option<QueueHints>);

impl QueueReadDuty {
    fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for QueueReadDuty {
    fn drop(&mut self) {
        if let Some(queue_hints) = &self.0 {
            queue_hints.announce_anywhere();
        }
    }
}
