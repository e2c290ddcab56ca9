//! The report. Results are printed as they arrive and merged into `target/bench/report.json`. From there, `report.md`
//! (with a file for each plot) and `report.html` (with everything included) are written.
//!
//! A new run of a measurement replaces all results of its earlier run. Each result belongs to the current measurement
//! (`begin`), which is a section of the report.

mod document;
mod limit;
mod machine;
mod number;
mod plot;
mod results;
mod table;

pub(crate) use limit::Limit;
pub(crate) use machine::{Machine, Run};
pub(crate) use number::count;
pub(crate) use plot::{Plot, Series};
pub(crate) use table::{Cell, Row, Table, row};

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::Context;
use askama::Template;

use document::Document;
use results::{Ratio, Results, Section};

/// All results so far, including earlier runs.
pub(crate) struct Report {
    folder: PathBuf,
    results: Results,
    /// The current measurement: its name, its position in the run such as "[2/9] api", and its results.
    name: String,
    place: String,
    began: Instant,
    section: Section,
}

/// One line of a result: its name, the figure, its unit.
pub(crate) type Figure<Name = &'static str> = (Name, f64, &'static str);

impl Report {
    /// Opens the report of earlier runs, or an empty one.
    pub(crate) fn open() -> anyhow::Result<Self> {
        // The workspace's folder, independent of the current directory.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has a folder")?;
        Self::in_folder(root.join("target/bench"))
    }

    fn in_folder(folder: PathBuf) -> anyhow::Result<Self> {
        let path = folder.join("report.json");
        let results = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("{} is broken, or of another version of bench: delete it", path.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Results::default(),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let (name, place, section) = (String::new(), String::new(), Section::default());
        Ok(Self { folder, results, name, place, began: Instant::now(), section })
    }

    /// Begins a measurement, the `number`th of `total` in this run of the program. Removes its earlier results.
    pub(crate) fn begin(&mut self, measurement: &str, number: usize, total: usize, is_quick: bool) {
        measurement.clone_into(&mut self.name);
        self.place = format!("[{number}/{total}] {measurement}");
        self.began = Instant::now();
        self.results.machine = Machine::this();
        self.section = Section { run: Run::begin(is_quick), ..Section::default() };
        println!("\n=== {measurement} ({number} of {total})");
    }

    /// Ends the current measurement and writes the report. The first paragraph of the report names a failure.
    pub(crate) fn end(&mut self, failure: Option<String>) -> anyhow::Result<()> {
        let mut section = std::mem::take(&mut self.section);
        section.run.took_s = self.began.elapsed().as_secs_f64();
        section.run.load_after = machine::load_average();
        section.run.failure = failure;
        println!("\n{} took {:.0} s", self.name, section.run.took_s);
        self.results.measurements.insert(self.name.clone(), section);
        self.write()
    }

    /// Prints the current step, such as "loading 1,000,000 comments", to standard error.
    pub(crate) fn step(&self, what: &str) {
        eprintln!("{}, {:.1} s: {what}", self.place, self.began.elapsed().as_secs_f64());
    }

    /// Prints and stores figures of different units.
    pub(crate) fn add(&mut self, name: &str, about: &str, figures: &[Figure<impl AsRef<str>>]) {
        let rows =
            figures.iter().map(|(what, value, unit)| row![("", what.as_ref()), ("figure", *value), ("unit", *unit)]);
        self.table(Table::new(name, about, rows));
    }

    /// Prints and stores a figure that has a limit.
    pub(crate) fn ratio(&mut self, name: &str, value: f64, limit: Limit) {
        self.ratio_noted(name, value, limit, "");
    }

    /// Like [`Self::ratio`], with an additional note such as "at each size".
    pub(crate) fn ratio_noted(&mut self, name: &str, value: f64, limit: Limit, note: &str) {
        let (name, value, note) = (name.to_owned(), value.is_finite().then_some(value), note.to_owned());
        let ratio = Ratio { name, value, limit, note };
        println!("  {:<44} {:>12} (limit: {}) {}", ratio.name, ratio.text(), ratio.limit_and_note(), ratio.verdict());
        self.section.ratios.push(ratio);
    }

    pub(crate) fn table(&mut self, table: Table) {
        println!("\n{table}");
        self.section.tables.push(table);
    }

    pub(crate) fn plot(&mut self, plot: Plot) {
        self.section.plots.push(plot);
    }

    /// Prints and stores a sentence about where this design loses.
    pub(crate) fn loses(&mut self, sentence: &str) {
        println!("  {sentence}");
        self.section.losses.push(sentence.to_owned());
    }

    fn write(&self) -> anyhow::Result<()> {
        let document = Document::of(&self.results);
        let plots = self.results.measurements.values().flat_map(|section| &section.plots);
        let plots = plots.map(|plot| Ok((plot.file(), plot.svg()?))).collect::<anyhow::Result<Vec<_>>>()?;
        let json = format!("{}\n", serde_json::to_string_pretty(&self.results)?);
        fs::create_dir_all(self.folder.join("plots")).with_context(|| self.folder.display().to_string())?;
        let texts = [("report.json", json), ("report.md", document.markdown()), ("report.html", document.render()?)];
        for (file, text) in texts.map(|(file, text)| (file.to_owned(), text)).into_iter().chain(plots) {
            let path = self.folder.join(file);
            fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    pub(crate) fn print_path(&self) {
        println!("\nmerged into {}, report.md and report.json", self.folder.join("report.html").display());
    }
}
