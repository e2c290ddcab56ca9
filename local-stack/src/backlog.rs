//! How far the two functions have come with what was written.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::ensure;
use indicatif::HumanCount;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use crate::{engine::Engine, event_source_mapping::MappingState, settings::TABLE};

const SAY_EVERY: Duration = Duration::from_secs(5);

/// How far the mappings are.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Backlog {
    /// Whether they have processed everything that was written before the question.
    pub(crate) is_processed: bool,
    /// How many stream records remain. Other engines do not say.
    remaining: Option<u64>,
    /// How many changes of comments each has processed since it began.
    fanned_out: u64,
    indexed: u64,
}

impl Backlog {
    /// How many changes each mapping has processed.
    pub(crate) fn processed(&self) -> [u64; 2] {
        [self.fanned_out, self.indexed]
    }

    /// How much of so many changes since `before` is not processed by both, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    pub(crate) fn unseen(&self, before: Self, changes: u64) -> f64 {
        if self.is_processed || changes == 0 {
            return 0.0;
        }
        let fanned_out = self.fanned_out.saturating_sub(before.fanned_out);
        let indexed = self.indexed.saturating_sub(before.indexed);
        let seen = fanned_out.min(indexed).min(changes);
        1.0 - seen as f64 / changes as f64
    }
}

impl fmt::Display for Backlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(remaining) = self.remaining {
            write!(f, "{} stream records left; ", HumanCount(remaining))?;
        }
        let fanned_out = HumanCount(self.fanned_out);
        let indexed = HumanCount(self.indexed);
        write!(f, "changes fanned out {fanned_out}, indexed {indexed}")
    }
}

/// The progress of the two mappings of a stack.
#[derive(Debug, Clone)]
pub struct MappingProgress {
    /// The progress of `stream-writer`, then of `page-indexer`.
    mappings: [watch::Receiver<MappingState>; 2],
    /// A stop of the stack takes the engine. Other engines do not say how many records remain.
    engine: Weak<Engine>,
    disk_is_full: Arc<AtomicBool>,
}

impl MappingProgress {
    pub fn of(
        mappings: [watch::Receiver<MappingState>; 2],
        engine: Option<&Arc<Engine>>,
        disk_is_full: Arc<AtomicBool>,
    ) -> Self {
        Self {
            mappings,
            engine: engine.map(Arc::downgrade).unwrap_or_default(),
            disk_is_full,
        }
    }

    pub(crate) fn states(&self) -> [MappingState; 2] {
        self.mappings.each_ref().map(|state| state.borrow().clone())
    }

    /// The last record that both mappings have processed.
    pub(crate) fn last_processed(&self) -> Option<String> {
        let [fan_out, indexing] = self.states().map(|state| state.processed);
        // Sequence numbers have up to 40 digits; shorter ones are smaller.
        [fan_out?, indexing?]
            .into_iter()
            .min_by_key(|number| (number.len(), number.clone()))
    }

    /// Whether the disk of the data folder is full, which the log has said.
    pub(crate) fn disk_is_full(&self) -> bool {
        self.disk_is_full.load(Ordering::Relaxed)
    }

    /// Waits until both mappings have processed every record written before this call.
    pub(crate) async fn wait_until_caught_up(&mut self) {
        let asked = Instant::now();
        if let Some(engine) = self.engine.upgrade() {
            engine.wake_readers();
        }
        for mapping in &mut self.mappings {
            // The sender lives in a task that ends only with the stack.
            mapping
                .wait_for(|state| state.caught_up_at.is_some_and(|at| at > asked))
                .await
                .ok();
        }
    }

    /// Waits for a moment, or until everything written before is processed.
    ///
    /// # Errors
    /// The disk is full, so nothing is processed until a person has made room.
    pub(crate) async fn backlog(&mut self) -> anyhow::Result<Backlog> {
        let is_processed = timeout(SAY_EVERY, self.wait_until_caught_up())
            .await
            .is_ok();
        ensure!(
            is_processed || !self.disk_is_full(),
            "the disk is full; the stack goes on by itself when there is room"
        );
        let [fan_out, indexing] = self.states();
        let remaining = match self.engine.upgrade() {
            Some(engine) if !is_processed => engine
                .pending_stream_records(TABLE, fan_out.processed.as_deref())
                .await
                .ok(),
            _ => None,
        };
        Ok(Backlog {
            is_processed,
            remaining,
            fanned_out: fan_out.records,
            indexed: indexing.records,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_when_both_mappings_have_processed_it() {
        let before = Backlog {
            fanned_out: 10,
            indexed: 20,
            ..Backlog::default()
        };
        let now = Backlog {
            fanned_out: 60,
            indexed: 120,
            ..before
        };
        assert_eq!(now.unseen(before, 100), 0.5);
        let processed = Backlog {
            is_processed: true,
            ..now
        };
        assert_eq!(processed.unseen(before, 100), 0.0);
    }

    #[tokio::test]
    async fn nobody_waits_for_a_full_disk() {
        let mappings = [watch::Sender::default(), watch::Sender::default()];
        let disk_is_full = Arc::new(AtomicBool::new(true));
        let states = mappings.each_ref().map(watch::Sender::subscribe);
        let mut progress = MappingProgress::of(states, None, Arc::clone(&disk_is_full));
        let error = progress.backlog().await.unwrap_err().to_string();
        assert!(error.contains("the disk is full"), "{error}");
        disk_is_full.store(false, Ordering::Relaxed);
        let backlog = progress.backlog().await.unwrap();
        assert!(!backlog.is_processed, "{backlog:?}");
    }
}
