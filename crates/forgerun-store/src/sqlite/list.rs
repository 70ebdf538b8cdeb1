//! Lists, newest first. A filter that few rows pass must not keep a reader busy for long: a page ends where it has looked at
//! as many rows as it may, and says where to go on.

use std::collections::BinaryHeap;

use forgerun_core::codec::Corrupt;
use forgerun_core::delivery::{Delivery, DeliveryStatus};
use forgerun_core::id::{DeliveryId, JobId};
use forgerun_core::job::{Job, Lane};
use forgerun_core::state::State;
use rusqlite::{Connection, Params, Row, params};

use super::cells;
use super::read::{all, first};
use super::statements::statements;
use crate::error::readable;
use crate::query::CLIENTS_MERGED_MAX;
use crate::{DeliveriesOf, DeliveryFilter, Error, Filter, ListPage};

statements! {
    /// Along the ids.
    JOBS = "
        SELECT id, state, queue, job_type, lane, head, body
        FROM jobs
        WHERE id < ?1
        ORDER BY id DESC
    ";

    /// The same along `jobs_client`, for the jobs of one client.
    JOBS_OF_CLIENT = "
        SELECT id, state, queue, job_type, lane, head, body
        FROM jobs INDEXED BY jobs_client
        WHERE client = ?2 AND id < ?1
        ORDER BY id DESC
    ";

    /// Along `jobs_state`, which does not have those that have succeeded.
    JOBS_IN_STATE = "
        SELECT id, state, queue, job_type, lane, head, body
        FROM jobs INDEXED BY jobs_state
        WHERE client = ?2 AND state = ?3 AND state <> 4 AND id < ?1
        ORDER BY id DESC
    ";

    /// Along the marks of one kind.
    MARKED = "
        SELECT jobs.id, state, queue, job_type, lane, head, body
        FROM job_marks CROSS JOIN jobs ON jobs.id = job_marks.job
        WHERE mark = ?2 AND job < ?1
        ORDER BY job DESC
    ";

    COUNT_MARKED = "
        SELECT count(*)
        FROM (SELECT 1 FROM job_marks WHERE mark = ?1 LIMIT 1000)
    ";

    MARKED_OF_CLIENT = "
        SELECT jobs.id, state, queue, job_type, lane, head, body
        FROM job_marks INDEXED BY job_marks_client CROSS JOIN jobs ON jobs.id = job_marks.job
        WHERE job_marks.client = ?3 AND mark = ?2 AND job < ?1
        ORDER BY job DESC
    ";

    /// Along `jobs_workflow`, which has nothing but workflows.
    WORKFLOWS = "
        SELECT id, state, queue, job_type, lane, head, body
        FROM jobs INDEXED BY jobs_workflow
        WHERE job_type = 'forgerun.workflow' AND id < ?1
        ORDER BY id DESC
    ";

    WORKFLOWS_OF_CLIENT = "
        SELECT id, state, queue, job_type, lane, head, body
        FROM jobs INDEXED BY jobs_workflow_client
        WHERE job_type = 'forgerun.workflow' AND client = ?2 AND id < ?1
        ORDER BY id DESC
    ";

    /// The ids of the next jobs of one client in a state, in `jobs_state` alone.
    IDS_IN_STATE = "
        SELECT id
        FROM jobs INDEXED BY jobs_state
        WHERE client = ?2 AND state = ?3 AND state <> 4 AND id < ?1
        ORDER BY id DESC
        LIMIT 32
    ";

    CLIENT_IDS = "
        SELECT id
        FROM clients
        WHERE id > x''
        LIMIT ?1
    ";

    JOB_BY_ID = "
        SELECT id, state, queue, job_type, lane, head, body
        FROM jobs
        WHERE id = ?1
    ";

    /// Along `deliveries_endpoint`.
    TO_WEBHOOK = "
        SELECT id, status, body
        FROM deliveries INDEXED BY deliveries_endpoint
        WHERE endpoint = ?1 AND id < ?2
        ORDER BY id DESC
    ";

    /// Along `deliveries_given_up`.
    GIVEN_UP = "
        SELECT id, status, body
        FROM deliveries INDEXED BY deliveries_given_up
        WHERE endpoint = ?1 AND status = 2 AND id < ?2
        ORDER BY id DESC
    ";

    /// Along `deliveries_job`.
    OF_JOB = "
        SELECT id, status, body
        FROM deliveries INDEXED BY deliveries_job
        WHERE job = ?1 AND id < ?2
        ORDER BY id DESC
    ";
}

