//! The content of `report.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    limit::Limit,
    machine::{Machine, Run},
    number::figure,
    plot::Plot,
    table::Table,
};

/// All results so far: the latest run of each measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) machine: Machine,
    /// The runs by measurement.
    pub(crate) runs: BTreeMap<String, Run>,
    pub(crate) ratios: Vec<Ratio>,
    pub(crate) tables: Vec<Of<Table>>,
    pub(crate) plots: Vec<Of<Plot>>,
    /// Where this design loses, as sentences for the first paragraph.
    pub(crate) losses: Vec<Loss>,
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

impl Ratio {
    /// The value for people.
    pub(crate) fn text(&self) -> String {
        figure(self.value.unwrap_or(f64::NAN))
    }
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
        self.ratios.retain(|ratio| ratio.of != measurement);
        self.tables.retain(|table| table.of != measurement);
        self.plots.retain(|plot| plot.of != measurement);
        self.losses.retain(|loss| loss.of != measurement);
    }
}
