//! The report: figures, each with its unit, spread and note. They are printed as they arrive and merged into
//! `report.json`. A Markdown table and plots are made from one report, or from several runs.
//!
//! A new run of a measurement replaces all figures of its earlier run.

mod figure;
mod machine;
mod plot;

use std::{collections::BTreeMap, fmt::Write, fs, io, path::Path, path::PathBuf, time::Instant};

use anyhow::Context;
use itertools::Itertools;
use serde::{Deserialize, Serialize};

pub(crate) use figure::{Figure, count, text};
use machine::{Run, this_machine, wait_until_quiet};
pub(crate) use plot::{Plot, Series};

use crate::measure::Spread;

pub(crate) const PAGEMARK: &str = "Pagemark";
pub(crate) const FOUR_INDEXES: &str = "four indexes";
/// The same with transactional counters, so that its pages show totals like Pagemark's.
pub(crate) const FOUR_INDEXES_COUNTERS: &str = "four indexes with counters";

const JSON: &str = "report.json";
const MARKDOWN: &str = "report.md";

/// The content of `report.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Results {
    machine: String,
    measurements: BTreeMap<String, Section>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Section {
    run: Run,
    figures: Vec<Figure>,
    plots: Vec<Plot>,
}

/// The results so far, and the current measurement.
pub(crate) struct Report {
    folder: PathBuf,
    results: Results,
    name: String,
    began: Instant,
    section: Section,
}

impl Report {
    pub(crate) fn open(folder: PathBuf) -> anyhow::Result<Self> {
        let results = match read(&folder.join(JSON)) {
            Err(error) if is_missing(&error) => Results::default(),
            results => results?,
        };
        Ok(Self { folder, results, name: String::new(), began: Instant::now(), section: Section::default() })
    }

    /// Begins a measurement. Before the first one it waits for a quiet machine, but not in a quick run.
    pub(crate) async fn begin(&mut self, measurement: &str, is_quick: bool) {
        println!("\n=== {measurement}");
        // Later the load average contains the previous measurement's own work.
        if self.name.is_empty() && !is_quick {
            wait_until_quiet().await;
        }
        measurement.clone_into(&mut self.name);
        self.began = Instant::now();
        self.results.machine = this_machine();
        self.section = Section { run: Run::begin(is_quick), ..Section::default() };
    }

    /// Ends the current measurement and writes the report.
    pub(crate) fn end(&mut self, failure: Option<String>) -> anyhow::Result<()> {
        let mut section = std::mem::take(&mut self.section);
        section.run.took_s = self.began.elapsed().as_secs_f64();
        section.run.failure = failure;
        self.results.measurements.insert(self.name.clone(), section);
        fs::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        let json = format!("{}\n", serde_json::to_string_pretty(&self.results)?);
        write(&self.folder, JSON, &json)?;
        write(&self.folder, MARKDOWN, &markdown(std::slice::from_ref(&self.results))?)?;
        write_plots(&self.folder, &self.results)
    }

    pub(crate) fn step(&self, what: &str) {
        eprintln!("{}, {:.1} s: {what}", self.name, self.began.elapsed().as_secs_f64());
    }

    pub(crate) fn add(&mut self, name: impl Into<String>, value: impl Into<Spread>, unit: &str) {
        self.noted(name, value, unit, "");
    }

    /// Prints and keeps a figure. A note says a limit, or what the figure depends on. A value that was not measured, such
    /// as a 99th percentile of few calls, is left out.
    pub(crate) fn noted(&mut self, name: impl Into<String>, value: impl Into<Spread>, unit: &str, note: &str) {
        let value = value.into();
        if value.median.is_finite() {
            let figure = Figure::new(name.into(), value, unit, note);
            println!("| {} |", figure.cells());
            self.section.figures.push(figure);
        }
    }

    pub(crate) fn plot(&mut self, plot: Plot) {
        self.section.plots.push(plot);
    }
}

/// Prints the Markdown table of several runs: the median of each figure, the lowest and the highest. Writes the plots of
/// the last run beside its report.
pub(crate) fn print_runs(files: &[PathBuf]) -> anyhow::Result<()> {
    let runs: Vec<Results> = files.iter().map(|file| read(file)).collect::<anyhow::Result<_>>()?;
    print!("{}", markdown(&runs)?);
    let (file, last) = files.last().zip(runs.last()).context("no report")?;
    write_plots(file.parent().unwrap_or(Path::new(".")), last)
}

fn read(path: &Path) -> anyhow::Result<Results> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    let how = || format!("{} is broken, or of another version of bench: delete it", path.display());
    serde_json::from_slice(&bytes).with_context(how)
}

fn is_missing(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| path.display().to_string())
}

fn write_plots(folder: &Path, results: &Results) -> anyhow::Result<()> {
    let plots = results.measurements.values().flat_map(|section| &section.plots);
    plots.into_iter().try_for_each(|plot| write(folder, &format!("{}.svg", plot.name), &plot.svg()?))
}

/// The runs and their machine, and one table of all figures.
fn markdown(runs: &[Results]) -> anyhow::Result<String> {
    let mut text = String::new();
    if let Some(last) = runs.last() {
        writeln!(text, "{}\n", last.machine)?;
    }
    for (name, section) in runs.iter().flat_map(|run| &run.measurements) {
        writeln!(text, "- {name}: {}", section.run)?;
    }
    writeln!(text, "\n| measurement | figure | value | unit | lowest to highest | note |")?;
    writeln!(text, "| --- | --- | ---: | --- | --- | --- |")?;
    for name in runs.iter().flat_map(|run| run.measurements.keys()).sorted().unique() {
        let sections: Vec<&Section> = runs.iter().filter_map(|run| run.measurements.get(name)).collect();
        for figure in sections.iter().flat_map(|section| &section.figures).unique_by(|figure| &figure.name) {
            let values = sections.iter().flat_map(|section| &section.figures).filter(|of| of.name == figure.name);
            writeln!(text, "| {name} | {} |", Figure::over_runs(values.collect::<Vec<_>>().as_slice()).cells())?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn several_runs_are_one_table_of_medians_and_spreads() {
        let run = |rate: f64, share: Spread| Results {
            measurements: BTreeMap::from([(
                "index".to_owned(),
                Section {
                    figures: vec![
                        Figure::new("handler".to_owned(), rate.into(), "comments/s", ""),
                        Figure::new("index_vs_pipeline".to_owned(), share, "", "at least 0.7"),
                    ],
                    ..Section::default()
                },
            )]),
            ..Results::default()
        };
        let share = Spread { median: 0.6, lowest: 0.55, highest: 0.62 };
        let table = |runs: &[Results]| {
            let text = markdown(runs).unwrap();
            text.lines().filter(|line| line.starts_with("| index")).map(|line| format!("{line}\n")).collect::<String>()
        };
        expect![[r"
            | index | handler | 40,000 | comments/s |  |  |
            | index | index_vs_pipeline | 0.600 |  | 0.550 to 0.620 | at least 0.7 |
        "]]
        .assert_eq(&table(&[run(4e4, share)]));
        expect![[r"
            | index | handler | 42,000 | comments/s | 40,000 to 45,000 |  |
            | index | index_vs_pipeline | 0.600 |  | 0.500 to 0.700 | at least 0.7 |
        "]]
        .assert_eq(&table(&[run(4e4, share), run(4.5e4, 0.5.into()), run(4.2e4, 0.7.into())]));
    }
}
