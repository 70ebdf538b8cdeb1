//! The picture of a workflow: steps in columns, each right of its dependencies, and a line for
//! every dependency.

use std::collections::HashMap;

use forgerun_core::time::Time;
use forgerun_wire::workflow::StepView;
use maud::{Markup, html};

use super::course::{StepSpan, critical_path};
use super::parts;

/// Steps that are drawn; more would be unreadable. The table below has all of them.
const STEPS_DRAWN_MAX: usize = 200;

/// The size of a step, and the margin around it.
const WIDTH: usize = 168;
const HEIGHT: usize = 46;
const GAP_X: usize = 56;
const GAP_Y: usize = 16;

/// Characters that fit into a step: of its name, and of the line below.
const NAME_CHARS_MAX: usize = 16;
const WORDS_CHARS_MAX: usize = 20;

/// Column and row of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GraphPlace {
    column: usize,
    row: usize,
}

impl GraphPlace {
    const fn x(self) -> usize {
        self.column * (WIDTH + GAP_X)
    }

    const fn y(self) -> usize {
        self.row * (HEIGHT + GAP_Y)
    }
}

/// The place of each step: one column right of its last dependency. A cycle, which no workflow has,
/// would be at the left.
fn places(steps: &[StepView]) -> Vec<GraphPlace> {
    let by_id: HashMap<&str, usize> =
        steps.iter().enumerate().map(|(n, step)| (step.id.as_str(), n)).collect();
    let waits_for: Vec<Vec<usize>> = steps
        .iter()
        .map(|step| step.depends_on.iter().filter_map(|id| by_id.get(id.as_str()).copied()).collect())
        .collect();
    let mut columns = vec![0; steps.len()];
    // As many rounds as the longest path has steps; at most all of them.
    for _ in 0..steps.len() {
        let next: Vec<usize> =
            waits_for.iter().map(|of| of.iter().map(|n| columns[*n] + 1).max().unwrap_or(0)).collect();
        if next == columns {
            break;
        }
        columns = next.into_iter().map(|column| column.min(steps.len())).collect();
    }
    let mut filled: HashMap<usize, usize> = HashMap::new();
    columns
        .into_iter()
        .map(|column| {
            let next = filled.entry(column).or_default();
            *next += 1;
            GraphPlace { column, row: *next - 1 }
        })
        .collect()
}

pub(super) fn show(steps: &[StepView], now: Time) -> Markup {
    if steps.len() > STEPS_DRAWN_MAX {
        return parts::nothing("Too many steps for a picture; the table has all of them.");
    }
    let places = places(steps);
    let by_id: HashMap<&str, GraphPlace> =
        steps.iter().zip(&places).map(|(step, place)| (step.id.as_str(), *place)).collect();
    let width = places.iter().map(|place| place.x() + WIDTH).max().unwrap_or(WIDTH);
    let height = places.iter().map(|place| place.y() + HEIGHT).max().unwrap_or(HEIGHT);
    let path = critical_path(steps, now);
    let is_critical = |id: &str| path.contains(id);
    html! {
        svg .graph width=(width + 4) height=(height + 4) viewBox={ "-2 -2 " (width + 4) " " (height + 4) } role="group"
            aria-label={ "Graph of " (steps.len()) " steps" } {
            defs {
                (arrow("arrow", "")) (arrow("arrow-critical", "critical"))
            }
            @for (step, place) in steps.iter().zip(&places) {
                @for id in &step.depends_on { @if let Some(from) = by_id.get(id.as_str()) {
                    (line(*from, *place, step, is_critical(id) && is_critical(&step.id)))
                } }
            }
            @for (step, place) in steps.iter().zip(&places) { (node(step, *place, now, is_critical(&step.id))) }
        }
    }
}

/// The head of a line.
fn arrow(id: &str, class: &str) -> Markup {
    html! {
        marker id=(id) class={ "arrow " (class) } viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto" {
            path d="M0 0L8 4L0 8z" {}
        }
    }
}

fn line(from: GraphPlace, to: GraphPlace, step: &StepView, is_critical: bool) -> Markup {
    let (x1, y1) = (from.x() + WIDTH, from.y() + HEIGHT / 2);
    let (x2, y2) = (to.x(), to.y() + HEIGHT / 2);
    let middle = (x1 + x2) / 2;
    let class = if step.when == "all_succeeded" { "edge" } else { "edge otherwise" };
    let (class, head) = match is_critical {
        true => (format!("{class} critical"), "url(#arrow-critical)"),
        false => (class.to_owned(), "url(#arrow)"),
    };
    html! { path class=(class) marker-end=(head) d={ "M" (x1) " " (y1) "C" (middle) " " (y1) " " (middle) " " (y2) " " (x2) " " (y2) } {
        title { "when " (step.when) }
    } }
}

