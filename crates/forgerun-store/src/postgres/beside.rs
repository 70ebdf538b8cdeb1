//! Databases of one's own on a server, for `forgerun prove`.

use tokio_postgres::Client;

use super::connect::{self, Address};
use super::{Postgres, fault};
use crate::{Error, Fault};

impl Postgres {
    /// Makes an empty database beside the one that the URL names, and returns its URL. Refuses if that one has a store already.
    /// `name` is of letters, digits and underscores.
    pub async fn make_beside(url: &str, name: &str) -> Result<String, Error> {
        if Postgres::schema(url).await?.applied > 0 {
            let text = "the database holds a store of ForgeRun; name an empty database";
            return Err(Error::new(Fault::Rejected, text));
        }
        let beside = with_database(url, name).ok_or_else(|| {
            Error::new(Fault::Rejected, "expected a URL such as postgres://user@host/database")
        })?;
        run(url, &format!("CREATE DATABASE {name}")).await?;
        Ok(beside)
    }

    /// Removes a database that [`Self::make_beside`] made.
    pub async fn remove_beside(url: &str, name: &str) -> Result<(), Error> {
        run(url, &format!("DROP DATABASE {name} WITH (FORCE)")).await
    }
}

async fn run(url: &str, sql: &str) -> Result<(), Error> {
    let address = Address::parse(url)?;
    let done = async {
        let client: Client = connect::open_bare(&address).await.map_err(fault::report)?;
        client.batch_execute(sql).await.map_err(fault::report)
    };
    done.await.map_err(|error| fault::at(&address.place(), error))
}

/// The same URL with another database.
fn with_database(url: &str, name: &str) -> Option<String> {
    let (address, parameters) = match url.split_once('?') {
        Some((address, parameters)) => (address, format!("?{parameters}")),
        None => (url, String::new()),
    };
    let (scheme, rest) = address.split_once("://")?;
    let host = rest.split('/').next()?;
    Some(format!("{scheme}://{host}/{name}{parameters}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_of_a_url_changes() {
        for (url, expected) in [
            ("postgres://me:p@h:5/jobs?sslmode=require", Some("postgres://me:p@h:5/x?sslmode=require")),
            ("postgresql://h", Some("postgresql://h/x")),
            ("host=h dbname=jobs", None),
        ] {
            assert_eq!(with_database(url, "x").as_deref(), expected);
        }
    }
}
