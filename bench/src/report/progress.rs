//! Shows the progress of a run on standard error: a line that counts the seconds on a terminal, plain lines otherwise.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::number::seconds;

/// Interval between two drawings of the line: long, because drawing takes processor time from the measurement.
const DRAW_EVERY: Duration = Duration::from_secs(1);

/// The progress of a measurement. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    /// The position of the measurement in the run, such as "[2/9] api".
    place: String,
    began: Instant,
    bar: ProgressBar,
}

impl Progress {
    /// Progress of the measurement `name`, the `number`th (from 1) of `of`. Shown until the last clone is dropped.
    pub(crate) fn begin(name: &str, number: usize, of: usize) -> Self {
        let place = format!("[{number}/{of}] {name}");
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{prefix}, {elapsed}: {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(place.clone());
        if !bar.is_hidden() {
            bar.enable_steady_tick(DRAW_EVERY);
        }
        Self { place, began: Instant::now(), bar }
    }

    /// Shows nothing, when no measurement is under way.
    pub(crate) fn none() -> Self {
        Self { place: String::new(), began: Instant::now(), bar: ProgressBar::hidden() }
    }

    /// Sets the current step, such as "loading 1,000,000 comments".
    pub(crate) fn step(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        if self.bar.is_hidden() && !self.place.is_empty() {
            eprintln!("{}, {}: {what}", self.place, seconds(self.elapsed().as_secs_f64()));
        }
    }

    /// Prints to standard output without breaking the progress line.
    pub(crate) fn print(&self, text: &str) {
        self.bar.suspend(|| println!("{text}"));
    }

    /// Duration of the measurement so far.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Removes the progress line.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
