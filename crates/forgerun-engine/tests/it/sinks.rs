//! Sinks, with a broker that does as it is told: what arrives, in which order, and what becomes of
//! it when something breaks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forgerun_core::Command;
use forgerun_core::command::{Claim, Owned};
use forgerun_core::history::Event;
use forgerun_core::id::{EventId, JobId};
use forgerun_core::sink::SinkCursor;
use forgerun_engine::observer::{Commit, Observer};
use forgerun_engine::sinks::{
    EventSink, SinkError, SinkEvent, SinkHandle, SinkLoop, SinkOptions, SinkSending, SinkSent,
};
use forgerun_engine::{Clock, Options};
use forgerun_store::{Fault, Store};

use crate::store::TestStore;
use crate::support::{HOUR, SECOND, TestClock, World, claim, client, name, succeed};

/// What the broker does with a wave.
#[derive(Clone, Debug, Default)]
enum Mood {
    #[default]
    Takes,
    /// Takes it, after a while.
    Slow(Duration),
    /// Takes the first ones of the wave, then breaks.
    Breaks(usize),
    /// Takes nothing and says nothing.
    Hangs,
    /// Will never take events of this job.
    Refuses(JobId),
    /// The sink has a bug.
    Panics,
}

struct Broker {
    clock: Arc<TestClock>,
    results_only: bool,
    mood: Mutex<Mood>,
    /// Whether it panics when it is asked what it wants.
    is_choosy: AtomicBool,
    arrived: Mutex<Vec<SinkEvent>>,
    /// How many events each wave had.
    waves: Mutex<Vec<usize>>,
}

impl Broker {
    fn new(world: &World) -> Arc<Broker> {
        Broker::with(world, false)
    }

    fn with(world: &World, results_only: bool) -> Arc<Broker> {
        let clock = world.clock.clone();
        Arc::new(Broker {
            clock,
            results_only,
            mood: Mutex::default(),
            is_choosy: AtomicBool::default(),
            arrived: Mutex::default(),
            waves: Mutex::default(),
        })
    }

    fn behave(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    /// The ids of what arrived, each as often as it came.
    fn ids(&self) -> Vec<EventId> {
        self.arrived.lock().unwrap().iter().map(|told| told.event.id(told.job.id)).collect()
    }

    /// The numbers of the events of each job, in the order of their first arrival.
    fn numbers(&self) -> BTreeMap<JobId, Vec<u32>> {
        let mut numbers: BTreeMap<JobId, Vec<u32>> = BTreeMap::new();
        for told in self.arrived.lock().unwrap().iter() {
            let of_job = numbers.entry(told.job.id).or_default();
            if !of_job.contains(&told.event.n) {
                of_job.push(told.event.n);
            }
        }
        numbers
    }

    async fn take(&self, events: &[SinkEvent]) -> Result<SinkSent, SinkError> {
        let jobs: BTreeSet<JobId> = events.iter().map(|told| told.job.id).collect();
        assert_eq!(jobs.len(), events.len(), "a job occurs twice in a wave");
        self.waves.lock().unwrap().push(events.len());
        let mood = self.mood.lock().unwrap().clone();
        let accept = |events: &[SinkEvent]| self.arrived.lock().unwrap().extend(events.iter().cloned());
        match mood {
            Mood::Takes => accept(events),
            Mood::Slow(span) => {
                self.clock.sleep(span).await;
                accept(events);
            }
            Mood::Breaks(n) => {
                accept(&events[..n.min(events.len())]);
                return Err(SinkError("the broker is away".into()));
            }
            Mood::Hangs => std::future::pending().await,
            Mood::Panics => panic!("on purpose"),
            Mood::Refuses(job) => {
                let index = events.iter().position(|told| told.job.id == job);
                let taken: Vec<SinkEvent> =
                    events.iter().filter(|told| told.job.id != job).cloned().collect();
                accept(&taken);
                let refused = index.into_iter().map(|index| (index, "too large".into())).collect();
                return Ok(SinkSent { n_sent: taken.len(), refused });
            }
        }
        Ok(SinkSent { n_sent: events.len(), refused: Vec::new() })
    }
}

impl EventSink for Broker {
    fn name(&self) -> &str {
        "test"
    }

