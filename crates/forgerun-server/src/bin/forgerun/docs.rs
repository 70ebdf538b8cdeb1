//! `forgerun docs`: opens the documentation that the server shows, or writes it as files.

use std::io::{IsTerminal, stdout};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, io};

use clap::Args;
use forgerun_cli::Exit;
use forgerun_cli::terminal::{complain, print, say};
use forgerun_server::config::{Config, Sources};
use forgerun_server::documents::openapi;
use forgerun_site::{Site, Style, file_name};
use url::Url;

const URL_DEFAULT: &str = "http://127.0.0.1:8080";

/// How long a server may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(3);

#[derive(Debug, Args)]
pub(crate) struct DocsFlags {
    /// The server [env: FORGERUN_URL] [default: http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", conflicts_with = "build")]
    url: Option<String>,
    /// Write the pages as a static site into this folder instead
    #[arg(long, value_name = "DIR")]
    build: Option<PathBuf>,
}

/// Prints the address of the documentation; on a terminal it opens it in a browser too.
pub(crate) fn docs(flags: &DocsFlags) -> Exit {
    if let Some(folder) = &flags.build {
        return build(folder);
    }
    let server = flags.url.clone().or_else(|| env::var("FORGERUN_URL").ok());
    let server = server.unwrap_or_else(|| URL_DEFAULT.to_owned());
    let Ok(url) = Url::parse(&server) else {
        return say(&format!("--url {server:?} is no URL, expected one such as {URL_DEFAULT}"), Exit::Usage);
    };
    if let Err(error) = reach(&url) {
        let server = server.trim_end_matches('/');
        return say(
            &format!(
                "no server at {server}: {error}. Start one with `forgerun dev`, or write the pages with \
                 `forgerun docs --build DIR`."
            ),
            Exit::Unreachable,
        );
    }
    let address = format!("{}/docs", server.trim_end_matches('/'));
    if stdout().is_terminal() {
        open(&address);
    }
    print(&format!("{address}\n"), Exit::Done)
}

fn reach(url: &Url) -> io::Result<()> {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let address = (host, url.port_or_known_default().unwrap_or(80)).to_socket_addrs()?.next();
    let address = address.ok_or_else(|| io::Error::other("the name has no address"))?;
    TcpStream::connect_timeout(&address, CONNECT_MAX).map(drop)
}

/// Starts a browser. Where there is none, the printed address must do.
fn open(address: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    drop(command.spawn());
}

/// Writes every page; the HTTP reference is that of the default configuration.
fn build(folder: &Path) -> Exit {
    let config = match Config::load(&Sources::default()) {
        Ok(config) => config,
        Err(invalid) => return complain(&invalid, Exit::Usage),
    };
    let site = Site::new(&openapi::document(&config, ""), Style::Files);
    let written = site.files.iter().try_for_each(|(address, file)| {
        let path = folder.join(file_name(address));
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, &file.text)
    });
    match written {
        Ok(()) => print(&format!("{} files in {}\n", site.files.len(), folder.display()), Exit::Done),
        Err(error) => say(&format!("could not write to {}: {error}", folder.display()), Exit::Failure),
    }
}
