//! What a job left, in pieces. A download that breaks goes on where it ended, with the same content or not at all. A file
//! appears whole or not at all, and a download that was broken off for good is continued by the next one.

mod target;

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_RANGE, RANGE};
use http::{HeaderName, Method, StatusCode};
use sha2::{Digest as _, Sha256};
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use url::Url;

use crate::client::{Call, Client};
use crate::clock::fraction;
use crate::error::{Error, Unreachable};
use crate::limits::RESUMES_MAX;
use crate::retry::RetryPolicy;
use crate::transport::Answer;
use target::{FileTarget, Target};

const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// A result on its way. Read it with [`Download::chunk`], [`Download::bytes`] or [`Download::save`].
pub struct Download {
    client: Client,
    url: Url,
    answer: Option<Answer>,
    head: Head,
    /// How many bytes were handed out.
    at: u64,
    /// Breaks since something last came.
    breaks: u32,
}

/// What is known of a result before its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Its media type.
    pub content_type: String,
    /// Its name, where the server gives it one.
    pub file_name: Option<String>,
    /// Bytes of the whole, where the server says so.
    pub size: Option<u64>,
    /// Names this very content; strong, or absent.
    etag: Option<String>,
    digest: Option<Vec<u8>>,
}

impl std::fmt::Debug for Download {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Download").field("head", &self.head).field("at", &self.at).finish_non_exhaustive()
    }
}

impl Download {
    pub(crate) async fn open(client: &Client, url: Url) -> Result<Download, Error> {
        let mut download =
            Download { client: client.clone(), url, answer: None, head: Head::default(), at: 0, breaks: 0 };
        let answer = download.request(0).await?;
        download.head = Head::of(&answer);
        download.answer = Some(answer);
        Ok(download)
    }