    fn kind(&self) -> &'static str {
        "test"
    }

    fn wants(&self, event: &Event) -> bool {
        assert!(!self.is_choosy.load(Ordering::Relaxed), "choosy");
        !self.results_only || event.ends()
    }

    fn send<'a>(&'a self, events: &'a [SinkEvent]) -> SinkSending<'a> {
        Box::pin(self.take(events))
    }
}

fn start(world: &World, broker: &Arc<Broker>, node: &str) -> SinkHandle {
    start_with(world, broker, node, |_| {})
}

fn start_with(
    world: &World,
    broker: &Arc<Broker>,
    node: &str,
    set: impl FnOnce(&mut SinkOptions),
) -> SinkHandle {
    let mut options = SinkOptions::new(name(node));
    set(&mut options);
    SinkLoop::start(world.engine.clone(), broker.clone(), options)
}

async fn cursor(world: &World) -> SinkCursor {
    let store: Arc<dyn Store> = world.store.clone();
    store.record("test".into()).await.unwrap().expect("the sink was used")
}

/// Submits a job and ends it: five events, the last of which ends its execution.
async fn work(world: &World) -> JobId {
    let id = world.submit("a").await.id;
    let job = world.take("a").await;
    world.engine.act(succeed(&job)).await.unwrap();
    id
}

/// The ids of everything the journal tells of jobs.
async fn told(world: &World, after: i64) -> Vec<EventId> {
    let store: Arc<dyn Store> = world.store.clone();
    let rows = store.journal(after, usize::MAX).await.unwrap();
    rows.iter().flat_map(|row| row.job_events()).map(|(job, event)| event.id(job)).collect()
}

fn sorted(mut ids: Vec<EventId>) -> Vec<EventId> {
    ids.sort_unstable();
    ids
}

