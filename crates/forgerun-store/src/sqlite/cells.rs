//! Columns to values: what [`load`](super::load) and [`read`](super::read) both need. A column that holds something else
//! than this version writes is damage, never a panic.

use std::sync::Arc;

use forgerun_core::codec::Corrupt;
use forgerun_core::id::JobId;
use forgerun_core::job::{Head, Job, Name};
use forgerun_core::rows::Counts;
use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::Error;

/// The bytes in a column.
pub(super) fn bytes<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a [u8], Error> {
    row.get_ref(column)?.as_blob().map_err(|_| Corrupt.into())
}

/// Bytes of a known length in a column.
pub(super) fn array<const N: usize>(row: &Row<'_>, column: usize) -> Result<[u8; N], Error> {
    bytes(row, column)?.try_into().map_err(|_| Corrupt.into())
}

/// A job id in a column.
pub(super) fn job_id(row: &Row<'_>, column: usize) -> Result<JobId, Error> {
    Ok(JobId::from_u128(u128::from_be_bytes(array(row, column)?)))
}

/// The same for a column that may be damaged: what is missing of sixteen bytes is zero, and what is too much is left out.
pub(super) fn damaged_job_id(row: &Row<'_>, column: usize) -> Result<JobId, Error> {
    let mut id = [0; 16];
    if let ValueRef::Blob(bytes) | ValueRef::Text(bytes) = row.get_ref(column)? {
        id.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    }
    Ok(JobId::from_u128(u128::from_be_bytes(id)))
}

/// A name in a column.
pub(super) fn name(row: &Row<'_>, column: usize) -> Result<Name, Error> {
    let text = row.get_ref(column)?.as_str().map_err(|_| Corrupt)?;
    Ok(Name::joined(text))
}

/// The job with this id whose head and body are in two columns, side by side.
pub(super) fn job(id: JobId, row: &Row<'_>, head: usize) -> Result<Job, Error> {
    let body = bytes(row, head + 1)?;
    let head = Arc::new(Head::decode(bytes(row, head)?)?);
    Ok(Job::decode(id, head, body)?)
}

/// Counts in ten columns, side by side, in the order of the facets.
pub(super) fn counts(row: &Row<'_>, first: usize) -> Result<Counts, Error> {
    let mut counts = Counts::default();
    for (nth, n) in counts.0.iter_mut().enumerate() {
        *n = row.get(first + nth)?;
    }
    Ok(counts)
}
