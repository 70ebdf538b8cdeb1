//! The HTTP reference, from an OpenAPI document: a page with all operations, one per tag, and one
//! with the schemas.

use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::address::{self, Style};
use crate::markdown::Heading;
use crate::schema::{self, Names, prose};
use crate::search::Section;

/// Address of the overview; the other pages are below it.
pub(crate) const OVERVIEW: &str = "api";

/// Address of the page of schemas.
const SCHEMAS: &str = "api/schemas";

/// Methods in the order in which they are listed.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// A page of the reference.
pub(crate) struct ApiPage {
    pub(crate) address: String,
    pub(crate) title: String,
    pub(crate) markup: Markup,
    pub(crate) headings: Vec<Heading>,
    pub(crate) sections: Vec<Section>,
}

/// An operation of the document, with what it refers to.
struct Operation<'a> {
    method: &'static str,
    path: &'a str,
    value: &'a Value,
}

/// What pages are made of.
struct Reference<'a> {
    document: &'a Value,
    style: Style,
}

/// All pages of the reference.
pub(crate) fn pages(document: &Value, style: Style) -> Vec<ApiPage> {
    let reference = Reference { document, style };
    let mut pages = vec![reference.overview()];
    pages.extend(reference.tags().map(|tag| reference.tag(tag)));
    pages.push(reference.schemas());
    pages
}

/// The text of a member, empty if it is missing.
fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("")
}

fn tag_address(tag: &str) -> String {
    format!("{OVERVIEW}/{}", address::slug(tag))
}

impl<'a> Reference<'a> {
    fn tags(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.document["tags"].as_array().into_iter().flatten()
    }

