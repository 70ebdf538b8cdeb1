//! Schedules of `/v1`. Those that were registered on other dialects are among them.

use forgerun_wire::forge::{ScheduleView, SchedulesView, SubmittedView};
use http::Method;
use serde_json::{Map, Value};

use super::Forge;
use crate::client::Call;
use crate::error::Error;
use crate::path::segment;

/// Pages that one list reads at most.
const PAGES_MAX: usize = 50;

impl Forge<'_> {
    /// Registers a schedule or changes the one of that name. The body is that of `PUT /v1/schedules/{name}`: `cron`, `job`, and what
    /// else you want to say. Sent twice it is the same schedule.
    ///
    /// # Errors
    /// [`Error::Usage`]-like refusals name the member that is wrong.
    pub async fn put_schedule(&self, name: &str, body: &Map<String, Value>) -> Result<ScheduleView, Error> {
        let call = Call::new(Method::PUT, self.client.url(&path(name, ""))?).json(body)?.harmless();
        self.client.fetch(&call).await
    }

    /// Your schedules, by name.
    ///
    /// # Errors
    /// [`Error::Auth`] without a key.
    pub async fn schedules(&self) -> Result<Vec<ScheduleView>, Error> {
        let (mut all, mut cursor): (Vec<ScheduleView>, Option<String>) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let from = cursor.map(|cursor| format!("&cursor={}", segment(&cursor))).unwrap_or_default();
            let route = format!("v1/schedules?limit=200{from}");
            let page: SchedulesView = self.client.fetch(&self.client.get(&route)?).await?;
            all.extend(page.schedules);
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        Ok(all)
    }

    /// One of them, with its next runs.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such schedule.
    pub async fn schedule(&self, name: &str) -> Result<ScheduleView, Error> {
        self.client.fetch(&self.client.get(&path(name, ""))?).await
    }

    /// Pauses or resumes it.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such schedule.
    pub async fn enable_schedule(&self, name: &str, enabled: bool) -> Result<ScheduleView, Error> {
        let verb = if enabled { "/resume" } else { "/pause" };
        self.client.fetch(&self.client.post(&path(name, verb))?.harmless()).await
    }

    /// Makes a job now. Not repeated by itself, since a second call makes a second job.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such schedule.
    pub async fn trigger_schedule(&self, name: &str) -> Result<SubmittedView, Error> {
        self.client.fetch(&self.client.post(&path(name, "/trigger"))?).await
    }

    /// Deletes it; its jobs stay.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such schedule.
    pub async fn delete_schedule(&self, name: &str) -> Result<(), Error> {
        let call = Call::new(Method::DELETE, self.client.url(&path(name, ""))?);
        self.client.fetch::<Value>(&call).await.map(drop)
    }
}

fn path(name: &str, behind: &str) -> String {
    format!("v1/schedules/{}{behind}", segment(name))
}
