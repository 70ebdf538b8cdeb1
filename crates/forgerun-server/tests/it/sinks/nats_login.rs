//! Every way to log in to NATS, against the real server, which lets in only a client that proves
//! who it is.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::nats::NatsServer;
use super::{BrokerSetup, World, drained, python, submit};
use crate::process::forgerun;

const PASSWORD: &str = "p@ss:w/rd";

/// The broker acknowledges the end of a job that a server with this environment has run.
fn gets_in(environment: Vec<(&'static str, String)>) {
    let setup = BrokerSetup { environment, section: "NATS", prefix: "ce-", read: &Vec::new };
    let world = World::new(&setup, &[]);
    let server = world.start();
    submit(&server, "SUCCESS_FAST");
    drained(&server);
}

#[test]
fn a_user_and_a_password_in_the_url_or_in_keys_get_in() {
    let server = NatsServer::start(&["--user", "me", "--pass", PASSWORD]);
    gets_in(vec![("FORGERUN_NATS__URL", server.url("me:p%40ss%3Aw%2Frd@"))]);
    gets_in(vec![
        ("FORGERUN_NATS__URL", server.url("")),
        ("FORGERUN_NATS__USERNAME", "me".to_owned()),
        ("FORGERUN_NATS__PASSWORD", PASSWORD.to_owned()),
    ]);
}

#[test]
fn a_token_in_the_url_or_in_its_key_gets_in() {
    let server = NatsServer::start(&["--auth", PASSWORD]);
    gets_in(vec![("FORGERUN_NATS__URL", server.url("p%40ss%3Aw%2Frd@"))]);
    gets_in(vec![("FORGERUN_NATS__URL", server.url("")), ("FORGERUN_NATS__TOKEN", PASSWORD.to_owned())]);
}

#[test]
fn a_credentials_file_gets_in() {
    // An operator, an account with JetStream and a user of it, as `nsc` would make them: a chain of
    // signed tokens.
    const PROGRAM: &str = r#"
import base64, json, sys, time
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc.to_bytes(2, "little")

def base32(data):
    return base64.b32encode(data + crc16(data)).decode().rstrip("=")

PREFIXES = {"operator": 14 << 3, "account": 0, "user": 20 << 3}

class Key:
    def __init__(self, role):
        self.private = Ed25519PrivateKey.generate()
        prefix = PREFIXES[role]
        public = self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        raw = self.private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
        self.public = base32(bytes([prefix]) + public)
        self.seed = base32(bytes([18 << 3 | prefix >> 5, (prefix & 31) << 3]) + raw)

def text(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")

def token(issuer, subject, name, claims):
    head = text(json.dumps({"typ": "JWT", "alg": "ed25519-nkey"}).encode())
    body = text(json.dumps({"jti": name, "iat": int(time.time()), "iss": issuer.public, "sub": subject.public,
        "name": name, "nats": {"version": 2, **claims}}).encode())
    return f"{head}.{body}." + text(issuer.private.sign(f"{head}.{body}".encode()))

operator, system, account, user = Key("operator"), Key("account"), Key("account"), Key("user")
unlimited = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}
stored = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
settings = f"""
operator: {token(operator, operator, "operator", {"type": "operator"})}
system_account: {system.public}
resolver: MEMORY
resolver_preload: {{
  {system.public}: {token(operator, system, "system", {"type": "account", "limits": unlimited})}
  {account.public}: {token(operator, account, "jobs", {"type": "account", "limits": {**unlimited, **stored}})}
}}
"""
limits = {"type": "user", "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}}
credentials = f"""-----BEGIN NATS USER JWT-----
{token(account, user, "forgerun", limits)}
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
{user.seed}
------END USER NKEY SEED------
"""
open(sys.argv[1] + "/settings.conf", "w").write(settings)
open(sys.argv[1] + "/user.creds", "w").write(credentials)
print("null")
"#;
    let folder = tempfile::tempdir().unwrap();
    python(PROGRAM, &[folder.path().to_str().unwrap()]);
    let server = NatsServer::start(&["--config", &shown(&folder.path().join("settings.conf"))]);
    gets_in(vec![
        ("FORGERUN_NATS__URL", server.url("")),
        ("FORGERUN_NATS__CREDENTIALS", shown(&folder.path().join("user.creds"))),
    ]);
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_ours() {
    let folder = tempfile::tempdir().unwrap();
    let [ca, cert, key] = ["ca.pem", "cert.pem", "key.pem"].map(|name| shown(&folder.path().join(name)));
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let pair = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let signed = CertificateParams::new(names).unwrap().signed_by(&pair, &authority).unwrap();
    fs::write(&ca, authority.pem()).unwrap();
    fs::write(&cert, signed.pem()).unwrap();
    fs::write(&key, pair.serialize_pem()).unwrap();
    let server =
        NatsServer::start(&["--tlsverify", "--tlscert", &cert, "--tlskey", &key, "--tlscacert", &ca]);
    gets_in(vec![
        ("FORGERUN_NATS__URL", server.url("").replace("nats://", "tls://")),
        ("FORGERUN_NATS__TLS__CA", ca),
        ("FORGERUN_NATS__TLS__CERT", cert),
        ("FORGERUN_NATS__TLS__KEY", key),
    ]);
}

/// A sink connects when it has something to send; by then the log of the start is past.
#[test]
fn a_file_that_does_not_exist_and_two_ways_to_log_in_end_the_start() {
    let nats = [("FORGERUN_NATS__URL", "nats://127.0.0.1:1")];
    let kafka = [("FORGERUN_KAFKA__BROKERS", "127.0.0.1:1"), ("FORGERUN_KAFKA__TLS__ENABLED", "true")];
    for (beside, variable, key) in [
        (&nats[..], "FORGERUN_NATS__CREDENTIALS", "nats.credentials"),
        (&nats[..], "FORGERUN_NATS__TLS__CA", "nats.tls.ca"),
        (&kafka[..], "FORGERUN_KAFKA__TLS__CA", "kafka.tls.ca"),
    ] {
        refused(beside, &[(variable, "/nowhere/file.pem")], &[key, "No such file"]);
    }
    let twice =
        [("FORGERUN_NATS__USERNAME", "me"), ("FORGERUN_NATS__PASSWORD", "x"), ("FORGERUN_NATS__TOKEN", "y")];
    refused(&nats, &twice, &["nats.username", "three ways to log in"]);
}

/// Such a server ends with exit code 2 and says all of this.
fn refused(beside: &[(&str, &str)], environment: &[(&str, &str)], expected: &[&str]) {
    let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", "memory:"]);
    command.envs(beside.iter().copied()).envs(environment.iter().copied());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(expected.iter().all(|text| said.contains(text)), "{said}");
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