#[tokio::test(start_paused = true)]
async fn a_new_sink_sends_what_happens_from_now_on_each_event_once_with_its_outcome() {
    let world = World::new();
    work(&world).await;
    let end = world.store.memory();
    let end = (end as &dyn Store).journal_end().await.unwrap();
    let broker = Broker::new(&world);
    let handle = start(&world, &broker, "n");
    world.settle().await;
    for _ in 0..3 {
        work(&world).await;
    }
    world.pass(SECOND).await;
    assert_eq!(sorted(broker.ids()), sorted(told(&world, end).await));
    for sent in broker.arrived.lock().unwrap().iter() {
        let bytes = sent.outcome.as_ref().map(|outcome| outcome.bytes.as_slice());
        assert_eq!(bytes, sent.event.ends().then_some(b"Succeeded".as_slice()));
    }
    let sink = cursor(&world).await;
    assert_eq!((sink.totals.sent, sink.kind.as_str()), (15, "test"));
    assert_eq!(handle.counters().sent.load(Ordering::Relaxed), 15);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_begins_has_its_place_before_anything_happens() {
    let world = World::new();
    let broker = Broker::new(&world);
    broker.behave(Mood::Hangs);
    let handle = start(&world, &broker, "n");
    world.settle().await;
    assert_eq!(cursor(&world).await.totals.sent, 0, "registered, although nothing was sent");
    let job = work(&world).await;
    drop(handle);
    let world = world.crash(SECOND).await;
    broker.behave(Mood::Takes);
    let _handle = start(&world, &broker, "m");
    world.pass(SECOND).await;
    assert_eq!(broker.numbers()[&job], [1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_wants_results_gets_ended_executions_alone() {
    let world = World::new();
    let broker = Broker::with(&world, true);
    let handle = start(&world, &broker, "n");
    world.settle().await;
    let jobs = [work(&world).await, work(&world).await];
    world.submit("a").await;
    world.pass(SECOND).await;
    let arrived: Vec<JobId> = broker.arrived.lock().unwrap().iter().map(|told| told.job.id).collect();
    assert_eq!(arrived, jobs);
    let store: Arc<dyn Store> = world.store.clone();
    let end = store.journal_end().await.unwrap();
    assert_eq!(cursor(&world).await.position.row, end, "what it does not want is through as well");
    assert_eq!(handle.look().await.unwrap().unwrap().1.events, 0);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_breaks_in_the_middle_gets_everything_again_and_in_order() {
    let world = World::new();
    let broker = Broker::new(&world);
    broker.behave(Mood::Breaks(7));
    let handle = start(&world, &broker, "n");
    world.settle().await;
    let jobs = world.submit_many("a", 20, |_| {}).await;
    let all = Claim { limit: 20, ..claim(&["a"]) };
    for job in world.engine.claim(all, Duration::ZERO).await.unwrap() {
        world.engine.act(succeed(&job)).await.unwrap();
    }
    world.pass(10 * SECOND).await;
    let sink = cursor(&world).await;
    assert_eq!(sink.totals.sent, 0, "the place waits for the confirmation");
    assert_eq!(sink.trouble.map(|trouble| trouble.message).as_deref(), Some("the broker is away"));
    assert!(handle.counters().errors.load(Ordering::Relaxed) > 2);
    let lag = handle.look().await.unwrap().unwrap().1;
    assert_eq!(lag.events, 100);
    assert!(lag.age >= 10 * SECOND, "{lag:?}");
    broker.behave(Mood::Takes);
    world.pass(20 * SECOND).await;
    let expected = jobs.iter().map(|job| (job.id, vec![1, 2, 3, 4, 5])).collect();
    assert_eq!(broker.numbers(), expected);
    let sink = cursor(&world).await;
    assert_eq!((sink.totals.sent, sink.trouble), (100, None));
}

#[tokio::test(start_paused = true)]
async fn waits_between_tries_grow_to_a_bound() {
    let world = World::new();
    let broker = Broker::new(&world);
    broker.behave(Mood::Breaks(0));
    let handle = start(&world, &broker, "n");
    world.settle().await;
    world.submit("a").await;
    world.pass(HOUR).await;
    let n_tries = handle.counters().errors.load(Ordering::Relaxed);
    assert!((240..260).contains(&n_tries), "{n_tries} tries within an hour");
}

#[tokio::test(start_paused = true)]
async fn a_crash_loses_nothing_and_keeps_the_order() {
    let world = World::new();
    let broker = Broker::new(&world);
    let mut handle = start(&world, &broker, "n0");
    world.settle().await;
    let mut world = world;
    let mut jobs = Vec::new();
    for n in 1..10 {
        broker.behave(if n % 3 == 0 { Mood::Breaks(1) } else { Mood::Slow(SECOND) });
        for _ in 0..5 {
            jobs.push(work(&world).await);
        }
        world.pass(Duration::from_millis(700)).await;
        drop(handle);
        world = world.crash(Duration::from_millis(50)).await;
        handle = start(&world, &broker, &format!("n{n}"));
    }
    broker.behave(Mood::Takes);
    world.pass(60 * SECOND).await;
    assert_eq!(broker.numbers(), jobs.into_iter().map(|job| (job, vec![1, 2, 3, 4, 5])).collect());
}

#[tokio::test(start_paused = true)]
async fn a_long_row_is_not_begun_again_after_a_crash() {
    let world = World::new();
    let broker = Broker::new(&world);
    broker.behave(Mood::Slow(Duration::from_millis(100)));
    let small = |options: &mut SinkOptions| options.chunk_max = 100;
    let handle = start_with(&world, &broker, "n", small);
    world.settle().await;
    let jobs = world.submit_many("a", 1000, |_| {}).await;
    world.pass(SECOND).await;
    let n_before = cursor(&world).await.totals.sent;
    assert!((200..1900).contains(&n_before), "{n_before} of 2000 went out");
    drop(handle);
    let world = world.crash(SECOND).await;
    broker.behave(Mood::Takes);
    let _handle = start_with(&world, &broker, "m", small);
    world.pass(SECOND).await;
    assert_eq!(broker.numbers(), jobs.iter().map(|job| (job.id, vec![1, 2])).collect());
    let n_twice = broker.ids().len() - 2000;
    assert!(n_twice <= 1000, "{n_twice} events went out twice");
    let n_confirmed = cursor(&world).await.totals.sent;
    assert!((2000..=2100).contains(&n_confirmed), "{n_confirmed}: a wave that is sent again counts again");
}

#[tokio::test(start_paused = true)]
async fn one_node_sends_and_another_takes_over_when_it_is_gone() {
    let here = World::on(TestStore::of_nodes(), Options::default());
    let there = here.node();
    let broker = Broker::new(&here);
    let first = start(&here, &broker, "here");
    here.settle().await;
    let second = start(&there, &broker, "there");
    work(&here).await;
    here.pass(60 * SECOND).await;
    assert_eq!(broker.ids().len(), 5, "each event once");
    assert_eq!(cursor(&here).await.lease.unwrap().node, name("here"));
    // Killed: its lease must end first.
    drop(first);
    let jobs = [work(&here).await, work(&here).await];
    here.pass(25 * SECOND).await;
    assert_eq!(cursor(&here).await.lease.unwrap().node, name("there"));
    for job in jobs {
        assert_eq!(broker.numbers()[&job], [1, 2, 3, 4, 5]);
    }
    // Stopped in good order: nobody waits for a lease.
    second.stop().await;
    assert_eq!(cursor(&here).await.lease, None);
    let third = start(&here, &broker, "again");
    here.settle().await;
    assert_eq!(cursor(&here).await.lease.unwrap().node, name("again"));
    third.stop().await;
}

#[tokio::test(start_paused = true)]
async fn another_node_takes_over_within_a_second_of_the_lease() {
    let here = World::on(TestStore::of_nodes(), Options::default());
    let there = here.node();
    let broker = Broker::new(&here);
    let first = start(&here, &broker, "here");
    here.settle().await;
    let _second = start(&there, &broker, "there");
    // Not at a moment when the other one looks anyway.
    here.pass(Duration::from_millis(8_300)).await;
    drop(first);
    let lease = cursor(&here).await.lease.unwrap();
    assert_eq!(lease.node, name("here"));
    here.pass(lease.until.since(here.engine.now()) + SECOND).await;
    assert_eq!(cursor(&here).await.lease.unwrap().node, name("there"));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_reach_the_broker_leaves_the_sink_to_one_that_does() {
    let here = World::on(TestStore::of_nodes(), Options::default());
    let there = here.node();
    let (cut_off, broker) = (Broker::new(&here), Broker::new(&here));
    cut_off.behave(Mood::Breaks(1));
    let _first = start(&here, &cut_off, "here");
    here.settle().await;
    let _second = start(&there, &broker, "there");
    let job = work(&here).await;
    here.pass(40 * SECOND).await;
    let sink = cursor(&here).await;
    assert_eq!(sink.lease.unwrap().node, name("there"));
    assert_eq!(sink.trouble, None);
    assert_eq!(broker.numbers()[&job], [1, 2, 3, 4, 5], "all of it again: nothing was confirmed");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_says_nothing_is_asked_again_by_any_node_and_is_down_all_the_while() {
    let here = World::on(TestStore::of_nodes(), Options::default());
    let there = here.node();
    let broker = Broker::new(&here);
    broker.behave(Mood::Hangs);
    let first = start(&here, &broker, "here");
    here.settle().await;
    let second = start(&there, &broker, "there");
    let job = work(&here).await;
    here.pass(31 * SECOND).await;
    let since = cursor(&here).await.trouble.unwrap().since;
    for _ in 0..100 {
        here.pass(SECOND).await;
        let trouble = cursor(&here).await.trouble.unwrap();
        assert_eq!((trouble.since, &*trouble.message), (since, "no confirmation within 30 s"));
    }
    for node in [&first, &second] {
        assert!(node.counters().errors.load(Ordering::Relaxed) >= 1);
    }
    broker.behave(Mood::Takes);
    here.pass(60 * SECOND).await;
    assert_eq!(broker.numbers()[&job], [1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_broker_never_takes_is_left_out_and_counted() {
    let world = World::new();
    let broker = Broker::new(&world);
    let handle = start(&world, &broker, "n");
    world.settle().await;
    broker.behave(Mood::Breaks(0));
    let jobs = world.submit_many("a", 3, |_| {}).await;
    broker.behave(Mood::Refuses(jobs[1].id));
    world.pass(60 * SECOND).await;
    assert_eq!(broker.numbers(), [0, 2].map(|n| (jobs[n].id, vec![1, 2])).into());
    let totals = cursor(&world).await.totals;
    assert_eq!((totals.sent, totals.refused), (4, 2));
    assert_eq!(handle.counters().refused.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_is_asked_again_and_its_trouble_is_told() {
    let world = World::new();
    let broker = Broker::new(&world);
    let handle = start(&world, &broker, "n");
    world.settle().await;
    broker.behave(Mood::Panics);
    let job = work(&world).await;
    world.pass(10 * SECOND).await;
    let trouble = cursor(&world).await.trouble.map(|trouble| trouble.message);
    assert_eq!(trouble.as_deref(), Some("the sink panicked: on purpose"));
    assert!(handle.counters().errors.load(Ordering::Relaxed) > 2);
    broker.behave(Mood::Takes);
    world.pass(20 * SECOND).await;
    assert_eq!(broker.numbers()[&job], [1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_sink_whose_feed_panics_begins_again() {
    let world = World::new();
    let broker = Broker::new(&world);
    let handle = start_with(&world, &broker, "n", |options| options.lag_every = 100 * HOUR);
    world.settle().await;
    broker.is_choosy.store(true, Ordering::Relaxed);
    let job = work(&world).await;
    world.pass(SECOND).await;
    assert_eq!(handle.counters().errors.load(Ordering::Relaxed), 1);
    broker.is_choosy.store(false, Ordering::Relaxed);
    world.pass(30 * SECOND).await;
    assert_eq!(broker.numbers()[&job], [1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn events_of_a_deleted_job_are_left_out_and_counted() {
    let world = World::new();
    let broker = Broker::new(&world);
    let _handle = start(&world, &broker, "n");
    world.settle().await;
    broker.behave(Mood::Breaks(0));
    // The first job keeps the sink busy; what follows is loaded later.
    let first = work(&world).await;
    world.settle().await;
    let (gone, kept) = (work(&world).await, work(&world).await);
    world.engine.run(Command::Forget(Owned { job: gone, client: Some(client()) })).await.unwrap();
    broker.behave(Mood::Takes);
    world.pass(60 * SECOND).await;
    let all = vec![1, 2, 3, 4, 5];
    let mut numbers = broker.numbers();
    assert_eq!((numbers.remove(&first), numbers.remove(&kept)), (Some(all.clone()), Some(all)));
    let n_sent = numbers.remove(&gone).unwrap_or_default().len() as u64;
    assert_eq!(cursor(&world).await.totals.skipped, 5 - n_sent);
    assert!(n_sent <= 2, "a chunk may have been loaded before the job was deleted");
}

#[tokio::test(start_paused = true)]
async fn many_events_cost_few_queries_and_few_writes() {
    let world = World::new();
    let broker = Broker::new(&world);
    broker.behave(Mood::Breaks(0));
    let _handle = start_with(&world, &broker, "n", |options| options.lag_every = 100 * HOUR);
    world.settle().await;
    world.submit_many("a", 20_000, |_| {}).await;
    broker.behave(Mood::Takes);
    let (n_reads, n_writes) = (world.store.n_reads(), world.store.n_begun());
    world.pass(30 * SECOND).await;
    assert_eq!(broker.ids().len(), 40_000);
    let (n_reads, n_writes) = (world.store.n_reads() - n_reads, world.store.n_begun() - n_writes);
    assert!(n_reads < 250, "{n_reads} reads for 40000 events");
    assert!(n_writes < 100, "{n_writes} transactions for 40000 events");
    let longest = broker.waves.lock().unwrap().iter().copied().max();
    assert!(longest >= Some(256), "waves are long enough to be worth a trip: {longest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_broker_slows_nobody_and_costs_hardly_a_write() {
    let world = World::new();
    let broker = Broker::new(&world);
    broker.behave(Mood::Breaks(0));
    let _handle = start(&world, &broker, "n");
    world.settle().await;
    world.submit("a").await;
    world.pass(60 * SECOND).await;
    let n_writes = world.store.n_begun();
    let before = world.engine.now();
    for _ in 0..100 {
        work(&world).await;
    }
    assert_eq!(world.engine.now(), before, "nobody waited");
    world.pass(60 * SECOND).await;
    let n_idle = world.store.n_begun() - n_writes - 300;
    // A sign of life every five seconds, and the timers' own looks once a second.
    assert!(n_idle <= 12 + 62, "{n_idle} transactions");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_delays_a_sink_and_loses_nothing() {
    let world = World::new();
    let broker = Broker::new(&world);
    let _handle = start(&world, &broker, "n");
    world.settle().await;
    let jobs = [work(&world).await, work(&world).await];
    world.store.fail_reads(5);
    world.store.fail(3, crate::store::Failure::Before(Fault::Unavailable));
    world.pass(10 * SECOND).await;
    assert_eq!(broker.numbers(), jobs.map(|job| (job, vec![1, 2, 3, 4, 5])).into());
    assert_eq!(cursor(&world).await.totals.sent, 10);
}

/// Counts what was dropped.
#[derive(Debug, Default)]
struct Dropped(Mutex<Vec<(String, u64)>>);

impl Observer for Dropped {
    fn committed(&self, _: &Commit<'_>) {}

    fn failed(&self, _: Fault, _: usize) {}

    fn dropped(&self, sink: &str, n_events: u64) {
        self.0.lock().unwrap().push((sink.into(), n_events));
    }
}

#[tokio::test(start_paused = true)]
async fn the_sweeper_waits_for_a_sink_up_to_its_bound_and_then_says_what_it_drops() {
    let dropped = Arc::new(Dropped::default());
    let options = Options {
        journal_keep: 100 * SECOND,
        sink_lag_max: 300 * SECOND,
        sweep_every: 10 * SECOND,
        sweep_max: 2,
        observer: dropped.clone(),
        ..Options::default()
    };
    let world = World::with(options);
    let broker = Broker::new(&world);
    let handle = start(&world, &broker, "n");
    world.settle().await;
    work(&world).await;
    broker.behave(Mood::Breaks(0));
    world.pass(SECOND).await;
    for _ in 0..3 {
        world.submit("b").await;
    }
    world.pass(290 * SECOND).await;
    // Of the first job the row is left that the place is in; all that was sent before it is gone.
    assert_eq!(told(&world, 0).await.len(), 1 + 6, "kept for the sink");
    assert_eq!(*dropped.0.lock().unwrap(), []);
    world.pass(30 * SECOND).await;
    assert_eq!(told(&world, 0).await, []);
    let lost: u64 = dropped.0.lock().unwrap().iter().map(|(_, n)| n).sum();
    assert_eq!(lost, 6, "{dropped:?}");
    // What comes later goes out as if nothing had been.
    broker.behave(Mood::Takes);
    let job = work(&world).await;
    world.pass(60 * SECOND).await;
    assert_eq!(broker.numbers()[&job], [1, 2, 3, 4, 5]);
    handle.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_nobody_serves_any_more_holds_up_no_sweep() {
    let options = Options {
        journal_keep: 100 * SECOND,
        sink_lag_max: 300 * SECOND,
        sweep_every: 10 * SECOND,
        ..Options::default()
    };
    let world = World::with(options);
    let broker = Broker::new(&world);
    let handle = start(&world, &broker, "n");
    world.settle().await;
    handle.stop().await;
    work(&world).await;
    world.pass(200 * SECOND).await;
    assert_eq!(told(&world, 0).await.len(), 5);
    world.pass(200 * SECOND).await;
    assert_eq!(told(&world, 0).await, []);
}
