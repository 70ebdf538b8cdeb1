//! The measured server, compiled into this program: `forgerun serve` with the flags that benchmarks use.

use std::env;
use std::io::{self, Write as _};

use forgerun_server::config::{CommandMode, Config, Flag, Sources};
use forgerun_server::{ServerAddresses, telemetry};

use crate::cli::ServeFlags;

/// Serves until it is killed.
pub(crate) async fn run(flags: &ServeFlags) -> io::Result<()> {
    let mode = CommandMode::Serve;
    let flags = given(flags).collect();
    let sources = Sources { flags, environment: env::vars_os().collect(), file: None, mode };
    let config = Config::load(&sources).map_err(io::Error::other)?;
    telemetry::start_logs(&config.log, mode);
    forgerun_server::serve(config, Box::new(announce)).await.map_err(io::Error::other)
}

fn given(flags: &ServeFlags) -> impl Iterator<Item = Flag> {
    let flags = [
        ("server.listen", "--listen", &flags.listen),
        ("server.data", "--data", &flags.data),
        ("server.database_url", "--database-url", &flags.database_url),
    ];
    flags.into_iter().filter_map(|(key, name, value)| Some(Flag { key, name, value: value.clone()? }))
}

/// The lines that `forgerun serve` prints, both at once.
fn announce(addresses: ServerAddresses) {
    let ServerAddresses { http, grpc, .. } = addresses;
    let grpc = grpc.map(|grpc| format!("forgerun listening for gRPC on {grpc}\n")).unwrap_or_default();
    let lines = format!("forgerun listening on http://{http}\n{grpc}");
    // Without a reader nothing waits for this server.
    let _ = io::stdout().write_all(lines.as_bytes());
}
