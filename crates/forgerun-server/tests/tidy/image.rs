//! Rules for the container image: `scripts/dist/image.py` makes it, and what builds or runs it elsewhere agrees with it.
//! The image itself is started by `make test-dist`.

use crate::repo;

const MAKER: &str = "scripts/dist/image.py";

/// What each file must say of the image.
fn expected(user: &str, binary: &str) -> Vec<(&'static str, String)> {
    let health = format!("\"/{binary}\", \"health\"");
    vec![
        ("deploy/Dockerfile", format!("USER {user}:{user}")),
        ("deploy/Dockerfile", format!("--chown={user}:{user} /empty /data")),
        ("deploy/Dockerfile", format!("ENTRYPOINT [\"/{binary}\"]")),
        (
            "deploy/Dockerfile",
            "HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3".into(),
        ),
        ("deploy/Dockerfile", format!("CMD [{health}]")),
        ("deploy/compose.yml", format!("test: [\"CMD\", {health}, \"--ready\"]")),
        ("deploy/kubernetes.yaml", format!("runAsUser: {user}")),
        ("deploy/kubernetes.yaml", format!("runAsGroup: {user}")),
        ("deploy/helm/templates/deployment.yaml", format!("runAsUser: {user}")),
        ("deploy/helm/templates/deployment.yaml", format!("runAsGroup: {user}")),
        ("docs/start/install.md", format!("runs as {user}")),
    ]
}

/// The value of a constant in Python.
fn constant<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let line = source.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))?;
    Some(line.trim_matches('"'))
}

fn disagreeing(expected: &[(&str, String)], read: impl Fn(&str) -> String) -> Vec<String> {
    let wrong = expected.iter().filter(|(path, text)| !read(path).contains(text));
    wrong.map(|(path, text)| format!("{path} does not say {text:?}, as {MAKER} has it")).collect()
}

#[test]
fn a_file_that_disagrees_is_named() {
    let expected = [("a", "USER 7".to_owned()), ("b", "USER 7".to_owned())];
    let read = |path: &str| if path == "a" { "USER 7".to_owned() } else { "USER 8".to_owned() };
    assert_eq!(disagreeing(&expected, read), [format!("b does not say \"USER 7\", as {MAKER} has it")]);
    assert_eq!(constant("A = 1\nUSER = 7\nBINARY = \"x/y\"\n", "BINARY"), Some("x/y"));
}

#[test]
fn everything_that_runs_the_image_agrees_with_it() {
    let source = repo::read(MAKER);
    let user = constant(&source, "USER").expect("the image has a user");
    let binary = constant(&source, "BINARY").expect("the image has a binary");
    crate::assert_tidy(&disagreeing(&expected(user, binary), repo::read));
}
