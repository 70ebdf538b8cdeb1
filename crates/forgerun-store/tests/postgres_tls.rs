//! Encrypted connections to a real PostgreSQL, with good and bad certificates.
#![cfg(all(feature = "postgres", feature = "testing"))]

use std::path::PathBuf;

use forgerun_store::postgres::{Options, Postgres};
use forgerun_store::testing::{Cluster, connect};
use forgerun_store::{Error, Store};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// An authority, and what it says of a server.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// A server with a certificate for this name.
    fn server(&self, name: &str) -> Cluster {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Cluster::start_encrypted(&certificate.pem(), &key.serialize_pem())
    }

    /// Its certificate in a file.
    fn file(&self, folder: &TempDir) -> PathBuf {
        let path = folder.path().join("authority.pem");
        std::fs::write(&path, &self.pem).unwrap();
        path
    }
}

/// Connects, and says how many of the store's sessions are encrypted, and how many are not.
async fn sessions(url: &str, parameters: &str) -> Result<(i64, i64), Error> {
    let store = Postgres::connect(&format!("{url}?{parameters}"), Options::new(1)).await?;
    assert_eq!((&store as &dyn Store).journal_end().await.unwrap(), 0, "it works");
    let client = connect(&format!("{url}?sslmode=disable")).await;
    let sql = "SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl)
        FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE application_name = 'forgerun' AND datname = current_database()";
    let row = client.query_one(sql, &[]).await.unwrap();
    Ok((row.get(0), row.get(1)))
}

/// All of them: four that write, four that read, one that listens.
const ALL: i64 = 9;

#[tokio::test]
async fn connections_are_as_private_as_the_url_asks() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let cluster = authority.server("127.0.0.1");
    let trusted = authority.file(&folder);
    let verified = format!("sslmode=verify-full&sslrootcert={}", trusted.display());
    for (parameters, expected) in [
        ("sslmode=disable", (0, ALL)),
        ("", (ALL, 0)),
        ("sslmode=prefer", (ALL, 0)),
        ("sslmode=require", (ALL, 0)),
        (&verified, (ALL, 0)),
    ] {
        let url = cluster.database().await;
        assert_eq!(sessions(&url, parameters).await.unwrap(), expected, "{parameters}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_the_one_meant_is_refused_when_somebody_wants_to_know() {
    let (authority, other) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let cluster = authority.server("db.example");
    let url = cluster.database().await;
    sessions(&url, "sslmode=require").await.expect("nobody wanted to know");
    let refused = async |parameters: String| {
        let error = sessions(&url, &parameters).await.expect_err(&parameters).to_string();
        assert!(error.contains("certificate"), "{parameters}: {error}");
    };
    refused("sslmode=verify-full".into()).await;
    let own = authority.file(&folder).display().to_string();
    refused(format!("sslmode=verify-full&sslrootcert={own}")).await;
    let folder = tempfile::tempdir().unwrap();
    refused(format!("sslmode=require&sslrootcert={}", other.file(&folder).display())).await;
}

#[tokio::test]
async fn a_server_that_cannot_encrypt_is_refused_only_where_that_is_required() {
    let url = Cluster::shared().database().await;
    assert_eq!(sessions(&url, "sslmode=prefer").await.unwrap(), (0, ALL));
    let error = sessions(&url, "sslmode=require").await.unwrap_err().to_string();
    assert!(error.contains("TLS"), "{error}");
}
