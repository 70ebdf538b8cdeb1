//! Subscriptions. Plain data behind the hub's lock: nothing here waits.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use bytes::Bytes;
use forgerun_core::history::{Event, JournalEntry, JournalSubject};
use forgerun_core::id::{ClientId, JobId, WebhookId};
use forgerun_core::job::Job;
use forgerun_store::JournalRow;
use futures_channel::mpsc;
use tokio::sync::{Notify, watch};

/// The topic of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    Job(JobId),
    Client(ClientId),
    Everything,
}

impl Topic {
    pub(super) fn of(client: Option<ClientId>) -> Topic {
        client.map_or(Topic::Everything, Topic::Client)
    }
}

/// A serialised event. All receivers share the bytes.
#[derive(Clone, Debug)]
pub(crate) struct EventLine {
    /// `None` if it is not about a job.
    pub(crate) event: Option<Event>,
    /// The job when the line was serialised; `None` if it is not about a job.
    pub(crate) job: Option<Arc<Job>>,
    pub(super) bytes: Bytes,
}

/// Identifies a journal entry. Not the event id: a client that chooses job ids could make it
/// collide with another client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum EntryKey {
    Job(JobId, u32),
    Webhook(WebhookId, u32),
}

impl EntryKey {
    pub(super) fn of(entry: &JournalEntry) -> EntryKey {
        match &entry.about {
            JournalSubject::Job { job, event } => EntryKey::Job(*job, event.n),
            JournalSubject::Webhook(notice) => EntryKey::Webhook(notice.webhook, notice.n),
        }
    }
}

/// Serialised events: `None` if the event cannot be shown any more.
pub(super) type PrintedEvents = HashMap<EntryKey, Option<EventLine>>;

/// The open streams of one client.
#[derive(Default)]
struct ClientStreams {
    n: usize,
    /// Notifies of changed keys.
    keys: watch::Sender<()>,
}

#[derive(Default)]
pub(super) struct Subscribers {
    by_id: HashMap<u64, Subscriber>,
    index: SubscriberIndex,
    next_id: u64,
    /// Waiting requests by job.
    waiting: HashMap<JobId, JobWaiters>,
    /// Streams of each client, subscribed or catching up.
    streams: HashMap<ClientId, ClientStreams>,
    /// All rows up to this one were sent. `None` without subscribers.
    pub(super) told: Option<i64>,
    /// Incremented with each first subscriber.
    pub(super) epoch: u64,
    /// No more subscribers are accepted.
    pub(super) closed: bool,
}

struct Subscriber {
    topic: Topic,
    /// Rows up to this one were sent in another way.
    after: i64,
    /// Not tokio's channel: that one reserves 32 lines, 2.3 kB for every idle stream.
    /// nothing to hear.
    lines: mpsc::Sender<EventLine>,
}

/// Requests that wait for one job's end.
#[derive(Default)]
struct JobWaiters {
    ended: Arc<Notify>,
    n: usize,
}

/// Subscribers by topic.
#[derive(Default)]
struct SubscriberIndex {
    jobs: HashMap<JobId, Vec<u64>>,
    clients: HashMap<ClientId, Vec<u64>>,
    everything: Vec<u64>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SentEvents {
    pub(super) n_sent: u64,
    /// Streams whose queue was full.
    pub(super) n_dropped: u64,
}

impl Subscribers {
    /// Counts a stream of a client, within the bound.
    pub(super) fn admit(&mut self, client: ClientId, max: usize) -> Option<watch::Receiver<()>> {
        let streams = self.streams.entry(client).or_default();
        (streams.n < max).then(|| {
            streams.n += 1;
            streams.keys.subscribe()
        })
    }

    /// Notifies the streams of a client that its keys have changed.
    pub(super) fn keys_changed(&self, client: ClientId) {
        if let Some(streams) = self.streams.get(&client) {
            streams.keys.send_replace(());
        }
    }

    /// Removes a stream of a client from the count.
    pub(super) fn dismiss(&mut self, client: ClientId) {
        if let Some(streams) = self.streams.get_mut(&client) {
            streams.n -= 1;
            if streams.n == 0 {
                self.streams.remove(&client);
            }
        }
    }

