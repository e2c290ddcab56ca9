//! Tables in Markdown.

use std::iter;

/// The cells of a line.
pub type Cells = Vec<String>;

pub struct MarkdownTable {
    pub head: Cells,
    pub rows: Vec<Cells>,
}

impl MarkdownTable {
    pub fn new<const COLUMNS: usize>(head: [&str; COLUMNS], rows: Vec<Cells>) -> Self {
        Self {
            head: head.map(str::to_owned).into(),
            rows,
        }
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn add<T>(&mut self, label: &str, columns: &[T], cell: impl Fn(&T) -> String) {
        let mut row = vec![label.to_owned()];
        row.extend(columns.iter().map(cell));
        self.rows.push(row);
    }

    /// Its text. The cells of every column but the first stand at the right.
    pub fn text(&self) -> String {
        let mut rule = Vec::new();
        for column in 0..self.head.len() {
            rule.push(if column == 0 { "---" } else { "---:" }.to_owned());
        }
        let mut text = line(&self.head) + &line(&rule);
        for row in &self.rows {
            text.push_str(&line(row));
        }
        text
    }

    /// The table, with cells of equal width in each column, for a terminal.
    pub fn aligned(mut self) -> Self {
        for column in 0..self.head.len() {
            let width = self.width(column);
            for row in iter::once(&mut self.head).chain(&mut self.rows) {
                if let Some(cell) = row.get_mut(column) {
                    *cell = if column == 0 {
                        format!("{cell:<width$}")
                    } else {
                        format!("{cell:>width$}")
                    };
                }
            }
        }
        self
    }

    fn width(&self, column: usize) -> usize {
        let rows = iter::once(&self.head).chain(&self.rows);
        let widths = rows.filter_map(|row| Some(row.get(column)?.chars().count()));
        widths.max().unwrap_or_default()
    }
}

fn line(cells: &Cells) -> String {
    format!("| {} |\n", cells.join(" | "))
}
