//! Shows what clients with different wishes get from an axum handler, without starting a server.
//!
//! `cargo run -p forgerun-problem --features axum --example respond`

use axum_core::response::IntoResponse;
use forgerun_problem::Problem;
use forgerun_problem::axum::{Preferences, ProblemResponse};
use http::{HeaderMap, HeaderValue, header};

/// A handler as it would be given to a router.
fn purchase(preferences: &Preferences) -> ProblemResponse {
    let language = preferences.language("en", &["de"]);
    let title = match language {
        "de" => "Nicht genug Guthaben",
        _ => "Not enough credit",
    };
    let problem = Problem::builder("https://example.com/probs/out-of-credit")
        .title(title)
        .status(403)
        .extension("balance", 30)
        .build()
        .expect("type, status and extension are valid");
    ProblemResponse::new(problem).wanted(preferences).in_language(language)
}

fn main() {
    let clients =
        [("application/json", "en"), ("application/problem+xml", "de-AT, en;q=0.5"), ("text/html", "fr")];
    for (accept, accept_language) in clients {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        headers.insert(header::ACCEPT_LANGUAGE, HeaderValue::from_static(accept_language));
        let response = purchase(&Preferences::of(&headers)).into_response();
        println!("Accept: {accept}, Accept-Language: {accept_language}");
        println!("  {}", response.status());
        for (name, value) in response.headers() {
            println!("  {name}: {}", value.to_str().unwrap_or("?"));
        }
    }
}
