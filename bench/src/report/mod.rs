//! The report: printed as tables, merged into `target/bench/report.json`.

mod plot;
mod table;

pub(crate) use plot::{Axis, Plot, Series};
pub(crate) use table::{Cell, Table};

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde_json::{Map, Value, json};

/// Everything measured so far, earlier runs included.
pub(crate) struct Report {
    path: PathBuf,
    measurements: Map<String, Value>,
    ratios: Map<String, Value>,
    tables: Map<String, Value>,
    plots: Map<String, Value>,
    /// Where this design loses, by measurement: sentences of the report's first paragraph.
    losses: Map<String, Value>,
}

/// One line of a result: what it is, the figure, its unit.
pub(crate) type Figure<Name = &'static str> = (Name, f64, &'static str);

impl Report {
    /// Opens the report of earlier runs, or an empty one.
    pub(crate) fn open() -> anyhow::Result<Self> {
        // The workspace's folder, wherever the command is run from.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has a folder")?;
        let path = root.join("target/bench/report.json");
        let mut earlier: Value = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| format!("{} is broken", path.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => json!({}),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let mut object = |name: &str| match earlier.get_mut(name).map(Value::take) {
            Some(Value::Object(map)) => map,
            _ => Map::new(),
        };
        Ok(Self {
            measurements: object("measurements"),
            ratios: object("ratios"),
            tables: object("tables"),
            plots: object("plots"),
            losses: object("losses"),
            path,
        })
    }

    /// Prints a result and keeps it.
    pub(crate) fn add(&mut self, name: &str, about: &str, figures: &[Figure<impl AsRef<str>>]) {
        println!("\n{name}: {about}");
        let mut kept = Map::new();
        for (what, figure, unit) in figures {
            let what = what.as_ref();
            println!("  {what:<44} {figure:>12.2} {unit}");
            kept.insert(what.to_owned(), json!({ "value": figure, "unit": unit }));
        }
        self.measurements.insert(name.to_owned(), json!({ "about": about, "figures": kept }));
    }

    /// Prints a figure that has a limit and keeps it.
    pub(crate) fn ratio(&mut self, name: &str, value: f64, limit: &str) {
        println!("  {name:<44} {value:>12.3} (limit: {limit})");
        self.ratios.insert(name.to_owned(), json!(value));
    }

    /// Prints a table and keeps it under its name.
    #[expect(dead_code, reason = "the comparisons that come next use it")]
    pub(crate) fn table(&mut self, table: Table) -> anyhow::Result<()> {
        println!("\n{table}");
        self.tables.insert(table.name.clone(), serde_json::to_value(table)?);
        Ok(())
    }

    /// Keeps a plot under its name.
    #[expect(dead_code, reason = "the comparisons that come next use it")]
    pub(crate) fn plot(&mut self, plot: Plot) -> anyhow::Result<()> {
        self.plots.insert(plot.name.clone(), serde_json::to_value(plot)?);
        Ok(())
    }

    /// Keeps in a sentence where this design loses, or instead of the one that the same measurement said before.
    #[expect(dead_code, reason = "the comparisons that come next use it")]
    pub(crate) fn loses(&mut self, measurement: &str, sentence: &str) {
        println!("  {sentence}");
        self.losses.insert(measurement.to_owned(), json!(sentence));
    }

    /// Writes the report.
    pub(crate) fn save(self) -> anyhow::Result<()> {
        let report = json!({
            "measurements": self.measurements,
            "ratios": self.ratios,
            "tables": self.tables,
            "plots": self.plots,
            "losses": self.losses,
        });
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&self.path, format!("{report:#}\n")).with_context(|| self.path.display().to_string())?;
        println!("\nmerged into {}", self.path.display());
        Ok(())
    }
}
