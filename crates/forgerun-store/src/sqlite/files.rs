//! Blobs as files in the folder `results` beside the database: `results/7f/01890a5d-….`, the folder after the last two
//! digits of the id, which are random, so that no folder grows long.
//!
//! Files are written and read on threads where waiting for a disk is fine. They are not renamed into place: nobody opens one
//! before a result names it, and that comes after [`Sink::finish`].

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use forgerun_core::id::BlobId;
use tokio::task::spawn_blocking;

use super::private;
use crate::{Boxed, Error, Fault, Sink, Source};

/// The folder.
#[derive(Clone, Debug)]
pub(super) struct Files {
    root: PathBuf,
}

impl Files {
    /// The folder beside this database.
    pub(super) fn beside(database: &Path) -> Files {
        Files { root: database.with_file_name("results") }
    }

    fn path(&self, blob: BlobId) -> PathBuf {
        self.root.join(format!("{:02x}", blob.as_u128() & 0xff)).join(blob.to_string())
    }

    /// Where the file of a blob is, below the folder of the database.
    pub(super) fn name(blob: BlobId) -> String {
        format!("results/{:02x}/{blob}", blob.as_u128() & 0xff)
    }

    /// Makes the file of a new blob.
    pub(super) async fn create(&self, blob: BlobId) -> Result<Box<dyn Sink>, Error> {
        create_file(self.root.clone(), self.path(blob)).await
    }

    /// Opens the file of a blob for reading.
    pub(super) async fn open(&self, blob: BlobId) -> Result<Arc<dyn Source>, Error> {
        open_file(self.path(blob)).await
    }

    /// Deletes the files of blobs; one that is not there was deleted before.
    pub(super) async fn delete(&self, blobs: Vec<BlobId>) -> Result<(), Error> {
        let paths: Vec<PathBuf> = blobs.into_iter().map(|blob| self.path(blob)).collect();
        on_disk(self.root.clone(), move || {
            paths.iter().try_for_each(|path| match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            })
        })
        .await
    }
}

/// Makes a new file, and the folders down from `root` that it stands in.
pub(crate) async fn create_file(root: PathBuf, path: PathBuf) -> Result<Box<dyn Sink>, Error> {
    let made = on_disk(path.clone(), move || {
        let folder = folder_of(&path);
        private::make_folder(folder)?;
        let file = private::new_file(&path)?;
        // The way to the file must last as the file does.
        for folder in [folder, root.as_path(), folder_of(&root)] {
            File::open(folder)?.sync_all()?;
        }
        Ok(FileSink { file: Some(file), path })
    });
    Ok(Box::new(made.await?))
}

/// Opens a file for reading.
pub(crate) async fn open_file(path: PathBuf) -> Result<Arc<dyn Source>, Error> {
    let opened = path.clone();
    let (file, size) = on_disk(path.clone(), move || {
        let file = File::open(opened)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    })
    .await?;
    Ok(Arc::new(FileSource { file: Arc::new(file), path, size }))
}

struct FileSink {
    /// Away while it is being written to.
    file: Option<File>,
    path: PathBuf,
}

impl FileSink {
    async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut File) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let gone = || Error::new(Fault::Unavailable, "an earlier write to the blob was broken off");
        let mut file = self.file.take().ok_or_else(gone)?;
        let (done, file) = on_disk(self.path.clone(), move || Ok((work(&mut file)?, file))).await?;
        self.file = Some(file);
        Ok(done)
    }
}

impl Sink for FileSink {
    fn write(&mut self, bytes: Bytes) -> Boxed<'_, ()> {
        Box::pin(self.with(move |file| file.write_all(&bytes)))
    }

    fn finish(mut self: Box<Self>) -> Boxed<'static, ()> {
        Box::pin(async move { self.with(|file| file.sync_all()).await })
    }
}

struct FileSource {
    file: Arc<File>,
    path: PathBuf,
    size: u64,
}

impl Source for FileSource {
    fn size(&self) -> Option<u64> {
        Some(self.size)
    }

    fn read(&self, offset: u64, len: usize) -> Boxed<'static, Bytes> {
        let (file, path) = (self.file.clone(), self.path.clone());
        Box::pin(on_disk(path, move || {
            let mut buffer = vec![0; len];
            let n_read = file.read_at(&mut buffer, offset)?;
            if n_read == 0 {
                return Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    format!("it ends before byte {offset}"),
                ));
            }
            buffer.truncate(n_read);
            Ok(Bytes::from(buffer))
        }))
    }
}

fn folder_of(path: &Path) -> &Path {
    // A bare file name lies in the folder the process is in.
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

async fn on_disk<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    match spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| trouble(&path, &error)),
        Err(error) => Err(Error::new(Fault::Unavailable, error)),
    }
}

fn trouble(path: &Path, error: &io::Error) -> Error {
    let fault = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Fault::Full,
        ErrorKind::NotFound | ErrorKind::UnexpectedEof => Fault::Corrupt,
        _ => Fault::Unavailable,
    };
    Error::new(fault, format!("file {}: {error}", path.display()))
}
