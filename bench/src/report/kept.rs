//! The content of `report.json`.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{limit::Limit, machine::Machine, number::figure, plot::Plot, table::Table};

/// All results so far: the latest run of each measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) machine: Machine,
    /// The runs by measurement.
    pub(crate) runs: BTreeMap<String, Run>,
    pub(crate) figures: Vec<Figures>,
    pub(crate) ratios: Vec<Ratio>,
    pub(crate) tables: Vec<Of<Table>>,
    pub(crate) plots: Vec<Of<Plot>>,
    /// Where this design loses, as sentences for the first paragraph.
    pub(crate) losses: Vec<Loss>,
}

/// The time, settings and code of a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// RFC 3339, UTC.
    pub(crate) began: String,
    pub(crate) took_s: f64,
    /// Load averages of the last minute at the start and at the end. The one at the end includes the measurement's own
    /// work.
    pub(crate) load_before: Option<f64>,
    pub(crate) load_after: Option<f64>,
    pub(crate) is_quick: bool,
    pub(crate) command: String,
    /// The git commit; empty without git.
    pub(crate) commit: String,
    /// Whether the code had uncommitted changes.
    pub(crate) is_dirty: bool,
    /// Why it ended early, if it did.
    #[serde(default)]
    pub(crate) failure: Option<String>,
}

/// Figures of a measurement outside its tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// The measurement.
    pub(crate) of: String,
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) figures: Vec<NamedFigure>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NamedFigure {
    pub(crate) name: String,
    /// `None` if the value is not finite.
    pub(crate) value: Option<f64>,
    pub(crate) unit: String,
}

impl NamedFigure {
    pub(crate) fn new(name: &str, value: f64, unit: &str) -> Self {
        Self { name: name.to_owned(), value: value.is_finite().then_some(value), unit: unit.to_owned() }
    }

    /// The figure for people, without its unit.
    pub(crate) fn text(&self) -> String {
        figure(self.value.unwrap_or(f64::NAN))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.name, self.about)?;
        let width = self.figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or(0).max(44);
        for figure in &self.figures {
            let line = format!("  {:<width$} {:>12} {}", figure.name, figure.text(), figure.unit);
            write!(formatter, "\n{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A figure that has a limit, or could have one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ratio {
    pub(crate) of: String,
    pub(crate) name: String,
    pub(crate) value: Option<f64>,
    pub(crate) limit: Limit,
    /// Whether the value respects its limit, if it has one.
    pub(crate) holds: Option<bool>,
    /// An additional note, such as "at each size".
    pub(crate) note: String,
}

/// A table or plot, with the measurement that it belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Of<What> {
    pub(crate) of: String,
    #[serde(flatten)]
    pub(crate) it: What,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Loss {
    pub(crate) of: String,
    /// The name of the lost comparison in the measurement.
    pub(crate) name: String,
    pub(crate) sentence: String,
}

impl Kept {
    /// Removes the results of an earlier run of the measurement.
    pub(crate) fn forget(&mut self, measurement: &str) {
        self.runs.remove(measurement);
        self.figures.retain(|figures| figures.of != measurement);
        self.ratios.retain(|ratio| ratio.of != measurement);
        self.tables.retain(|table| table.of != measurement);
        self.plots.retain(|plot| plot.of != measurement);
        self.losses.retain(|loss| loss.of != measurement);
    }
}