    /// Adds a subscriber after a row. The first one sets the hub's position.
    pub(super) fn subscribe(
        &mut self,
        topic: Topic,
        after: i64,
        room: usize,
    ) -> (u64, mpsc::Receiver<EventLine>) {
        // The channel adds a slot for each sender.
        let (lines, heard) = mpsc::channel(room.saturating_sub(1));
        let id = self.next_id;
        self.next_id += 1;
        self.by_id.insert(id, Subscriber { topic, after, lines });
        self.index.add(topic, id);
        self.begin(after);
        (id, heard)
    }

    /// Adds a wait for a job's end, after a row. To be followed by [`Self::stop_waiting`].
    pub(super) fn wait_for_end(&mut self, job: JobId, after: i64) -> Arc<Notify> {
        self.begin(after);
        let waiters = self.waiting.entry(job).or_default();
        waiters.n += 1;
        waiters.ended.clone()
    }

    /// Removes a wait.
    pub(super) fn stop_waiting(&mut self, job: JobId) {
        if let Some(waiters) = self.waiting.get_mut(&job) {
            waiters.n -= 1;
            if waiters.n == 0 {
                self.waiting.remove(&job);
            }
        }
        self.rest();
    }

    /// The first subscriber sets the position.
    fn begin(&mut self, after: i64) {
        if self.told.is_none() {
            self.told = Some(after);
            self.epoch += 1;
        }
    }

    /// Without subscribers the hub is idle.
    fn rest(&mut self) {
        if self.by_id.is_empty() && self.waiting.is_empty() {
            self.told = None;
        }
    }

    /// Removes a subscriber, if it is still there.
    pub(super) fn remove(&mut self, id: u64) {
        let Some(left) = self.by_id.remove(&id) else { return };
        self.index.remove(left.topic, id);
        self.rest();
    }

    /// Ends every stream; buffered events are still sent.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.by_id.clear();
        self.index = SubscriberIndex::default();
        self.waiting.drain().for_each(|(_, waiters)| waiters.ended.notify_waiters());
        self.told = None;
    }

    /// Entries with subscribers that are not serialised yet.
    pub(super) fn unprinted(&self, rows: &[JournalRow], printed: &PrintedEvents) -> Vec<JournalEntry> {
        let entries = rows.iter().flat_map(|row| &row.entries);
        let wanted = entries.filter(|entry| self.index.concerned(entry).next().is_some());
        wanted.filter(|entry| !printed.contains_key(&EntryKey::of(entry))).copied().collect()
    }

    /// Sends the rows to their subscribers. Those with a full queue are removed.
    pub(super) fn publish(&mut self, rows: &[JournalRow], printed: &PrintedEvents) -> SentEvents {
        let mut told = SentEvents::default();
        let mut gone = Vec::new();
        for row in rows {
            for entry in &row.entries {
                self.tell_end(entry);
                let Some(Some(line)) = printed.get(&EntryKey::of(entry)) else { continue };
                for id in self.index.concerned(entry) {
                    let subscriber = self.by_id.get_mut(id).expect("the index names subscribers");
                    if row.seq <= subscriber.after || gone.contains(id) {
                        continue;
                    }
                    match subscriber.lines.try_send(line.clone()) {
                        Ok(()) => told.n_sent += 1,
                        Err(error) => {
                            told.n_dropped += u64::from(error.is_full());
                            gone.push(*id);
                        }
                    }
                }
            }
        }
        if let (Some(last), true) = (rows.last(), self.told.is_some()) {
            self.told = Some(last.seq);
        }
        gone.into_iter().for_each(|id| self.remove(id));
        told
    }

    fn tell_end(&self, entry: &JournalEntry) {
        let ended = entry.job_event().filter(|(_, event)| event.ends());
        if let Some(waiters) = ended.and_then(|(job, _)| self.waiting.get(&job)) {
            waiters.ended.notify_waiters();
        }
    }
}

impl SubscriberIndex {
    fn add(&mut self, topic: Topic, id: u64) {
        match topic {
            Topic::Job(job) => self.jobs.entry(job).or_default().push(id),
            Topic::Client(client) => self.clients.entry(client).or_default().push(id),
            Topic::Everything => self.everything.push(id),
        }
    }

    fn remove(&mut self, topic: Topic, id: u64) {
        match topic {
            Topic::Job(job) => remove(&mut self.jobs, job, id),
            Topic::Client(client) => remove(&mut self.clients, client, id),
            Topic::Everything => self.everything.retain(|known| *known != id),
        }
    }

