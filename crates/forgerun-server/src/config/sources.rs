//! Where configuration comes from, gathered before anything is judged. Plain data, so that a test can stand in for
//! the process.

use std::ffi::OsString;
use std::fs::File as Handle;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::complaint::{Complaint, Invalid};
use crate::limits::CONFIG_FILE_BYTES_MAX;

/// All the places that may set a key. The default has none but the manual. None of this can be printed with `{:?}`:
/// it holds secrets that nobody has recognised yet.
#[derive(Clone, Default)]
pub struct Sources {
    /// What the command line says.
    pub flags: Vec<Flag>,
    /// Variables of the environment; those that do not begin with `FORGERUN_` are ignored.
    pub environment: Vec<(OsString, OsString)>,
    /// The configuration file, if there is one.
    pub file: Option<File>,
    /// Which command the configuration is for.
    pub mode: CommandMode,
}

/// A flag that was given.
#[derive(Clone)]
pub struct Flag {
    /// The key that it sets.
    pub key: &'static str,
    /// Its name, with dashes.
    pub name: &'static str,
    /// What it was given.
    pub value: String,
}

/// A configuration file, read.
#[derive(Clone)]
pub struct File {
    /// As the user named it.
    pub path: PathBuf,
    /// TOML, as yet unchecked.
    pub text: String,
}

/// Which command the configuration is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandMode {
    /// Everything as configured.
    #[default]
    Serve,
    /// `forgerun dev`: open, forgetful, readable, and on loopback only, whatever else says otherwise.
    Dev,
}

impl File {
    /// Reads the file; what it says is judged later.
    pub fn read(path: &Path) -> Result<File, Invalid> {
        let bad = |reason: String| Invalid(vec![Complaint::BadFile { path: path.to_owned(), reason }]);
        let mut text = String::new();
        let handle = Handle::open(path).map_err(|error| bad(error.to_string()))?;
        // One byte more than allowed, so that a file that is too long shows.
        let read = handle.take(CONFIG_FILE_BYTES_MAX + 1).read_to_string(&mut text);
        let n_bytes = read.map_err(|error| bad(error.to_string()))?;
        if n_bytes as u64 > CONFIG_FILE_BYTES_MAX {
            return Err(bad(format!("it is longer than {CONFIG_FILE_BYTES_MAX} bytes")));
        }
        Ok(File { path: path.to_owned(), text })
    }
}
