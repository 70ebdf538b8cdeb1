//! Every shell block of every page runs as it stands: top to bottom, one shell per page, with a
//! server of its own.
//!
//! A comment right before a block says what is special about it:
//!
//! - `<!-- block: not run, REASON -->`: a test cannot run it, or should not;
//! - `<!-- block: own terminal -->`: it goes on until it is stopped, so it runs beside the others;
//! - `<!-- block: fails -->`: a command of it fails, and the page says so;
//! - `<!-- file: NAME -->`: a block of any language that the reader saves under this name. Later
//!   shell blocks run it; Python finds the SDK.
//!
//! Python that is not saved must at least parse. Anything else runs, and each of its commands must succeed; for `curl` an answer of 400 or more
//! is a failure. Ports are replaced by free ones, and `cargo build` finds the binary built already.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use forgerun_store::testing::free_ports;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// No page takes this long unless something in it hangs.
const PAGE_S_MAX: u64 = 240;

/// Pages that run at once. Each starts a server of its own.
const PAGES_AT_ONCE: usize = 8;

/// A shell block of a page.
#[derive(Debug, PartialEq)]
struct Block {
    /// Where it begins, from 1.
    line: usize,
    how: Run,
    text: String,
}

/// How a block is run.
#[derive(Debug, PartialEq)]
enum Run {
    /// All of it succeeds.
    Plain,
    /// Until it is stopped, beside the others.
    OwnTerminal,
    /// Something in it fails.
    Fails,
    /// It is a file of this name.
    File(String),
    /// It is Python that is shown, and only parsed.
    Parses,
    /// Not at all, for this reason.
    Not(String),
}

impl Run {
    /// How the line before a block says that it is run.
    fn of(marker: Option<&str>) -> Run {
        let said = marker.and_then(|line| line.trim().strip_prefix("<!-- block: ")?.strip_suffix(" -->"));
        match said {
            None => Run::Plain,
            Some("own terminal") => Run::OwnTerminal,
            Some("fails") => Run::Fails,
            Some(said) => match said.strip_prefix("not run, ") {
                Some(reason) => Run::Not(reason.to_owned()),
                None => panic!("{said:?} is not known of blocks"),
            },
        }
    }
}

/// The name under which the reader saves a block, if the line before it has one.
fn file_name(marker: Option<&str>) -> Option<String> {
    let name = marker?.trim().strip_prefix("<!-- file: ")?.strip_suffix(" -->")?;
    Some(name.to_owned())
}

/// The blocks of a page that a test does something with.
fn blocks(page: &str) -> Vec<Block> {
    let lines: Vec<&str> = page.lines().collect();
    let mut blocks = Vec::new();
    let mut n = 0;
    while n < lines.len() {
        if lines[n].starts_with("```") {
            let language = lines[n].trim_start_matches('`');
            let end = (n + 1..lines.len()).find(|end| lines[*end].starts_with("```")).unwrap_or(lines.len());
            let marker = n.checked_sub(1).map(|before| lines[before]);
            let how = match file_name(marker) {
                Some(name) => Some(Run::File(name)),
                None if matches!(language, "sh" | "bash" | "shell" | "console") => Some(Run::of(marker)),
                None if language == "python" => Some(Run::Parses),
                None => None,
            };
            if let Some(how) = how {
                blocks.push(Block { line: n + 1, how, text: lines[n + 1..end].join("\n") });
            }
            n = end;
        }
        n += 1;
    }
    blocks
}

/// Begins every script: what fails is written down with the line of its block, and the shell goes
/// on, as a person's would.
const HEAD: &str = r#"
set -E -o pipefail
note() { echo "line $BLOCK: $1" >> "$WORK/failures"; }
trap 'note "$BASH_COMMAND"' ERR
ready() { for _ in $(seq 600); do [ -s "$1" ] && return; sleep 0.1; done; note "does not begin"; }
"#;

