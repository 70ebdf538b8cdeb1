//! Blocks of code. Blocks that follow each other directly and show the same thing in several
//! languages become tabs: each block of a kind in one of the languages of our SDKs, or everything
//! between `<!-- tabs -->` and `<!-- /tabs -->`, where a bold line names the block after it.

use maud::{Markup, html};

/// A block of code and the name of its tab.
#[derive(Debug, PartialEq)]
pub(crate) struct CodeBlock {
    pub(crate) label: Option<String>,
    pub(crate) language: String,
    pub(crate) text: String,
}

/// Languages whose blocks become tabs by themselves.
const OF_SDKS: [&str; 4] = ["python", "typescript", "go", "rust"];

impl CodeBlock {
    fn name(&self) -> String {
        let known = match self.language.as_str() {
            "sh" | "bash" => "Shell",
            "python" => "Python",
            "typescript" | "ts" => "TypeScript",
            "javascript" | "js" => "JavaScript",
            "go" => "Go",
            "rust" => "Rust",
            "" => "Text",
            other => other,
        };
        self.label.clone().unwrap_or_else(|| known.to_owned())
    }

    fn markup(&self) -> Markup {
        let class = format!("language-{}", if self.language.is_empty() { "text" } else { &self.language });
        html! { div .code { pre tabindex="0" { code class=(class) { (self.text) } } } }
    }
}

/// Whether these blocks say the same in several languages.
pub(crate) fn are_tabs(blocks: &[CodeBlock]) -> bool {
    let mut languages: Vec<&str> = blocks.iter().map(|block| block.language.as_str()).collect();
    languages.sort_unstable();
    languages.dedup();
    languages.len() == blocks.len()
        && languages.len() > 1
        && languages.iter().all(|one| OF_SDKS.contains(one))
}

/// Blocks below each other.
pub(crate) fn plain(blocks: &[CodeBlock]) -> Markup {
    html! {
        @for block in blocks {
            @if let Some(label) = &block.label { p { strong { (label) } } }
            (block.markup())
        }
    }
}

/// Blocks as tabs; `number` tells groups of a page apart.
pub(crate) fn tabs(blocks: &[CodeBlock], number: usize) -> Markup {
    html! {
        fieldset .tabs {
            legend .hidden { "Language" }
            @for (n, block) in blocks.iter().enumerate() {
                input type="radio" name=(format!("tabs-{number}")) id=(format!("tabs-{number}-{n}"))
                    value=(block.name()) checked[n == 0];
                label for=(format!("tabs-{number}-{n}")) { (block.name()) }
            }
            @for block in blocks { div .panel { (block.markup()) } }
        }
    }
}
