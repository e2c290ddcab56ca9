//! Tables of a result.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::number::{column, figure};

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

impl From<f64> for Cell {
    fn from(figure: f64) -> Self {
        Self::Figure(figure)
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
    /// The cells as text, row by row.
    pub(crate) fn texts(&self) -> Vec<Vec<String>> {
        let mut texts: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::to_string).collect()).collect();
        for place in (0..self.columns.len()).filter(|place| self.is_of_figures(*place)) {
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

/// Aligned columns. A heading that is wider than its column's cells takes several lines.
impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.name, self.about)?;
        let rows = self.texts();
        let columns: Vec<Column> = (0..)
            .zip(&self.columns)
            .map(|(place, heading)| {
                let widest = rows.iter().filter_map(|row| row.get(place)).map(|cell| cell.chars().count()).max();
                Column::new(heading, widest.unwrap_or(0), self.is_of_figures(place))
            })
            .collect();
        let lines = columns.iter().map(|column| column.heading.len()).max().unwrap_or(0);
        let heading = |line: usize| columns.iter().map(|column| column.heading_line(line, lines)).collect::<Vec<_>>();
        let rule: Vec<String> = columns.iter().map(|column| "-".repeat(column.width)).collect();
        for row in (0..lines).map(heading).chain([rule]).chain(rows) {
            let cells: Vec<String> = columns.iter().zip(&row).map(|(column, cell)| column.pad(cell)).collect();
            write!(formatter, "\n  {}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// The layout of a column on a terminal.
struct Column {
    heading: Vec<String>,
    width: usize,
    is_of_figures: bool,
}

impl Column {
    fn new(heading: &str, widest_cell: usize, is_of_figures: bool) -> Self {
        let longest_word = heading.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
        let width = widest_cell.max(longest_word);
        let mut lines: Vec<String> = Vec::new();
        for word in heading.split(' ') {
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        Self { heading: lines, width, is_of_figures }
    }

    /// One line of the heading. Headings are aligned to the bottom of `lines` lines.
    fn heading_line(&self, line: usize, lines: usize) -> String {
        let above = lines - self.heading.len();
        line.checked_sub(above).and_then(|line| self.heading.get(line)).cloned().unwrap_or_default()
    }

    fn pad(&self, cell: &str) -> String {
        let width = self.width;
        if self.is_of_figures { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn columns_are_aligned_and_long_headings_wrapped() {
        let row = |name: &str, cells: [Cell; 3]| [Cell::from(name)].into_iter().chain(cells).collect();
        let table = Table {
            name: "read".to_owned(),
            about: "pages of 20".to_owned(),
            columns: ["design", "p50, us", "read and thrown away, items", "cursor, bytes"].map(str::to_owned).to_vec(),
            rows: vec![
                row("Pagemark", [1_240.4.into(), 0.0.into(), Cell::None]),
                row("four indexes", [980.25.into(), 12.5.into(), 1_048.0.into()]),
                row("naïve", [Cell::None, Cell::None, Cell::None]),
            ],
        };
        expect![[r#"
            read: pages of 20
                                     read
                                      and
                                   thrown
                             p50,   away,  cursor,
              design           us   items    bytes
              ------------  -----  ------  -------
              Pagemark      1,240     0.0        -
              four indexes    980    12.5    1,048
              naïve             -       -        -"#]]
        .assert_eq(&table.to_string());
    }
}
