//! The state of queues for `/metrics`: the fullest by name, the others together.

use forgerun_core::job::Name;
use forgerun_core::queue::QueueId;
use forgerun_core::rows::Counts;
use futures_util::future::try_join_all;

use super::{AttendedQueues, Queues, oldest};
use crate::app::App;
use crate::http::ApiError;
use crate::limits::OLDEST_LOOKED_AT_MAX;
use crate::metrics::OTHER;

/// Shelves that are searched for their oldest job at once. A small part of the connections of a
/// node.
const OLDEST_READ_AT_ONCE: usize = 8;

/// One queue, by name, or all that are not named.
#[derive(Debug)]
pub(crate) struct QueueGauges {
    pub queue: String,
    pub counts: Counts,
    /// Wait of the oldest claimable job; zero if none waits.
    pub oldest_s: u64,
    pub unattended: bool,
    /// Living workers that ask for it.
    pub workers: u64,
}

/// At most `max` queues, and what is left as [`OTHER`].
pub(crate) async fn read(app: &App, max: usize) -> Result<Vec<QueueGauges>, ApiError> {
    let mut queues = Queues::count(app).await?;
    let attended = AttendedQueues::read(app).await?;
    for name in attended.names() {
        super::found(&mut queues.by_name, name);
    }
    let names = queues.fullest(usize::MAX);
    let waits = waits(app, &queues, &names[..names.len().min(max)]).await?;
    let mut waits = waits.into_iter().peekable();
    let mut gauges: Vec<QueueGauges> = Vec::with_capacity(names.len().min(max + 1));
    for (at, name) in names.into_iter().enumerate() {
        let Some(queue) = queues.by_name.get(&name) else { continue };
        let has_simulated = queue.waiting.iter().any(|(id, _)| id.owner.is_none());
        let mut found = QueueGauges {
            workers: Name::new(&name).map_or(0, |name| attended.n_workers(&name, has_simulated)),
            queue: name,
            counts: queue.counts,
            oldest_s: 0,
            unattended: false,
        };
        while let Some((_, id, is_held, waited)) = waits.next_if(|(of, ..)| *of == at) {
            found.oldest_s = found.oldest_s.max(waited.unwrap_or(0));
            found.unattended |= queues.is_late(waited) && !is_held && !attended.contains(&id);
        }
        match gauges.get_mut(max) {
            Some(others) => others.add(found),
            None if at == max => gauges.push(QueueGauges { queue: OTHER.to_owned(), ..found }),
            None => gauges.push(found),
        }
    }
    Ok(gauges)
}

impl QueueGauges {
    fn add(&mut self, more: QueueGauges) {
        self.counts.merge(&more.counts);
        self.workers += more.workers;
    }
}

/// The queues of the names that have waiting jobs: place of the name, queue, whether workers hold
/// jobs of it, and the wait of its oldest job. Several are read at once.
async fn waits(
    app: &App,
    queues: &Queues,
    names: &[String],
) -> Result<Vec<(usize, QueueId, bool, Option<u64>)>, ApiError> {
    let waiting = names.iter().enumerate().flat_map(|(at, name)| {
        let queue = queues.by_name.get(name);
        queue.into_iter().flat_map(move |queue| queue.waiting.iter().map(move |queue| (at, queue)))
    });
    let waiting: Vec<(usize, &(QueueId, bool))> = waiting.take(OLDEST_LOOKED_AT_MAX).collect();
    let mut found = Vec::with_capacity(waiting.len());
    for some in waiting.chunks(OLDEST_READ_AT_ONCE) {
        let reads = some.iter().map(async |(at, (queue, is_held))| {
            let (waited, _) = oldest(app, queue, queues.now).await?;
            Ok::<_, ApiError>((*at, queue.clone(), *is_held, waited))
        });
        found.extend(try_join_all(reads).await?);
    }
    Ok(found)
}
