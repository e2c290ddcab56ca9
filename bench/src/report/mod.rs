//! The report. Results are printed as they arrive and merged into `target/bench/report.json`. From there, `report.md`
//! (with a file for each plot) and `report.html` (with everything included) are written.
//!
//! A new run of a measurement replaces all results of its earlier run. Each result belongs to the current measurement
//! (`begin`), which is a section of the report.

mod document;
mod html;
mod kept;
mod limit;
mod machine;
mod markdown;
mod number;
mod plot;
mod progress;
#[cfg(test)]
mod sample;
mod table;

pub(crate) use kept::Ratio;
pub(crate) use limit::Limit;
pub(crate) use machine::{Machine, beginning};
pub(crate) use number::{count, figure, seconds};
pub(crate) use plot::{Plot, Series};
pub(crate) use progress::Progress;
pub(crate) use table::{Cell, Table, row};

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;

use document::anchor;
use kept::{Kept, Loss, Of};
use limit::verdict;
use machine::Run;

/// All results so far, including earlier runs.
pub(crate) struct Report {
    folder: PathBuf,
    kept: Kept,
    /// The current measurement and its run.
    of: String,
    run: Run,
    progress: Progress,
}

/// One line of a result: its name, the figure, its unit.
pub(crate) type Figure<Name = &'static str> = (Name, f64, &'static str);

impl Report {
    /// Opens the report of earlier runs, or an empty one.
    pub(crate) fn open() -> anyhow::Result<Self> {
        // The workspace's folder, independent of the current directory.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has a folder")?;
        let folder = root.join("target/bench");
        let path = folder.join("report.json");
        let kept: Kept = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("{} is broken, or of another version of bench: delete it", path.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Kept::default(),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        Ok(Self { folder, kept, of: String::new(), run: Run::default(), progress: Progress::none() })
    }

    /// Begins a measurement, the `number`th of `total` in this run of the program. Removes its earlier results.
    pub(crate) fn begin(&mut self, measurement: &str, number: usize, total: usize, is_quick: bool) {
        measurement.clone_into(&mut self.of);
        self.kept.forget(measurement);
        self.kept.machine = Machine::this();
        self.run = beginning(is_quick);
        println!("\n=== {measurement} ({number} of {total})");
        self.progress = Progress::begin(measurement, number, total);
    }

    /// Ends the current measurement and writes the report. The first paragraph of the report names a failure.
    pub(crate) fn end(&mut self, failure: Option<String>) -> anyhow::Result<()> {
        self.progress.finish();
        let took_s = self.progress.elapsed().as_secs_f64();
        let load_after = machine::load_average();
        let run = Run { took_s, load_after, failure, ..std::mem::take(&mut self.run) };
        println!("\n{} took {}", self.of, seconds(took_s));
        self.kept.runs.insert(std::mem::take(&mut self.of), run);
        self.progress = Progress::none();
        self.write()
    }

    /// Sets the current step, such as "loading 1,000,000 comments".
    pub(crate) fn step(&self, what: &str) {
        self.progress.step(what);
    }

    /// Prints and stores figures of different units.
    pub(crate) fn add(&mut self, name: &str, about: &str, named: &[Figure<impl AsRef<str>>]) {
        self.table(figures(name, about, named));
    }

    /// Prints and stores a figure that has a limit.
    pub(crate) fn ratio(&mut self, name: &str, value: f64, limit: Limit) {
        self.ratio_noted(name, value, limit, "");
    }

    /// Like [`Self::ratio`], with an additional note such as "at each size".
    pub(crate) fn ratio_noted(&mut self, name: &str, value: f64, limit: Limit, note: &str) {
        let ratio = Ratio {
            of: self.of.clone(),
            name: name.to_owned(),
            value: value.is_finite().then_some(value),
            limit,
            holds: limit.holds(value),
            note: note.to_owned(),
        };
        let note = if note.is_empty() { String::new() } else { format!("; {note}") };
        let verdict = verdict(ratio.holds).to_uppercase();
        let said = format!("  {name:<44} {:>12} (limit: {limit}{note}) {verdict}", figure(value));
        self.progress.print(said.trim_end());
        replace(&mut self.kept.ratios, ratio, |kept| &kept.name);
    }

    /// Prints a table and stores it under its name.
    pub(crate) fn table(&mut self, table: Table) {
        self.progress.print(&format!("\n{table}"));
        let table = Of { of: self.of.clone(), it: table };
        replace(&mut self.kept.tables, table, |kept| &kept.it.name);
    }

    /// Stores a plot under its name.
    pub(crate) fn plot(&mut self, plot: Plot) {
        let plot = Of { of: self.of.clone(), it: plot };
        replace(&mut self.kept.plots, plot, |kept| &kept.it.name);
    }

    /// Stores a sentence about where this design loses. It replaces an earlier sentence of the same name.
    pub(crate) fn loses(&mut self, name: &str, sentence: &str) {
        self.progress.print(&format!("  {sentence}"));
        let loss = Loss { of: self.of.clone(), name: name.to_owned(), sentence: sentence.to_owned() };
        replace(&mut self.kept.losses, loss, |kept| &kept.name);
    }

    /// Writes the whole report.
    fn write(&self) -> anyhow::Result<()> {
        let plots = self.folder.join(markdown::PLOTS);
        fs::create_dir_all(&plots).with_context(|| plots.display().to_string())?;
        let write = |path: PathBuf, text: String| fs::write(&path, text).with_context(|| path.display().to_string());
        write(self.folder.join("report.json"), format!("{}\n", serde_json::to_string_pretty(&self.kept)?))?;
        for Of { it: plot, .. } in &self.kept.plots {
            write(plots.join(format!("{}.svg", anchor(&plot.name))), plot.svg()?)?;
        }
        write(self.folder.join("report.md"), markdown::markdown(&self.kept)?)?;
        write(self.folder.join("report.html"), html::html(&self.kept)?)
    }

    /// Prints the path of the report.
    pub(crate) fn print_path(&self) {
        println!("\nmerged into {}, report.md and report.json", self.folder.join("report.html").display());
    }
}

/// The table of figures with different units.
fn figures(name: &str, about: &str, figures: &[Figure<impl AsRef<str>>]) -> Table {
    let rows = figures.iter().map(|(what, value, unit)| row![what.as_ref(), *value, *unit]);
    Table::new(name, about, &["", table::OF_ANY_UNIT, "unit"], rows)
}

/// Replaces the element of the same name, or appends the new one.
fn replace<T>(all: &mut Vec<T>, new: T, name: impl Fn(&T) -> &String) {
    match all.iter_mut().find(|old| name(old) == name(&new)) {
        Some(old) => *old = new,
        None => all.push(new),
    }
}
