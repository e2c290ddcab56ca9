//! Shows the progress of a run: a bar on a terminal, plain lines otherwise.

use std::{
    io::IsTerminal,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;

const BAR_EVERY: Duration = Duration::from_millis(200);
const LINE_EVERY: Duration = Duration::from_secs(5);
const BAR_LENGTH: u64 = 1_000_000;
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
}

impl Progress {
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
            ProgressBar::new(BAR_LENGTH)
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:30} {percent:>3}% {msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(name.clone());
        let shown = bar.clone();
        let task = tokio::spawn(async move {
            let began = Instant::now();
            loop {
                tokio::time::sleep(if is_terminal { BAR_EVERY } else { LINE_EVERY }).await;
                let share = progress.share();
                let message = message(progress.comments(), share, began.elapsed());
                if is_terminal {
                    shown.set_position(millionths(share));
                    shown.set_message(message);
                } else {
                    eprintln!("{name}: {message}");
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

fn message(comments: u64, share: f64, elapsed: Duration) -> String {
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
}
