//! The picture of a workflow: steps in columns, each right of its dependencies, and a line for
//! every dependency.

use std::collections::HashMap;

use forgerun_wire::workflow::StepView;
use maud::{Markup, html};

use super::parts;

/// Steps that are drawn; more would be unreadable. The table below has all of them.
const STEPS_DRAWN_MAX: usize = 200;

/// The size of a step, and the margin around it.
const WIDTH: usize = 168;
const HEIGHT: usize = 46;
const GAP_X: usize = 56;
const GAP_Y: usize = 16;

/// Characters of a name that fit into a step.
const CHARS_MAX: usize = 19;

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

pub(super) fn show(steps: &[StepView]) -> Markup {
    if steps.len() > STEPS_DRAWN_MAX {
        return parts::nothing("Too many steps for a picture; the table has all of them.");
    }
    let places = places(steps);
    let by_id: HashMap<&str, GraphPlace> =
        steps.iter().zip(&places).map(|(step, place)| (step.id.as_str(), *place)).collect();
    let width = places.iter().map(|place| place.x() + WIDTH).max().unwrap_or(WIDTH);
    let height = places.iter().map(|place| place.y() + HEIGHT).max().unwrap_or(HEIGHT);
    html! {
        svg .graph width=(width + 4) height=(height + 4) viewBox={ "-2 -2 " (width + 4) " " (height + 4) } role="group"
            aria-label={ "Graph of " (steps.len()) " steps" } {
            @for (step, place) in steps.iter().zip(&places) {
                @for from in step.depends_on.iter().filter_map(|id| by_id.get(id.as_str())) { (line(*from, *place, step)) }
            }
            @for (step, place) in steps.iter().zip(&places) { (node(step, *place)) }
        }
    }
}

fn line(from: GraphPlace, to: GraphPlace, step: &StepView) -> Markup {
    let (x1, y1) = (from.x() + WIDTH, from.y() + HEIGHT / 2);
    let (x2, y2) = (to.x(), to.y() + HEIGHT / 2);
    let middle = (x1 + x2) / 2;
    let class = if step.when == "all_succeeded" { "edge" } else { "edge otherwise" };
    html! { path class=(class) d={ "M" (x1) " " (y1) "C" (middle) " " (y1) " " (middle) " " (y2) " " (x2) " " (y2) } {
        title { "when " (step.when) }
    } }
}

fn node(step: &StepView, place: GraphPlace) -> Markup {
    let drawn = html! {
        title {
            (step.id) ": " (step.state) @if let Some(wait) = &step.wait { " " (parts::awaited(wait)) }
            @if let Some(error) = &step.error { ", " (error) }
        }
        rect class={ "node is-" (step.state.to_ascii_lowercase()) } x=(place.x()) y=(place.y()) width=(WIDTH) height=(HEIGHT) rx="7" {}
        text .name x=(place.x() + 12) y=(place.y() + 19) { (short(&step.id)) }
        text class={ "word is-" (step.state.to_ascii_lowercase()) } x=(place.x() + 12) y=(place.y() + 36) {
            @match step.wait.as_ref().filter(|wait| wait.due_at.is_some() && step.state == "WAITING") {
                Some(wait) => (short(&parts::awaited(wait))),
                None => (step.state),
            }
        }
    };
    html! {
        @match &step.job_id {
            Some(job) => a href={ "/dashboard/jobs/" (job) } data-step=(step.id) data-state=(step.state) { (drawn) },
            None => g data-step=(step.id) data-state=(step.state) { (drawn) },
        }
    }
}

/// The name, cut to fit.
fn short(name: &str) -> String {
    match name.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(id: &str, depends_on: &[&str]) -> StepView {
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
    fn a_circle_is_drawn_too() {
        assert_eq!(places(&[step("a", &["b"]), step("b", &["a"])]).len(), 2);
    }
}
