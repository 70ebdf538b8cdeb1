//! Handles of our own on files that SQLite has open, for what it has no function for.
//!
//! A process that closes any handle of a file loses its locks on that file, those of SQLite's connections included (POSIX). So a handle stays
//! open until its file is deleted: then no other process can open it, and locks no longer matter.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// One handle per file, however many stores this process opens on it.
static OPEN: Mutex<Vec<Arc<File>>> = Mutex::new(Vec::new());

/// A handle for reading a file and for syncing it.
pub(super) fn handle(path: &Path) -> io::Result<Arc<File>> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|file| file.metadata().is_ok_and(|file| file.nlink() > 0));
    let wanted = fs::metadata(path)?;
    let known = open.iter().find(|file| file.metadata().is_ok_and(|file| is_same(&file, &wanted)));
    if let Some(file) = known {
        return Ok(file.clone());
    }
    let file = Arc::new(File::open(path)?);
    open.push(file.clone());
    Ok(file)
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_handle_for_as_long_as_it_has_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        for path in [&path, &other] {
            fs::write(path, "").unwrap();
        }
        let first = handle(&path).unwrap();
        assert!(Arc::ptr_eq(&first, &handle(&path).unwrap()));
        assert!(!Arc::ptr_eq(&first, &handle(&other).unwrap()));
        let kept = Arc::downgrade(&first);
        drop(first);
        handle(&other).unwrap();
        assert!(kept.upgrade().is_some(), "closing it would drop the locks of this process");
        fs::remove_file(&path).unwrap();
        handle(&other).unwrap();
        assert!(kept.upgrade().is_none(), "what is deleted is closed");
        assert!(handle(&path).is_err());
    }
}
