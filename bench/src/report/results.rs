//! The content of `report.json`: the latest results of each measurement.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    limit::Limit,
    machine::{Machine, Run},
    number::figure,
    plot::Plot,
    table::Table,
};

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Results {
    pub(super) machine: Machine,
    pub(super) measurements: BTreeMap<String, Section>,
}

/// The results of one measurement.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Section {
    pub(super) run: Run,
    pub(super) ratios: Vec<Ratio>,
    pub(super) tables: Vec<Table>,
    pub(super) plots: Vec<Plot>,
    /// Where this design loses, as sentences for the first paragraph.
    pub(super) losses: Vec<String>,
}

/// A figure that has a limit, or could have one.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ratio {
    pub(super) name: String,
    pub(super) value: Option<f64>,
    pub(super) limit: Limit,
    /// An additional note, such as "at each size".
    pub(super) note: String,
}

impl Ratio {
    pub(super) fn text(&self) -> String {
        figure(self.value.unwrap_or(f64::NAN))
    }

    /// Whether the value respects its limit, if it has one.
    pub(super) fn holds(&self) -> Option<bool> {
        self.limit.holds(self.value.unwrap_or(f64::NAN))
    }

    /// The value's relation to its limit, in one word.
    pub(super) fn verdict(&self) -> &'static str {
        match self.holds() {
            Some(true) => "holds",
            Some(false) => "MISSED",
            None => "",
        }
    }

    pub(super) fn limit_and_note(&self) -> String {
        if self.note.is_empty() { self.limit.to_string() } else { format!("{}; {}", self.limit, self.note) }
    }
}
