//! The first lines of the client's README work, and are the ones that are tested.

use crate::api::server::Server;

#[path = "../../../../forgerun-client/examples/ten_lines.rs"]
mod ten_lines;

#[tokio::test(flavor = "multi_thread")]
async fn the_ten_lines_of_the_readme_work() {
    let server = Server::with(&[("sim.time_scale", "0.01")]).await;
    let owner = server.client().await;
    let address = format!("http://{}", server.address);
    let lines = tokio::spawn(async move { ten_lines::ten_lines(&address, &owner.key).await });
    server.succeed().await;
    assert_eq!(lines.await.unwrap().unwrap(), r#"b"{\"answer\":42}""#);
}

#[test]
fn the_readme_shows_the_lines_that_are_tested() {
    let read = |path: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../forgerun-client/");
        std::fs::read_to_string(format!("{folder}{path}")).unwrap()
    };
    let (readme, example) = (read("README.md"), read("examples/ten_lines.rs"));
    let block = readme.split("```").nth(1).unwrap();
    let shown: Vec<&str> =
        block.lines().skip(1).filter(|line| !line.starts_with("# ")).map(str::trim).collect();
    assert!(shown.len() >= 7, "{shown:?}");
    for line in shown {
        assert!(example.lines().any(|known| known.trim() == line), "{line} is not in the example");
    }
}
