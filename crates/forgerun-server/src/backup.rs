//! Backup and restore of an SQLite store, with its large results. PostgreSQL has tools of its own.
//!
//! ```text
//!   DIR or s3://BUCKET/PREFIX
//!     forgerun.db     the database as of one moment
//!     results/7f/ID   the large results that it names, also those of an object store
//!     backup.json     every file with its size and SHA-256; written last
//! ```
//!
//! The database is copied first. What its results name stays on the disk for an hour after the
//! original dropped it, so a copy that takes less than an hour is complete. One that is not is an
//! error, and has no `backup.json`.

use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use forgerun_engine::{Clock, SystemClock};
use forgerun_store::backup::BackupPlace;
use forgerun_store::sqlite::{Sqlite, put_in_place};
use forgerun_store::{Sink, Source};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::Running;
use crate::config::{Config, Database, ResultStore};
use crate::serve::{ServeError, objects, open_object_store};

const DATABASE: &str = "forgerun.db";
const MANIFEST: &str = "backup.json";
/// Changes when an older program could no longer restore what a newer one writes.
const FORMAT: u32 = 1;
/// Bytes in memory at once.
const READ_AT_ONCE: usize = 256 * 1024;
/// A list of a million files has less.
const MANIFEST_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Why there is no backup, or no restored store.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("could not back up or restore: {0}")]
    Store(#[from] forgerun_store::Error),
    #[error("{0} is not a place for a backup: expected a folder or s3://bucket/prefix{1}")]
    Place(String, &'static str),
    #[error("{0} is not empty; a backup needs a new folder or prefix")]
    NotEmpty(String),
    #[error("{} is there already; restore into an empty place, or move it away first", .0.display())]
    Occupied(PathBuf),
    #[error("there is no complete backup at {0}: {1}")]
    NoBackup(String, String),
    #[error("the backup is damaged: {name} has another size or digest than {MANIFEST} says")]
    Damaged { name: String },
    #[error(
        "PostgreSQL is backed up and restored by its own tools, pg_dump and pg_restore or pg_basebackup; docs/do/back-up.md \
         has the order"
    )]
    Postgres,
    #[error("a store in memory has nothing to back up")]
    Memory,
}

impl BackupError {
    /// Whether the command line or the configuration is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, BackupError::Place(..) | BackupError::Postgres | BackupError::Memory)
    }
}

/// What a backup has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    /// The database and its large results.
    pub n_files: usize,
    pub n_bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    version: String,
    made_at: String,
    files: Vec<ManifestFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ManifestFile {
    name: String,
    bytes: u64,
    sha256: String,
}

impl Manifest {
    fn summary(&self) -> BackupSummary {
        BackupSummary { n_files: self.files.len(), n_bytes: self.files.iter().map(|file| file.bytes).sum() }
    }
}

/// Copies the configured store to a new folder or a part of an object store. Servers go on
/// meanwhile.
pub fn backup<'a>(config: &'a Config, to: &'a str) -> Running<'a, Result<BackupSummary, BackupError>> {
    Box::pin(async move {
        let path = file_of(config)?;
        if !path.exists() {
            return Err(ServeError::NoStore(path.to_owned()).into());
        }
        let place = place(config, to)?;
        if !place.is_empty().await? {
            return Err(BackupError::NotEmpty(to.to_owned()));
        }
        let staging = Staging::of(&place);
        backed_up(config, path, &place, &staging.folder).await
    })
}

