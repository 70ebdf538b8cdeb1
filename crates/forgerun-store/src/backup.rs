//! Places of backups: a folder, or a part of an object store. Files in them are written once, by name.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "s3")]
use crate::objects::S3;
use crate::sqlite::files::{create_file, open_file};
use crate::{Error, Fault, Sink, Source};

/// A place for the files of one backup.
#[derive(Clone, Debug)]
pub enum BackupPlace {
    Folder(PathBuf),
    #[cfg(feature = "s3")]
    Objects(S3),
}

impl BackupPlace {
    /// Whether nothing is there: no folder, or one without entries.
    pub async fn is_empty(&self) -> Result<bool, Error> {
        match self {
            BackupPlace::Folder(folder) => match fs::read_dir(folder) {
                Ok(mut entries) => Ok(entries.next().is_none()),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
                Err(error) => {
                    Err(Error::new(Fault::Unavailable, format!("folder {}: {error}", folder.display())))
                }
            },
            #[cfg(feature = "s3")]
            BackupPlace::Objects(objects) => objects.is_empty().await,
        }
    }

    /// Begins a new file, such as `results/7f/ID`. One that is there already is not replaced in a folder.
    pub async fn create(&self, name: &str) -> Result<Box<dyn Sink>, Error> {
        match self {
            BackupPlace::Folder(folder) => create_file(folder.clone(), folder.join(name)).await,
            #[cfg(feature = "s3")]
            BackupPlace::Objects(objects) => Ok(objects.create_named(name)),
        }
    }

    /// Opens a file. One that is not there is [`Fault::Corrupt`].
    pub async fn open(&self, name: &str) -> Result<Arc<dyn Source>, Error> {
        match self {
            BackupPlace::Folder(folder) => open_file(folder.join(name)).await,
            #[cfg(feature = "s3")]
            BackupPlace::Objects(objects) => objects.open_named(name).await,
        }
    }
}