    /// What is known of it before its bytes.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The next piece; `None` at the end. Breaks in between are mended, as far as the server can give parts.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the server stays away; [`Error::Protocol`] if the content changed in between.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let Some(answer) = &mut self.answer else {
                self.resume().await?;
                continue;
            };
            let reason = match answer.chunk().await {
                Ok(Some(bytes)) => {
                    self.at += bytes.len() as u64;
                    self.breaks = 0;
                    return Ok(Some(bytes));
                }
                Ok(None) if self.head.size.is_none_or(|size| self.at >= size) => return Ok(None),
                Ok(None) => "the answer is shorter than announced".to_owned(),
                Err(reason) => reason,
            };
            self.answer = None;
            self.breaks += 1;
            if self.breaks > RESUMES_MAX || self.head.etag.is_none() {
                return Err(Error::Unreachable(Unreachable::new(self.url.authority(), reason, true)));
            }
            let wait = RetryPolicy::default().first * (1 << self.breaks);
            let jitter = wait.mul_f64(fraction(self.client.clock().random()));
            self.client.clock().sleep(wait + jitter).await;
        }
    }

    /// The whole in memory, if it has no more than `bytes_max`.
    ///
    /// # Errors
    /// [`Error::Protocol`] if it is larger; as [`Download::chunk`].
    pub async fn bytes(mut self, bytes_max: usize) -> Result<Bytes, Error> {
        let mut whole = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if whole.len() + chunk.len() > bytes_max {
                let text = format!("the result has more than {bytes_max} bytes; save it to a file");
                return Err(Error::Protocol(text));
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.into())
    }

    /// Saves it as `path`, which appears once all is there and checked; bytes written. `progress` is told how many there are
    /// after each piece. What an earlier, broken download of the same content left beside `path` is gone on with.
    ///
    /// Links are followed, and a file that is replaced keeps its mode. What is there and is no file, such as a pipe or a device, is
    /// written to as the bytes come.
    ///
    /// # Errors
    /// [`Error::File`] if the disk does not take it; as [`Download::chunk`].
    pub async fn save(self, path: &Path, progress: impl FnMut(u64)) -> Result<u64, Error> {
        match Target::find(path).map_err(trouble(path))? {
            Target::File(target) => self.save_file(path, &target, progress).await,
            Target::Stream(stream) => self.write_to(&stream, progress).await,
        }
    }

    async fn save_file(
        mut self,
        path: &Path,
        target: &FileTarget,
        progress: impl FnMut(u64),
    ) -> Result<u64, Error> {
        let random = self.client.clock().random();
        let (file, part) = target.open_part(&self.content(), random).map_err(trouble(path))?;
        let mut file = File::from_std(file);
        let mut digest = self.read_part(&mut file).await.map_err(trouble(path))?;
        if self.at > 0 {
            self.answer = None;
        }
        let outcome = self.copy(&mut file, &mut digest, path, progress).await;
        // What came before a break is worth keeping too.
        let synced = file.sync_all().await.map_err(trouble(path));
        let outcome = outcome.and(synced).and_then(|()| self.check(&digest.finalize()));
        if let Err(error) = outcome {
            // Only what can be gone on with is worth keeping.
            let keep = matches!(error, Error::Unreachable(_)) && self.head.etag.is_some();
            if !keep || !part.is_found_again {
                part.remove();
            }
            return Err(error);
        }
        // It stays locked until it has its name.
        target.appear(&part, &file.into_std().await).map_err(trouble(path))?;
        Ok(self.at)
    }

    /// Writes to what is there already. What turns out to be wrong at the end was written all the same.
    async fn write_to(mut self, path: &Path, progress: impl FnMut(u64)) -> Result<u64, Error> {
        let mut file = OpenOptions::new().write(true).open(path).await.map_err(trouble(path))?;
        let mut digest = Sha256::new();
        self.copy(&mut file, &mut digest, path, progress).await?;
        self.check(&digest.finalize())?;
        Ok(self.at)
    }

    /// Hands on what is still to come, and no less is written when it returns.
    async fn copy(
        &mut self,
        file: &mut File,
        digest: &mut Sha256,
        path: &Path,
        mut progress: impl FnMut(u64),
    ) -> Result<(), Error> {
        let mut copied = Ok(());
        while self.answer.is_some() || self.head.size.is_none_or(|size| self.at < size) {
            let chunk = match self.chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(error) => {
                    copied = Err(error);
                    break;
                }
            };
            file.write_all(&chunk).await.map_err(trouble(path))?;
            digest.update(&chunk);
            progress(self.at);
        }
        copied.and(file.flush().await.map_err(trouble(path)))
    }

    fn check(&self, digest: &[u8]) -> Result<(), Error> {
        match &self.head.digest {
            Some(expected) if expected != digest => {
                Err(Error::Protocol("the result does not have the digest that the server names".to_owned()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Names this content, and no other.
    fn content(&self) -> String {
        match &self.head.etag {
            Some(etag) => Sha256::digest(etag)[..8].iter().map(|byte| format!("{byte:02x}")).collect(),
            None => format!("{:016x}", self.client.clock().random() as u64),
        }
    }

    /// Reads what is there already, for its digest and its length.
    async fn read_part(&mut self, file: &mut File) -> std::io::Result<Sha256> {
        let mut digest = Sha256::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match file.read(&mut buffer).await? {
                0 => break,
                n => {
                    digest.update(&buffer[..n]);
                    self.at += n as u64;
                }
            }
        }
        if self.head.size.is_some_and(|size| self.at > size) {
            file.set_len(0).await?;
            file.rewind().await?;
            self.at = 0;
            return Ok(Sha256::new());
        }
        Ok(digest)
    }

    /// Asks for the rest.
    async fn resume(&mut self) -> Result<(), Error> {
        let answer = self.request(self.at).await?;
        let range = answer.header(CONTENT_RANGE).unwrap_or_default();
        let starts_here = range.starts_with(&format!("bytes {}-", self.at));
        let same = self.at == 0 || (answer.status == StatusCode::PARTIAL_CONTENT && starts_here);
        if !same {
            return Err(Error::Protocol("the result is another one than before; begin again".to_owned()));
        }
        self.answer = Some(answer);
        Ok(())
    }

    async fn request(&self, from: u64) -> Result<Answer, Error> {
        let mut call = Call::new(Method::GET, self.url.clone()).header(ACCEPT, "*/*")?;
        if let Some(etag) = self.head.etag.as_ref().filter(|_| from > 0) {
            call = call.header(RANGE, &format!("bytes={from}-"))?.header(IF_RANGE, etag)?;
        }
        let answer = self.client.send(&call).await?;
        match answer.status {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(answer),
            // There is no result, only an answer: some servers lead elsewhere, which we do not follow with the key in hand.
            other => Err(Error::Protocol(format!("a result was expected, not {other}"))),
        }
    }
}

fn trouble(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::File { path: path.to_owned(), reason: error.to_string() }
}

impl Head {
    fn of(answer: &Answer) -> Head {
        let etag = answer.header(ETAG).filter(|etag| etag.starts_with('"')).map(str::to_owned);
        let digest = answer.header(REPR_DIGEST).and_then(|text| {
            let start = text.find("sha-256=:")? + "sha-256=:".len();
            STANDARD.decode(text[start..].split(':').next()?).ok()
        });
        Head {
            content_type: answer.content_type().to_owned(),
            file_name: answer.header(CONTENT_DISPOSITION).and_then(file_name),
            size: answer.header(CONTENT_LENGTH).and_then(|text| text.parse().ok()),
            etag,
            digest,
        }
    }
}

/// The name in `Content-Disposition`, without any path: a server must not choose the folder.
fn file_name(disposition: &str) -> Option<String> {
    let start = disposition.find("filename=\"")? + "filename=\"".len();
    let name = disposition[start..].split('"').next()?;
    let name = name.rsplit(['/', '\\']).next()?.trim();
    let usable = !name.is_empty() && name != "." && name != ".." && !name.chars().any(char::is_control);
    usable.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn a_file_name_never_leads_elsewhere() {
        for (disposition, expected) in [
            (r#"attachment; filename="report.pdf"; filename*=UTF-8''report.pdf"#, Some("report.pdf")),
            (r#"attachment; filename="../../etc/passwd""#, Some("passwd")),
            (r#"attachment; filename="..""#, None),
            (r#"attachment; filename="C:\x\y.txt""#, Some("y.txt")),
            ("attachment", None),
        ] {
            assert_eq!(file_name(disposition).as_deref(), expected, "{disposition}");
        }
    }
}
