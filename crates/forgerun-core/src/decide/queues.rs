//! Queue settings: of the owner, and of the operator for all queues of a name. The stricter one
//! applies.

use alloc::string::ToString;

use super::working_set::WorkingSet;
use crate::command::{Answer, QueueCommand};
use crate::job::{Lane, Name, Shelf};
use crate::pace::{QueuePace, QueueRate};
use crate::queue::{QueueId, QueueSettings};
use crate::record::{RecordKey, Stored};
use crate::rows::Wants;

pub(super) fn wants_settings(queue: &QueueId, wants: &mut Wants) {
    let keys = [queue.key(), queue.name.clone()];
    wants.records.extend(keys.map(|key| QueueSettings::record_key(key.as_str().to_string())));
}

pub(super) fn wants(command: &QueueCommand, wants: &mut Wants) {
    wants.records.insert(QueueSettings::record_key(command.queue.key().as_str().to_string()));
}

impl WorkingSet<'_> {
    fn settings(&self, key: &Name) -> Option<QueueSettings> {
        // Called for every job of a batch, and mostly nothing is set.
        if self.records.is_empty() {
            return None;
        }
        self.record(key.as_str().to_string())
    }

    fn settings_of(&self, queue: &QueueId) -> impl Iterator<Item = QueueSettings> {
        let of_operator = queue.owner.as_ref().and_then(|_| self.settings(&queue.name));
        self.settings(&queue.key()).into_iter().chain(of_operator)
    }

    /// Whether the queue is paused.
    pub(super) fn is_paused(&self, queue: &QueueId) -> bool {
        self.settings_of(queue).any(|settings| settings.paused_at.is_some())
    }

    /// Bound on waiting jobs, if set.
    pub(super) fn waiting_max(&self, queue: &QueueId) -> Option<u64> {
        self.settings_of(queue).filter_map(|settings| settings.waiting_max).min()
    }

    /// Bound on active jobs, if set.
    pub(super) fn active_max(&self, queue: &QueueId) -> Option<u64> {
        self.settings_of(queue).filter_map(|settings| settings.active_max).min()
    }

    /// Rate at which jobs are handed out, if set.
    pub(super) fn rate(&self, queue: &QueueId) -> Option<QueueRate> {
        self.settings_of(queue).filter_map(|settings| settings.rate).min()
    }

    fn pace(&mut self, queue: &QueueId) -> QueuePace {
        let key = queue.key();
        let record_key = QueuePace::record_key(key.as_str().to_string());
        self.seek_record(&record_key).unwrap_or_else(|| QueuePace::new(key))
    }

    /// Whether the rate allows another job now. If not, workers are woken at the next turn.
    pub(super) fn has_turn(&mut self, queue: &QueueId, rate: QueueRate) -> bool {
        let was = self.pace(queue);
        let pace = was.clone().at_rate(rate, self.now);
        let turn_comes_at = pace.turn_comes_at(rate);
        if turn_comes_at <= self.now {
            return true;
        }
        let pace = QueuePace { wake_at: Some(turn_comes_at), ..pace };
        if pace != was {
            self.put_record(&pace);
        }
        false
    }

    /// Counts a job that is handed out.
    pub(super) fn use_turn(&mut self, queue: &QueueId, rate: QueueRate) {
        let mut pace = self.pace(queue);
        pace.use_turn(rate, self.now);
        self.put_record(&pace);
    }

    /// Wakes workers if a turn has come that jobs wait for, and deletes the pace of an idle queue.
    pub(super) fn pace_due(&mut self, key: RecordKey) {
        let Some(pace) = self.record::<QueuePace>(key.key.clone()) else { return self.remove_record(key) };
        match pace.wake_at {
            Some(wake_at) if wake_at <= self.now => {
                self.put_record(&QueuePace { wake_at: None, ..pace.clone() });
                let lane = if QueueId::is_shared(&pace.queue) { Lane::BuiltIn } else { Lane::External };
                self.changes.woken.insert(Shelf { lane, name: pace.queue });
            }
            Some(_) | None => self.drop_overdue::<QueuePace>(key),
        }
    }

    pub(super) fn set_queue(&mut self, command: &QueueCommand) -> Answer {
        let (queue, change, now) = (&command.queue, &command.change, self.now);
        let key = queue.key();
        let known = self.settings(&key);
        let was = known.clone().unwrap_or_else(|| QueueSettings::new(key.clone(), now));
        let mut settings = if change.forget { QueueSettings::new(key.clone(), now) } else { was.clone() };
        match change.paused {
            Some(true) => settings.paused_at = settings.paused_at.or(Some(now)),
            Some(false) => settings.paused_at = None,
            None => {}
        }
        settings.waiting_max = change.waiting_max.unwrap_or(settings.waiting_max);
        settings.active_max = change.active_max.unwrap_or(settings.active_max);
        settings.rate = change.rate.unwrap_or(settings.rate);
        if change.forget {
            self.remove_record(QueueSettings::record_key(key.as_str().to_string()));
        } else if known.is_none() || settings != was {
            self.put_record(&settings);
        }
        let looser = settings.paused_at.is_none() || settings.active_max > was.active_max;
        if looser {
            match &queue.owner {
                Some(_) => drop(self.changes.woken.insert(Shelf { lane: Lane::External, name: key })),
                None => self.changes.wake_all = true,
            }
        }
        Answer::Queue(settings.into())
    }
}
