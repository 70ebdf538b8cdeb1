//! Lists the pages that `docs/SUMMARY.md` names, so that the binary contains them. Outside of the
//! repository there are none.

use std::path::Path;
use std::{env, fs};

fn main() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    println!("cargo::rerun-if-changed={}", docs.display());
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap_or_default();
    let targets = summary.lines().filter_map(|line| line.split_once("](")?.1.split_once(')'));
    let mut files = String::new();
    for (target, _) in targets {
        let path = docs.join(target);
        if path.is_file() {
            files += &format!("({target:?}, include_str!({:?})),\n", path.display().to_string());
        }
    }
    let source =
        format!("const SUMMARY: &str = {summary:?};\nconst FILES: &[(&str, &str)] = &[\n{files}];\n");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("pages.rs"), source).expect("OUT_DIR can be written");
}
