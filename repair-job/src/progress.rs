//! Shows the progress of a run: a bar on a terminal, plain lines otherwise.

use std::{
    io::IsTerminal,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;

/// Interval between two updates of the bar.
const BAR_EVERY: Duration = Duration::from_millis(200);
/// Interval between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// The share of a complete run, in millionths.
const WHOLE: u64 = 1_000_000;

/// The progress of a run. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    done: AtomicU64,
    /// In millionths.
    share: AtomicU64,
    items: AtomicU64,
    /// Steps done, including those of earlier runs, and the expected total.
    steps: AtomicU64,
    expected: AtomicU64,
}

impl Progress {
    pub(crate) fn add(&self, comments: u64) {
        self.0.done.fetch_add(comments, Ordering::Relaxed);
    }

    /// Counts items of a table with about `whole` items. The share never falls below a value known from other sources.
    pub(crate) fn add_items(&self, items: u64, whole: u64) {
        let done = self.0.items.fetch_add(items, Ordering::Relaxed) + items;
        // The table's item count may be old. Only the end of the work sets the share to 100 %.
        let share = done.saturating_mul(WHOLE) / whole.max(1);
        self.0.share.fetch_max(share.min(WHOLE / 100 * 99), Ordering::Relaxed);
    }

    /// Sets the expected number of steps. All kinds of steps (items to read, batches) should take about as long.
    pub(crate) fn expect(&self, steps: u64) {
        self.0.steps.store(0, Ordering::Relaxed);
        self.0.share.store(0, Ordering::Relaxed);
        self.0.expected.store(steps, Ordering::Relaxed);
    }

    /// Counts completed steps of any part of the work.
    pub(crate) fn advance(&self, steps: u64) {
        let done = self.0.steps.fetch_add(steps, Ordering::Relaxed) + steps;
        let expected = self.0.expected.load(Ordering::Relaxed);
        if expected > 0 {
            // The work may have more steps than expected. Only its end sets the share to 100 %.
            let share = u128::from(done) * u128::from(WHOLE) / u128::from(expected);
            self.0.share.fetch_max(u64::try_from(share).unwrap_or(WHOLE).min(WHOLE / 100 * 99), Ordering::Relaxed);
        }
    }

    /// Marks the work as complete.
    pub(crate) fn finish(&self) {
        self.set_share(1, 1);
    }

    /// Sets the completed part of `whole`.
    pub(crate) fn set_share(&self, done: u64, whole: u64) {
        let share = done.saturating_mul(WHOLE) / whole.max(1);
        self.0.share.fetch_max(share.min(WHOLE), Ordering::Relaxed);
    }

    /// Approximate share of the work that is done, from 0 to 1. It includes what earlier runs did.
    pub fn share(&self) -> f64 {
        let share = u32::try_from(self.0.share.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        f64::from(share) / 1e6
    }

    /// Shows the progress on standard error until the display is dropped.
    pub fn show(&self, name: &'static str) -> Display {
        let terminal = std::io::stderr().is_terminal();
        let bar = if terminal { ProgressBar::new(WHOLE) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:30} {percent:>3}% {msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(name);
        let (shown, progress) = (bar.clone(), self.clone());
        let task = tokio::spawn(async move {
            let began = Instant::now();
            let mut last_line = began;
            loop {
                tokio::time::sleep(BAR_EVERY).await;
                let message = progress.message(began.elapsed());
                shown.set_position(progress.0.share.load(Ordering::Relaxed));
                shown.set_message(message.clone());
                if !terminal && last_line.elapsed() >= LINE_EVERY {
                    last_line = Instant::now();
                    eprintln!("{name}: {message}");
                }
            }
        });
        Display(task, bar)
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    fn message(&self, elapsed: Duration) -> String {
        let (done, share) = (self.0.done.load(Ordering::Relaxed), self.share());
        let rate = done as f64 / elapsed.as_secs_f64().max(0.001);
        let mut message = format!("{} comments, {rate:.0}/s, {:.1} % done", HumanCount(done), share * 100.0);
        if share > 0.01 && share < 1.0 {
            message.push_str(&format!(", {} left", HumanDuration(elapsed.mul_f64((1.0 - share) / share))));
        }
        message
    }
}

/// A display of progress.
#[derive(Debug)]
pub struct Display(JoinHandle<()>, ProgressBar);

impl Drop for Display {
    fn drop(&mut self) {
        self.0.abort();
        self.1.finish_and_clear();
    }
}
