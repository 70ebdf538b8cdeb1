//! Files and folders that are for the server's own user alone, whatever its umask: they hold the payloads, results and webhook
//! secrets of everybody.
//!
//! Folders that are there already keep their mode: they may be somebody else's. The files beside a database take their mode from it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Makes a folder, and those it stands in, where there is none.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes an empty file, where there is none, and takes one that is there from others. Where that cannot be done it is left at that:
/// whoever opens the file next says what is wrong with it.
pub(super) fn make_file(path: &Path) {
    if new_file(path).is_err() {
        close(path);
    }
}

/// Makes a new file and opens it for writing.
pub(super) fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Takes a file from everybody but its owner.
#[cfg(unix)]
fn close(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let Ok(found) = std::fs::metadata(path) else { return };
    if found.is_file() && found.permissions().mode() & 0o077 != 0 {
        // Not ours to change, then: whoever set it up that way may have a reason.
        let _ = std::fs::set_permissions(path, PermissionsExt::from_mode(0o600));
    }
}

#[cfg(not(unix))]
fn close(_: &Path) {}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_for_nobody_else_and_what_was_there_is_taken_from_others() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a").join("b");
        make_folder(&folder).unwrap();
        assert_eq!((mode(&folder), mode(folder.parent().unwrap())), (0o700, 0o700));
        let made = folder.join("made");
        new_file(&made).unwrap();
        assert!(new_file(&made).is_err(), "it is new or nothing");
        let old = folder.join("old");
        fs::write(&old, "kept").unwrap();
        fs::set_permissions(&old, PermissionsExt::from_mode(0o644)).unwrap();
        make_file(&old);
        assert_eq!(
            (mode(&made), mode(&old), fs::read(&old).unwrap().as_slice()),
            (0o600, 0o600, &b"kept"[..])
        );
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
        make_file(&folder);
        make_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o755, "a folder that was there is somebody's");
    }
}
