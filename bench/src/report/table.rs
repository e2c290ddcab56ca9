//! Tables of a result.

use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, presets};
use serde::{Deserialize, Serialize};

use super::number::{column, figure};
use crate::statistics::as_f64;

/// Width of a table on a terminal. Longer headings and texts take several lines.
const TERMINAL_WIDTH: u16 = 140;

/// The heading of a column whose figures have different units, so each has digits of its own.
pub(super) const OF_ANY_UNIT: &str = "figure";

/// A table with one row per case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    /// A name that is unique in the report, such as "read".
    pub(crate) name: String,
    /// The comparison in one or two sentences.
    pub(crate) about: String,
    /// The content of each column with its unit, such as "p50, us".
    pub(crate) columns: Vec<String>,
    /// Rows with one cell per column.
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Cell {
    /// A figure, in the column's unit.
    Figure(f64),
    /// A word.
    Text(String),
    /// No measurement exists for this cell.
    None,
}

/// A row of cells from figures, counts and texts.
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

    /// The cells as text, row by row.
    pub(crate) fn texts(&self) -> Vec<Vec<String>> {
        let mut texts: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::to_string).collect()).collect();
        let is_of_one_unit =
            |(place, heading): &(usize, &String)| *heading != OF_ANY_UNIT && self.is_of_figures(*place);
        for (place, _) in self.columns.iter().enumerate().filter(is_of_one_unit) {
            let value = |row: &Vec<Cell>| match row.get(place) {
                Some(Cell::Figure(value)) => *value,
                Some(Cell::Text(_) | Cell::None) | None => f64::NAN,
            };
            let column = column(&self.rows.iter().map(value).collect::<Vec<_>>());
            for (text, figure) in texts.iter_mut().filter_map(|row| row.get_mut(place)).zip(column) {
                *text = figure;
            }
        }
        texts
    }

    /// Whether a column holds only figures and is therefore right-aligned.
    pub(crate) fn is_of_figures(&self, column: usize) -> bool {
        let cells = || self.rows.iter().filter_map(|row| row.get(column));
        cells().all(|cell| !matches!(cell, Cell::Text(_))) && cells().any(|cell| matches!(cell, Cell::Figure(_)))
    }
}

/// The table on a terminal.
impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_width(TERMINAL_WIDTH);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_header(&self.columns).add_rows(self.texts());
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
    fn columns_are_aligned_and_figures_have_the_same_decimals() {
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
            | Pagemark     |   1,240 |                         0.0 |             - |
            | four indexes |     980 |                        12.5 |         1,048 |
            | naïve        |       - |                           - |             - |"]]
        .assert_eq(&Table::new("read", "pages of 20", &columns, rows).to_string());
    }
}
