//! The tools that ask a server from outside, turned on our own.

mod conformance;
mod prove;
mod traffic;

use std::path::Path;

use crate::process::{Server, forgerun};

/// A server as it is run in earnest: keys, a file, quick work. It allows as many requests as come.
fn serve(data: &Path) -> Server {
    let data = data.to_str().unwrap();
    let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--data", data]);
    command.env("FORGERUN_SIM__TIME_SCALE", "0.01").env("FORGERUN_LIMITS__RATE_PER_MINUTE", "0");
    // Nobody reads the log.
    Server::start(command.env("FORGERUN_LOG__LEVEL", "error"))
}

fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}
