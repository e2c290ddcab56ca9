//! How far the two functions have come with what was written.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::ensure;
use derive_more::Display;
use indicatif::HumanCount;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use crate::{engine::Engine, event_source_mapping::MappingState, settings::TABLE};

const SAY_EVERY: Duration = Duration::from_secs(5);

/// What the mappings still have to process, for people.
#[derive(Debug, Serialize, Deserialize, Display)]
pub(crate) struct Backlog(String);

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

    /// Waits for a moment. `None` if everything written before is processed.
    ///
    /// # Errors
    /// The disk is full, so nothing is processed until a person has made room.
    pub(crate) async fn backlog(&mut self) -> anyhow::Result<Option<Backlog>> {
        if timeout(SAY_EVERY, self.wait_until_caught_up())
            .await
            .is_ok()
        {
            return Ok(None);
        }
        ensure!(
            !self.disk_is_full.load(Ordering::Relaxed),
            "the disk is full; the stack goes on by itself when there is room"
        );
        let [fan_out, indexing] = self.states();
        let remaining = match self.engine.upgrade() {
            Some(engine) => {
                let records = engine
                    .pending_stream_records(TABLE, fan_out.processed.as_deref())
                    .await
                    .unwrap_or_default();
                format!("{} stream records left; ", HumanCount(records))
            }
            None => String::new(),
        };
        let written = HumanCount(fan_out.records);
        let indexed = HumanCount(indexing.records);
        Ok(Some(Backlog(format!(
            "{remaining}changes fanned out {written}, indexed {indexed}"
        ))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_waits_for_a_full_disk() {
        let mappings = [watch::Sender::default(), watch::Sender::default()];
        let disk_is_full = Arc::new(AtomicBool::new(true));
        let states = mappings.each_ref().map(watch::Sender::subscribe);
        let mut progress = MappingProgress::of(states, None, Arc::clone(&disk_is_full));
        let error = progress.backlog().await.unwrap_err().to_string();
        assert!(error.contains("the disk is full"), "{error}");
        disk_is_full.store(false, Ordering::Relaxed);
        assert!(progress.backlog().await.unwrap().is_some());
    }
}
