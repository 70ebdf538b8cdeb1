//! Finds the program, once, before any job is claimed.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The path of a program: unchanged with a slash, otherwise the first in `PATH`.
pub(super) fn find(name: &str) -> Result<PathBuf, String> {
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let found = match name.contains('/') {
        true => Some(PathBuf::from(name)).filter(|path| is_program(path)),
        false => env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_program(path)),
    };
    found.ok_or_else(|| {
        format!("could not find the program {name:?}: no file of that name that may be executed")
    })
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_a_file_that_may_be_executed() {
        assert!(find("/bin/sh").is_ok());
        assert!(find("sh").is_ok());
        for name in ["", "/", "/etc/passwd", "no-such-program-anywhere", "./no-such-program"] {
            assert!(find(name).unwrap_err().contains(name), "{name}");
        }
    }
}