/// A page of jobs.
pub(super) fn jobs(db: &Connection, filter: &Filter) -> Result<ListPage<Job, JobId>, Error> {
    let before = filter.before.unwrap_or(JobId::from_u128(u128::MAX)).to_bytes();
    let read = |row: &Row<'_>| {
        let id = cells::job_id(row, 0)?;
        let passes = filter.id_suffix.is_none_or(|suffix| suffix.is_end_of(id)) && fits(filter, row)?;
        let job = if passes { readable(cells::job(id, row, 5).map(Some))? } else { None };
        Ok((id, job.filter(|job| filter.fits_inside(job))))
    };
    let (limit, look_max) = (filter.limit, filter.look_max);
    let is_rare = !filter.states.is_empty() && !filter.states.contains(&State::Succeeded);
    let client = filter.client.map(|client| client.to_bytes());
    if let Some(mark) = rarest(db, filter.marks())? {
        return match client {
            Some(client) => walk(db, MARKED_OF_CLIENT, params![before, mark, client], limit, look_max, read),
            None => walk(db, MARKED, params![before, mark], limit, look_max, read),
        };
    }
    if filter.is_for_workflows() {
        return match client {
            Some(client) => walk(db, WORKFLOWS_OF_CLIENT, params![before, client], limit, look_max, read),
            None => walk(db, WORKFLOWS, params![before], limit, look_max, read),
        };
    }
    let Some(client) = client else {
        let clients = if is_rare { clients(db)? } else { None };
        return match clients {
            Some(clients) => merge(db, filter, before, &clients, read),
            None => walk(db, JOBS, params![before], limit, look_max, read),
        };
    };
    if filter.states.is_empty() || filter.states.contains(&State::Succeeded) {
        return walk(db, JOBS_OF_CLIENT, params![before, client], limit, look_max, read);
    }
    let look_max = look_max / filter.states.len();
    let in_state = |state: &State| {
        let params = params![before, client, state.as_u8()];
        walk(db, JOBS_IN_STATE, params, limit, look_max, read)
    };
    let pages: Vec<_> = filter.states.iter().map(in_state).collect::<Result<_, Error>>()?;
    Ok(merged(pages, limit))
}

/// The mark that the fewest jobs have, as far as they are counted.
fn rarest(db: &Connection, marks: Vec<Vec<u8>>) -> Result<Option<Vec<u8>>, Error> {
    if marks.len() < 2 {
        return Ok(marks.into_iter().next());
    }
    let mut rarest: Option<(i64, Vec<u8>)> = None;
    for mark in marks {
        let n = first(db, COUNT_MARKED, params![mark], |row| Ok(row.get::<_, i64>(0)?))?.unwrap_or(0);
        if rarest.as_ref().is_none_or(|(fewest, _)| n < *fewest) {
            rarest = Some((n, mark));
        }
    }
    Ok(rarest.map(|(_, mark)| mark))
}

/// All clients, unless there are too many to look at one by one.
fn clients(db: &Connection) -> Result<Option<Vec<[u8; 16]>>, Error> {
    let found = all(db, CLIENT_IDS, params![CLIENTS_MERGED_MAX as i64 + 1], |row| cells::array(row, 0))?;
    Ok(Some(found).filter(|found| found.len() <= CLIENTS_MERGED_MAX))
}

