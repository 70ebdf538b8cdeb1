//! Reading the repository: its root, its crates, its files.

use std::fs;
use std::path::{Path, PathBuf};

/// A file and its path from the root, with `/` between the parts.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    /// The folder in `crates/` that holds the file.
    pub(crate) fn crate_name(&self) -> &str {
        self.path.strip_prefix("crates/").and_then(|rest| rest.split('/').next()).unwrap_or("")
    }

    /// Whether the file is part of what a crate ships, not of its tests, examples or benchmarks.
    pub(crate) fn is_shipped(&self) -> bool {
        self.path.split('/').nth(2) == Some("src")
    }
}

pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().and_then(Path::parent).expect("the crate lies in crates/").to_owned()
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("could not read {path}: {error}"))
}

/// The names of the folders in `crates/`, sorted.
pub(crate) fn crates() -> Vec<String> {
    let mut names: Vec<String> = entries(&root().join("crates"))
        .into_iter()
        .filter(|path| path.join("Cargo.toml").is_file())
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

/// All files under `folder` with that extension, sorted by path; build output is skipped.
pub(crate) fn files(folder: &str, extension: &str) -> Vec<File> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
            if path.is_dir() && !name.starts_with('.') && !name.starts_with("target") {
                folders.push(path);
            } else if path.is_file() && path.extension().is_some_and(|found| found == extension) {
                let path = relative(&path);
                let text = read(&path);
                found.push(File { path, text });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn relative(path: &Path) -> String {
    let path = path.strip_prefix(root()).expect("we only walk below the root");
    path.to_str().expect("our paths are UTF-8").replace('\\', "/")
}
