//! Programs of others that judge what we serve: `xmllint` for XML, `tidy` for HTML. `make tools` installs them; without
//! them the tests fail, they do not skip.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of its own for the files of a test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes each text into a file of its own; the names tell which is which.
pub(crate) fn write(folder: &Path, texts: &[(String, String)]) -> Vec<PathBuf> {
    let write = |(name, text): &(String, String)| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    texts.iter().map(write).collect()
}

pub(crate) fn run(command: &mut Command, program: &str) -> Output {
    command
        .output()
        .unwrap_or_else(|error| panic!("{program} does not run ({error}): install it with make tools"))
}

/// Fails unless every document is valid by the RELAX NG schema.
#[track_caller]
pub(crate) fn assert_valid_xml(schema: &Path, documents: &[PathBuf]) {
    let mut command = Command::new("xmllint");
    command.args(["--noout", "--nonet", "--relaxng"]).arg(schema).args(documents);
    let output = run(&mut command, "xmllint");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Fails unless every page is HTML without errors and without warnings.
#[track_caller]
pub(crate) fn assert_valid_html(pages: &[PathBuf]) {
    let output = tidy(pages);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Exit code 0 means not even a warning.
pub(crate) fn tidy(pages: &[PathBuf]) -> Output {
    let mut command = Command::new("tidy");
    command.args(["-quiet", "-errors", "-utf8", "--show-filename", "yes", "--accessibility-check", "1"]);
    run(command.args(pages), "tidy")
}
