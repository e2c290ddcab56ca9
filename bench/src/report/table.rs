//! Tables of a result.

use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, presets};
use serde::{Deserialize, Serialize};

use super::number::figure;
use crate::statistics::as_f64;

/// Width of a table on a terminal. Longer headings and texts take several lines.
const TERMINAL_WIDTH: u16 = 140;
/// A table with more columns is printed as wide as it is. Within the width, its texts and figures would be cut into pieces.
const WRAPPED_COLUMNS_MAX: usize = 12;

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

/// A row: each cell after the name of its column.
pub(crate) type Row = Vec<(String, Cell)>;

macro_rules! row {
    ($(($column:expr, $cell:expr)),* $(,)?) => { vec![$(($column.to_string(), $crate::report::Cell::from($cell))),*] };
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
    /// A table of rows that have the same columns.
    pub(crate) fn new(name: &str, about: impl Into<String>, rows: impl IntoIterator<Item = Row>) -> Self {
        let mut table = Self { name: name.to_owned(), about: about.into(), columns: Vec::new(), rows: Vec::new() };
        for row in rows {
            let (columns, cells) = row.into_iter().unzip();
            table.columns = columns;
            table.rows.push(cells);
        }
        table
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
        let is_wide = self.columns.len() > WRAPPED_COLUMNS_MAX;
        let arrangement = if is_wide { ContentArrangement::Disabled } else { ContentArrangement::Dynamic };
        table.set_content_arrangement(arrangement).set_header(&self.columns).add_rows(&self.rows);
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
        let row = |design: &str, p50_us: Option<f64>, thrown_away: Option<f64>, cursor_bytes: Option<f64>| {
            row![
                ("design", design),
                ("p50, us", p50_us),
                ("read and thrown away, items", thrown_away),
                ("cursor, bytes", cursor_bytes),
            ]
        };
        let rows = [
            row("Pagemark", Some(1_240.4), Some(0.0), None),
            row("four indexes", Some(980.25), Some(12.5), Some(1_048.0)),
            row("naïve", None, None, None),
        ];
        expect![[r"
            read: pages of 20
            | design       | p50, us | read and thrown away, items | cursor, bytes |
            |--------------|---------|-----------------------------|---------------|
            | Pagemark     |   1,240 |                           0 |             - |
            | four indexes |     980 |                        12.5 |         1,048 |
            | naïve        |       - |                           - |             - |"]]
        .assert_eq(&Table::new("read", "pages of 20", rows).to_string());
    }
}
