//! The configuration as a whole: every key, every layer, every refusal.

mod keys;
mod layers;
mod refusals;

use std::ffi::OsString;
use std::path::PathBuf;

use super::{Config, File, Flag, Invalid, Sources};

/// Sources with these variables in the environment.
fn environment(variables: &[(&str, &str)]) -> Sources {
    let variable = |(name, value): &(&str, &str)| (OsString::from(name), OsString::from(value));
    Sources { environment: variables.iter().map(variable).collect(), ..Sources::default() }
}

/// Sources with a file of this text.
fn file(text: &str) -> Sources {
    let file = File { path: PathBuf::from("my.toml"), text: text.to_owned() };
    Sources { file: Some(file), ..Sources::default() }
}

fn listen(address: &str) -> Flag {
    Flag { key: "server.listen", name: "--listen", value: address.to_owned() }
}

/// The message of the refusal, which there must be.
#[track_caller]
fn refusal(sources: &Sources) -> String {
    match Config::load(sources) {
        Ok(config) => panic!("accepted, as\n{}", config.to_toml()),
        Err(Invalid(complaints)) => {
            complaints.iter().map(ToString::to_string).collect::<Vec<String>>().join("\n")
        }
    }
}
