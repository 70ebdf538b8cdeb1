//! Contents that take the place of others.

use rusqlite::{Connection, params};

use super::statements::statements;
use crate::{Error, Rewrite};

statements! {
    REWRITE_INPUT = "
        UPDATE inputs
        SET bytes = ?2
        WHERE job = (SELECT n FROM jobs WHERE id = ?1)
    ";

    REWRITE_OUTCOME = "
        UPDATE outcomes
        SET bytes = ?2, digest = ?3
        WHERE execution = ?1
    ";

    REWRITE_RESULT = "
        UPDATE results
        SET bytes = ?2
        WHERE execution = ?1 AND bytes IS NOT NULL
    ";

    REWRITE_BLOB = "
        UPDATE results
        SET blob = ?3
        WHERE execution = ?1 AND blob = ?2
    ";

    NAME_REWRITTEN_BLOB = "
        UPDATE blobs
        SET loose_at = NULL
        WHERE id = ?1
    ";

    LOOSEN_REWRITTEN_BLOB = "
        UPDATE blobs
        SET loose_at = ?2
        WHERE id = ?1
    ";

    REWRITE_LOG = "
        UPDATE log_chunks
        SET content = ?3
        WHERE job = ?1 AND last = ?2
    ";
}

pub(super) fn rewrite(db: &Connection, rows: &[Rewrite]) -> Result<(), Error> {
    rows.iter().try_for_each(|row| rewrite_one(db, row))
}

fn rewrite_one(db: &Connection, row: &Rewrite) -> Result<(), Error> {
    let run = |sql, values: &[&dyn rusqlite::ToSql]| db.prepare_cached(sql)?.execute(values);
    match row {
        Rewrite::Input(job, input) => run(REWRITE_INPUT, params![job.to_bytes(), input.encode()])?,
        Rewrite::Outcome(execution, object) => {
            run(REWRITE_OUTCOME, params![execution.to_bytes(), object.bytes, object.digest])?
        }
        Rewrite::Result(execution, bytes) => run(REWRITE_RESULT, params![execution.to_bytes(), bytes])?,
        Rewrite::Blob { execution, old, new, at } => {
            let n = run(REWRITE_BLOB, params![execution.to_bytes(), old.to_bytes(), new.to_bytes()])?;
            if n > 0 {
                run(NAME_REWRITTEN_BLOB, params![new.to_bytes()])?;
                run(LOOSEN_REWRITTEN_BLOB, params![old.to_bytes(), at.as_micros()])?;
            }
            n
        }
        Rewrite::Log { job, last, content } => {
            run(REWRITE_LOG, params![job.to_bytes(), last.cast_signed(), content])?
        }
    };
    Ok(())
}
