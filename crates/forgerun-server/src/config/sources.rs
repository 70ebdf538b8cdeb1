//! The sources of the configuration, read before they are parsed. Plain data, so that tests can
//! replace the process.

use std::ffi::OsString;
use std::fs::File as Handle;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::complaint::{Complaint, Invalid};
use crate::limits::CONFIG_FILE_BYTES_MAX;

/// All sources except the manual. Not `Debug`: it contains secrets that are not identified yet.
#[derive(Clone, Default)]
pub struct Sources {
    /// Command line flags.
    pub flags: Vec<Flag>,
    /// Environment variables; those without the prefix `FORGERUN_` are ignored.
    pub environment: Vec<(OsString, OsString)>,
    pub file: Option<File>,
    /// The command that the configuration is for.
    pub mode: CommandMode,
}

#[derive(Clone)]
pub struct Flag {
    pub key: &'static str,
    pub name: &'static str,
    pub value: String,
}

#[derive(Clone)]
pub struct File {
    /// As the user named it.
    pub path: PathBuf,
    pub text: String,
}

/// The command that the configuration is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandMode {
    #[default]
    Serve,
    /// `forgerun dev`: open, in memory, readable logs, loopback only, whatever other sources set.
    Dev,
}

impl File {
    /// Reads the file; parsing comes later.
    pub fn read(path: &Path) -> Result<File, Invalid> {
        let bad = |reason: String| Invalid(vec![Complaint::BadFile { path: path.to_owned(), reason }]);
        let mut text = String::new();
        let handle = Handle::open(path).map_err(|error| bad(error.to_string()))?;
        // One byte more than allowed, to detect a file that is too long.
        let read = handle.take(CONFIG_FILE_BYTES_MAX + 1).read_to_string(&mut text);
        let n_bytes = read.map_err(|error| bad(error.to_string()))?;
        if n_bytes as u64 > CONFIG_FILE_BYTES_MAX {
            return Err(bad(format!("it is longer than {CONFIG_FILE_BYTES_MAX} bytes")));
        }
        Ok(File { path: path.to_owned(), text })
    }
}