async fn backed_up(
    config: &Config,
    path: &Path,
    place: &BackupPlace,
    staging: &Path,
) -> Result<BackupSummary, BackupError> {
    let (original, target) = (path.to_owned(), staging.join(DATABASE));
    let blobs = blocking(move || Sqlite::copy(&original, &target)).await?;
    let source = BackupPlace::Folder(staging.to_owned()).open(DATABASE).await?;
    let database = match place {
        BackupPlace::Folder(_) => read_through(DATABASE, &*source).await?,
        #[cfg(feature = "s3")]
        BackupPlace::Objects(_) => copy_file(DATABASE, &*source, place.create(DATABASE).await?).await?,
    };
    let objects = objects(&config.results).await.map_err(ServeError::Objects)?;
    let reader = Sqlite::blob_reader(path, objects.as_ref())?;
    let mut files = vec![database];
    for blob in blobs {
        let (name, source) = (blob.file_name(), reader.open(blob.id).await?);
        let sink = place.create(&name).await?;
        files.push(copy_file(&name, &*source, sink).await?);
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let made_at = forgerun_wire::time::millis(SystemClock.now());
    let manifest = Manifest { format: FORMAT, version, made_at, files };
    let mut sink = place.create(MANIFEST).await?;
    sink.write(serde_json::to_vec_pretty(&manifest).expect("texts and numbers").into()).await?;
    sink.finish().await?;
    Ok(manifest.summary())
}

/// Copies a backup to where the configured store is to be. Nothing may be there yet.
pub fn restore<'a>(config: &'a Config, from: &'a str) -> Running<'a, Result<BackupSummary, BackupError>> {
    Box::pin(async move {
        let path = file_of(config)?;
        let place = place(config, from)?;
        let manifest = manifest(&place, from).await?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let unfinished = path.with_extension("restoring");
        let log = |end: &str| PathBuf::from(format!("{}{end}", path.display()));
        let taken = [path.to_owned(), log("-wal"), log("-shm"), unfinished.clone(), folder.join("results")];
        if let Some(taken) = taken.into_iter().find(|path| is_taken(path)) {
            return Err(BackupError::Occupied(taken));
        }
        let target = BackupPlace::Folder(folder.to_owned());
        let unfinished_name = unfinished.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for file in &manifest.files {
            let source = place.open(&file.name).await?;
            let name = if file.name == DATABASE { &unfinished_name } else { &file.name };
            let copied = copy_file(&file.name, &*source, target.create(name).await?).await?;
            if copied != *file {
                return Err(BackupError::Damaged { name: copied.name });
            }
        }
        let path = path.to_owned();
        blocking(move || put_in_place(&unfinished, &path)).await?;
        Ok(manifest.summary())
    })
}

/// Whether something is there that a restore would replace.
fn is_taken(path: &Path) -> bool {
    match path.read_dir() {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => path.exists(),
    }
}

async fn manifest(place: &BackupPlace, from: &str) -> Result<Manifest, BackupError> {
    let none = |why: String| BackupError::NoBackup(from.to_owned(), why);
    let source = place.open(MANIFEST).await.map_err(|error| none(error.to_string()))?;
    let size = source.size().filter(|size| *size <= MANIFEST_BYTES_MAX);
    let size = size.ok_or_else(|| none(format!("{MANIFEST} is too long")))?;
    let mut text = Vec::new();
    while (text.len() as u64) < size {
        text.extend_from_slice(&source.read(text.len() as u64, READ_AT_ONCE).await?);
    }
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|error| none(format!("{MANIFEST}: {error}")))?;
    if manifest.format != FORMAT {
        let version = &manifest.version;
        return Err(none(format!("version {version} made it, which this program is too old for")));
    }
    // Names come from outside: nothing may be written beside the store.
    let is_ours = |name: &str| {
        name == DATABASE || (name.starts_with("results/") && !name.split('/').any(|part| part == ".."))
    };
    match manifest.files.iter().find(|file| !is_ours(&file.name)) {
        Some(file) => Err(none(format!("{MANIFEST} names the file {}", file.name))),
        None if manifest.files.iter().any(|file| file.name == DATABASE) => Ok(manifest),
        None => Err(none(format!("{MANIFEST} names no {DATABASE}"))),
    }
}

/// Copies a file, and counts and digests it.
async fn copy_file(
    name: &str,
    source: &dyn Source,
    mut sink: Box<dyn Sink>,
) -> Result<ManifestFile, forgerun_store::Error> {
    let file = read_all(name, source, Some(&mut sink)).await?;
    sink.finish().await?;
    Ok(file)
}

async fn read_through(name: &str, source: &dyn Source) -> Result<ManifestFile, forgerun_store::Error> {
    read_all(name, source, None).await
}

async fn read_all(
    name: &str,
    source: &dyn Source,
    mut sink: Option<&mut Box<dyn Sink>>,
) -> Result<ManifestFile, forgerun_store::Error> {
    let (mut digest, mut bytes) = (Context::new(&SHA256), 0);
    let size = source.size().unwrap_or_default();
    while bytes < size {
        let part = source.read(bytes, READ_AT_ONCE).await?;
        digest.update(&part);
        bytes += part.len() as u64;
        if let Some(sink) = &mut sink {
            sink.write(part).await?;
        }
    }
    let sha256 = digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(ManifestFile { name: name.to_owned(), bytes, sha256 })
}

fn file_of(config: &Config) -> Result<&Path, BackupError> {
    match &config.server.database {
        Database::Sqlite(path) => Ok(path),
        Database::Postgres(_) => Err(BackupError::Postgres),
        Database::Memory => Err(BackupError::Memory),
    }
}

fn place(config: &Config, text: &str) -> Result<BackupPlace, BackupError> {
    if !text.contains("://") {
        return Ok(BackupPlace::Folder(PathBuf::from(text)));
    }
    let wrong = |why| BackupError::Place(text.to_owned(), why);
    let store = ResultStore::parse(text).ok_or_else(|| wrong(""))?;
    open_object_store(&config.results, store)?.ok_or_else(|| wrong("; this build has no object store"))
}

/// Where the database is copied to: the folder of the backup, or a private one on the way to an
/// object store, which is removed.
struct Staging {
    folder: PathBuf,
    is_temporary: bool,
}

impl Staging {
    fn of(place: &BackupPlace) -> Staging {
        match place {
            BackupPlace::Folder(folder) => Staging { folder: folder.clone(), is_temporary: false },
            #[cfg(feature = "s3")]
            BackupPlace::Objects(_) => {
                let name = format!("forgerun-backup-{:016x}", SystemClock.random() as u64);
                Staging { folder: std::env::temp_dir().join(name), is_temporary: true }
            }
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.is_temporary {
            // A copy of a file that is there.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, forgerun_store::Error> + Send + 'static,
) -> Result<T, forgerun_store::Error> {
    let lost = |error| Err(forgerun_store::Error::new(forgerun_store::Fault::Unavailable, error));
    spawn_blocking(work).await.unwrap_or_else(lost)
}
