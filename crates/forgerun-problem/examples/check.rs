//! Judges a problem object.
//!
//! `cargo run -p forgerun-problem --example check` judges a sample; give it the path of a JSON file
//! to judge that.

use forgerun_problem::check::inspect_json;

const SAMPLE: &str = r#"{
    "type": "about:blank",
    "title": "Oh no",
    "status": 500,
    "jobId": "42",
    "jobStatus": "failed",
    "submittedAt": "2026-02-26T10:00:00+01:00",
    "retryAfter": 30
}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let document = match std::env::args().nth(1) {
        Some(path) => std::fs::read(path)?,
        None => SAMPLE.as_bytes().to_vec(),
    };
    let report = inspect_json(&document)?;
    println!(
        "level: {:?}, {}",
        report.level,
        if report.conforms() { "conforms" } else { "does not conform" }
    );
    for finding in &report.findings {
        println!("{finding}");
    }
    Ok(())
}