/// Jobs of all clients in states that few are in: no index has them together, so the lists of the clients are merged.
fn merge(
    db: &Connection,
    filter: &Filter,
    before: [u8; 16],
    clients: &[[u8; 16]],
    mut read: impl FnMut(&Row<'_>) -> Result<(JobId, Option<Job>), Error>,
) -> Result<ListPage<Job, JobId>, Error> {
    let lists: Vec<([u8; 16], State)> =
        clients.iter().flat_map(|client| filter.states.iter().map(|state| (*client, *state))).collect();
    // The newest of what is known of each list comes first; the oldest that is known of a list asks for more of it.
    let mut newest: BinaryHeap<(JobId, usize, bool)> = BinaryHeap::new();
    let more = |list: usize, before: [u8; 16], newest: &mut BinaryHeap<_>| -> Result<(), Error> {
        let (client, state) = lists[list];
        let params = params![before, client, state.as_u8()];
        let ids = all(db, IDS_IN_STATE, params, |row| cells::job_id(row, 0))?;
        let last = ids.len().saturating_sub(1);
        newest.extend(ids.into_iter().enumerate().map(|(n, id)| (id, list, n == last)));
        Ok(())
    };
    for list in 0..lists.len() {
        more(list, before, &mut newest)?;
    }
    let (mut rows, mut n_seen, mut last) = (Vec::new(), 0, None);
    while let Some((id, list, is_last_known)) = newest.pop() {
        if rows.len() >= filter.limit || n_seen >= filter.look_max.max(1) {
            return Ok(ListPage { rows, next: last });
        }
        if is_last_known {
            more(list, id.to_bytes(), &mut newest)?;
        }
        if let Some((_, found)) = first(db, JOB_BY_ID, params![id.to_bytes()], &mut read)? {
            rows.extend(found);
        }
        (n_seen, last) = (n_seen + 1, Some(id));
    }
    Ok(ListPage { rows, next: None })
}

/// One page of several, each of which looked at rows of its own. It reaches as far as all of them did.
fn merged(pages: Vec<ListPage<Job, JobId>>, limit: usize) -> ListPage<Job, JobId> {
    let end = pages.iter().filter_map(|page| page.next).max();
    let mut jobs: Vec<Job> = pages.into_iter().flat_map(|page| page.rows).collect();
    jobs.retain(|job| end.is_none_or(|end| job.id >= end));
    jobs.sort_unstable_by_key(|job| std::cmp::Reverse(job.id));
    jobs.dedup_by_key(|job| job.id);
    let is_cut = jobs.len() > limit;
    jobs.truncate(limit);
    let next = if is_cut { jobs.last().map(|job| job.id) } else { end };
    ListPage { rows: jobs, next }
}

/// Whether a row of (id, state, queue, job_type, lane) passes.
fn fits(filter: &Filter, row: &Row<'_>) -> Result<bool, Error> {
    let state = State::from_u8(row.get(1)?).ok_or(Corrupt)?;
    if !filter.states.is_empty() && !filter.states.contains(&state) {
        return Ok(false);
    }
    let is = |column: usize, text: &str| -> Result<bool, Error> {
        Ok(row.get_ref(column)?.as_str().map_err(|_| Corrupt)? == text)
    };
    let in_queue = filter.queue.as_ref().map_or(Ok(true), |queue| is(2, queue.as_str()))?;
    let of_type = filter.job_type.as_ref().map_or(Ok(true), |job_type| is(3, job_type))?;
    let is_dead = row.get::<_, Option<u8>>(4)? == Some(Lane::Dead as u8);
    Ok(in_queue && of_type && filter.dead.is_none_or(|dead| dead == is_dead))
}

/// A page of deliveries.
pub(super) fn deliveries(
    db: &Connection,
    filter: &DeliveryFilter,
) -> Result<ListPage<Delivery, DeliveryId>, Error> {
    let before = filter.before.unwrap_or(DeliveryId::from_u128(u128::MAX)).to_bytes();
    let read = |row: &Row<'_>| {
        let id = DeliveryId::from_bytes(cells::bytes(row, 0)?).ok_or(Corrupt)?;
        let status: u8 = row.get(1)?;
        if filter.status.is_some_and(|wanted| wanted as u8 != status) {
            return Ok((id, None));
        }
        let delivery = Delivery::decode(id, cells::bytes(row, 2)?).map(Some);
        Ok((id, readable(delivery.map_err(Error::from))?))
    };
    let (limit, look_max) = (filter.limit, filter.look_max);
    match (filter.of, filter.status) {
        (DeliveriesOf::Webhook(id), Some(DeliveryStatus::Failed)) => {
            walk(db, GIVEN_UP, params![id.to_bytes(), before], limit, look_max, read)
        }
        (DeliveriesOf::Webhook(id), _) => {
            walk(db, TO_WEBHOOK, params![id.to_bytes(), before], limit, look_max, read)
        }
        (DeliveriesOf::Job(id), _) => walk(db, OF_JOB, params![id.to_bytes(), before], limit, look_max, read),
    }
}

/// Looks at the rows of a statement until the page is full, or it has looked at as many as it may. A row that does not pass is
/// not taken apart.
fn walk<T, Id: Copy>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    limit: usize,
    look_max: usize,
    mut read: impl FnMut(&Row<'_>) -> Result<(Id, Option<T>), Error>,
) -> Result<ListPage<T, Id>, Error> {
    let mut statement = db.prepare_cached(sql)?;
    let mut found = statement.query(params)?;
    let (mut rows, mut n_seen, mut last) = (Vec::new(), 0, None);
    while let Some(row) = found.next()? {
        if rows.len() >= limit || n_seen >= look_max.max(1) {
            return Ok(ListPage { rows, next: last });
        }
        let (id, passed) = read(row)?;
        rows.extend(passed);
        (n_seen, last) = (n_seen + 1, Some(id));
    }
    Ok(ListPage { rows, next: None })
}
