//! The documentation in a real browser: search, copying, light and dark, accessibility.

use std::path::Path;
use std::process::Command;

use crate::process::{Server, forgerun, run};

/// The script prints a line for each step; one that begins with `FAILED` is what is wrong.
#[test]
fn the_documentation_works_in_a_browser() {
    let server = Server::start(&mut forgerun(&["dev", "--listen", "127.0.0.1:0"]));
    let site = tempfile::tempdir().unwrap();
    assert_eq!(run(forgerun(&["docs", "--build"]).arg(site.path())).code, Some(0));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let pictures = target.join("screenshots");
    std::fs::create_dir_all(&pictures).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/documentation/browser.mjs");
    let output = Command::new("node")
        .arg(script)
        .env("TOOLS", target.join("tools/node_modules"))
        .env("SERVER", format!("http://{}", server.address))
        .env("SITE", site.path())
        .env("PICTURES", &pictures)
        .output()
        .unwrap_or_else(|error| panic!("node does not run ({error}): install it with make tools"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (steps, log) = (text(&output.stdout), text(&output.stderr));
    println!("{steps}");
    assert!(output.status.success(), "{steps}\n{log}");
    assert!(steps.lines().filter(|line| line.starts_with("ok")).count() >= 8, "{steps}");
}
