//! Output of unknown size: kept in memory while it is small, in a file beyond that. Bounded, and told apart by its type once it is
//! whole.

use std::io;
use std::path::PathBuf;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt;

use super::handler::Output;
use crate::clock::{Clock, SystemClock};
use crate::limits::{INLINE_BYTES_MAX, SPOOL_MEMORY_BYTES_MAX};

/// Collects output.
pub struct Spool {
    bytes_max: u64,
    size: u64,
    memory: Vec<u8>,
    file: Option<(File, TempPath)>,
}

/// A file that is removed unless it is kept.
struct TempPath(Option<PathBuf>);

impl TempPath {
    fn keep(mut self) -> PathBuf {
        self.0.take().unwrap_or_default()
    }
}

impl Drop for TempPath {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Why output was not taken.
#[derive(Debug)]
pub enum SpoolError {
    /// More than the bound.
    TooLarge,
    /// The disk.
    Disk(io::Error),
}

impl From<io::Error> for SpoolError {
    fn from(error: io::Error) -> SpoolError {
        SpoolError::Disk(error)
    }
}

impl Spool {
    /// Takes up to so many bytes.
    pub fn new(bytes_max: u64) -> Spool {
        Spool { bytes_max, size: 0, memory: Vec::new(), file: None }
    }

    /// Takes a piece.
    ///
    /// # Errors
    /// If that is more than the bound, or the disk does not take it.
    pub async fn write(&mut self, piece: &[u8]) -> Result<(), SpoolError> {
        self.size += piece.len() as u64;
        if self.size > self.bytes_max {
            return Err(SpoolError::TooLarge);
        }
        if self.file.is_none() {
            if self.memory.len() + piece.len() <= SPOOL_MEMORY_BYTES_MAX {
                self.memory.extend_from_slice(piece);
                return Ok(());
            }
            self.file = Some(create().await?);
            let memory = std::mem::take(&mut self.memory);
            self.append(&memory).await?;
        }
        self.append(piece).await
    }

    async fn append(&mut self, piece: &[u8]) -> Result<(), SpoolError> {
        if let Some((file, _)) = &mut self.file {
            file.write_all(piece).await?;
        }
        Ok(())
    }

    /// The output: JSON if it is that, otherwise of `other_type`, or `application/octet-stream`.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub async fn finish(mut self, other_type: Option<&str>) -> io::Result<Output> {
        let content_type = |json: bool| match (json, other_type) {
            (true, _) => "application/json".to_owned(),
            (false, Some(other)) => other.to_owned(),
            (false, None) => "application/octet-stream".to_owned(),
        };
        if let Some((mut file, path)) = self.file.take() {
            file.flush().await?;
            drop(file);
            let name = path.0.clone().unwrap_or_default();
            let json = tokio::task::spawn_blocking(move || is_json(&name)).await.unwrap_or(false);
            // From here on it belongs to the output, and the worker removes it.
            let path = path.keep();
            return Ok(Output::File {
                content_type: content_type(json),
                file_name: None,
                path,
                remove: true,
            });
        }
        if self.memory.is_empty() {
            return Ok(Output::Nothing);
        }
        let json = serde_json::from_slice::<Box<RawValue>>(&self.memory);
        Ok(match json {
            Ok(value) if self.memory.len() <= INLINE_BYTES_MAX => Output::Json(value),
            json => Output::Bytes {
                content_type: content_type(json.is_ok()),
                file_name: None,
                bytes: self.memory.into(),
            },
        })
    }
}

async fn create() -> io::Result<(File, TempPath)> {
    let path = std::env::temp_dir().join(format!("forgerun-output-{:032x}", SystemClock.random()));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).await?;
    Ok((file, TempPath(Some(path))))
}

/// Whether a file is one JSON value, without keeping it in memory.
fn is_json(path: &std::path::Path) -> bool {
    let Ok(file) = std::fs::File::open(path) else { return false };
    let mut reader = serde_json::Deserializer::from_reader(io::BufReader::new(file));
    serde::Deserialize::deserialize(&mut reader).map(|IgnoredAny| ()).is_ok() && reader.end().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn spooled(text: &[u8], other: Option<&str>) -> Output {
        let mut spool = Spool::new(10_000_000);
        for piece in text.chunks(7000) {
            spool.write(piece).await.unwrap();
        }
        spool.finish(other).await.unwrap()
    }

    #[tokio::test]
    async fn small_output_is_json_if_it_parses_and_bytes_otherwise() {
        assert!(matches!(spooled(b"", None).await, Output::Nothing));
        assert!(
            matches!(spooled(b"{\"a\": 1}\n", None).await, Output::Json(value) if value.get() == "{\"a\": 1}")
        );
        for (text, other, expected) in [
            (&b"hello\n"[..], None, "application/octet-stream"),
            (b"hello\n", Some("text/plain"), "text/plain"),
            (b"\xff\xd8", Some("image/jpeg"), "image/jpeg"),
            (b"{\"a\":", None, "application/octet-stream"),
        ] {
            let Output::Bytes { content_type, bytes, .. } = spooled(text, other).await else { panic!() };
            assert_eq!((content_type.as_str(), &bytes[..]), (expected, text));
        }
    }

    #[tokio::test]
    async fn large_output_is_a_file_of_its_type() {
        let list = serde_json::to_vec(&vec![7; 400_000]).unwrap();
        for (text, expected) in [(list.clone(), "application/json"), (vec![b'x'; 600_000], "text/csv")] {
            let Output::File { content_type, path, remove, .. } = spooled(&text, Some("text/csv")).await
            else {
                panic!()
            };
            assert_eq!((content_type.as_str(), remove), (expected, true));
            assert_eq!(std::fs::read(&path).unwrap(), text);
            std::fs::remove_file(path).unwrap();
        }
    }

    #[tokio::test]
    async fn more_than_the_bound_is_refused_and_leaves_nothing() {
        let mut spool = Spool::new(300_000);
        spool.write(&vec![b'x'; 290_000]).await.unwrap();
        let path = spool.file.as_ref().unwrap().1.0.clone().unwrap();
        assert!(matches!(spool.write(&vec![b'x'; 20_000]).await, Err(SpoolError::TooLarge)));
        drop(spool);
        assert!(!path.exists());
    }
}
