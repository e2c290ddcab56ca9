//! Tables of a result.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A table: one row a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    /// Unique in the report, as in "read".
    pub(crate) name: String,
    /// What is compared, and how, in a sentence or two.
    pub(crate) about: String,
    /// What each column holds, with its unit, as in "p50, us".
    pub(crate) columns: Vec<String>,
    /// As many cells each as there are columns.
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
    /// Nothing was measured here.
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
            Self::Figure(figure) => write!(formatter, "{figure:.2}"),
            Self::Text(text) => formatter.write_str(text),
            Self::None => formatter.write_str("-"),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}: {}", self.name, self.about)?;
        writeln!(formatter, "  {}", self.columns.join(" | "))?;
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
            writeln!(formatter, "  {}", cells.join(" | "))?;
        }
        Ok(())
    }
}
