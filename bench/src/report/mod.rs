//! The report: figures, each with its unit, spread and note. They are printed as they arrive and
//! merged into `report.json`. A Markdown table and plots are made from one report.
//!
//! A new run of a measurement replaces all figures of its earlier run.

mod figure;
mod machine;
mod plot;

use std::{collections::BTreeMap, fmt::Write, fs, path::Path, path::PathBuf, time::Instant};

use anyhow::Context;
use serde::{Deserialize, Serialize};

pub(crate) use cost::{
    Cells, FOUR_INDEXES, FOUR_INDEXES_BATCH, FOUR_INDEXES_COUNTERS, FOUR_INDEXES_PAGE_INDEX,
    FOUR_INDEXES_STREAM, MarkdownTable, NOT_A_NUMBER as NOT_MEASURED, PAGEMARK, count, text,
};
pub(crate) use figure::{Figure, interval};
pub(crate) use machine::QUICK;
use machine::{this_machine, this_run};
pub(crate) use plot::{Plot, PlotLine};

use crate::measure::Spread;

pub(crate) const JSON: &str = "report.json";
const MARKDOWN: &str = "report.md";

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) machine: String,
    pub(crate) measurements: BTreeMap<String, Section>,
}

impl Results {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        serde_json::from_slice(&bytes).with_context(|| {
            format!(
                "{} is broken, or of another version of bench: delete it",
                path.display()
            )
        })
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Section {
    pub(crate) run: String,
    pub(crate) took_s: f64,
    /// Why it ended early, if it did.
    pub(crate) failure: Option<String>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) plots: Vec<Plot>,
}

impl Section {
    /// The commit of the measured code.
    pub(crate) fn commit(&self) -> Option<&str> {
        let (_, commit) = self.run.split_once("commit ")?;
        commit.split(',').next()
    }

    /// The load of the machine when the measurement began.
    pub(crate) fn load(&self) -> Option<f64> {
        let (_, load) = self.run.split_once("load ")?;
        load.split(',').next()?.parse().ok()
    }
}

/// The results so far, and the current measurement.
pub(crate) struct BenchReport {
    folder: PathBuf,
    results: Results,
    name: String,
    began: Instant,
    section: Section,
}

impl BenchReport {
    pub(crate) fn open(folder: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let file = folder.join(JSON);
        let results = if file.exists() {
            Results::read(&file)?
        } else {
            Results::default()
        };
        Ok(Self {
            folder,
            results,
            name: String::new(),
            began: Instant::now(),
            section: Section::default(),
        })
    }

    pub(crate) fn begin(&mut self, measurement: &str, is_quick: bool) {
        println!("\n=== {measurement}");
        measurement.clone_into(&mut self.name);
        self.began = Instant::now();
        self.results.machine = this_machine();
        self.section = Section {
            run: this_run(is_quick),
            ..Section::default()
        };
    }

    pub(crate) fn end(&mut self, failure: Option<String>) -> anyhow::Result<()> {
        let mut section = std::mem::take(&mut self.section);
        section.took_s = self.began.elapsed().as_secs_f64();
        section.failure = failure;
        self.results.measurements.insert(self.name.clone(), section);
        let json = format!("{}\n", serde_json::to_string_pretty(&self.results)?);
        self.write(JSON, &json)?;
        self.write(MARKDOWN, &markdown(&self.results)?)
    }

    pub(crate) fn step(&self, what: &str) {
        eprintln!(
            "{}, {:.1} s: {what}",
            self.name,
            self.began.elapsed().as_secs_f64()
        );
    }

    pub(crate) fn add(&mut self, name: impl Into<String>, value: impl Into<Spread>, unit: &str) {
        self.noted(name, value, unit, "");
    }

    /// Prints and keeps a figure. A note says a limit, or what the figure depends on. A value that
    /// was not measured, such as a 99th percentile of few calls, is left out.
    pub(crate) fn noted(
        &mut self,
        name: impl Into<String>,
        value: impl Into<Spread>,
        unit: &str,
        note: &str,
    ) {
        let value = value.into();
        if value.median.is_finite() {
            let figure = Figure::new(name.into(), value, unit, note);
            println!("| {} |", figure.cells());
            self.section.figures.push(figure);
        }
    }

    /// Keeps a plot, and writes it as SVG beside the report.
    pub(crate) fn plot(&mut self, plot: Plot) -> anyhow::Result<()> {
        self.write(&format!("{}.svg", plot.name), &plot.svg()?)?;
        self.section.plots.push(plot);
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    }
}

/// The run and its machine, and a table of all figures.
fn markdown(results: &Results) -> anyhow::Result<String> {
    let mut text = format!("{}\n\n", results.machine);
    for (name, section) in &results.measurements {
        write!(text, "- {name}: {}, {:.0} s", section.run, section.took_s)?;
        if let Some(failure) = &section.failure {
            write!(text, ", FAILED: {failure}")?;
        }
        writeln!(text)?;
    }
    writeln!(
        text,
        "\n| measurement | figure | value | unit | lowest to highest | note |"
    )?;
    writeln!(text, "| --- | --- | ---: | --- | --- | --- |")?;
    for (name, section) in &results.measurements {
        for figure in &section.figures {
            writeln!(text, "| {name} | {} |", figure.cells())?;
        }
    }
    Ok(text)
}
