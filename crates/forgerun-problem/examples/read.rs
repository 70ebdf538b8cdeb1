//! Reads a problem with several faults, as they come from real servers, and says what was made of
//! it.
//!
//! `cargo run -p forgerun-problem --example read` reads a sample; give it the path of a JSON or XML
//! file to read that.

use forgerun_problem::BaseUri;
use forgerun_problem::read::Reader;

const SAMPLE: &str = r#"{
    "type": "probs/out-of-credit",
    "status": "403",
    "detail": "Your balance is 30.",
    "jobStatus": "PROCESSING",
    "completedAt": "2026-02-26T10:00:00Z",
    "balance": 30
}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let document = match std::env::args().nth(1) {
        Some(path) => std::fs::read(path)?,
        None => SAMPLE.as_bytes().to_vec(),
    };
    let reader = Reader::new().with_base(BaseUri::new("https://store.example.com/accounts/7")?);
    let reading = if document.trim_ascii().starts_with(b"<") {
        reader.xml(&document)?
    } else {
        reader.json(&document)?
    };

    for warning in &reading.warnings {
        println!("warning: {warning}");
    }
    println!("type: {}", reading.problem.type_uri());
    println!("job state: {:?}", reading.problem.job().status());
    for (name, value) in reading.problem.extensions() {
        println!("{name}: {value}");
    }
    Ok(())
}
