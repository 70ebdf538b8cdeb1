//! The published SDKs, request by request: what each of them sends, and what it must find in the
//! answer.
//!
//! The SDKs are in no registry that a test could install them from. So their requests are sent as
//! they write them, and answers are read as strictly as they read them (`reading.rs`): a member of
//! another type, or one that is missing, fails here as it would there.

mod dead_letters;
mod durable;
mod jobs;
mod reading;
mod recurring;
mod schemas;
mod server;
mod working;

use serde::de::DeserializeOwned;

use super::*;

/// Who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sdk {
    Python,
    JavaScript,
    Rust,
    Go,
}

const ALL: [Sdk; 4] = [Sdk::Python, Sdk::JavaScript, Sdk::Rust, Sdk::Go];

impl Sdk {
    /// The header fields of every request, besides those about a body.
    fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Sdk::Python => &[
                ("accept", OJS),
                ("ojs-version", "1.0"),
                ("x-request-id", "5e4c1c6e-6b1f-4d0c-9a43-6cf0f3e7a001"),
                ("user-agent", "python-httpx/0.28.1"),
            ],
            Sdk::JavaScript => {
                &[("accept", OJS), ("ojs-version", "1.0"), ("user-agent", "node"), ("accept-language", "*")]
            }
            Sdk::Rust => &[
                ("accept", OJS),
                ("ojs-version", "1.0"),
                ("x-request-id", "5e4c1c6e-6b1f-4d0c-9a43-6cf0f3e7a002"),
            ],
            Sdk::Go => {
                &[("accept", OJS), ("ojs-version", "1.0.0-rc.1"), ("user-agent", "Go-http-client/1.1")]
            }
        }
    }

    /// A request as this SDK makes it: all but one name the type of a body that is not there.
    fn call(self, world: &World, method: &str, path: &str, body: Option<Value>) -> Call {
        let mut call = world.client.call(method, path);
        for (name, value) in self.headers() {
            call = call.header(name, value);
        }
        if body.is_some() || self != Sdk::Go {
            call = call.header("content-type", OJS);
        }
        match body {
            Some(body) => call.body(body.to_string()),
            // fetch, httpx and reqwest say that a POST without a body is empty.
            None if method == "POST" => call.header("content-length", "0"),
            None => call,
        }
    }

    async fn send(self, world: &World, method: &str, path: &str, body: Option<Value>) -> Answer {
        let answer = self.call(world, method, &format!("/ojs/v1/{path}"), body).send().await;
        assert!(self.reads(&answer), "{self:?} does not read {:?}", answer.header("content-type"));
        answer
    }

    async fn get(self, world: &World, path: &str) -> Answer {
        self.send(world, "GET", path, None).await
    }

    async fn post(self, world: &World, path: &str, body: Value) -> Answer {
        self.send(world, "POST", path, Some(body)).await
    }

    async fn delete(self, world: &World, path: &str) -> Answer {
        self.send(world, "DELETE", path, None).await
    }

    /// Whether it takes the body of an answer for JSON. One of them wants to see the word.
    fn reads(self, answer: &Answer) -> bool {
        let media_type = answer.header("content-type").unwrap_or_default();
        self != Sdk::Python || answer.status >= 400 || media_type.contains("application/json")
    }

    /// How it writes the name of something in a path.
    fn in_path(self, name: &str) -> String {
        let plain = |byte: u8| match self {
            Sdk::Rust => byte.is_ascii_alphanumeric(),
            Sdk::Python | Sdk::JavaScript | Sdk::Go => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~')
            }
        };
        let written = |byte: u8| {
            if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
        };
        name.bytes().map(written).collect()
    }
}

/// Reads a value as strictly as typed SDKs do.
#[track_caller]
fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error} in {value}"))
}

/// The part of an answer that this SDK reads: a member, or the answer itself.
#[track_caller]
fn part(answer: &Value, member: &str) -> Value {
    let found = answer.get(member);
    found.unwrap_or_else(|| panic!("no {member} in {answer}")).clone()
}
