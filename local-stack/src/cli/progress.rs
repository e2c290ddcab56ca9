//! Shows the progress of an import: a bar on a terminal, plain lines otherwise.

use std::{
    io::{IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;

use crate::import::ImportReport;

/// Interval between two looks at the progress.
const BAR_EVERY: Duration = Duration::from_millis(200);
/// Interval between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows progress until it is dropped.
pub(super) struct Display(JoinHandle<()>, ProgressBar);

impl Display {
    /// Shows how many comments are `done`, and the `share` of the work, from 0 to 1.
    pub(super) fn show(name: String, done: Arc<AtomicU64>, share: impl Fn() -> f64 + Send + 'static) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = if terminal { ProgressBar::new(1_000) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:30} {percent:>3}% {msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(name.clone());
        let shown = bar.clone();
        let task = tokio::spawn(async move {
            let began = Instant::now();
            let mut last_line = began;
            loop {
                tokio::time::sleep(BAR_EVERY).await;
                let count = done.load(Ordering::Relaxed);
                let message = message(count, share(), began.elapsed());
                shown.set_position(thousandths(share()));
                shown.set_message(message.clone());
                if !terminal && last_line.elapsed() >= LINE_EVERY {
                    last_line = Instant::now();
                    eprintln!("{name}: {message}");
                }
            }
        });
        Self(task, bar)
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.0.abort();
        self.1.finish_and_clear();
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a bar, clamped")]
fn thousandths(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * 1_000.0) as u64
}

fn message(count: u64, share: f64, elapsed: Duration) -> String {
    let rate = per_second(count, elapsed);
    let percent = thousandths(share) / 10;
    let mut message = format!("{} comments, {rate:.0}/s, {percent} % read", HumanCount(count));
    if share > 0.01 && share < 1.0 {
        let left = elapsed.mul_f64((1.0 - share) / share);
        message.push_str(&format!(", {} left", HumanDuration(left)));
    }
    message
}

/// A rate.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub(super) fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64().max(0.001)
}

/// Writes a text to stdout. The process must not end when the reader of stdout has gone; `println!` would panic then.
pub(super) fn say(text: &str) {
    std::io::stdout().write_all(text.as_bytes()).ok();
}

/// The outcome of an import.
pub(super) fn report_text(name: &str, report: &ImportReport) -> String {
    let seconds = report.took.as_secs_f64();
    let mut text = format!(
        "{name}: {} new, {} unchanged, {} differ from what is there (left as they are), {} bad, in {seconds:.1} s ({:.0}/s)\n",
        HumanCount(report.created),
        HumanCount(report.unchanged),
        HumanCount(report.differing),
        HumanCount(report.bad),
        per_second(report.lines(), report.took),
    );
    for line in &report.bad_lines {
        text.push_str(&format!("{name}: line {}: {}\n", line.number, line.reason));
    }
    let more = report.bad.saturating_sub(u64::try_from(report.bad_lines.len()).unwrap_or(u64::MAX));
    if more > 0 {
        text.push_str(&format!("{name}: and {} more bad lines\n", HumanCount(more)));
    }
    text
}
