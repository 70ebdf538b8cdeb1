//! Rows as a check reads them: cells of either database, by the same statements.

use forgerun_core::codec::Corrupt;
use forgerun_core::id::BlobId;
use sha2::{Digest, Sha256};

use crate::{BlobPlace, Boxed};

/// A value in a column, or of a parameter. Ids are bytes, truth values are numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// The smallest id.
pub(crate) const FIRST_ID: Cell = Cell::Bytes(Vec::new());

pub(crate) struct CheckedRow(pub(crate) Vec<Cell>);

impl CheckedRow {
    /// The key by which a table is walked; the first column.
    pub(crate) fn key(&self) -> Cell {
        self.0.first().cloned().unwrap_or(Cell::Null)
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<&[u8], Corrupt> {
        match self.0.get(column) {
            Some(Cell::Bytes(bytes)) => Ok(bytes),
            _ => Err(Corrupt),
        }
    }

    pub(crate) fn id(&self, column: usize) -> Result<u128, Corrupt> {
        Ok(u128::from_be_bytes(self.bytes(column)?.try_into().map_err(|_| Corrupt)?))
    }

    pub(crate) fn text(&self, column: usize) -> Result<&str, Corrupt> {
        match self.0.get(column) {
            Some(Cell::Text(text)) => Ok(text),
            _ => Err(Corrupt),
        }
    }

    /// `None` for NULL.
    pub(crate) fn number(&self, column: usize) -> Result<Option<i64>, Corrupt> {
        match self.0.get(column) {
            Some(Cell::Number(number)) => Ok(Some(*number)),
            Some(Cell::Null) => Ok(None),
            _ => Err(Corrupt),
        }
    }

    pub(crate) fn is(&self, column: usize, expected: impl Into<Cell>) -> bool {
        self.0.get(column) == Some(&expected.into())
    }

    /// For reports: an id, a number or a text.
    pub(crate) fn shown(&self, column: usize) -> String {
        match self.0.get(column) {
            Some(Cell::Bytes(bytes)) => match <[u8; 16]>::try_from(bytes.as_slice()) {
                Ok(id) => BlobId::from_u128(u128::from_be_bytes(id)).to_string(),
                Err(_) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            },
            Some(Cell::Text(text)) => text.clone(),
            Some(Cell::Number(number)) => number.to_string(),
            Some(Cell::Null) | None => "without a key".to_owned(),
        }
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Cell {
        Cell::Number(number)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<[u8; 16]> for Cell {
    fn from(id: [u8; 16]) -> Cell {
        Cell::Bytes(id.to_vec())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Null, Into::into)
    }
}

/// Whether contents are encrypted. Their digests are those of the clear bytes, which a check does not see; a server notices a
/// changed byte when it decrypts them.
pub(crate) fn is_sealed(bytes: &[u8]) -> bool {
    #[cfg(feature = "encryption")]
    let is_sealed = crate::sealed::KeyRing::is_sealed(bytes);
    #[cfg(not(feature = "encryption"))]
    let is_sealed = {
        let _ = bytes;
        false
    };
    is_sealed
}

/// SHA-256 and size of a blob.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlobDigest {
    pub(crate) sha256: Sha256,
    pub(crate) size: u64,
    pub(crate) is_sealed: bool,
}

impl BlobDigest {
    /// Adds the next bytes.
    pub(crate) fn update(&mut self, part: &[u8]) {
        self.is_sealed |= self.size == 0 && is_sealed(part);
        self.sha256.update(part);
        self.size += part.len() as u64;
    }
}

/// A database that is being checked. Everything is read as of one moment.
pub(crate) trait CheckSource: Send {
    /// What the database itself finds wrong with its files.
    fn damage(&mut self) -> Boxed<'_, Vec<String>>;

    /// The rows of a statement, whose parameters are `$1`, `$2`, … in the order of their first use. An empty id stands for the smallest.
    fn rows<'a>(&'a mut self, sql: &'a str, values: &'a [Cell]) -> Boxed<'a, Vec<CheckedRow>>;

    /// Jobs with their inputs, behind an id.
    fn jobs_sql(&self) -> &'static str;

    /// Inputs of jobs that are not there.
    fn lost_inputs_sql(&self) -> &'static str;

    /// Reads a blob to its end; `None` if it is not there, or in an object store that is not configured.
    fn blob(&mut self, blob: BlobId, place: BlobPlace) -> Boxed<'_, BlobAnswer>;
}

/// What became of a blob.
#[derive(Clone, Debug)]
pub(crate) enum BlobAnswer {
    Read(BlobDigest),
    Missing,
    /// It is in an object store, and none is configured.
    OutOfReach,
}
