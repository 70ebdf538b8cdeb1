//! `forgerun init`: a small project with a worker, a submission, a test and a Dockerfile, to begin
//! with.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::Exit;
use crate::terminal::{print, say};

#[derive(Debug, Args)]
#[expect(missing_docs, reason = "it would be a text of --help")]
pub struct InitFlags {
    /// The language of the project
    #[arg(value_name = "LANGUAGE")]
    language: Language,
    /// Where to; made if it is not there. The last part of its name becomes the name of the project
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Language {
    Python,
    #[value(alias = "ts")]
    Typescript,
    Go,
}

/// A file of a project: where it goes, and what it says. `{{name}}` and `{{version}}` stand for
/// those of the project and of the SDK.
type Template = (&'static str, &'static str);

macro_rules! templates {
    ($folder:literal: $($path:literal from $file:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../templates/", $folder, "/", $file)))),+]
    };
}

// Some have another name here: a real `.gitignore` would hide files of this repository, and a real
// `go.mod` would make a module of it.
const PYTHON: &[Template] = templates!["python":
    "worker.py" from "worker.py",
    "submit.py" from "submit.py",
    "test_worker.py" from "test_worker.py",
    "pyproject.toml" from "pyproject.toml",
    "Dockerfile" from "Dockerfile",
    "README.md" from "README.md",
    ".gitignore" from "gitignore",
];

const TYPESCRIPT: &[Template] = templates!["typescript":
    "src/greeting.ts" from "src/greeting.ts",
    "src/worker.ts" from "src/worker.ts",
    "src/submit.ts" from "src/submit.ts",
    "src/worker.test.ts" from "src/worker.test.ts",
    "package.json" from "package.json",
    "tsconfig.json" from "tsconfig.json",
    "Dockerfile" from "Dockerfile",
    "README.md" from "README.md",
    ".gitignore" from "gitignore",
];

const GO: &[Template] = templates!["go":
    "greeting.go" from "greeting.go",
    "cmd/worker/main.go" from "cmd/worker/main.go",
    "cmd/submit/main.go" from "cmd/submit/main.go",
    "greeting_test.go" from "greeting_test.go",
    "go.mod" from "go.mod.txt",
    "Dockerfile" from "Dockerfile",
    "README.md" from "README.md",
    ".gitignore" from "gitignore",
];

impl Language {
    fn templates(self) -> &'static [Template] {
        match self {
            Language::Python => PYTHON,
            Language::Typescript => TYPESCRIPT,
            Language::Go => GO,
        }
    }
}

/// Writes the project and prints its files. Files that are there already are named, and then
/// nothing is written.
pub fn init(flags: &InitFlags) -> Exit {
    let folder = &flags.folder;
    let templates = flags.language.templates();
    let taken: Vec<&str> =
        templates.iter().map(|(path, _)| *path).filter(|path| folder.join(path).exists()).collect();
    if !taken.is_empty() {
        let (files, folder) = (taken.join(", "), folder.display());
        return say(&format!("{folder} has {files} already; name another folder"), Exit::Usage);
    }
    let name = project_name(folder);
    let mut said = String::new();
    for (path, text) in templates {
        let text = text.replace("{{name}}", &name).replace("{{version}}", env!("CARGO_PKG_VERSION"));
        let path = folder.join(path);
        if let Err(error) = write_new(&path, &text) {
            return say(&format!("could not write {}: {error}", path.display()), Exit::Failure);
        }
        said += &format!("{}\n", path.display());
    }
    print(&format!("{said}\n{} says how to run it.\n", folder.join("README.md").display()), Exit::Done)
}

/// Writes a file that is not there yet.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

/// A name that every language takes for a package: small letters, digits and single hyphens, a
/// letter first. `jobs` if the folder's name has none of them.
fn project_name(folder: &Path) -> String {
    let folder = std::path::absolute(folder).unwrap_or_default();
    let text = folder.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("-");
    let name = name.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    if name.is_empty() { "jobs".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_project_is_one_that_every_language_takes() {
        for (folder, expected) in [
            ("a/billing", "billing"),
            ("My Jobs (2)", "my-jobs-2"),
            ("7up", "up"),
            ("übung", "bung"),
            ("42", "jobs"),
            ("a/../b/", "b"),
        ] {
            assert_eq!(project_name(Path::new(folder)), expected, "{folder}");
        }
    }

    #[test]
    fn a_project_has_all_files_with_nothing_left_to_fill_in() {
        for language in Language::value_variants() {
            let folder = tempfile::tempdir().unwrap();
            let project = folder.path().join("new/billing");
            let flags = InitFlags { language: *language, folder: project.clone() };
            assert_eq!(init(&flags), Exit::Done);
            for (path, _) in language.templates() {
                let text = fs::read_to_string(project.join(path)).unwrap();
                assert!(!text.contains("{{") && !text.is_empty(), "{language:?} {path}");
            }
            assert!(fs::read_to_string(project.join("README.md")).unwrap().starts_with("# billing\n"));
            let dockerfile = fs::read_to_string(project.join("Dockerfile")).unwrap();
            let copies = dockerfile.lines().filter_map(|line| line.strip_prefix("COPY "));
            for copy in copies.filter(|copy| !copy.starts_with("--from")) {
                let (sources, _) = copy.rsplit_once(' ').unwrap();
                let missing = sources.split(' ').find(|source| !project.join(source).exists());
                assert_eq!(missing, None, "{language:?}: COPY {copy}");
            }
        }
    }

    #[test]
    fn files_that_are_there_are_left_alone_and_nothing_is_written_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("submit.py"), "mine").unwrap();
        let flags = InitFlags { language: Language::Python, folder: folder.path().to_owned() };
        assert_eq!(init(&flags), Exit::Usage);
        assert_eq!(fs::read_to_string(folder.path().join("submit.py")).unwrap(), "mine");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
