//! The documentation that the server shows.

use super::judges;
use super::server::Server;

/// Every page that links lead to, from the start page on: address and text.
async fn pages(server: &Server) -> Vec<(String, String)> {
    let start = server.call("GET", "/docs").send().await;
    assert_eq!((start.status, start.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let home = start.text().to_owned();
    let links = home.split("href=\"docs/").skip(1).filter_map(|rest| rest.split('"').next());
    let mut paths: Vec<String> = links.map(|path| format!("/docs/{path}")).collect();
    let api = server.call("GET", "/docs/api").send().await;
    let tags = api.text().split("href=\"api/").skip(1).filter_map(|rest| rest.split(['"', '#']).next());
    paths.extend(tags.map(|tag| format!("/docs/api/{tag}")));
    paths.push("/docs/search?q=lease".to_owned());
    paths.sort();
    paths.dedup();
    let mut pages = vec![("/docs".to_owned(), home)];
    for path in paths {
        let answer = server.call("GET", &path).send().await;
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
        pages.push((path, answer.text().to_owned()));
    }
    pages
}

#[tokio::test]
async fn every_page_of_the_documentation_is_html_that_an_independent_judge_finds_valid() {
    let server = Server::start().await;
    let pages = pages(&server).await;
    assert!(pages.len() > 30, "{}", pages.len());
    let html: Vec<(String, String)> = pages
        .into_iter()
        .filter(|(_, text)| text.starts_with("<!DOCTYPE"))
        .map(|(path, text)| {
            let name = format!("{}.html", path.trim_matches('/').replace(['/', '?', '='], "."));
            // The judge does not know ARIA on links.
            (name, text.replace(" aria-current=\"page\"", ""))
        })
        .collect();
    let bytes: usize = html.iter().map(|(_, text)| text.len()).sum();
    assert!(bytes < 6_000_000, "{bytes} bytes of pages");
    judges::assert_valid_html_with_script(&judges::write(&judges::folder("docs-html"), &html));
}

#[tokio::test]
async fn the_reference_has_every_operation_of_the_openapi_document() {
    let server = Server::start().await;
    let document = server.call("GET", "/openapi.json").send().await.json();
    let pages: String = pages(&server)
        .await
        .into_iter()
        .filter(|(path, _)| path.starts_with("/docs/api/"))
        .map(|(_, text)| text)
        .collect();
    let items = document["paths"].as_object().unwrap().values();
    for operation in items.flat_map(|item| item.as_object().unwrap().values()) {
        let id = operation["operationId"].as_str().unwrap();
        assert!(pages.contains(&format!("<h2 id=\"{id}\">")), "{id}");
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(pages.contains(&format!("<h2 id=\"{name}\">")), "{name}");
    }
}

#[tokio::test]
async fn a_page_that_does_not_exist_is_404_and_one_that_the_client_has_is_304() {
    let server = Server::start().await;
    for path in ["/docs/nothing", "/docs/api/nothing", "/docs/../health2", "/docs/reference/cli.md"] {
        assert_eq!(server.call("GET", path).send().await.status, 404, "{path}");
    }
    let slash = server.call("GET", "/docs/").send().await;
    assert_eq!((slash.status, slash.header("location")), (308, Some("../docs")));
    let page = server.call("GET", "/docs/reference/cli").send().await;
    let tag = page.header("etag").unwrap().to_owned();
    let again = server.call("GET", "/docs/reference/cli").header("if-none-match", &tag).send().await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(server.call("POST", "/docs").send().await.status, 405);
}