    /// The subscribers of an entry.
    fn concerned(&self, entry: &JournalEntry) -> impl Iterator<Item = &u64> {
        let of_job = entry.job_event().and_then(|(job, _)| self.jobs.get(&job));
        of_job.into_iter().chain(self.clients.get(&entry.client)).flatten().chain(&self.everything)
    }
}

fn remove<K: Eq + Hash>(lists: &mut HashMap<K, Vec<u64>>, topic: K, id: u64) {
    if let Some(list) = lists.get_mut(&topic) {
        list.retain(|known| *known != id);
        if list.is_empty() {
            lists.remove(&topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::Poll;

    use forgerun_core::history::{EventKind, RetryStatus};
    use forgerun_core::state::{Cause, State};
    use forgerun_core::time::Time;
    use forgerun_core::webhook::{Disabled, DisabledReason, Notice};

    use super::*;

    const CLIENT: ClientId = ClientId::v4(1);

    fn job(n: u128) -> JobId {
        JobId::v7(1, n)
    }

    const ENDED: EventKind = EventKind::Moved {
        from: Some(State::Running),
        to: State::Succeeded,
        cause: Cause::Finish,
        retry_status: RetryStatus::Open,
    };

    fn event(n: u32) -> Event {
        Event { n, kind: EventKind::Emitted, at: Time::from_millis(n.into()), attempt: 1, execution: 1 }
    }

    fn row(seq: i64, of: JobId) -> JournalRow {
        JournalRow { seq, entries: vec![JournalEntry::of_job(of, CLIENT, event(seq as u32))] }
    }

    fn printed(rows: &[JournalRow]) -> PrintedEvents {
        let entries = rows.iter().flat_map(|row| &row.entries);
        let line = |entry: &JournalEntry| {
            let event = entry.job_event().map(|(_, event)| *event);
            EventLine { event, job: None, bytes: Bytes::new() }
        };
        entries.map(|entry| (EntryKey::of(entry), Some(line(entry)))).collect()
    }

    /// Numbers of the received events; zero if not about a job.
    fn heard(lines: &mut mpsc::Receiver<EventLine>) -> Vec<u32> {
        let lines = std::iter::from_fn(|| lines.try_recv().ok());
        lines.map(|line| line.event.map_or(0, |event| event.n)).collect()
    }

    /// Whether the stream has ended.
    fn is_over(lines: &mut mpsc::Receiver<EventLine>) -> bool {
        matches!(lines.try_recv(), Err(mpsc::TryRecvError::Closed))
    }

    #[test]
    fn each_hears_what_it_listens_to_from_its_place_on() {
        let mut subscribers = Subscribers::default();
        let (_, mut one) = subscribers.subscribe(Topic::Job(job(1)), 0, 9);
        let (_, mut all) = subscribers.subscribe(Topic::Client(CLIENT), 1, 9);
        let (_, mut other) = subscribers.subscribe(Topic::Client(ClientId::v4(2)), 0, 9);
        let rows = [row(1, job(1)), row(2, job(2)), row(3, job(1))];
        let told = subscribers.publish(&rows, &printed(&rows));
        assert_eq!((heard(&mut one), heard(&mut all), heard(&mut other)), (vec![1, 3], vec![2, 3], vec![]));
        assert_eq!((told, subscribers.told), (SentEvents { n_sent: 4, n_dropped: 0 }, Some(3)));
    }

    #[test]
    fn only_its_client_hears_of_a_webhook() {
        let mut subscribers = Subscribers::default();
        let (_, mut client) = subscribers.subscribe(Topic::Client(CLIENT), 0, 9);
        let (_, mut other) = subscribers.subscribe(Topic::Client(ClientId::v4(2)), 0, 9);
        // A job with the id of the webhook, as far as that is possible.
        let webhook = WebhookId::v7(1, 1);
        let (_, mut of_job) = subscribers.subscribe(Topic::Job(JobId::from_u128(webhook.as_u128())), 0, 9);
        let disabled = Disabled { at: Time::from_millis(1), reason: DisabledReason::Gone };
        let about = JournalSubject::Webhook(Notice { webhook, n: 1, disabled });
        let rows = [JournalRow { seq: 1, entries: vec![JournalEntry { client: CLIENT, about }] }];
        assert_eq!(subscribers.unprinted(&rows, &PrintedEvents::default()), rows[0].entries);
        subscribers.publish(&rows, &printed(&rows));
        assert_eq!((heard(&mut client), heard(&mut other), heard(&mut of_job)), (vec![0], vec![], vec![]));
    }

    #[test]
    fn whoever_does_not_keep_up_is_removed_and_nobody_else_is() {
        let mut subscribers = Subscribers::default();
        let (_, mut slow) = subscribers.subscribe(Topic::Job(job(1)), 0, 2);
        let (_, mut quick) = subscribers.subscribe(Topic::Job(job(1)), 0, 9);
        let rows = [row(1, job(1)), row(2, job(1)), row(3, job(1))];
        assert_eq!(subscribers.publish(&rows, &printed(&rows)), SentEvents { n_sent: 5, n_dropped: 1 });
        assert_eq!((heard(&mut slow), is_over(&mut slow)), (vec![1, 2], true));
        assert_eq!((heard(&mut quick), is_over(&mut quick)), (vec![1, 2, 3], false));
    }

    #[test]
    fn only_what_somebody_listens_to_is_printed_and_only_once() {
        let mut subscribers = Subscribers::default();
        let (id, _lines) = subscribers.subscribe(Topic::Job(job(1)), 0, 9);
        let rows = [row(1, job(1)), row(2, job(2))];
        assert_eq!(subscribers.unprinted(&rows, &PrintedEvents::default()), rows[0].entries);
        assert_eq!(subscribers.unprinted(&rows, &printed(&rows)), []);
        subscribers.remove(id);
        assert_eq!(subscribers.unprinted(&rows, &PrintedEvents::default()), []);
        assert_eq!(subscribers.told, None, "telling begins anew with the next one");
    }

    #[test]
    fn a_client_has_as_many_streams_as_it_may() {
        let mut subscribers = Subscribers::default();
        let mut admitted = |client| subscribers.admit(client, 2).is_some();
        assert!(admitted(CLIENT) && admitted(CLIENT) && !admitted(CLIENT));
        assert!(admitted(ClientId::v4(2)));
        subscribers.dismiss(CLIENT);
        assert!(subscribers.admit(CLIENT, 2).is_some());
    }

    #[tokio::test]
    async fn whoever_waits_is_told_of_the_end_of_its_job_and_of_no_other() {
        let mut subscribers = Subscribers::default();
        let [one, other] = [1, 2].map(|n| subscribers.wait_for_end(job(n), 0));
        let (mut of_one, mut of_other) = (pin!(one.notified()), pin!(other.notified()));
        let mut end = row(2, job(1));
        end.entries = vec![JournalEntry::of_job(job(1), CLIENT, Event { kind: ENDED, ..event(2) })];
        let rows = [row(1, job(1)), row(1, job(2)), end];
        assert_eq!(subscribers.unprinted(&rows, &PrintedEvents::default()), [], "nobody reads what it says");
        subscribers.publish(&rows[..2], &PrintedEvents::default());
        assert!(is_pending(of_one.as_mut()).await);
        subscribers.publish(&rows[2..], &PrintedEvents::default());
        assert!(!is_pending(of_one.as_mut()).await && is_pending(of_other.as_mut()).await);
        subscribers.stop_waiting(job(1));
        assert_eq!(subscribers.told, Some(2), "the other still waits");
        subscribers.stop_waiting(job(2));
        assert_eq!(subscribers.told, None);
    }

    #[tokio::test]
    async fn nobody_waits_at_a_closed_hub() {
        let mut subscribers = Subscribers::default();
        let ended = subscribers.wait_for_end(job(1), 0);
        let mut ended = pin!(ended.notified());
        subscribers.close();
        assert!(!is_pending(ended.as_mut()).await);
        subscribers.stop_waiting(job(1));
    }

    async fn is_pending(mut future: Pin<&mut impl Future>) -> bool {
        std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
    }

    #[test]
    fn a_closed_hub_lets_everybody_hear_what_was_said_and_then_go() {
        let mut subscribers = Subscribers::default();
        let (id, mut lines) = subscribers.subscribe(Topic::Job(job(1)), 0, 9);
        let rows = [row(1, job(1))];
        subscribers.publish(&rows, &printed(&rows));
        subscribers.close();
        assert_eq!((heard(&mut lines), is_over(&mut lines)), (vec![1], true));
        subscribers.remove(id);
    }
}
