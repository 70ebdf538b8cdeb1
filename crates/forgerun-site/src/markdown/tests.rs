//! Pages of Markdown, and the HTML that they become.

use super::*;

fn html(text: &'static str) -> String {
    rendered(text).html
}

fn rendered(text: &'static str) -> Rendered {
    let book = Book::read();
    render(&Page { title: "A page", path: "reference/a.md", text }, &book, Style::Served)
}

#[test]
fn headings_have_anchors_that_differ() {
    let page = rendered("# A page\n\n## One `x`\n\nText.\n\n## One `x`\n");
    assert!(page.html.starts_with("<h1 id=\"a-page\">A page</h1>"), "{}", page.html);
    let anchors: Vec<&str> = page.headings.iter().map(|heading| heading.anchor.as_str()).collect();
    assert_eq!(anchors, ["one-x", "one-x-1"]);
    assert!(page.html.contains("<h2 id=\"one-x\">One <code>x</code> <a class=\"anchor\""));
    assert_eq!(page.sections.len(), 3);
    assert_eq!(page.sections[1].text.trim(), "Text.");
}

#[test]
fn links_lead_to_pages_of_the_site_and_files_of_the_source_are_plain_text() {
    let page = html("[a](cli.md#exit-codes) [b](https://example.org/) [c](../../deploy/a.yml) [d](#here)");
    assert!(page.contains("<a href=\"../reference/cli#exit-codes\">a</a>"), "{page}");
    assert!(page.contains("<a href=\"https://example.org/\">b</a> c <a href=\"#here\">d</a>"), "{page}");
}

#[test]
fn comments_are_dropped_and_other_html_is_text() {
    let page =
        html("<!-- block: own terminal -->\n```sh\nls <a>\n```\n\n<script>x</script>\n\na<br>b <i>c</i>\n");
    assert!(!page.contains("own terminal") && !page.contains("<script>") && !page.contains("<i>"), "{page}");
    assert!(page.contains("<code class=\"language-sh\">ls &lt;a&gt;"), "{page}");
    assert!(page.contains("a<br>b"), "{page}");
}

#[test]
fn blocks_in_the_languages_of_sdks_become_tabs() {
    let page = html("```python\na\n```\n\n```go\nb\n```\n\nText.\n\n```python\nc\n```\n\n```json\nd\n```\n");
    assert_eq!(page.matches("<fieldset class=\"tabs\">").count(), 1, "{page}");
    assert!(page.contains("value=\"Go\"") && page.contains("id=\"tabs-0-1\""), "{page}");
}

#[test]
fn blocks_between_marks_become_tabs_with_the_names_before_them() {
    let page = html(
        "<!-- tabs -->\n\n**curl**\n\n```sh\na\n```\n\n**CLI**\n\n```sh\nb\n```\n\n<!-- /tabs -->\n\nText.\n",
    );
    assert!(page.contains("value=\"curl\" checked") && page.contains(">CLI</label>"), "{page}");
    assert!(page.ends_with("<p>Text.</p>\n"), "{page}");
}

#[test]
fn tables_scroll_and_have_no_styles() {
    let page = html("| a | b |\n|---|--:|\n| `x` | 1 |\n");
    assert!(page.contains("<th scope=\"col\" class=\"right\">b</th>"), "{page}");
    assert!(page.contains("<td><code>x</code></td><td class=\"right\">1</td>"), "{page}");
    assert!(!page.contains("style="), "{page}");
}
