//! The operator's API, `/admin/v1`. The key of the client is the operator's token; a server that is open to its own machine needs none.

use forgerun_wire::admin::AdminPage;
pub use forgerun_wire::admin::{
    AdminClient, AdminQueue, AdminSchedule, AdminWorker, FailureGroupView, RedrivePreview, RedriveStarted,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::client::Client;
use crate::error::Error;
use crate::path::segment;

/// Pages that one list reads at most.
const PAGES_MAX: usize = 50;

/// The calls of `/admin/v1`.
#[derive(Clone, Copy, Debug)]
pub struct Admin<'a> {
    pub(crate) client: &'a Client,
}

/// How to try a group of failures again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Redrive {
    /// At most so many jobs.
    pub limit: Option<u64>,
    /// So many per second.
    pub rate_per_s: Option<f64>,
}

impl Redrive {
    fn body(self, dry_run: bool) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("dry_run".into(), dry_run.into());
        body.extend(self.limit.map(|limit| ("limit".into(), limit.into())));
        body.extend(self.rate_per_s.map(|rate| ("rate_per_s".into(), rate.into())));
        body
    }
}

impl Admin<'_> {
    /// Failures by their reason, those seen last first; `since` as RFC 3339.
    ///
    /// # Errors
    /// [`Error::Auth`] without the operator's token.
    pub async fn failures(&self, since: Option<&str>) -> Result<Vec<FailureGroupView>, Error> {
        let filter: Vec<(&str, &str)> = since.map(|since| ("since", since)).into_iter().collect();
        self.all("admin/v1/failures", &filter).await
    }

    /// One group of failures.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such group.
    pub async fn failure(&self, group: &str) -> Result<FailureGroupView, Error> {
        self.client.fetch(&self.client.get(&format!("admin/v1/failures/{}", segment(group)))?).await
    }

    /// What a redrive of a group would do.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such group.
    pub async fn preview(&self, group: &str, redrive: Redrive) -> Result<RedrivePreview, Error> {
        let call = self.client.post(&path(group))?.json(&redrive.body(true))?.harmless();
        self.client.fetch(&call).await
    }

    /// Tries all jobs of a group again; `None` if there are none. A second call while it is under way is refused, so it is not repeated
    /// by itself.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such group.
    pub async fn redrive(&self, group: &str, redrive: Redrive) -> Result<Option<RedriveStarted>, Error> {
        let call = self.client.post(&path(group))?.json(&redrive.body(false))?;
        let answer: Value = self.client.fetch(&call).await?;
        if answer["matched"] == 0 {
            return Ok(None);
        }
        let wrong = |error: serde_json::Error| Error::Protocol(format!("the answer cannot be read: {error}"));
        serde_json::from_value(answer).map(Some).map_err(wrong)
    }

    /// All clients, by id.
    ///
    /// # Errors
    /// [`Error::Auth`] without the operator's token.
    pub async fn clients(&self) -> Result<Vec<AdminClient>, Error> {
        self.all("admin/v1/clients", &[]).await
    }

    /// Queues by name, those of all owners together.
    ///
    /// # Errors
    /// [`Error::Auth`] without the operator's token.
    pub async fn queues(&self) -> Result<Vec<AdminQueue>, Error> {
        self.all("admin/v1/queues", &[]).await
    }

    /// Pauses or resumes all queues of a name.
    ///
    /// # Errors
    /// [`Error::Auth`] without the operator's token.
    pub async fn set_paused(&self, queue: &str, paused: bool) -> Result<AdminQueue, Error> {
        let verb = if paused { "pause" } else { "resume" };
        let call = self.client.post(&format!("admin/v1/queues/{}/{verb}", segment(queue)))?.harmless();
        self.client.fetch(&call).await
    }

    /// Schedules of all clients, with their next runs.
    ///
    /// # Errors
    /// [`Error::Auth`] without the operator's token.
    pub async fn schedules(&self) -> Result<Vec<AdminSchedule>, Error> {
        self.all("admin/v1/crons", &[]).await
    }

    /// Workers outside, of all clients.
    ///
    /// # Errors
    /// [`Error::Auth`] without the operator's token.
    pub async fn workers(&self) -> Result<Vec<AdminWorker>, Error> {
        self.all("admin/v1/workers", &[]).await
    }

    async fn all<T: DeserializeOwned>(&self, route: &str, filter: &[(&str, &str)]) -> Result<Vec<T>, Error> {
        let (mut items, mut cursor): (Vec<T>, Option<String>) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let mut call = self.client.get(route)?;
            let mut query = call.url_mut().query_pairs_mut();
            query.append_pair("limit", "200");
            query.extend_pairs(filter);
            if let Some(cursor) = &cursor {
                query.append_pair("cursor", cursor);
            }
            drop(query);
            let page: AdminPage<T> = self.client.fetch(&call).await?;
            items.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(items)
    }
}

fn path(group: &str) -> String {
    format!("admin/v1/failures/{}/redrive", segment(group))
}
