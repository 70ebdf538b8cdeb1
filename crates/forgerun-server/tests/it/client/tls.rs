//! The client over TLS.

use forgerun_client::{Client, Error, RetryPolicy};

use crate::webhooks::tls::{receiver, trusting};

#[tokio::test]
async fn a_certificate_must_be_one_that_is_trusted_and_of_the_right_name() {
    let (server, certificate) = receiver("localhost").await;
    let client = |host: &str, trusted: bool| {
        let url = format!("https://{host}:{}", server.address.port());
        let builder = Client::builder(url).retry(RetryPolicy::NEVER);
        let builder = if trusted { builder.roots(trusting(&certificate).unwrap()) } else { builder };
        builder.build().unwrap()
    };
    client("localhost", true).forge().delete_webhook("w").await.unwrap();
    for (host, trusted) in [("localhost", false), ("127.0.0.1", true)] {
        let error = client(host, trusted).forge().delete_webhook("w").await.unwrap_err();
        assert!(matches!(&error, Error::Unreachable(why) if !why.maybe_sent), "{error:?}");
        assert!(error.to_string().to_lowercase().contains("certificate"), "{error}");
    }
}
