//! Jobs in one file: the default of the server, with nothing to install or run beside it.
//!
//! One at a time writes ([`writer`]), and what it has committed is on the disk; readers have connections of their own and
//! never wait for it ([`readers`]); what they just read they need not read again ([`read_cache`]). Large results are files beside it ([`files`]). A second process may open the same file and write
//! too: the two take turns, and each notices what the other does ([`others`]).

mod aside;
mod backup;
mod cells;
mod check;
mod checkpoint;
mod clients;
mod commits;
mod connect;
mod deliveries;
mod fault;
pub(crate) mod files;
mod handles;
mod list;
mod load;
mod logs;
mod many;
mod marks;
mod migrate;
mod operator;
mod others;
mod private;
mod queues;
mod read;
mod read_cache;
mod readers;
mod records;
mod results;
mod rewrite;
mod statements;
mod threads;
mod write;
mod writer;
mod writer_cache;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use forgerun_core::id::{BlobId, JobId};
use forgerun_core::log::LogBatch;
use forgerun_core::time::Time;
use forgerun_core::{Changes, Wants};
use tokio::sync::{Mutex, broadcast};

use crate::blobs::{delete_objects, some_objects};
use crate::{
    BlobPlace, Blobs, Boxed, Decide, DoomedBlob, Error, Fault, NoteUpload, ObjectPlace, Page, Query, Rewrite,
    SchemaStatus, Sink, Source, Store, Sweep, Swept, Wakeup,
};
use checkpoint::Checkpointer;
use commits::CommitCounter;
use connect::DatabaseFile;
use files::Files;
use others::OtherProcesses;
use read_cache::ReadCache;
use readers::Readers;
use threads::Threads;
use writer::{Chore, SqliteWriter, SweepBatch};

pub use backup::{BlobReader, CopiedBlob, put_in_place};
pub use connect::Options;

/// Something for each of some jobs. Ids are looked up several times per job, and the hash of the standard library is slow.
type JobMap<V> = HashMap<JobId, V, foldhash::fast::RandomState>;

/// Wake-ups kept for a listener that is late; one that is later still is told that it missed some.
const WAKEUPS_MAX: usize = 1024;

/// Jobs in an SQLite file. Dropping it finishes the transaction under way and closes the file.
pub struct Sqlite {
    // Dropped in this order: the last connection to close tidies the log up, which a reader could not; and the
    // checkpointer ends when the writer has.
    _others: OtherProcesses,
    readers: Readers,
    chores: Threads<Chore>,
    /// A lock that is fair: under load the committer is back at once, and chores have their turn all the same.
    writer: Arc<Mutex<SqliteWriter>>,
    _checkpointer: Checkpointer,
    files: Files,
    /// The part of the object store that belongs to this database.
    objects: Option<Arc<dyn ObjectPlace>>,
    wakeups: broadcast::Sender<Wakeup>,
    /// The first report that the file is damaged.
    damage: OnceLock<String>,
}

impl Sqlite {
    /// Opens the file, makes it and its folder where there is none, and brings its schema up to this version. Refuses a
    /// file that only newer versions can work with ([`Fault::TooNew`]).
    pub fn open(path: &Path) -> Result<Sqlite, Error> {
        Sqlite::open_with(path, Options::default())
    }

    /// The same with other than the default settings.
    pub fn open_with(path: &Path, options: Options) -> Result<Sqlite, Error> {
        let file = DatabaseFile { path: path.to_owned(), options };
        let wakeups = broadcast::channel(WAKEUPS_MAX).0;
        // First of all, since the file and its schema must be there for the others.
        let first = file.writer()?;
        migrate::migrate(&first)?;
        let objects = match &file.options.objects {
            Some(objects) => Some(objects.below(results::store_id(&first)?)),
            None => None,
        };
        let (checkpointer, checkpoints) = Checkpointer::start(&file)?;
        let read_cache = Arc::new(ReadCache::new(CommitCounter::of(&file)?));
        let writer =
            SqliteWriter::new(file.clone(), first, checkpoints, read_cache.clone(), wakeups.clone())?;
        let writer = Arc::new(Mutex::new(writer));
        let others = OtherProcesses::watch(writer.clone(), read_cache.clone())?;
        let readers = Readers::open(&file, &read_cache)?;
        let chores = {
            let writer = writer.clone();
            Threads::start("forge-chores", vec![move |chore| writer.blocking_lock().handle(chore)])?
        };
        let files = Files::beside(path);
        Ok(Sqlite {
            _others: others,
            readers,
            chores,
            writer,
            _checkpointer: checkpointer,
            files,
            objects,
            wakeups,
            damage: OnceLock::new(),
        })
    }

    /// Which steps the schema of a file still needs. The file must be there; nothing is changed.
    pub fn schema(path: &Path) -> Result<SchemaStatus, Error> {
        let file = DatabaseFile { path: path.to_owned(), options: Options::default() };
        migrate::status(&file.reader()?)
    }
}

