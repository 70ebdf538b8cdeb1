//! Databases made for one benchmark, beside the one that its URL names, and dropped after it.

use std::io;

use tokio_postgres::{Client, NoTls};

/// An empty database of its own.
pub(crate) struct ScratchDatabase {
    /// Where it is.
    pub(crate) url: String,
    name: String,
    beside: String,
}

impl ScratchDatabase {
    /// Creates an empty database on the server that `beside` names, in place of one with this name.
    pub(crate) async fn create(beside: &str, name: &str) -> io::Result<ScratchDatabase> {
        let client = connect(beside).await?;
        for sql in [format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"), format!("CREATE DATABASE {name}")]
        {
            client.batch_execute(&sql).await.map_err(io::Error::other)?;
        }
        Ok(ScratchDatabase { url: renamed(beside, name), name: name.into(), beside: beside.into() })
    }

    /// Drops it, and closes its connections.
    pub(crate) async fn remove(self) -> io::Result<()> {
        let sql = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        connect(&self.beside).await?.batch_execute(&sql).await.map_err(io::Error::other)
    }
}

/// A connection without TLS. The task that moves its bytes ends with the client.
pub(crate) async fn connect(url: &str) -> io::Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(io::Error::other)?;
    // Requests on the connection get its errors.
    tokio::spawn(connection);
    Ok(client)
}

/// The same server, another database.
fn renamed(url: &str, name: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // Of a key that comes twice the last counts.
        return format!("{url} dbname={name}");
    };
    let (place, parameters) = rest.split_once('?').map_or((rest, None), |(place, more)| (place, Some(more)));
    let servers = place.split('/').next().unwrap_or_default();
    let parameters = parameters.map(|parameters| format!("?{parameters}")).unwrap_or_default();
    format!("{scheme}://{servers}/{name}{parameters}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_database_is_on_the_same_server() {
        for (url, expected) in [
            ("postgres://me:secret@host:5433/jobs", "postgres://me:secret@host:5433/other"),
            ("postgres://a:1,b:2/jobs?sslmode=disable", "postgres://a:1,b:2/other?sslmode=disable"),
            ("postgres://host", "postgres://host/other"),
            ("host=a dbname=jobs", "host=a dbname=jobs dbname=other"),
        ] {
            assert_eq!(renamed(url, "other"), expected);
        }
    }
}
