//! Blobs as objects of a store that speaks S3: `PREFIX/01890a5d-…/7f/01890a5e-…`, below the id of the database, so that two
//! databases never touch each other's, in folders after the last two digits of the blob, which are random.
//!
//! A blob that fits in one part is put in one request. A larger one is an upload in parts: what came in is sent as soon as a
//! part is full, and no more than one part is in memory. The row of the blob learns the id of the upload before the first
//! part is sent, and that it is over after the last, so a sweep can call off what a killed process left.
//!
//! Nothing here decides when a blob goes: rows do ([`blobs`](crate::blobs)).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use forgerun_core::id::BlobId;
use forgerun_core::time::Time;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, Error as ObjectError, GetOptions, GetRange, MultipartId, ObjectStore,
    PutOptions, PutPayload, RetryConfig,
};

use crate::blobs::{DoomedBlob, NoteUpload, ObjectPlace};
use crate::{Boxed, Error, Fault, Sink, Source};

/// Bytes of a part. Stores ask for 5 MiB at least and take 10,000 parts; an upload holds one part in memory.
const PART_BYTES: usize = 8 * 1024 * 1024;

/// The largest blob: as many parts as stores take.
pub const OBJECT_BYTES_MAX: u64 = 10_000 * PART_BYTES as u64;

/// Bytes asked for at once: a request takes some ten milliseconds however little it brings. Each download holds as much.
const WINDOW_BYTES: u64 = 1024 * 1024;

/// How long a request is tried again. A worker that hears of trouble later has given up by then.
const TRY_FOR: Duration = Duration::from_secs(5);
const TRIES_MAX: usize = 3;

/// How long one request may take: a part, at a slow megabyte a second, with room.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often objects are looked for that no row names, and how many are looked at then.
const LIST_EVERY: Duration = Duration::from_secs(60);
const LIST_MAX: usize = 1000;

/// Where the objects are, and who asks for them.
#[derive(Clone)]
pub struct S3Options {
    /// The bucket. It must be there.
    pub bucket: String,
    /// What names of objects begin with; may be empty.
    pub prefix: String,
    /// The address of the service; `None` for that of AWS.
    pub endpoint: Option<String>,
    /// `None` for `AWS_REGION`, or us-east-1.
    pub region: Option<String>,
    /// Id and secret of the key; `None` for what the environment has, as with other programs for AWS.
    pub key: Option<(String, String)>,
}

/// Objects of one bucket, below one prefix.
#[derive(Clone)]
pub struct S3 {
    store: Arc<AmazonS3>,
    prefix: Path,
    /// For errors.
    place: Arc<str>,
    walk: Arc<Mutex<ObjectWalk>>,
}

/// How far a walk over all objects has come.
#[derive(Default)]
struct ObjectWalk {
    listed_at: Option<Time>,
    after: Option<Path>,
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("S3").field(&self.place).finish()
    }
}

impl S3 {
    /// Prepares connections. Asks nobody yet.
    pub fn new(options: S3Options) -> Result<S3, Error> {
        let place: Arc<str> = format!("s3://{}/{}", options.bucket, options.prefix).into();
        let client = ClientOptions::new().with_timeout(REQUEST_TIMEOUT).with_connect_timeout(CONNECT_TIMEOUT);
        // Before all others that are kept in it.
        let builder = AmazonS3Builder::from_env().with_client_options(client);
        let mut builder = builder.with_bucket_name(options.bucket);
        if let Some(endpoint) = options.endpoint {
            builder = builder.with_allow_http(endpoint.starts_with("http://")).with_endpoint(endpoint);
        }
        if let Some(region) = options.region {
            builder = builder.with_region(region);
        }
        if let Some((id, secret)) = options.key {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        }
        let backoff = BackoffConfig { max_backoff: Duration::from_secs(1), ..BackoffConfig::default() };
        let retry = RetryConfig { backoff, max_retries: TRIES_MAX, retry_timeout: TRY_FOR };
        let store = builder.with_retry(retry).build();
        let store = Arc::new(store.map_err(|error| trouble(&place, &error))?);
        Ok(S3 { store, prefix: Path::from(options.prefix), place, walk: Arc::default() })
    }

    /// Asks for something small, to find out whether bucket and key are right. Trouble that may pass is
    /// [`Fault::Unavailable`], a bucket or key that is wrong is [`Fault::Rejected`].
    pub async fn check(&self) -> Result<(), Error> {
        match self.store.list(Some(&self.prefix)).next().await {
            None | Some(Ok(_)) => Ok(()),
            Some(Err(error)) if is_refusal(&error) => {
                Err(Error::new(Fault::Rejected, format!("{}: {error}", self.place)))
            }
            Some(Err(error)) => Err(trouble(&self.place, &error)),
        }
    }

