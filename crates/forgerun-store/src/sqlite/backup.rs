//! Copies of a database that is in use. SQLite's own `VACUUM INTO` reads as of one moment and is not begun anew when others
//! write, as its backup interface is. So it ends under load, and the copy has all that was committed before it began.
//!
//! A copy needs no object store: its large results are files beside it. It has an id of its own, so that a server on it never
//! deletes objects of the original.

use std::fs::{self, File};
use std::io::{Error as IoError, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use forgerun_core::id::BlobId;
use rusqlite::{Connection, params};

use super::connect::{DatabaseFile, Options};
use super::files::Files;
use super::read::all;
use super::statements::statements;
use super::{Sqlite, cells, private, results};
use crate::{Error, Fault, ObjectPlace, Source};

/// A blob that a result in a copy names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedBlob {
    pub id: BlobId,
}

impl CopiedBlob {
    /// The name of its file, below the folder of the database.
    pub fn file_name(self) -> String {
        Files::name(self.id)
    }
}

statements! {
    COPY = "VACUUM INTO ?1";

    /// Blobs that no result names yet: their workers send them again.
    DELETE_LOOSE = "
        DELETE FROM blobs
        WHERE loose_at IS NOT NULL
    ";

    MOVE_BESIDE = "
        UPDATE blobs
        SET place = 0, upload = NULL
        WHERE place <> 0
    ";

    NEW_STORE_ID = "
        UPDATE store
        SET id = randomblob(16)
    ";

    NAMED = "
        SELECT id
        FROM blobs
        ORDER BY id
    ";
}

impl Sqlite {
    /// Copies the database at `path`, as it is now, to the new file `target`. Servers go on meanwhile. Returns the blobs that belong to
    /// the copy.
    pub fn copy(path: &Path, target: &Path) -> Result<Vec<CopiedBlob>, Error> {
        if let Some(folder) = target.parent() {
            private::make_folder(folder).map_err(|error| at(folder, error))?;
        }
        private::new_file(target).map_err(|error| at(target, error))?;
        let source = DatabaseFile { path: path.to_owned(), options: Options::default() }.source()?;
        let target_text = target.to_str().ok_or_else(|| {
            Error::new(Fault::Rejected, format!("the path {} is not UTF-8", target.display()))
        })?;
        source.prepare(COPY)?.execute(params![target_text])?;
        let blobs = detach(&Connection::open(target)?)?;
        // SQLite does not wait for the disk when it writes a copy.
        File::open(target).and_then(|file| file.sync_all()).map_err(|error| at(target, error))?;
        Ok(blobs)
    }

    /// Opens blobs of the database at `path`, which others may use.
    pub fn blob_reader(path: &Path, objects: Option<&Arc<dyn ObjectPlace>>) -> Result<BlobReader, Error> {
        let file = DatabaseFile { path: path.to_owned(), options: Options::default() };
        let objects = match objects {
            Some(objects) => Some(objects.below(results::store_id(&file.reader()?)?)),
            None => None,
        };
        Ok(BlobReader { files: Files::beside(path), objects })
    }
}

/// Makes a copy independent of the original.
fn detach(copy: &Connection) -> Result<Vec<CopiedBlob>, Error> {
    let transaction = copy.unchecked_transaction()?;
    for sql in [DELETE_LOOSE, MOVE_BESIDE, NEW_STORE_ID] {
        transaction.execute(sql, [])?;
    }
    let blobs = all(&transaction, NAMED, [], |row| {
        Ok(CopiedBlob { id: BlobId::from_u128(u128::from_be_bytes(cells::array(row, 0)?)) })
    })?;
    transaction.commit()?;
    Ok(blobs)
}

/// Opens blobs without opening the database for writing.
pub struct BlobReader {
    files: Files,
    objects: Option<Arc<dyn ObjectPlace>>,
}

impl BlobReader {
    /// Opens a finished blob. One that is not there is [`Fault::Corrupt`].
    pub async fn open(&self, blob: BlobId) -> Result<Arc<dyn Source>, Error> {
        match (self.files.open(blob).await, &self.objects) {
            (Err(error), Some(objects)) if error.fault == Fault::Corrupt => objects.open(blob).await,
            (opened, _) => opened,
        }
    }
}

/// Moves a restored database to its place.
pub fn put_in_place(restored: &Path, path: &Path) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let moved = fs::rename(restored, path).and_then(|()| File::open(folder)?.sync_all());
    moved.map_err(|error| at(path, error))
}

fn at(path: &Path, error: IoError) -> Error {
    let fault = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Fault::Full,
        _ => Fault::Unavailable,
    };
    Error::new(fault, format!("{}: {error}", path.display()))
}
