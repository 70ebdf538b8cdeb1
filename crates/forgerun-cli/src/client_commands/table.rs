//! Tables: with a heading and cut to the width on a terminal, else as values between tabs, uncut.

use std::borrow::Cow;
use std::io;

use console::{measure_text_width, truncate_str};

use super::screen::Screen;
use crate::terminal::clean;

/// The space between two columns.
const GAP: usize = 2;

/// Minimum width of a cut column.
const LEAST: usize = 6;

/// Width of a cut id: an ellipsis and its last group, which commands accept.
const ID_LEAST: usize = 13;

pub(crate) struct Table {
    heading: &'static [&'static str],
    /// Columns of ids: cut first, and at their beginning, which ids of one day have in common.
    ids: &'static [usize],
    /// Columns that are cut next.
    flexible: &'static [usize],
    /// The column that is coloured by its value.
    state: Option<usize>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(heading: &'static [&'static str], flexible: &'static [usize]) -> Table {
        Table { heading, ids: &[], flexible, state: None, rows: Vec::new() }
    }

    pub(crate) fn with_state(mut self, column: usize) -> Table {
        self.state = Some(column);
        self
    }

    /// Cuts these columns first, and keeps the ends of their values.
    pub(crate) fn with_ids(mut self, columns: &'static [usize]) -> Table {
        self.ids = columns;
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.heading.len());
        // Line breaks and escape sequences in a name must not draw on the screen.
        self.rows.push(cells.into_iter().map(|cell| clean(&cell)).collect());
    }

    pub(crate) fn print(&self, screen: &Screen) -> io::Result<()> {
        if !screen.tables {
            return self.rows.iter().try_for_each(|row| screen.line(&row.join("\t")));
        }
        let paint = |column: usize, cell: &str| match self.state {
            Some(state) if state == column => screen.state(cell.trim_end(), cell),
            Some(_) | None => cell.to_owned(),
        };
        self.lines(screen.columns(), paint).iter().try_for_each(|line| screen.line(line))
    }

    /// The lines of the table, none wider than `columns`.
    fn lines(&self, columns: usize, paint: impl Fn(usize, &str) -> String) -> Vec<String> {
        let heading: Vec<String> = self.heading.iter().map(|cell| (*cell).to_owned()).collect();
        let rows = || std::iter::once(&heading).chain(&self.rows);
        let mut widths: Vec<usize> = (0..heading.len())
            .map(|n| rows().map(|row| measure_text_width(&row[n])).max().unwrap_or(0))
            .collect();
        let whole = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        while whole(&widths) > columns {
            let widest = |columns: &mut dyn Iterator<Item = usize>, least: usize| {
                columns.filter(|n| widths[*n] > least).max_by_key(|n| widths[*n])
            };
            let cut = widest(&mut self.ids.iter().copied(), ID_LEAST)
                .or_else(|| widest(&mut self.flexible.iter().copied(), LEAST))
                .or_else(|| widest(&mut (0..widths.len()).filter(|n| !self.ids.contains(n)), LEAST));
            let Some(widest) = cut else { break };
            widths[widest] -= 1;
        }
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate().map(|(n, (cell, width))| {
                let cut = match self.ids.contains(&n) {
                    true => cut_front(cell, *width),
                    false => truncate_str(cell, *width, "…"),
                };
                paint(n, &format!("{cut}{}", " ".repeat(width.saturating_sub(measure_text_width(&cut)))))
            });
            cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
        };
        rows().map(line).collect()
    }
}

/// The end of an id, in this width.
fn cut_front(id: &str, width: usize) -> Cow<'_, str> {
    let n_chars = id.chars().count();
    if n_chars <= width {
        return Cow::Borrowed(id);
    }
    let end: String = id.chars().skip(n_chars + 1 - width.max(1)).collect();
    Cow::Owned(format!("…{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(_: usize, cell: &str) -> String {
        cell.to_owned()
    }

    #[test]
    fn a_table_fits_into_80_columns_and_cuts_what_may_be_cut() {
        let mut table = Table::new(&["ID", "NAME", "AGE"], &[1]);
        let id = "019a0000-0000-7000-8000-000000000000";
        table.row(vec![id.into(), "a very long name ".repeat(9), "3 m ago".into()]);
        table.row(vec![id.into(), "short".into(), "just now".into()]);
        let lines = table.lines(80, plain);
        assert!(lines.iter().all(|line| measure_text_width(line) <= 80), "{lines:#?}");
        assert!(lines[1].starts_with(id) && lines[1].ends_with("…  3 m ago"), "{}", lines[1]);
        assert_eq!(lines[0], format!("ID{}NAME{}AGE", " ".repeat(36), " ".repeat(30)));
    }

    #[test]
    fn ids_are_cut_before_names_and_keep_their_end() {
        let mut table = Table::new(&["ID", "NAME", "AGE"], &[1]).with_ids(&[0]);
        let (id, name) = ("019a0000-0000-7000-8000-0123456789ab", "a name of thirty characters ok");
        table.row(vec![id.into(), name.into(), "3 m ago".into()]);
        assert_eq!(table.lines(80, plain)[1], format!("{id}  {name}  3 m ago"));
        assert_eq!(table.lines(60, plain)[1], format!("…-8000-0123456789ab  {name}  3 m ago"));
        assert_eq!(table.lines(40, plain)[1], "…0123456789ab  a name of thirt…  3 m ago");
    }

    #[test]
    fn control_characters_do_not_reach_the_screen() {
        let mut table = Table::new(&["A"], &[]);
        table.row(vec!["x\ny\u{1b}z".into()]);
        assert_eq!(table.lines(80, plain)[1], "x y z");
    }
}