    /// Begins an object of this name, such as a file of a backup.
    pub(crate) fn create_named(&self, name: &str) -> Box<dyn Sink> {
        Box::new(self.sink(self.named(name), Box::new(|_| Box::pin(async { Ok(()) }))))
    }

    /// Opens the object of this name.
    pub(crate) async fn open_named(&self, name: &str) -> Result<Arc<dyn Source>, Error> {
        self.source(self.named(name)).await
    }

    /// Whether there is no object below the prefix.
    pub(crate) async fn is_empty(&self) -> Result<bool, Error> {
        match self.store.list(Some(&self.prefix)).next().await {
            None => Ok(true),
            Some(Ok(_)) => Ok(false),
            Some(Err(error)) => Err(trouble(&self.place, &error)),
        }
    }

    fn named(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    fn sink(&self, path: Path, note: NoteUpload) -> ObjectSink {
        let objects = self.clone();
        ObjectSink { objects, path, note, gathered: BytesMut::new(), upload: None, parts: Vec::new() }
    }

    async fn source(&self, path: Path) -> Result<Arc<dyn Source>, Error> {
        let head = GetOptions { head: true, ..GetOptions::default() };
        let found = self.store.get_opts(&path, head).await;
        let size = found.map_err(|error| trouble(&self.place, &error))?.meta.size;
        let objects = self.clone();
        Ok(Arc::new(ObjectSource(Arc::new(OpenObject { objects, path, size, window: Mutex::default() }))))
    }

    fn path(&self, blob: BlobId) -> Path {
        self.prefix.clone().join(format!("{:02x}", blob.as_u128() & 0xff)).join(blob.to_string())
    }

    async fn delete_all(&self, blobs: Vec<DoomedBlob>) -> Result<(), Error> {
        for blob in &blobs {
            if let Some(upload) = &blob.upload {
                gone_is_fine(self.store.abort_multipart(&self.path(blob.id), upload).await, &self.place)?;
            }
        }
        let paths: Vec<Path> = blobs.iter().map(|blob| self.path(blob.id)).collect();
        let mut deleted = self.store.delete_stream(stream::iter(paths.into_iter().map(Ok)).boxed());
        while let Some(done) = deleted.next().await {
            gone_is_fine(done.map(drop), &self.place)?;
        }
        Ok(())
    }

    /// The next page of a walk that begins again at its end; empty if the last was a moment ago.
    async fn next_page(&self, now: Time) -> Result<Vec<BlobId>, Error> {
        let after = {
            let mut walk = self.walk.lock().unwrap_or_else(PoisonError::into_inner);
            if walk.listed_at.is_some_and(|at| now.since(at) < LIST_EVERY) {
                return Ok(Vec::new());
            }
            walk.listed_at = Some(now);
            walk.after.take()
        };
        let listed = match &after {
            Some(after) => self.store.list_with_offset(Some(&self.prefix), after),
            None => self.store.list(Some(&self.prefix)),
        };
        let found: Vec<_> =
            listed.take(LIST_MAX).try_collect().await.map_err(|error| trouble(&self.place, &error))?;
        if found.len() == LIST_MAX {
            let last = found.last().map(|object| object.location.clone());
            self.walk.lock().unwrap_or_else(PoisonError::into_inner).after = last;
        }
        Ok(found.iter().filter_map(|object| self.blob_at(&object.location)).collect())
    }

    /// The blob whose object this is; `None` if it is not named like ours, so that others have put it there.
    fn blob_at(&self, location: &Path) -> Option<BlobId> {
        let blob = location.filename()?.parse().ok()?;
        (self.path(blob) == *location).then_some(blob)
    }
}

impl ObjectPlace for S3 {
    fn below(&self, database: u128) -> Arc<dyn ObjectPlace> {
        let prefix = self.prefix.clone().join(BlobId::from_u128(database).to_string());
        Arc::new(S3 { prefix, walk: Arc::default(), ..self.clone() })
    }

    fn create(&self, blob: BlobId, note: NoteUpload) -> Box<dyn Sink> {
        Box::new(self.sink(self.path(blob), note))
    }

    fn open(&self, blob: BlobId) -> Boxed<'_, Arc<dyn Source>> {
        Box::pin(self.source(self.path(blob)))
    }

    fn delete(&self, blobs: Vec<DoomedBlob>) -> Boxed<'_, ()> {
        Box::pin(self.delete_all(blobs))
    }

    fn some(&self, now: Time) -> Boxed<'_, Vec<BlobId>> {
        Box::pin(self.next_page(now))
    }
}

struct ObjectSink {
    objects: S3,
    path: Path,
    note: NoteUpload,
    /// Less than a part.
    gathered: BytesMut,
    /// The upload in parts, once there is more than one.
    upload: Option<MultipartId>,
    parts: Vec<PartId>,
}

