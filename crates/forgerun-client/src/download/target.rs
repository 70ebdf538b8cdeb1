//! Where a download goes: a file that appears once it is whole, or something that is there and is no file (a device, a pipe), which is
//! written to as it comes.
//!
//! - A link is followed: what it points to is written, and the link stays.
//! - A file that is replaced keeps its mode, and its owner where we may give it away. Until it is whole, only its writer may read it.
//! - What grows is a hidden file beside the wanted one, locked while somebody writes it. A second download of the same content to the
//!   same file finds it locked and takes a file of its own, which nobody goes on with.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// How many links are followed, as Linux does.
const LINKS_MAX: usize = 40;

/// Names that are tried for a file of one's own. They are random, so the first one does.
const OWN_NAMES_MAX: u64 = 100;

/// What a path stands for.
pub(super) enum Target {
    /// A regular file, or nothing yet.
    File(FileTarget),
    /// Something that cannot be replaced by a file.
    Stream(PathBuf),
}

/// A file that is wanted.
pub(super) struct FileTarget {
    path: PathBuf,
    /// What is there already.
    replaced: Option<Metadata>,
}

/// The file that grows beside the wanted one.
pub(super) struct Part {
    path: PathBuf,
    /// Whether the next download of the same content looks for it.
    pub(super) is_found_again: bool,
}

impl Target {
    pub(super) fn find(path: &Path) -> io::Result<Target> {
        match fs::metadata(path) {
            Ok(there) if there.is_file() => {
                let path = fs::canonicalize(path)?;
                Ok(Target::File(FileTarget { path, replaced: Some(there) }))
            }
            Ok(there) if there.is_dir() => Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")),
            Ok(_) => Ok(Target::Stream(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Target::File(FileTarget { path: followed(path)?, replaced: None }))
            }
            Err(error) => Err(error),
        }
    }
}

/// Where a link leads that points to nothing yet; the path itself if it is no link.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(to) => path = path.parent().unwrap_or(Path::new("")).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many links, one to the next"))
}

impl FileTarget {
    /// The file to write, with what an earlier download of this content left; `content` names it. Held by nobody else.
    pub(super) fn open_part(&self, content: &str, random: u128) -> io::Result<(File, Part)> {
        let path = self.beside(content);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = self.open(options, &path)?;
        if file.try_lock().is_ok() && is_at(&file, &path) {
            return Ok((file, Part { path, is_found_again: true }));
        }
        // Another download writes it, or just renamed it.
        let mut names =
            (0..OWN_NAMES_MAX).map(|n| format!("{content}.{:016x}", (random as u64).wrapping_add(n)));
        loop {
            let path = self.beside(&names.next().ok_or(io::ErrorKind::AlreadyExists)?);
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true);
            match self.open(options, &path) {
                Ok(file) => return Ok((file, Part { path, is_found_again: false })),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn beside(&self, content: &str) -> PathBuf {
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        self.path.with_file_name(format!(".{name}.{content}.part"))
    }

    fn open(&self, options: OpenOptions, path: &Path) -> io::Result<File> {
        if self.replaced.is_some() {
            return open_private(options, path);
        }
        options.open(path)
    }

    /// The whole becomes the wanted file.
    pub(super) fn appear(&self, part: &Part, file: &File) -> io::Result<()> {
        if let Some(replaced) = &self.replaced {
            give(file, replaced);
            // After the owner, who would otherwise take bits of it along.
            file.set_permissions(replaced.permissions())?;
        }
        fs::rename(&part.path, &self.path)
    }
}

impl Part {
    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Opens a file that nobody else may read, whatever is there under its name.
#[cfg(unix)]
fn open_private(mut options: OpenOptions, path: &Path) -> io::Result<File> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let file = options.mode(0o600).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

#[cfg(not(unix))]
fn open_private(options: OpenOptions, path: &Path) -> io::Result<File> {
    options.open(path)
}

/// Gives a file to the owner of another one. Most users may not; then it is theirs.
#[cfg(unix)]
fn give(file: &File, to: &Metadata) {
    use std::os::unix::fs::{MetadataExt, fchown};
    let _ = fchown(file, Some(to.uid()), Some(to.gid()));
}

#[cfg(not(unix))]
fn give(_: &File, _: &Metadata) {}

/// Whether a path still names a file that was opened there.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let number = |found: io::Result<Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    number(file.metadata()) == number(fs::metadata(path))
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}
