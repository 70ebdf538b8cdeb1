//! The loop of a sink: acquires the right to send, sends the chunks of the feed, and stores the
//! position.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::command::{SinkCommand, SinkReport, SinkTake};
use forgerun_core::sink::{SinkCursor, SinkPosition, SinkTotals};
use forgerun_core::time::Time;
use forgerun_core::{Answer, Command, Refusal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::feed::{Chunk, SinkFeed};
use super::{EventSink, SinkCounters, SinkError, SinkEvent, SinkOptions, SinkSent};
use crate::panic::caught;
use crate::{Engine, Error};

/// The wait after a store error.
const PAUSE: Duration = Duration::from_millis(250);

/// Interval of repeated warnings that nothing is sent.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

pub(super) struct SinkRunner {
    engine: Engine,
    sink: Arc<dyn EventSink>,
    options: SinkOptions,
    counters: Arc<SinkCounters>,
    stop: CancellationToken,
}

enum Pause {
    /// The loop was stopped.
    Stopped,
    /// Another node sends, or may send because the store failed for too long; or the feed failed.
    Lost,
    /// Nothing was sent for a whole lease. Another node may reach the broker.
    GivenUp,
}

/// The state of a held sink.
struct SinkHolder {
    fence: u64,
    position: SinkPosition,
    totals: SinkTotals,
    sent_at: Option<Time>,
    trouble: Option<(Time, String)>,
    /// When all of this was last stored.
    noted_at: Time,
    /// Whether there are unsaved changes.
    news: bool,
    complained_at: Option<Time>,
}

impl SinkHolder {
    fn new(sink: SinkCursor, now: Time) -> SinkHolder {
        SinkHolder {
            fence: sink.fence,
            position: sink.position,
            totals: sink.totals,
            sent_at: sink.sent_at,
            trouble: sink.trouble.map(|trouble| (trouble.since, trouble.message)),
            noted_at: now,
            news: false,
            complained_at: None,
        }
    }
}

/// Ends the feed with its holder.
struct SinkFeedTask(JoinHandle<Result<(), String>>);

impl Drop for SinkFeedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl SinkRunner {
    pub(super) fn new(
        engine: Engine,
        sink: Arc<dyn EventSink>,
        options: SinkOptions,
        counters: Arc<SinkCounters>,
        stop: CancellationToken,
    ) -> SinkRunner {
        SinkRunner { engine, sink, options, counters, stop }
    }

    /// Runs until stopped. Cancel-safe: the stored position is behind the sent events, never ahead.
    pub(super) async fn run(mut self) {
        while let Err(panic) = caught(self.work()).await {
            self.panicked(&panic);
            if self.pause(self.options.wait_max).await.is_err() {
                return;
            }
        }
    }

    fn panicked(&self, panic: &str) {
        SinkCounters::add(&self.counters.errors, 1);
        tracing::error!(sink = self.sink.name(), panic, "sink loop panicked: restarting");
    }

    async fn work(&mut self) {
        // On a store that only this process uses, the previous holder is gone: there is no lease to
        // wait for.
        let mut at_once = !self.engine.store().is_shared();
        loop {
            let wait = match self.take(at_once).await {
                Ok(cursor) => match self.hold(cursor).await {
                    Pause::Stopped => return,
                    Pause::Lost => PAUSE,
                    // Long enough for every other node to check once.
                    Pause::GivenUp => self.options.lease / 2,
                },
                Err(Error::Refused(_)) => self.until_free().await,
                Err(Error::Stopped) => return,
                Err(error) => {
                    tracing::debug!(sink = self.sink.name(), %error, "sink not acquired");
                    PAUSE
                }
            };
            at_once = false;
            if self.pause(wait).await.is_err() {
                return;
            }
        }
    }

    /// Wait before the next attempt to acquire: until the lease ends or a check is due, since the
    /// holder may release the sink earlier.
    async fn until_free(&self) -> Duration {
        let look = self.options.lease / 3;
        let held = self.engine.store().record::<SinkCursor>(self.sink.name().to_owned()).await;
        let lease = held.ok().flatten().and_then(|cursor| cursor.lease);
        lease.map_or(look, |lease| lease.until.since(self.engine.now()).clamp(PAUSE, look))
    }

    async fn take(&self, at_once: bool) -> Result<SinkCursor, Error> {
        // Stored with the first acquisition, so events after this query are not missed.
        let begin = SinkPosition::after(self.engine.store().journal_end().await?);
        let take = SinkTake {
            sink: self.name(),
            kind: self.sink.kind().to_owned(),
            node: self.options.node.clone(),
            lease: self.options.lease,
            begin,
            at_once,
        };
        match self.engine.commands().run(Command::Sink(SinkCommand::Take(take))).await? {
            Answer::Sink(cursor) => Ok(*cursor),
            answer => unreachable!("a take was answered with {answer:?}"),
        }
    }

    fn name(&self) -> forgerun_core::job::Name {
        forgerun_core::job::Name::new(self.sink.name()).expect("sinks have short names")
    }

    /// Sends while this node holds the sink.
    async fn hold(&mut self, cursor: SinkCursor) -> Pause {
        tracing::info!(sink = self.sink.name(), position = cursor.position.row, "sink acquired");
        let (into, mut chunks) = mpsc::channel(1);
        let feed =
            SinkFeed::new(self.engine.clone(), self.sink.clone(), cursor.position, self.options.chunk_max);
        let mut feed = SinkFeedTask(tokio::spawn(caught(feed.run(into))));
        let mut holder = SinkHolder::new(cursor, self.engine.now());
        let pause = loop {
            let wait = self.until_note(&holder);
            let sent = tokio::select! {
                biased;
                () = self.stop.cancelled() => Err(Pause::Stopped),
                () = self.engine.clock().sleep(wait) => self.note(&mut holder).await,
                chunk = chunks.recv() => match chunk {
                    Some(chunk) => self.send(chunk, &mut holder).await,
                    None => Err(self.feed_ended(&mut feed).await),
                },
            };
            if let Err(pause) = sent {
                break pause;
            }
        };
        if let Pause::Stopped | Pause::GivenUp = pause {
            // Whether it is refused or not, the stored position is not ahead.
            let _ = self.engine.commands().run(Command::Sink(SinkCommand::Leave(self.report(&holder)))).await;
        }
        pause
    }

    /// The feed ends with the engine; if it failed before that, it restarts with the next hold.
    async fn feed_ended(&self, feed: &mut SinkFeedTask) -> Pause {
        match (&mut feed.0).await {
            Ok(Err(panic)) => {
                self.panicked(&panic);
                Pause::Lost
            }
            Ok(Ok(())) | Err(_) => Pause::Stopped,
        }
    }

    async fn send(&mut self, chunk: Chunk, holder: &mut SinkHolder) -> Result<(), Pause> {
        for wave in &chunk.waves {
            self.send_wave(wave, holder).await?;
        }
        SinkCounters::add(&self.counters.skipped, chunk.n_skipped);
        holder.totals.skipped += chunk.n_skipped as u64;
        holder.position = chunk.end;
        holder.news = true;
        // A busy sink never waits, so the signal is checked here.
        if self.until_note(holder).is_zero() { self.note(holder).await } else { Ok(()) }
    }

    /// Sends a wave until the broker has all of it, or another node should try.
    async fn send_wave(&mut self, wave: &[SinkEvent], holder: &mut SinkHolder) -> Result<(), Pause> {
        let began = self.engine.now();
        let mut wait = self.options.wait_base;
        loop {
            match self.try_send(wave, holder).await? {
                Ok(sent) => {
                    self.confirmed(wave, &sent, holder);
                    return Ok(());
                }
                Err(error) => self.failed(&error, wait, holder),
            }
            if self.engine.store().is_shared() && self.engine.now().since(began) >= self.options.lease {
                tracing::info!(sink = self.sink.name(), "sink released: another node may try");
                return Err(Pause::GivenUp);
            }
            self.wait_out(wait, holder).await?;
            wait = (wait * 2).min(self.options.wait_max);
        }
    }

    /// One attempt; the lease is extended meanwhile.
    async fn try_send(
        &mut self,
        wave: &[SinkEvent],
        holder: &mut SinkHolder,
    ) -> Result<Result<SinkSent, SinkError>, Pause> {
        let sink = self.sink.clone();
        let mut sending = pin!(caught(async { sink.send(wave).await }));
        let mut late = self.engine.clock().sleep(self.options.send_timeout);
        loop {
            let wait = self.until_note(holder);
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(Pause::Stopped),
                sent = &mut sending => return Ok(sent.unwrap_or_else(|panic| {
                    Err(SinkError(format!("the sink panicked: {panic}")))
                })),
                () = &mut late => {
                    let text = format!("no confirmation within {} s", self.options.send_timeout.as_secs());
                    return Ok(Err(SinkError(text)));
                }
                () = self.engine.clock().sleep(wait) => self.note(holder).await?,
            }
        }
    }

    fn confirmed(&self, wave: &[SinkEvent], sent: &SinkSent, holder: &mut SinkHolder) {
        for (index, reason) in &sent.refused {
            let event = wave.get(*index);
            tracing::error!(
                sink = self.sink.name(),
                job.id = event.map(|event| event.job.id.to_string()),
                reason,
                "event skipped: the broker rejects it for good"
            );
        }
        let now = self.engine.now();
        SinkCounters::add(&self.counters.sent, sent.n_sent);
        SinkCounters::add(&self.counters.refused, sent.refused.len());
        holder.totals.sent += sent.n_sent as u64;
        holder.totals.refused += sent.refused.len() as u64;
        if sent.n_sent > 0 {
            holder.sent_at = Some(now);
        }
        if let Some((since, _)) = holder.trouble.take() {
            let after_s = now.since(since).as_secs();
            tracing::info!(sink = self.sink.name(), after_s, "sink recovered");
            holder.complained_at = None;
            holder.news = true;
        }
    }

    fn failed(&self, error: &SinkError, wait: Duration, holder: &mut SinkHolder) {
        let now = self.engine.now();
        SinkCounters::add(&self.counters.errors, 1);
        let since = holder.trouble.as_ref().map_or(now, |(since, _)| *since);
        let is_new = holder.trouble.as_ref().is_none_or(|(_, message)| *message != error.0);
        if is_new || holder.complained_at.is_none_or(|at| now.since(at) >= COMPLAIN_EVERY) {
            let (failing_s, next_ms) = (now.since(since).as_secs(), wait.as_millis() as u64);
            tracing::warn!(sink = self.sink.name(), %error, failing_s, next_ms, "could not send; trying again");
            holder.complained_at = Some(now);
        }
        holder.trouble = Some((since, error.0.clone()));
        holder.news |= is_new;
    }

    /// Waits before the next attempt; the lease is extended meanwhile.
    async fn wait_out(&mut self, span: Duration, holder: &mut SinkHolder) -> Result<(), Pause> {
        let mut over = self.engine.clock().sleep(span);
        loop {
            let wait = self.until_note(holder);
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(Pause::Stopped),
                () = &mut over => return Ok(()),
                () = self.engine.clock().sleep(wait) => self.note(holder).await?,
            }
        }
    }

    /// Time until the position must be stored.
    fn until_note(&self, holder: &SinkHolder) -> Duration {
        let every = if holder.news { self.options.save_every } else { self.options.lease / 3 };
        every.saturating_sub(self.engine.now().since(holder.noted_at))
    }

    /// Stores the position, which also extends the lease.
    async fn note(&self, holder: &mut SinkHolder) -> Result<(), Pause> {
        let began = self.engine.now();
        let report = SinkCommand::Report(self.report(holder));
        match self.engine.commands().run(Command::Sink(report)).await {
            Ok(_) => {
                holder.noted_at = began;
                holder.news = false;
                Ok(())
            }
            Err(Error::Refused(Refusal::LeaseLost)) => {
                tracing::info!(sink = self.sink.name(), "sink lost to another node");
                Err(Pause::Lost)
            }
            Err(Error::Stopped) => Err(Pause::Stopped),
            // Another node may have taken over by now.
            Err(_) if self.engine.now().since(holder.noted_at) >= self.options.lease => Err(Pause::Lost),
            Err(error) => {
                tracing::debug!(sink = self.sink.name(), %error, "sink position not stored");
                self.engine.clock().sleep(PAUSE).await;
                Ok(())
            }
        }
    }

    fn report(&self, holder: &SinkHolder) -> SinkReport {
        SinkReport {
            sink: self.name(),
            fence: holder.fence,
            lease: self.options.lease,
            position: holder.position,
            totals: holder.totals,
            sent_at: holder.sent_at,
            trouble: holder.trouble.clone(),
        }
    }

    async fn pause(&mut self, span: Duration) -> Result<(), Pause> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Pause::Stopped),
            () = self.engine.clock().sleep(span) => Ok(()),
        }
    }
}
