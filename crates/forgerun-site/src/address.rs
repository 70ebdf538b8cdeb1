//! Addresses within the site, and links from one page to another. An address is a path below the
//! root of the site without a leading slash; the start page has the empty one.

/// How pages link to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Served below `/docs`: pages have no extension.
    Served,
    /// Files in a folder: pages end with `.html`.
    Files,
}

/// The way from a page to the root of the site.
fn to_root(from: &str, style: Style) -> String {
    match (from, style) {
        ("", Style::Served) => "docs/".to_owned(),
        (from, _) => "../".repeat(from.matches('/').count()),
    }
}

/// A link from one page to another.
pub(crate) fn link(from: &str, to: &str, style: Style) -> String {
    let root = to_root(from, style);
    match (to, style) {
        ("", Style::Served) if from.is_empty() => "docs".to_owned(),
        ("", Style::Served) => format!("{root}../docs"),
        ("", Style::Files) => format!("{root}index.html"),
        (to, Style::Served) => format!("{root}{to}"),
        (to, Style::Files) => format!("{root}{to}.html"),
    }
}

/// A link from a page to a file that is no page.
pub(crate) fn asset(from: &str, name: &str, style: Style) -> String {
    to_root(from, style) + name
}

/// `reference/../learn/a.md` as `learn/a.md`; `None` if it leads out of the root.
pub(crate) fn resolve(folder: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(target.split('/')).filter(|part| !matches!(*part, "" | ".")) {
        match part {
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchor of a heading: letters, digits, hyphens and underscores, as code hosts make it.
pub(crate) fn slug(heading: &str) -> String {
    let lower = heading.trim().to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_relative_to_the_page() {
        for (from, to, served, file) in [
            ("", "", "docs", "index.html"),
            ("", "start/install", "docs/start/install", "start/install.html"),
            ("api", "", "../docs", "index.html"),
            ("api", "api/jobs", "api/jobs", "api/jobs.html"),
            ("reference/cli", "", "../../docs", "../index.html"),
            ("reference/cli", "learn/leases", "../learn/leases", "../learn/leases.html"),
            ("internals/adr/1", "api", "../../api", "../../api.html"),
        ] {
            assert_eq!(link(from, to, Style::Served), served, "{from} to {to}");
            assert_eq!(link(from, to, Style::Files), file, "{from} to {to}");
        }
        assert_eq!(asset("a/b", "site.css", Style::Served), "../site.css");
    }

    #[test]
    fn a_path_is_resolved_within_the_root_only() {
        assert_eq!(resolve("reference", "../learn/a.md").as_deref(), Some("learn/a.md"));
        assert_eq!(resolve("", "a.md").as_deref(), Some("a.md"));
        assert_eq!(resolve("reference", "../../CHANGELOG.md"), None);
    }

    #[test]
    fn an_anchor_has_what_code_hosts_make_of_the_heading() {
        assert_eq!(slug("TLS, health, bounds"), "tls-health-bounds");
        assert_eq!(slug("`x_y` and z-z?"), "x_y-and-z-z");
    }
}
