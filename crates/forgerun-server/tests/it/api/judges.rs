//! Programs of others that judge what we serve: `xmllint` for XML, `tidy` for HTML, validators from
//! npm for the documents. `make tools` installs them; without them the tests fail, they do not
//! skip.

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

/// The same for pages that have a script: they are judged for accessibility in a browser.
#[track_caller]
pub(crate) fn assert_valid_html_with_script(pages: &[PathBuf]) {
    let mut command = Command::new("tidy");
    command.args(["-quiet", "-errors", "-utf8", "--show-filename", "yes"]).args(pages);
    let output = run(&mut command, "tidy");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Exit code 0 means not even a warning.
pub(crate) fn tidy(pages: &[PathBuf]) -> Output {
    let mut command = Command::new("tidy");
    command.args(["-quiet", "-errors", "-utf8", "--show-filename", "yes", "--accessibility-check", "1"]);
    run(command.args(pages), "tidy")
}

/// Where `scripts/install-test-tools` puts what comes from npm.
fn tools() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools")
}

/// Runs a module of JavaScript on a file. It can import what is installed; whatever it prints is
/// what is wrong.
pub(crate) fn node(script: &str, document: &Path) -> String {
    let tools = tools();
    let installed = tools.join("node_modules").is_dir();
    assert!(installed, "{} is missing: install it with make tools", tools.join("node_modules").display());
    let mut command = Command::new("node");
    command.current_dir(tools).args(["--input-type=module", "--eval", script]).arg(document);
    let output = run(&mut command, "node");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", said(&output.stderr));
    said(&output.stdout)
}

/// What the OpenAPI schema of others says of a document.
pub(crate) const OPENAPI: &str = r#"
import { readFileSync } from "node:fs";
import { Validator } from "@seriousme/openapi-schema-validator";
const document = JSON.parse(readFileSync(process.argv[1], "utf8"));
const { valid, errors } = await new Validator().validate(document);
if (!valid) console.log(JSON.stringify(errors, null, 1));
"#;

/// What the parser of the AsyncAPI project says of a document, suggestions left out.
pub(crate) const ASYNCAPI: &str = r#"
import { readFileSync } from "node:fs";
import { Parser } from "@asyncapi/parser";
const { document, diagnostics } = await new Parser().parse(readFileSync(process.argv[1], "utf8"));
const WARNING = 1;
for (const { severity, message, path } of diagnostics)
  if (severity <= WARNING) console.log(`${path.join(".")}: ${message}`);
if (!document) console.log("the document was not understood");
"#;

/// A YAML document as JSON, read by somebody else.
pub(crate) const YAML: &str = r#"
import { readFileSync } from "node:fs";
import { load } from "js-yaml";
console.log(JSON.stringify(load(readFileSync(process.argv[1], "utf8"))));
"#;