/// The mark of a state, in a square of ten units: states differ by shape, too.
fn shape(state: &str) -> &'static str {
    match state {
        "SUCCEEDED" => "M0 5.5L1.600 3.800L4 6.200L8.400 1L10 2.500L4.100 9.500z",
        "RUNNING" => "M5 0A5 5 0 1 1 4.990 0z",
        "FAILED" => "M5 0L10 10H0z",
        "QUEUED" => "M1 1H9V9H1z",
        "ASSIGNED" => "M5 0L10 5L5 10L0 5z",
        "CANCELED" | "SKIPPED" => "M0 4H10V6H0z",
        _ => "M5 0A5 5 0 1 1 4.990 0zM5 2A3 3 0 1 0 5.010 2z",
    }
}

/// The state in words: what is waited for, or how many elements of a list have succeeded.
fn words(step: &StepView) -> String {
    match (&step.wait, &step.elements) {
        (Some(wait), _) if wait.due_at.is_some() && step.state == "WAITING" => {
            short(&parts::awaited(wait), WORDS_CHARS_MAX)
        }
        (_, Some(of)) => format!("{} of {} done", of.succeeded + of.failed, of.total),
        _ => step.state.to_string(),
    }
}

fn node(step: &StepView, place: GraphPlace, now: Time, is_critical: bool) -> Markup {
    let state = step.state.to_ascii_lowercase();
    let took = StepSpan::of(step, now).map(|span| parts::span(span.seconds()));
    let (x, y) = (place.x(), place.y());
    let drawn = html! {
        title {
            (step.id) ": " (step.state) @if let Some(wait) = &step.wait { " " (parts::awaited(wait)) }
            @if let Some(took) = &took { ", " (took) }
            @if is_critical { ", on the critical path" }
            @if let Some(error) = &step.error { ", " (error) }
        }
        @if step.kind != "job" { rect class={ "node folded is-" (state) } x=(x + 4) y=(y + 4) width=(WIDTH) height=(HEIGHT) rx="7" {} }
        rect class={ "node is-" (state) @if is_critical { " critical" } } x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="7" {}
        text .name x=(x + 12) y=(y + 19) { (short(&step.id, NAME_CHARS_MAX)) }
        path class={ "shape is-" (state) } transform={ "translate(" (x + 12) " " (y + 27) ")" } fill-rule="evenodd" d=(shape(&step.state)) {}
        text class={ "word is-" (state) } x=(x + 27) y=(y + 36) { (words(step)) }
        @if let Some(took) = &took { text .took x=(x + WIDTH - 10) y=(y + 19) { (took) } }
    };
    html! {
        @match &step.job_id {
            Some(job) => a href={ (address(step)) (job) } data-step=(step.id) data-state=(step.state) data-critical[is_critical] { (drawn) },
            None => g data-step=(step.id) data-state=(step.state) { (drawn) },
        }
    }
}

/// Where the job of a step is shown: a step that is a workflow has a graph of its own.
pub(super) fn address(step: &StepView) -> &'static str {
    if step.kind == "job" { "/dashboard/jobs/" } else { "/dashboard/workflows/" }
}

/// The text, cut to fit.
fn short(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::dialects::dashboard) fn step(id: &str, depends_on: &[&str]) -> StepView {
        StepView {
            id: id.to_owned(),
            index: 0,
            job_type: None,
            queue: None,
            state: "WAITING".into(),
            depends_on: depends_on.iter().map(|id| (*id).to_owned()).collect(),
            when: "all_succeeded".into(),
            job_id: None,
            attempt: None,
            started_at: None,
            finished_at: None,
            error: None,
            wait: None,
            compensation: None,
            kind: "job".into(),
            elements: None,
        }
    }

    #[test]
    fn a_step_stands_right_of_all_it_waits_for() {
        let steps = [step("d", &["b", "c"]), step("a", &[]), step("b", &["a"]), step("c", &["b", "a"])];
        let columns: Vec<usize> = places(&steps).iter().map(|place| place.column).collect();
        assert_eq!(columns, [3, 0, 1, 2]);
        let side_by_side = places(&[step("a", &[]), step("b", &[])]);
        assert_eq!(side_by_side[1], GraphPlace { column: 0, row: 1 });
    }

    #[test]
    fn states_differ_by_shape() {
        let states = ["SUCCEEDED", "RUNNING", "FAILED", "QUEUED", "ASSIGNED", "CANCELED", "WAITING"];
        let shapes: std::collections::HashSet<_> = states.iter().map(|state| shape(state)).collect();
        assert_eq!(shapes.len(), states.len());
    }

    #[test]
    fn a_circle_is_drawn_too() {
        assert_eq!(places(&[step("a", &["b"]), step("b", &["a"])]).len(), 2);
    }
}
