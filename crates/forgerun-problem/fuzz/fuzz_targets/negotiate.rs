//! No header makes negotiation panic.
#![no_main]

use forgerun_problem::negotiate::{language, representation};

libfuzzer_sys::fuzz_target!(|header: &str| {
    let _ = representation(Some(header));
    let _ = language(Some(header), "en", &["de"]);
});
