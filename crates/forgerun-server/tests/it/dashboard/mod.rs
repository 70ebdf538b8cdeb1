//! The dashboard: what it answers over HTTP, and how it works in a real browser.

mod http;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Server, forgerun};

const TOKEN: &str = "the-operator-and-nobody-else";

/// Where the pictures of pages go.
fn pictures() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("screenshots");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A server with an operator, whose simulated work is quick.
fn serve(database_url: &str) -> Server {
    let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", database_url]);
    command
        .env("FORGERUN_AUTH__ADMIN_TOKEN", TOKEN)
        .env("FORGERUN_AUTH__REGISTRATION", "open")
        .env("FORGERUN_LIMITS__RATE_PER_MINUTE", "100000")
        .env("FORGERUN_WEBHOOKS__PRIVATE_TARGETS", "allow")
        .env("FORGERUN_SIM__TIME_SCALE", "0.02")
        .env("FORGERUN_SERVER__CORS_ORIGINS", "*")
        .env("FORGERUN_LOG__LEVEL", "error");
    Server::start(&mut command)
}

/// One browser goes through all pages and does all that can be done there. Its script prints a line
/// for each step; one that begins with `FAILED` is what is wrong. Pictures are made on the way.
#[test]
fn every_page_works_in_a_browser() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&format!("sqlite:{}", folder.path().join("jobs.db").display()));
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/dashboard/browser.mjs");
    let output = Command::new("node")
        .arg(script)
        .env("TOOLS", tools.join("node_modules"))
        .env("SERVER", format!("http://{}", server.address))
        .env("TOKEN", TOKEN)
        .env("PICTURES", pictures())
        .env("EXAMPLE", Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/progress.html"))
        .output()
        .unwrap_or_else(|error| panic!("node does not run ({error}): install it with make tools"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, log) = (text(&output.stdout), text(&output.stderr));
    println!("{said}");
    assert!(output.status.success(), "{said}\n{log}");
    let wrong: Vec<&str> = said.lines().filter(|line| line.starts_with("FAILED")).collect();
    assert!(wrong.is_empty(), "{said}\n{log}");
    assert!(said.lines().filter(|line| line.starts_with("ok")).count() >= 10, "{said}");
}