impl Sqlite {
    /// Rows first, then the bytes of blobs that the rows have given up. Killed in between, the next sweep finds them again.
    async fn sweep_all(&self, sweep: Sweep) -> Result<Swept, Error> {
        let reach = BlobPlace::of_new(self.objects.as_ref());
        let SweepBatch { swept, doomed } =
            self.chores.ask(move |reply| Chore::Sweep { sweep, reach, reply }).await?;
        let (beside, objects): (Vec<_>, Vec<_>) =
            doomed.into_iter().partition(|blob| blob.place == BlobPlace::Beside);
        let mut deleted: Vec<BlobId> = beside.iter().map(|blob| blob.id).collect();
        if !deleted.is_empty() {
            self.files.delete(deleted.clone()).await?;
        }
        deleted.extend(delete_objects(self.objects.as_ref(), objects).await.iter().map(|blob| blob.id));
        let n_blobs = deleted.len();
        if n_blobs > 0 {
            self.chores.ask(move |reply| Chore::Bury { blobs: deleted, reply }).await?;
        }
        let n_unknown = self.sweep_unknown(&sweep).await?;
        Ok(Swept { blobs: n_blobs + n_unknown, ..swept })
    }

    /// Deletes objects that no row names: their rows went while they were being written, or with a database that was lost.
    async fn sweep_unknown(&self, sweep: &Sweep) -> Result<usize, Error> {
        // Listed before the rows are looked at: a row comes before its object, so one without a row has lost it.
        let blobs = some_objects(self.objects.as_ref(), sweep.loose_before).await;
        if blobs.is_empty() {
            return Ok(0);
        }
        let unknown = self.chores.ask(move |reply| Chore::Unknown { blobs, reply }).await?;
        let doomed = |id| DoomedBlob { id, place: BlobPlace::Objects, upload: None };
        Ok(delete_objects(self.objects.as_ref(), unknown.into_iter().map(doomed).collect()).await.len())
    }

    /// Remembers the first report that the file is damaged.
    fn note_damage<T>(&self, done: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &done
            && fault::is_of_file(error)
        {
            self.damage.get_or_init(|| error.to_string());
        }
        done
    }

    /// Notes uploads of a blob in its row.
    fn note_upload(&self, blob: BlobId) -> Result<NoteUpload, Error> {
        let chores = Arc::new(self.chores.handle()?);
        Ok(Box::new(move |upload| {
            let chores = chores.clone();
            Box::pin(async move { chores.ask(move |reply| Chore::NoteUpload { blob, upload, reply }).await })
        }))
    }
}

impl Blobs for Sqlite {
    fn begin(&self, blob: BlobId, now: Time) -> Boxed<'_, Box<dyn Sink>> {
        Box::pin(async move {
            let place = BlobPlace::of_new(self.objects.as_ref());
            self.chores.ask(move |reply| Chore::BeginBlob { blob, now, place, reply }).await?;
            match &self.objects {
                Some(objects) => Ok(objects.create(blob, self.note_upload(blob)?)),
                None => self.files.create(blob).await,
            }
        })
    }

    fn touch(&self, blob: BlobId, now: Time) -> Boxed<'_, ()> {
        Box::pin(self.chores.ask(move |reply| Chore::TouchBlob { blob, now, reply }))
    }

    fn open(&self, blob: BlobId) -> Boxed<'_, Arc<dyn Source>> {
        Box::pin(async move {
            match (self.files.open(blob).await, &self.objects) {
                // Written since there is an object store.
                (Err(error), Some(objects)) if error.fault == Fault::Corrupt => objects.open(blob).await,
                (opened, _) => opened,
            }
        })
    }
}

impl Store for Sqlite {
    fn transact(&self, wants: Wants, decide: Decide) -> Boxed<'_, Changes> {
        Box::pin(async move { self.note_damage(self.writer.lock().await.transact(&wants, decide)) })
    }

    fn read(&self, query: Query) -> Boxed<'_, Page> {
        Box::pin(async move { self.note_damage(self.readers.read(query).await) })
    }

    fn sweep(&self, sweep: Sweep) -> Boxed<'_, Swept> {
        Box::pin(async move { self.note_damage(self.sweep_all(sweep).await) })
    }

    fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    fn append_logs(&self, batches: Vec<LogBatch>, bytes_max: u64) -> Boxed<'_, Vec<Option<u64>>> {
        Box::pin(async move {
            let appended = self.chores.ask(move |reply| Chore::AppendLogs { batches, bytes_max, reply });
            self.note_damage(appended.await)
        })
    }

    fn rewrite(&self, rows: Vec<Rewrite>) -> Boxed<'_, ()> {
        Box::pin(async move {
            let done = self.chores.ask(move |reply| Chore::Rewrite { rows, reply });
            self.note_damage(done.await)
        })
    }

    fn blobs(&self) -> &dyn Blobs {
        self
    }

    fn wakeups(&self) -> broadcast::Receiver<Wakeup> {
        self.wakeups.subscribe()
    }

    /// A file has one writer at a time.
    fn lanes(&self) -> usize {
        1
    }

    fn blocks(&self) -> bool {
        true
    }
}
