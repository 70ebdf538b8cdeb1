//! The process: its first line, the commands of a client, and gRPC with the same identity.

use std::process::Command;

use super::Authority;
use crate::process::{self, forgerun, run};

/// `serve` with the certificate of this authority.
fn serve(authority: &Authority, folder: &tempfile::TempDir) -> Command {
    let data = folder.path().to_str().unwrap();
    let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--data", data]);
    command.env("FORGERUN_SERVER__TLS__CERT", authority.cert("server"));
    command.env("FORGERUN_SERVER__TLS__KEY", authority.key("server"));
    command.env("FORGERUN_AUTH__MODE", "open");
    command
}

#[test]
fn the_first_line_says_https_and_commands_trust_the_authority_they_are_given() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let mut command = serve(&authority, &folder);
    command.env("FORGERUN_SERVER__TLS__CLIENT_CA", authority.ca());
    let mut server = process::Server::start(&mut command);
    let url = format!("https://{}", server.address);
    assert_eq!(server.first_line, format!("forgerun listening on {url}\n"));
    let ca = authority.ca();
    let ca = ca.to_str().unwrap();
    let asked = |arguments: &[&str]| run(forgerun(arguments).env("FORGERUN_URL", &url));
    let healthy = asked(&["health", "--ca", ca]);
    assert_eq!((healthy.code, healthy.stdout.as_str()), (Some(0), "ok\n"), "{}", healthy.stderr);
    let distrusted = asked(&["health"]);
    assert_ne!(distrusted.code, Some(0));
    assert!(distrusted.stderr.to_lowercase().contains("certificate"), "{}", distrusted.stderr);
    let anonymous = asked(&["list", "--ca", ca]);
    assert_ne!(anonymous.code, Some(0));
    assert!(anonymous.stderr.contains("certificate"), "{}", anonymous.stderr);
    let listed = run(forgerun(&["list"])
        .env("FORGERUN_URL", &url)
        .env("FORGERUN_CA", ca)
        .env("FORGERUN_CERT", authority.cert("client"))
        .env("FORGERUN_CERT_KEY", authority.key("client")));
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let half = asked(&["list", "--cert", ca]);
    assert_eq!(half.code, Some(2), "{}", half.stderr);
    let missing = asked(&["health", "--ca", "nowhere.pem"]);
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
    assert!(missing.stderr.contains("nowhere.pem"), "{}", missing.stderr);

    for judged in [
        &["conformance", &url, "--contract", "problem"][..],
        &["traffic", "steady", "--duration", "1s", "--rate", "5"],
    ] {
        let certificate = [
            ("FORGERUN_CERT", authority.cert("client")),
            ("FORGERUN_CERT_KEY", authority.key("client")),
            ("FORGERUN_URL", url.clone().into()),
        ];
        let trusting = run(forgerun(judged).args(["--ca", ca]).envs(certificate.clone()));
        assert_eq!(trusting.code, Some(0), "{judged:?}: {} {}", trusting.stdout, trusting.stderr);
        let distrusted = run(forgerun(judged).envs(certificate));
        assert_eq!(distrusted.code, Some(6), "{judged:?}: {}", distrusted.stderr);
    }

    authority.sign("server");
    server.wait_for_log("TLS certificate read again");
    assert_eq!(asked(&["health", "--ca", ca]).code, Some(0));
    std::fs::write(authority.cert("server"), "nonsense").unwrap();
    let warned = server.wait_for_log("TLS certificate not usable");
    assert!(warned.contains("server.pem"), "{warned}");
    assert_eq!(asked(&["health", "--ca", ca]).code, Some(0));
    server.signal("TERM");
    assert_eq!(server.wait().code, Some(0));
}

#[test]
fn a_server_without_a_usable_certificate_does_not_start() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    for (key, value, words) in [
        ("CERT", "", "server.tls.key is set, and server.tls.cert is not"),
        ("KEY", "", "server.tls.cert is set, and server.tls.key is not"),
        ("CERT", "nowhere.pem", "could not use nowhere.pem"),
        ("CLIENT_CA", "/dev/null", "it has no certificate in PEM"),
    ] {
        let mut command = serve(&authority, &folder);
        let ended = run(command.env(format!("FORGERUN_SERVER__TLS__{key}"), value));
        assert_eq!(ended.code, Some(1), "{key}={value}: {}", ended.stderr);
        assert!(ended.stderr.contains(words), "{key}={value}: {}", ended.stderr);
    }
    let mut command = serve(&authority, &folder);
    command.env_remove("FORGERUN_SERVER__TLS__CERT").env_remove("FORGERUN_SERVER__TLS__KEY");
    let ended = run(command.env("FORGERUN_SERVER__TLS__CLIENT_CA", authority.ca()));
    assert!(
        ended.stderr.contains("server.tls.client_ca is set, and server.tls.cert is not"),
        "{}",
        ended.stderr
    );
}

#[cfg(feature = "grpc")]
#[test]
fn grpc_has_the_same_identity() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let mut server =
        process::Server::start(serve(&authority, &folder).env("FORGERUN_GRPC__ADDR", "127.0.0.1:0"));
    let line = server.wait_for_output("for gRPC on");
    let address: std::net::SocketAddr = line.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let shown = runtime.block_on(async {
        let connect = super::Connect { versions: tokio_rustls::rustls::ALL_VERSIONS, ..super::H2 };
        let stream = super::tls_to(&authority, address, connect).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    });
    let pem = std::fs::read(authority.cert("server")).unwrap();
    let own = <super::CertificateDer<'_> as super::PemObject>::from_pem_slice(&pem).unwrap();
    assert_eq!(shown, own.to_vec());
}
