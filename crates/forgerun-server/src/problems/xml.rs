//! The pages as XML. The example is a problem in its own namespace, as in
//! `application/problem+xml`.

use std::fmt::Write;

use forgerun_wire::language::Language;

use super::problem_type::{ProblemType, word};

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

pub(super) fn index(types: &[ProblemType], language: Language) -> String {
    let mut text = format!("{DECLARATION}<problem-types xml:lang=\"{}\">", language.tag());
    types.iter().for_each(|about| write(&mut text, about, ""));
    text + "</problem-types>\n"
}

pub(super) fn page(about: &ProblemType, language: Language) -> String {
    let mut text = DECLARATION.to_owned();
    write(&mut text, about, &format!(" xml:lang=\"{}\"", language.tag()));
    text + "\n"
}

fn write(text: &mut String, about: &ProblemType, attributes: &str) {
    let _ = write!(text, "<problem-type{attributes}>");
    element(text, "type", &about.type_uri);
    element(text, "slug", about.slug);
    element(text, "title", about.title);
    element(text, "level", word(about.level));
    text.push_str("<status>");
    for (name, codes) in [("v1", &about.status.v1), ("api", &about.status.api), ("ojs", &about.status.ojs)] {
        codes.iter().for_each(|code| element(text, name, &code.to_string()));
    }
    text.push_str("</status>");
    element(text, "retryable", if about.retryable { "true" } else { "false" });
    element(text, "retry", about.retry);
    about.stage.into_iter().for_each(|stage| element(text, "stage", stage));
    for code in &about.codes {
        text.push_str("<code>");
        element(text, "rfa_code", code.rfa_code);
        element(text, "ojs_code", code.ojs_code);
        element(text, "meaning", code.meaning);
        element(text, "remedy", code.remedy);
        element(text, "doc_url", &code.doc_url);
        text.push_str("</code>");
    }
    text.push_str("<extensions>");
    about.extensions.all().for_each(|(name, kind)| element(text, name, kind));
    text.push_str("</extensions><example>");
    let example = about.example.to_xml();
    text.push_str(example.trim_start_matches(DECLARATION.trim_end()).trim_start());
    text.push_str("</example>");
    element(text, "index", &about.index);
    text.push_str("</problem-type>");
}

fn element(text: &mut String, name: &str, value: &str) {
    let _ = write!(text, "<{name}>{}</{name}>", escape(value));
}

/// Escapes markup. Only our own texts, which have no control characters.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_can_not_break_out_of_a_page() {
        assert_eq!(escape("<b a=\"&\">"), "&lt;b a=&quot;&amp;&quot;&gt;");
    }
}
