//! `docs`: the address of the documentation, or all of it as files.

use super::{ask, dev};
use crate::process::{forgerun, run};

#[test]
fn the_address_of_the_documentation_is_that_of_the_server() {
    let server = dev();
    assert_eq!(ask(&server, &["docs"]).expect(0), format!("http://{}/docs", server.address));
}

#[test]
fn without_a_server_docs_ends_with_6_and_names_what_to_do() {
    let ended = run(forgerun(&["docs"]).env("FORGERUN_URL", "http://127.0.0.1:1"));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(6), ""));
    assert!(ended.stderr.contains("forgerun docs --build DIR"), "{}", ended.stderr);
    assert_eq!(run(&mut forgerun(&["docs", "--url", "nowhere"])).code, Some(2));
}

#[test]
fn all_pages_are_written_as_files() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    let ended = run(forgerun(&["docs", "--build"]).arg(&site));
    assert!(ended.expect(0).contains(" files in "), "{}", ended.stdout);
    for (name, words) in [
        ("index.html", "href=\"reference/cli.html\""),
        ("reference/cli.html", "<h1 id=\"command-line\">"),
        ("api/jobs.html", "submitJob"),
        ("search.html", "src=\"search-index.js\""),
        ("search-index.js", "Command line"),
        ("site.css", ":root"),
        ("site.js", "clipboard"),
    ] {
        let text = std::fs::read_to_string(site.join(name)).unwrap();
        assert!(text.contains(words), "{words} in {name}");
    }
    let taken = folder.path().join("file");
    std::fs::write(&taken, "").unwrap();
    let refused = run(forgerun(&["docs", "--build"]).arg(&taken));
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("could not write to"), "{}", refused.stderr);
}