/// Ends every script: what runs beside it must not have failed meanwhile.
const TAIL: &str = r#"
trap - ERR
for started in $STARTED; do
    BLOCK=${started%%:*}
    if ! kill -0 ${started##*:} 2>/dev/null; then
        wait ${started##*:} || note "ended: $(tail -3 "$WORK/terminal-$BLOCK")"
    fi
done
"#;

/// One script of the blocks of a page.
fn script(blocks: &[Block]) -> String {
    let mut script = HEAD.to_owned();
    let starts_server = |block: &Block| {
        !matches!(block.how, Run::Not(_)) && block.text.lines().any(|line| line.starts_with("forgerun dev"))
    };
    if !blocks.iter().any(starts_server) {
        script += &terminal(0, "forgerun dev");
    }
    for Block { line, how, text } in blocks {
        match how {
            Run::Plain => script += &format!("BLOCK={line}\n{{\n{text}\n}} </dev/null\n"),
            Run::OwnTerminal => script += &terminal(*line, text),
            Run::Fails => {
                script += &format!(
                    "BLOCK={line}; touch $WORK/failures; mv $WORK/failures $WORK/before\n{{\n{text}\n}} </dev/null\n\
                     [ -s $WORK/failures ]; HAS_FAILED=$?; mv $WORK/before $WORK/failures\n\
                     [ $HAS_FAILED = 0 ] || note 'does not fail'\n"
                );
            }
            Run::File(name) => script += &input(&format!("cat > {name}"), text),
            Run::Parses => {
                script += &format!("BLOCK={line}\n");
                script += &input("python3 -c 'import ast, sys; ast.parse(sys.stdin.read())'", text);
            }
            Run::Not(_) => {}
        }
    }
    script + TAIL
}

/// A command that reads this text.
fn input(command: &str, text: &str) -> String {
    format!("{command} <<'END OF THE BLOCK'\n{text}\nEND OF THE BLOCK\n")
}

fn terminal(line: usize, text: &str) -> String {
    let wait = match text.starts_with("forgerun dev") {
        true => format!("ready $WORK/terminal-{line}\n"),
        false => String::new(),
    };
    format!(
        "BLOCK={line}\n(\n{text}\n) </dev/null >$WORK/terminal-{line} 2>&1 &\nSTARTED=\"$STARTED {line}:$!\"\n{wait}"
    )
}

/// Where a page is run: a folder that looks like the root of the project after a build.
struct PageFolder {
    folder: tempfile::TempDir,
}

impl PageFolder {
    fn new() -> PageFolder {
        let folder = tempfile::tempdir().unwrap();
        let page = PageFolder { folder };
        fs::create_dir_all(page.path("target/release")).unwrap();
        fs::create_dir_all(page.path("work")).unwrap();
        fs::create_dir_all(page.path("bin")).unwrap();
        for place in ["target/release/forgerun", "bin/forgerun"] {
            symlink(env!("CARGO_BIN_EXE_forgerun"), page.path(place)).unwrap();
        }
        symlink(Path::new(ROOT).join("examples"), page.path("examples")).unwrap();
        page.program("cargo", "[ \"$*\" = 'build --release' ]");
        page.program("curl", "PATH=${PATH#*:}; exec curl --fail-with-body --max-time 100 \"$@\"");
        page
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs the blocks of a page; what failed.
    fn run(&self, blocks: &[Block]) -> String {
        let [server, receiver, nobody] = free_ports();
        let script = script(blocks)
            .replace("localhost:8080", "127.0.0.1:8080")
            .replace("127.0.0.1:8080", &format!("127.0.0.1:{server}"))
            .replace("127.0.0.1:4000", &format!("127.0.0.1:{receiver}"))
            .replace("--port 4000", &format!("--port {receiver}"))
            .replace("127.0.0.1:3000", &format!("127.0.0.1:{nobody}"));
        fs::write(self.path("page.sh"), script).unwrap();
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("timeout");
        command.args(["--foreground", &PAGE_S_MAX.to_string(), "bash", "page.sh"]);
        command.current_dir(self.folder.path()).env("WORK", self.path("work")).env("PATH", path);
        command.env("FORGERUN_URL", format!("http://127.0.0.1:{server}"));
        command.env("FORGERUN_SERVER__LISTEN", format!("127.0.0.1:{server}"));
        command.env("FORGERUN_SIM__TIME_SCALE", "0");
        command.env("PYTHONPATH", Path::new(ROOT).join("sdk/python/src")).env("PYTHONDONTWRITEBYTECODE", "1");
        let output = fs::File::create(self.path("work/output")).unwrap();
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        // A group of its own, so that whatever a page starts ends with it.
        let mut child = command.process_group(0).spawn().unwrap();
        let status = child.wait().unwrap();
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status();
        let mut failures = fs::read_to_string(self.path("work/failures")).unwrap_or_default();
        if !status.success() {
            failures += &format!("the script ended with {status}\n");
        }
        if !failures.is_empty() {
            failures += &fs::read_to_string(self.path("work/output")).unwrap();
        }
        failures
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The pages in a folder and in those below it.
pub(crate) fn markdown(folder: &Path) -> Vec<PathBuf> {
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) =
        entries(folder).into_iter().partition(|path| path.is_dir());
    let pages = files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "md"));
    pages.chain(folders.iter().flat_map(|folder| markdown(folder))).collect()
}

/// The pages, by their path from the root.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(ROOT);
    let of_crates = entries(&root.join("crates")).into_iter().map(|folder| folder.join("README.md"));
    let paths = [root.join("README.md")].into_iter().chain(markdown(&root.join("docs"))).chain(of_crates);
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        Some((name, fs::read_to_string(path).ok()?))
    };
    paths.filter_map(read).collect()
}