impl ObjectSink {
    fn trouble(&self, error: &ObjectError) -> Error {
        trouble(&self.objects.place, error)
    }

    async fn put_part(&mut self, part: Bytes) -> Result<(), Error> {
        let store = &self.objects.store;
        let upload = match &self.upload {
            Some(upload) => upload,
            None => {
                let upload =
                    store.create_multipart(&self.path).await.map_err(|error| self.trouble(&error))?;
                (self.note)(Some(upload.clone())).await?;
                self.upload.insert(upload)
            }
        };
        let put = store.put_part(&self.path, upload, self.parts.len(), PutPayload::from_bytes(part)).await;
        self.parts.push(put.map_err(|error| trouble(&self.objects.place, &error))?);
        Ok(())
    }

    async fn complete(mut self) -> Result<(), Error> {
        let rest = std::mem::take(&mut self.gathered).freeze();
        if self.upload.is_none() {
            let whole = PutPayload::from_bytes(rest);
            let put = self.objects.store.put_opts(&self.path, whole, PutOptions::default()).await;
            return put.map(drop).map_err(|error| self.trouble(&error));
        }
        if !rest.is_empty() {
            self.put_part(rest).await?;
        }
        let Some(upload) = self.upload.take() else { unreachable!("it was begun") };
        let parts = std::mem::take(&mut self.parts);
        let completed = self.objects.store.complete_multipart(&self.path, &upload, parts).await;
        completed.map_err(|error| self.trouble(&error))?;
        (self.note)(None).await
    }
}

impl Sink for ObjectSink {
    fn write(&mut self, bytes: Bytes) -> Boxed<'_, ()> {
        Box::pin(async move {
            let mut rest = bytes;
            while self.gathered.len() + rest.len() >= PART_BYTES {
                self.gathered.extend_from_slice(&rest.split_to(PART_BYTES - self.gathered.len()));
                let part = std::mem::take(&mut self.gathered).freeze();
                self.put_part(part).await?;
            }
            self.gathered.extend_from_slice(&rest);
            Ok(())
        })
    }

    fn finish(self: Box<Self>) -> Boxed<'static, ()> {
        Box::pin(self.complete())
    }
}

struct ObjectSource(Arc<OpenObject>);

struct OpenObject {
    objects: S3,
    path: Path,
    size: u64,
    /// What was read last, and where it begins: readers go on from there in smaller steps.
    window: Mutex<(u64, Bytes)>,
}

impl OpenObject {
    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, Error> {
        if offset >= self.size {
            return Err(Error::new(Fault::Corrupt, format!("a blob has no byte {offset}")));
        }
        if let Some(part) = self.within_window(offset) {
            return Ok(part.slice(..part.len().min(len)));
        }
        let range = offset..(offset + WINDOW_BYTES.max(len as u64)).min(self.size);
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        let got = async { self.objects.store.get_opts(&self.path, options).await?.bytes().await };
        let found = got.await.map_err(|error| trouble(&self.objects.place, &error))?;
        if found.is_empty() {
            return Err(Error::new(Fault::Corrupt, format!("{} ends before byte {offset}", self.path)));
        }
        *self.window.lock().unwrap_or_else(PoisonError::into_inner) = (offset, found.clone());
        Ok(found.slice(..found.len().min(len)))
    }

    fn within_window(&self, offset: u64) -> Option<Bytes> {
        let window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let from = usize::try_from(offset.checked_sub(window.0)?).ok()?;
        (from < window.1.len()).then(|| window.1.slice(from..))
    }
}

impl Source for ObjectSource {
    fn size(&self) -> Option<u64> {
        Some(self.0.size)
    }

    fn read(&self, offset: u64, len: usize) -> Boxed<'static, Bytes> {
        let object = self.0.clone();
        Box::pin(async move { object.read(offset, len).await })
    }
}

/// What is to be deleted and is not there was deleted before.
fn gone_is_fine(done: Result<(), ObjectError>, place: &str) -> Result<(), Error> {
    match done {
        Ok(()) | Err(ObjectError::NotFound { .. }) => Ok(()),
        Err(error) => Err(trouble(place, &error)),
    }
}

fn trouble(place: &str, error: &ObjectError) -> Error {
    let fault = match error {
        ObjectError::NotFound { .. } => Fault::Corrupt,
        _ => Fault::Unavailable,
    };
    Error::new(fault, format!("{place}: {error}"))
}

/// Whether the store has answered, and will answer the same next time: a bucket that is not there, a key that is not accepted. The
/// crate says so in words only; words that have changed would make a warning of what stops the start now.
fn is_refusal(error: &ObjectError) -> bool {
    let text = error.to_string();
    ["400", "401", "403", "404"].iter().any(|status| text.contains(&format!("status code: {status}")))
}
