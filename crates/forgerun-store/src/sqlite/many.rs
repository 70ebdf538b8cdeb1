//! Inserting many rows with one statement. To start a statement, open its tables and stop it costs nearly as much as to
//! insert a row; shared by sixteen rows, an insert takes two thirds of the time.

use rusqlite::{CachedStatement, Connection, ToSql};

use crate::Error;

/// Rows in one statement, the most first; more gain nothing. What is left over goes by the smaller numbers.
const ROWS: [usize; 3] = [16, 4, 1];

/// Inserts all items. `insert` is a statement for one row whose values are plain `?`; `bind` puts those of an item.
///
/// The statement should say `OR FAIL`: a row that is refused then leaves the rows before it, which the rollback of the
/// transaction takes away. To undo them alone, SQLite would copy every page before changing it.
pub(super) fn many<T>(
    db: &Connection,
    insert: &str,
    items: impl IntoIterator<Item = T>,
    bind: impl Fn(&mut StatementValues<'_, '_>, T) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut items = items.into_iter().collect::<Vec<T>>().into_iter();
    for rows in ROWS {
        if items.len() < rows {
            continue;
        }
        let mut statement = db.prepare_cached(&with_rows(insert, rows))?;
        while items.len() >= rows {
            execute(&mut statement, items.by_ref().take(rows), &bind)?;
        }
    }
    Ok(())
}

/// The statement for so many rows, made from the one for a single row.
pub(super) fn with_rows(insert: &str, rows: usize) -> String {
    let (_, row) = insert.split_once("VALUES").expect("a statement that inserts values");
    let mut sql = String::with_capacity(insert.len() + rows * (row.len() + 1));
    sql.push_str(insert);
    for _ in 1..rows {
        sql.push(',');
        sql.push_str(row);
    }
    sql
}

fn execute<T>(
    statement: &mut CachedStatement<'_>,
    items: impl IntoIterator<Item = T>,
    bind: impl Fn(&mut StatementValues<'_, '_>, T) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut values = StatementValues { statement, next: 1 };
    for item in items {
        bind(&mut values, item)?;
    }
    values.statement.raw_execute()?;
    Ok(())
}

/// The places of a statement, filled one after the other.
pub(super) struct StatementValues<'s, 'c> {
    statement: &'s mut CachedStatement<'c>,
    next: usize,
}

impl StatementValues<'_, '_> {
    /// Fills the next place.
    pub(super) fn put(&mut self, value: impl ToSql) -> Result<(), Error> {
        self.statement.raw_bind_parameter(self.next, value)?;
        self.next += 1;
        Ok(())
    }
}
