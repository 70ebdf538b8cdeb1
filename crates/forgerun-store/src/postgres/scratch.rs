//! Databases made for one benchmark, beside the one that its URL names, and dropped after it.

use tokio_postgres::Client;

use super::connect::{self, Address};
use super::fault;
use crate::Error;

/// An empty database of its own.
pub struct ScratchDatabase {
    /// Where it is.
    pub url: String,
    name: String,
    beside: String,
}

impl ScratchDatabase {
    /// Makes an empty database on the server that `beside` names; one of this name that was left behind goes.
    pub async fn create(beside: &str, name: &str) -> Result<ScratchDatabase, Error> {
        let client = open(beside).await?;
        for sql in [format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"), format!("CREATE DATABASE {name}")]
        {
            client.batch_execute(&sql).await.map_err(fault::report)?;
        }
        Ok(ScratchDatabase { url: renamed(beside, name), name: name.into(), beside: beside.into() })
    }

    /// Drops it, whoever is connected to it.
    pub async fn remove(self) -> Result<(), Error> {
        let sql = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        open(&self.beside).await?.batch_execute(&sql).await.map_err(fault::report)
    }
}

async fn open(url: &str) -> Result<Client, Error> {
    connect::open_bare(&Address::parse(url)?).await.map_err(fault::report)
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