#[test]
fn every_shell_block_of_every_page_works() {
    let pages: Vec<(String, Vec<Block>)> = pages()
        .into_iter()
        .map(|(name, text)| (name, blocks(&text)))
        .filter(|(_, found)| !found.is_empty())
        .collect();
    let (mut n_run, mut not_run) = (0, Vec::new());
    for (name, blocks) in &pages {
        for block in blocks {
            match &block.how {
                Run::Not(reason) => not_run.push(format!("{name}:{}: {reason}", block.line)),
                Run::Plain | Run::OwnTerminal | Run::Fails => n_run += 1,
                Run::File(_) | Run::Parses => {}
            }
        }
    }
    println!("{n_run} blocks run, {} are not:\n{}", not_run.len(), not_run.join("\n"));
    assert!(n_run > 2 * not_run.len(), "{not_run:#?}");
    let pages = Mutex::new(pages.into_iter());
    let next = || pages.lock().unwrap().next();
    let run = || {
        let mut found = String::new();
        while let Some((name, blocks)) = next() {
            let failures = PageFolder::new().run(&blocks);
            if !failures.is_empty() {
                found += &format!("{name}\n{failures}\n");
            }
        }
        found
    };
    let failures: String = thread::scope(|scope| {
        let threads: Vec<_> = (0..PAGES_AT_ONCE).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{failures}");
}

mod can_fail {
    use super::*;

    fn failures(page: &str) -> String {
        PageFolder::new().run(&blocks(page))
    }

    #[test]
    fn a_command_that_fails_is_named_with_its_line() {
        let page = "```sh\nX=1\nask() { curl -sS \"$@\"; echo; }\n```\n\n```sh\nask http://127.0.0.1:8080/health\n\
                    ask http://127.0.0.1:8080/nowhere\nfalse | cat\ntest $X = 1\n```\n";
        let found = failures(page);
        assert!(found.starts_with("line 6: curl -sS \"$@\"\nline 6: "), "{found}");
        assert_eq!(found.matches("line ").count(), 2, "{found}");
    }

    #[test]
    fn what_should_fail_and_does_not_is_named_and_what_runs_beside_too() {
        let page = "<!-- block: fails -->\n```sh\ntrue\n```\n<!-- block: fails -->\n```sh\nfalse\n```\n\
                    <!-- block: own terminal -->\n```sh\necho broken; exit 3\n```\n\
                    <!-- block: own terminal -->\n```sh\nsleep 1000\n```\n\
                    <!-- block: not run, there is no such program -->\n```sh\nno-such-program\n```\n\
                    ```sh\nwhile [ ! -s $WORK/terminal-10 ]; do sleep 0.1; done; sleep 1\n```\n";
        let found = failures(page);
        assert!(found.starts_with("line 2: does not fail\nline 10: ended: broken\n"), "{found}");
        assert_eq!(found.matches("line ").count(), 2, "{found}");
    }

    #[test]
    fn a_file_of_the_page_runs_and_python_that_does_not_parse_is_named() {
        let page = "<!-- file: a.py -->\n```python\nprint(1 - 1)\n```\n```sh\ncode=$(python3 a.py); test $code = 0\n```\n\
                    ```python\ndef (\n```\n```sh\npython3 b.py\n```\n";
        let found = failures(page);
        assert!(
            found.starts_with("line 8: python3 -c") && found.contains("line 11: python3 b.py"),
            "{found}"
        );
        assert_eq!(found.lines().filter(|line| line.starts_with("line ")).count(), 2, "{found}");
    }

    #[test]
    #[should_panic(expected = "is not known of blocks")]
    fn a_marker_that_nobody_knows_is_named() {
        blocks("<!-- block: perhaps -->\n```sh\ntrue\n```\n");
    }
}
