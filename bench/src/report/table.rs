//! Tables of a result.

use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, presets};
use serde::{Deserialize, Serialize};

use super::number::figure;
use crate::statistics::as_f64;

/// Width of a table on a terminal. Longer headings and texts take several lines.
const TERMINAL_WIDTH: u16 = 140;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    /// A name that is unique in the report, such as "read".
    pub(crate) name: String,
    /// The comparison in one or two sentences.
    pub(crate) about: String,
    /// The content of each column with its unit, such as "p50, us".
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Cell {
    /// A figure, in the column's unit.
    Figure(f64),
    Text(String),
    /// No measurement exists for this cell.
    None,
}

macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$($crate::report::Cell::from($cell)),*] };
}
pub(crate) use row;

impl From<f64> for Cell {
    fn from(figure: f64) -> Self {
        Self::Figure(figure)
    }
}

impl From<Option<f64>> for Cell {
    fn from(figure: Option<f64>) -> Self {
        figure.map_or(Self::None, Self::Figure)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Figure(as_f64(count))
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Figure(as_f64(count as u64))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Figure(value) => formatter.write_str(&figure(*value)),
            Self::Text(text) => formatter.write_str(text),
            Self::None => formatter.write_str("-"),
        }
    }
}

impl Table {
    pub(crate) fn new(
        name: &str,
        about: impl Into<String>,
        columns: &[impl AsRef<str>],
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Self {
        let columns = columns.iter().map(|column| column.as_ref().to_owned()).collect();
        Self { name: name.to_owned(), about: about.into(), columns, rows: rows.into_iter().collect() }
    }

    /// Whether a column holds only figures and is therefore right-aligned.
    pub(crate) fn is_of_figures(&self, column: usize) -> bool {
        let cells = || self.rows.iter().filter_map(|row| row.get(column));
        cells().all(|cell| !matches!(cell, Cell::Text(_))) && cells().any(|cell| matches!(cell, Cell::Figure(_)))
    }
}

impl Table {
    pub(super) fn class(&self, column: &usize) -> &'static str {
        if self.is_of_figures(*column) { "figure" } else { "" }
    }
}

/// The table on a terminal.
impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_width(TERMINAL_WIDTH);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_header(&self.columns).add_rows(&self.rows);
        for (place, column) in table.column_iter_mut().enumerate() {
            let alignment = if self.is_of_figures(place) { CellAlignment::Right } else { CellAlignment::Left };
            column.set_cell_alignment(alignment);
        }
        write!(formatter, "{}: {}\n{table}", self.name, self.about)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn columns_of_figures_are_right_aligned() {
        let columns = ["design", "p50, us", "read and thrown away, items", "cursor, bytes"];
        let rows = vec![
            row!["Pagemark", 1_240.4, 0.0, Cell::None],
            row!["four indexes", 980.25, 12.5, 1_048_u64],
            row!["naïve", Cell::None, Cell::None, Cell::None],
        ];
        expect![[r"
            read: pages of 20
            | design       | p50, us | read and thrown away, items | cursor, bytes |
            |--------------|---------|-----------------------------|---------------|
            | Pagemark     |   1,240 |                           0 |             - |
            | four indexes |     980 |                        12.5 |         1,048 |
            | naïve        |       - |                           - |             - |"]]
        .assert_eq(&Table::new("read", "pages of 20", &columns, rows).to_string());
    }
}
