//! The report. Results are printed as they arrive and merged into `report.json`. `page` makes texts and plots from it.
//!
//! A new run of a measurement replaces all results of its earlier run. Each result belongs to the current measurement
//! (`begin`), which is a section of the report.

mod limit;
mod load;
mod machine;
mod number;
mod plot;
mod quantity;
mod results;
mod table;

pub(crate) use limit::Limit;
pub(crate) use load::{LOAD_MAX, quiet};
pub(crate) use machine::{Machine, Run};
pub(crate) use number::{count, figure};
pub(crate) use plot::{Plot, Series};
pub(crate) use quantity::{
    FOUR_INDEXES, FOUR_INDEXES_CACHED, FOUR_INDEXES_COUNTERS, HITS_OF_TEN, ONE_SET_A_FILTER, PAGEMARK, Quantity,
};
pub(crate) use results::{Ratio, Results, Section};
pub(crate) use table::{Cell, Row, Table, row};

use std::{fs, path::PathBuf, time::Instant};

use anyhow::Context;

/// The file with the results in a report's folder.
pub(crate) const FILE: &str = "report.json";

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
    /// Opens the report in a folder: that of earlier runs, or an empty one.
    pub(crate) fn open(folder: PathBuf) -> anyhow::Result<Self> {
        let results = Results::read(&folder.join(FILE))?.unwrap_or_default();
        let (name, place, section) = (String::new(), String::new(), Section::default());
        Ok(Self { folder, results, name, place, began: Instant::now(), section })
    }

    /// Begins a measurement, the `number`th of `total` in this run of the program. Removes its earlier results. Waits for
    /// a quiet machine, but not in a quick run.
    pub(crate) async fn begin(&mut self, measurement: &str, number: usize, total: usize, is_quick: bool) {
        println!("\n=== {measurement} ({number} of {total})");
        let load = if is_quick { None } else { quiet(number == 1).await };
        measurement.clone_into(&mut self.name);
        self.place = format!("[{number}/{total}] {measurement}");
        self.began = Instant::now();
        self.results.machine = Machine::this();
        let run = Run::begin(is_quick);
        let run = Run { load_before: load.or(run.load_before), ..run };
        self.section = Section { run, ..Section::default() };
    }

    /// Ends the current measurement and writes the report.
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

    /// Stores a design's value of a quantity by which designs are compared. A value that is not a number is left out, so
    /// the quantity counts as not measured.
    pub(crate) fn number(&mut self, quantity: Quantity, design: &str, value: f64) {
        if value.is_finite() {
            self.section.numbers.entry(quantity).or_default().insert(design.to_owned(), value);
        }
    }

    /// The results so far, of earlier runs too.
    pub(crate) fn results(&self) -> &Results {
        &self.results
    }

    fn write(&self) -> anyhow::Result<()> {
        let path = self.folder.join(FILE);
        fs::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        let json = format!("{}\n", serde_json::to_string_pretty(&self.results)?);
        fs::write(&path, json).with_context(|| path.display().to_string())
    }
}
