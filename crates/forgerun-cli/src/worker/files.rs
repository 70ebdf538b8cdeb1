//! Files that a program and its worker exchange besides input and output. Removed with the job.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use forgerun_client::worker::Failure;
use forgerun_client::{Clock, SystemClock};
use serde_json::value::RawValue;

use super::media_type;

/// Bytes of the media type file that are read.
const MEDIA_TYPE_BYTES_MAX: usize = 256;

/// The files of one attempt.
pub(super) struct JobFiles {
    /// The results of the steps before, as `{step: result}`; `None` for a job without parents.
    pub(super) parents: Option<PathBuf>,
    /// The program may write the media type of its result here.
    pub(super) result_type: PathBuf,
}

impl JobFiles {
    pub(super) fn create(parents: &BTreeMap<String, Option<Box<RawValue>>>) -> io::Result<JobFiles> {
        let path =
            |what: &str| std::env::temp_dir().join(format!("forgerun-{what}-{:032x}", SystemClock.random()));
        let mut files = JobFiles { parents: None, result_type: path("result-type") };
        write_new(&files.result_type, b"")?;
        if !parents.is_empty() {
            let file = path("parents");
            write_new(&file, &serde_json::to_vec(parents)?)?;
            files.parents = Some(file);
        }
        Ok(files)
    }

    /// The media type written by the program.
    pub(super) fn written_type(&self) -> Result<Option<String>, Failure> {
        let text = std::fs::read_to_string(&self.result_type).unwrap_or_default();
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let is_short = text.len() <= MEDIA_TYPE_BYTES_MAX;
        let checked = media_type(text).ok().filter(|_| is_short);
        let wrong =
            || Failure::new("FORGERUN_RESULT_TYPE_FILE holds no media type, such as text/csv").never_again();
        checked.map(Some).ok_or_else(wrong)
    }
}

impl Drop for JobFiles {
    fn drop(&mut self) {
        for path in self.parents.iter().chain([&self.result_type]) {
            // The program may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Readable by this user only, and never through an existing file.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}
