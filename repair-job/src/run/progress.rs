//! Shows the progress of a run, and what it waits for: a bar on a terminal, plain lines otherwise.

use std::{
    io::IsTerminal,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

const BAR_EVERY: Duration = Duration::from_millis(200);
/// How often a line is written, where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// The length of a bar, and of the work of another process.
const MILLION: u64 = 1_000_000;
/// Only the end of a run sets its share to 1: it may have more steps than expected.
const ALMOST: f64 = 0.99;

/// The progress of a run. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    comments: AtomicU64,
    steps: AtomicU64,
    expected: AtomicU64,
    is_finished: AtomicBool,
    /// How many comments were written.
    changed: AtomicU64,
    /// How many of a million changes nobody sees yet.
    unseen: AtomicU64,
    waits_for: Mutex<Option<String>>,
}

/// How far a run is at a moment. As JSON, it can be sent to the process of the person who waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProgressMoment {
    pub comments: u64,
    /// From 0 to 1.
    pub share: f64,
    pub waits_for: Option<String>,
}

impl Progress {
    /// Says that nothing happens until the end of something, whose name this is.
    pub fn wait_for(&self, what: &str) {
        *self.0.waits_for.lock() = Some(what.to_owned());
    }

    /// Says that the run goes on.
    pub fn end_wait(&self) {
        *self.0.waits_for.lock() = None;
    }

    pub fn moment(&self) -> ProgressMoment {
        ProgressMoment {
            comments: self.comments(),
            share: self.share(),
            waits_for: self.0.waits_for.lock().clone(),
        }
    }

    /// Makes this the progress of a run in another process, as far as it was at a moment.
    pub fn mirror(&self, moment: ProgressMoment) {
        self.0.comments.store(moment.comments, Ordering::Relaxed);
        self.expect(MILLION);
        self.advance(millionths(moment.share));
        *self.0.waits_for.lock() = moment.waits_for;
    }

    pub fn add(&self, comments: u64) {
        self.0.comments.fetch_add(comments, Ordering::Relaxed);
    }

    /// Counts a comment that was written.
    pub fn add_change(&self) {
        self.0.changed.fetch_add(1, Ordering::Relaxed);
    }

    pub fn changes(&self) -> u64 {
        self.0.changed.load(Ordering::Relaxed)
    }

    /// Says how much of what was written a stack still has to process, from 0 to 1. It takes its
    /// share of the time.
    pub fn set_unseen(&self, share: f64) {
        self.0.unseen.store(millionths(share), Ordering::Relaxed);
    }

    /// Begins work with an expected number of steps. All kinds of steps (items to read, batches)
    /// should take about as long.
    pub fn expect(&self, steps: u64) {
        self.0.is_finished.store(false, Ordering::Relaxed);
        self.0.steps.store(0, Ordering::Relaxed);
        self.0.expected.store(steps, Ordering::Relaxed);
    }

    pub fn advance(&self, steps: u64) {
        self.0.steps.fetch_add(steps, Ordering::Relaxed);
    }

    pub(crate) fn finish(&self) {
        self.0.is_finished.store(true, Ordering::Relaxed);
    }

    pub fn comments(&self) -> u64 {
        self.0.comments.load(Ordering::Relaxed)
    }

    /// How much of the work is done, about, from 0 to 1. 0 while the amount is unknown, as
    /// for a pipe.
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    pub fn share(&self) -> f64 {
        let steps = self.0.steps.load(Ordering::Relaxed) as f64;
        let expected = self.0.expected.load(Ordering::Relaxed) as f64;
        let unseen = self.0.unseen.load(Ordering::Relaxed) as f64 / 1e6;
        if self.0.is_finished.load(Ordering::Relaxed) {
            1.0
        } else if expected > 0.0 {
            (steps / expected).min(ALMOST) * (1.0 - unseen)
        } else {
            0.0
        }
    }

    /// Shows the progress on standard error until the display is dropped.
    pub fn show(&self, name: &str) -> Display {
        let name = name.to_owned();
        let progress = self.clone();
        let is_terminal = std::io::stderr().is_terminal();
        let bar = if is_terminal {
            ProgressBar::new(MILLION)
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:30} {percent:>3}% {msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(name.clone());
        let shown = bar.clone();
        let task = tokio::spawn(async move {
            let mut began = Instant::now();
            let mut written = Instant::now();
            let mut said_wait = None;
            loop {
                tokio::time::sleep(BAR_EVERY).await;
                let moment = progress.moment();
                if moment.waits_for.is_some() {
                    began = Instant::now();
                }
                let text = message(&moment, began.elapsed());
                if is_terminal {
                    shown.set_position(millionths(moment.share));
                    shown.set_message(text);
                    continue;
                }
                // The person who waits reads the reason at once.
                let is_new_wait = moment.waits_for.is_some() && moment.waits_for != said_wait;
                said_wait = moment.waits_for;
                if is_new_wait || written.elapsed() >= LINE_EVERY {
                    eprintln!("{name}: {text}");
                    written = Instant::now();
                }
            }
        });
        Display(task, bar)
    }
}

/// A display of progress on standard error, until it is dropped.
#[derive(Debug)]
pub struct Display(JoinHandle<()>, ProgressBar);

impl Drop for Display {
    fn drop(&mut self) {
        self.0.abort();
        self.1.finish_and_clear();
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a bar, clamped"
)]
fn millionths(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * 1e6) as u64
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64().max(0.001)
}

fn message(moment: &ProgressMoment, elapsed: Duration) -> String {
    if let Some(what) = &moment.waits_for {
        return format!("waiting for {what}");
    }
    let comments = moment.comments;
    let share = moment.share;
    let mut message = format!(
        "{} comments, {:.0}/s",
        HumanCount(comments),
        per_second(comments, elapsed)
    );
    if share > 0.0 {
        message.push_str(&format!(", {:.1} % done", share * 100.0));
    }
    if let Some(left) = time_left(share, elapsed) {
        message.push_str(&format!(", {} left", HumanDuration(left)));
    }
    message
}

/// How long the rest takes if it is as fast as what is done. `None` where too little is done to say.
pub fn time_left(share: f64, elapsed: Duration) -> Option<Duration> {
    (share > 0.01 && share < 1.0).then(|| elapsed.mul_f64((1.0 - share) / share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_yet_is_not_done() {
        let progress = Progress::default();
        progress.expect(100);
        progress.advance(100);
        assert_eq!(progress.share(), ALMOST);
        progress.set_unseen(0.5);
        assert_eq!(progress.share(), ALMOST / 2.0);
        let left = time_left(progress.share(), Duration::from_secs(99)).unwrap();
        assert!(left > Duration::from_secs(100), "{left:?}");
    }

    #[test]
    fn the_progress_of_another_process_reads_the_same_as_there() {
        let there = Progress::default();
        there.expect(200);
        there.advance(50);
        there.add(1_234);
        let here = Progress::default();
        here.mirror(there.moment());
        assert_eq!(here.moment(), there.moment());
        let text = message(&here.moment(), Duration::from_secs(10));
        assert_eq!(text, "1,234 comments, 123/s, 25.0 % done, 30 seconds left");
        there.wait_for("the keeper");
        here.mirror(there.moment());
        let text = message(&here.moment(), Duration::from_secs(10));
        assert_eq!(text, "waiting for the keeper");
        there.end_wait();
        here.mirror(there.moment());
        assert_eq!(here.moment(), there.moment());
    }
}
