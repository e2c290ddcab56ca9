//! The content of `report.json`: the latest results of each measurement.

use std::{collections::BTreeMap, fs, io, path::Path};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::{
    limit::Limit,
    machine::{Machine, Run},
    number::figure,
    plot::Plot,
    quantity::Quantity,
    table::Table,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) measurements: BTreeMap<String, Section>,
}

/// The results of one measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Section {
    pub(crate) run: Run,
    /// What the designs are compared by: the value of each design.
    #[serde(default)]
    pub(crate) numbers: BTreeMap<Quantity, BTreeMap<String, f64>>,
    /// Texts that belong to the numbers, such as the month of the bills, by name.
    #[serde(default)]
    pub(crate) facts: BTreeMap<String, String>,
    pub(crate) ratios: Vec<Ratio>,
    pub(crate) tables: Vec<Table>,
    pub(crate) plots: Vec<Plot>,
}

impl Results {
    /// Reads a `report.json`; `None` if there is none.
    ///
    /// # Errors
    /// When the file cannot be read, or is of another version of the program.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        let how = || format!("{} is broken, or of another version of bench: delete it", path.display());
        match fs::read(path) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).with_context(how)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    pub(crate) fn number(&self, quantity: Quantity, design: &str) -> Option<f64> {
        self.measurements.values().find_map(|section| section.numbers.get(&quantity)?.get(design).copied())
    }

    pub(crate) fn fact(&self, name: &str) -> Option<&str> {
        self.measurements.values().find_map(|section| section.facts.get(name)).map(String::as_str)
    }

    pub(crate) fn plot(&self, name: &str) -> Option<&Plot> {
        self.measurements.values().flat_map(|section| &section.plots).find(|plot| plot.name == name)
    }

    pub(crate) fn ratios(&self) -> impl Iterator<Item = &Ratio> {
        self.measurements.values().flat_map(|section| &section.ratios)
    }
}

/// A figure that has a limit, or could have one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ratio {
    pub(crate) name: String,
    pub(crate) value: Option<f64>,
    pub(crate) limit: Limit,
    /// An additional note, such as "at each size".
    pub(crate) note: String,
}

impl Ratio {
    pub(super) fn text(&self) -> String {
        figure(self.value.unwrap_or(f64::NAN))
    }

    /// The value's relation to its limit, in one word.
    pub(crate) fn verdict(&self) -> &'static str {
        match self.value.and_then(|value| self.limit.holds(value)) {
            Some(true) => "holds",
            Some(false) => "MISSED",
            None => "",
        }
    }

    pub(crate) fn limit_and_note(&self) -> String {
        let (limit, note) = (self.limit.to_string(), self.note.as_str());
        // A note may say the limit and where it applies.
        if note.is_empty() {
            limit
        } else if note.starts_with(&limit) {
            note.to_owned()
        } else {
            format!("{limit}; {note}")
        }
    }
}