    /// The operations with a tag, in the order of the document.
    fn operations(&self, tag: &str) -> Vec<Operation<'a>> {
        let mut found = Vec::new();
        for (path, item) in self.document["paths"].as_object().into_iter().flatten() {
            for method in METHODS {
                let value = &item[method];
                if value["tags"][0] == tag {
                    found.push(Operation { method, path, value });
                }
            }
        }
        found
    }

    /// What a `$ref` leads to, or the value itself.
    fn follow(&self, value: &'a Value) -> &'a Value {
        let target = value["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
        target.and_then(|target| self.document.pointer(target)).unwrap_or(value)
    }

    fn overview(&self) -> ApiPage {
        let description = text(&self.document["info"], "description");
        let mut headings = Vec::new();
        let mut markup = html! {
            h1 { "HTTP reference" }
            p { (prose(description)) }
            p {
                "This page is made from the OpenAPI document of this server, "
                code { "/openapi.json" } ". Bodies are described under "
                a href=(address::link(OVERVIEW, SCHEMAS, self.style)) { "schemas" } "."
            }
        };
        for tag in self.tags() {
            let name = text(tag, "name");
            headings.push(Heading { is_inner: false, anchor: address::slug(name), text: capital(name) });
            markup = html! { (markup) (self.overview_of(tag)) };
        }
        let mut section = Section::new("HTTP reference", OVERVIEW);
        section.add(description);
        let (address, title) = (OVERVIEW.to_owned(), "HTTP reference".to_owned());
        ApiPage { address, title, markup, headings, sections: vec![section] }
    }

    fn overview_of(&self, tag: &Value) -> Markup {
        let name = text(tag, "name");
        let page = address::link(OVERVIEW, &tag_address(name), self.style);
        html! {
            h2 id=(address::slug(name)) { a href=(page) { (capital(name)) } }
            p { (prose(text(tag, "description"))) }
            div .table tabindex="0" {
                table .operations {
                    thead { tr { th scope="col" { "Request" } th scope="col" { "What it does" } } }
                    tbody {
                        @for operation in self.operations(name) {
                            tr {
                                td { (operation.request()) }
                                td {
                                    a href=(format!("{page}#{}", text(operation.value, "operationId"))) {
                                        (prose(text(operation.value, "summary")))
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn tag(&self, tag: &'a Value) -> ApiPage {
        let name = text(tag, "name");
        let title = capital(name);
        let address = tag_address(name);
        let operations = self.operations(name);
        let sections = operations.iter().map(|operation| {
            let (id, summary) = (text(operation.value, "operationId"), text(operation.value, "summary"));
            let request = format!("{} {}", operation.method.to_uppercase(), operation.path);
            let mut section =
                Section::new(&format!("HTTP: {title}"), &address).under(&format!("{summary} {request}"), id);
            section.add(id);
            section
        });
        let headings = operations.iter().map(|operation| Heading {
            is_inner: false,
            anchor: text(operation.value, "operationId").to_owned(),
            text: text(operation.value, "summary").trim_end_matches('.').replace('`', ""),
        });
        let (sections, headings) = (sections.collect(), headings.collect());
        let markup = html! {
            h1 { (title) }
            p { (prose(text(tag, "description"))) }
            @for operation in &operations { (self.operation(operation, &address)) }
        };
        ApiPage { address, title, markup, headings, sections }
    }

    fn operation(&self, operation: &Operation<'a>, from: &str) -> Markup {
        let value = operation.value;
        let id = text(value, "operationId");
        html! {
            section .operation {
                h2 id=(id) {
                    (prose(text(value, "summary").trim_end_matches('.'))) " "
                    a .anchor href=(format!("#{id}")) aria-label=(format!("Link to {id}")) { "#" }
                }
                p .request { (operation.request()) }
                p .muted { (key_for(value)) " Operation " code { (id) } "." }
                (self.parameters(value))
                (self.body(value, from))
                (self.answers(value, from))
                (self.refusals(value))
            }
        }
    }

    fn parameters(&self, operation: &'a Value) -> Markup {
        let parameters: Vec<&Value> =
            operation["parameters"].as_array().into_iter().flatten().map(|one| self.follow(one)).collect();
        if parameters.is_empty() {
            return html! {};
        }
        html! {
            h3 { "Parameters" }
            div .table tabindex="0" {
                table {
                    thead { tr { th scope="col" { "Name" } th scope="col" { "In" } th scope="col" { "Meaning" } } }
                    tbody {
                        @for parameter in parameters {
                            tr {
                                td { code { (text(parameter, "name")) } @if parameter["required"] == true { " *" } }
                                td { (text(parameter, "in")) }
                                td {
                                    (prose(text(parameter, "description")))
                                    @if let Some(example) = parameter["example"].as_str() { " Example: " code { (example) } "." }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn names<'f>(&self, from: &'f str) -> Names<'f> {
        Names { from, page: SCHEMAS, style: self.style }
    }

    fn body(&self, operation: &'a Value, from: &str) -> Markup {
        let body = &operation["requestBody"];
        let Some((media_type, content)) = body["content"].as_object().and_then(|types| types.iter().next())
        else {
            return html! {};
        };
        if text(&content["schema"], "$ref").ends_with("/Nothing") {
            return html! {};
        }
        let examples: Vec<(&String, &Value)> =
            content["examples"].as_object().into_iter().flatten().collect();
        html! {
            h3 { "Body" }
            p {
                code { (media_type) } ", " (schema::kind(&content["schema"], &self.names(from)))
                @if body["required"] == true { "; required." } @else { "; optional." }
            }
            (schema::members(self.follow(&content["schema"]), &self.names(from)))
            @for (name, example) in examples {
                @let example = &self.follow(example)["value"];
                details { summary { "Example: " (name.replace('_', " ")) } (json(example)) }
            }
        }
    }

    fn answers(&self, operation: &'a Value, from: &str) -> Markup {
        let responses = operation["responses"].as_object().into_iter().flatten();
        let good = responses.filter(|(status, _)| status.starts_with(['2', '3']));
        let good: Vec<(&String, &Value)> = good.collect();
        if good.is_empty() {
            return html! {};
        }
        html! {
            h3 { "Answers" }
            div .table tabindex="0" {
                table {
                    thead { tr { th scope="col" { "Status" } th scope="col" { "Meaning" } th scope="col" { "Body" } } }
                    tbody {
                        @for (status, response) in good {
                            @let response = self.follow(response);
                            tr {
                                td { code { (status) } }
                                td { (prose(text(response, "description"))) }
                                td { (self.contents(&response["content"], from)) }
                            }
                        }
                    }
                }
            }
        }
    }

    fn contents(&self, content: &Value, from: &str) -> Markup {
        let types = content.as_object().cloned().unwrap_or_else(Map::new);
        html! {
            @for (n, (media_type, content)) in types.iter().enumerate() {
                @if n > 0 { br; }
                code { (media_type) }
                @if content["schema"].as_object().is_some_and(|schema| !schema.is_empty()) {
                    " " (schema::kind(&content["schema"], &self.names(from)))
                }
            }
        }
    }

    /// What is refused, by status, with an example of each.
    fn refusals(&self, operation: &'a Value) -> Markup {
        let responses = operation["responses"].as_object().into_iter().flatten();
        let bad: Vec<(&String, &Value)> = responses
            .filter(|(status, _)| status.starts_with(['4', '5']))
            .map(|(status, response)| (status, self.follow(response)))
            .collect();
        if bad.is_empty() {
            return html! {};
        }
        html! {
            details {
                summary { "Refusals" }
                div .table tabindex="0" {
                    table {
                        thead { tr { th scope="col" { "Status" } th scope="col" { "Code" } th scope="col" { "Title" } } }
                        tbody {
                            @for (status, response) in bad {
                                @for example in self.refusal_examples(response) {
                                    tr {
                                        td { code { (status) } }
                                        td { code { (refusal_code(example)) } }
                                        td { (refusal_title(example)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn refusal_examples(&self, response: &'a Value) -> Vec<&'a Value> {
        let contents = response["content"].as_object().into_iter().flatten();
        let examples = contents.filter_map(|(_, content)| content["examples"].as_object()).next();
        let examples = examples.into_iter().flatten();
        examples.map(|(_, example)| &self.follow(example)["value"]).collect()
    }

    fn schemas(&self) -> ApiPage {
        let schemas: Vec<(&String, &Value)> =
            self.document["components"]["schemas"].as_object().into_iter().flatten().collect();
        let names = self.names(SCHEMAS);
        let heading =
            |name: &str| Heading { is_inner: false, anchor: name.to_owned(), text: name.to_owned() };
        let headings = schemas.iter().map(|(name, _)| heading(name)).collect();
        let sections = schemas.iter().map(|(name, schema)| {
            let mut section = Section::new("HTTP: Schemas", SCHEMAS).under(name, name);
            section.add(text(schema, "description"));
            section
        });
        let sections = sections.collect();
        let markup = html! {
            h1 { "Schemas" }
            p { "The bodies of requests and answers. A star marks a required member." }
            @for (name, schema) in schemas {
                section .operation {
                    h2 id=(name) { (name) " " a .anchor href=(format!("#{name}")) aria-label=(format!("Link to {name}")) { "#" } }
                    (paragraph(text(schema, "description")))
                    (schema::members(schema, &names))
                }
            }
        };
        ApiPage { address: SCHEMAS.to_owned(), title: "Schemas".to_owned(), markup, headings, sections }
    }
}

impl Operation<'_> {
    /// Method and path.
    fn request(&self) -> Markup {
        html! {
            span class=(format!("verb verb-{}", self.method)) { (self.method.to_uppercase()) } " "
            code { (self.path) }
        }
    }
}

/// Which key an operation needs.
fn key_for(operation: &Value) -> &'static str {
    let ways: Vec<&Map<String, Value>> =
        operation["security"].as_array().into_iter().flatten().filter_map(Value::as_object).collect();
    let has = |name: &str| ways.iter().any(|way| way.contains_key(name));
    let is_open = ways.is_empty() || ways.iter().any(|way| way.is_empty());
    match (is_open, has("apiKey"), has("adminToken")) {
        (true, _, _) => "Works without a key on this server.",
        (false, true, true) => "Needs the key of a client or the operator's token.",
        (false, true, false) => "Needs the key of a client.",
        (false, false, _) => "Needs the operator's token.",
    }
}

/// The code of a refusal: ForgeRun's, or that of Open Job Spec.
fn refusal_code(example: &Value) -> &str {
    let places = ["/rfa_code", "/error/rfa_code", "/code", "/error/code"];
    places.iter().find_map(|place| example.pointer(place)?.as_str()).unwrap_or("")
}

fn refusal_title(example: &Value) -> &str {
    let places = ["/title", "/error/title", "/message", "/error/message"];
    places.iter().find_map(|place| example.pointer(place)?.as_str()).unwrap_or("")
}

fn json(value: &Value) -> Markup {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    html! { div .code { pre tabindex="0" { code .language-json { (text) } } } }
}

/// A paragraph, if there is a text.
fn paragraph(text: &str) -> Markup {
    html! { @if !text.is_empty() { p { (prose(text)) } } }
}

/// `open job spec` as `Open job spec`.
fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
