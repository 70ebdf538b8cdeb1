//! The ten lines of the README: submits a job, waits for it, prints what it left.
//!
//! Needs a server (`forgerun dev`); a test of the server runs it too.

use forgerun_client::{Client, Error, forge::Submit};

/// Submits, waits, fetches.
pub(crate) async fn ten_lines(url: &str, key: &str) -> Result<String, Error> {
    let client = Client::builder(url).key(key).build()?;
    let submitted = client.forge().submit(&Submit::execute().work_kind("SUCCESS_FAST")).await?;
    let job = client.forge().wait(&submitted.job_id).await?;
    let text = match job.state.as_ref() {
        "SUCCEEDED" => format!("{:?}", client.forge().result(&job.job_id).await?.bytes(1 << 20).await?),
        other => format!("{other}: {:?}", job.error),
    };
    Ok(text)
}

#[tokio::main]
#[cfg_attr(test, expect(dead_code, reason = "the test that runs the ten lines has no use for it"))]
async fn main() -> Result<(), Error> {
    let url = std::env::var("FORGERUN_URL").unwrap_or_else(|_| "http://127.0.0.1:8080".to_owned());
    let key = std::env::var("FORGERUN_API_KEY").unwrap_or_default();
    println!("{}", ten_lines(&url, &key).await?);
    Ok(())
}
