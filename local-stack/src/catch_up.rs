//! What a start does before readers may believe the page index. The stream delivers again what it still holds, and the
//! journal names what a snapshot of the index lacks.

use std::time::Duration;

use page_index::PageIndex;
use process::{StoreError, now};
use repair_job::{Job, JobSettings, Stop};
use table::Table;
use tokio::sync::watch;

use crate::{
    engine::{Engine, EngineError},
    event_source_mapping::MappingState,
};

/// The stream records that the engine held at the start. Old states of comments follow each other in the page index
/// until they are processed.
#[derive(Debug)]
pub(crate) struct Replay {
    newest: i64,
    indexing: watch::Receiver<MappingState>,
}

impl Replay {
    /// The records of a table in this engine; `indexing` is the progress of the mapping of `page-indexer`.
    pub(crate) async fn of(
        engine: &Engine,
        table: &str,
        indexing: watch::Receiver<MappingState>,
    ) -> Result<Self, EngineError> {
        Ok(Self { newest: engine.newest_stream_record(table).await?, indexing })
    }

    /// Waits until `page-indexer` has processed the records.
    pub(crate) async fn finished(&mut self) {
        let is_processed = |shown: &str| Engine::stored_number(shown).is_ok_and(|stored| stored >= self.newest);
        let is_over =
            |state: &MappingState| state.caught_up_at.is_some() || state.processed.as_deref().is_some_and(is_processed);
        // The sender lives as long as the stack.
        self.indexing.wait_for(is_over).await.ok();
    }
}

/// Ends the leases of the repair job. The caller has the only engine on the table, so runs of the last stack have
/// ended. A run of another process that has survived stops when it finds its lease gone.
pub(crate) async fn release_leases(table: &Table) -> Result<(), StoreError> {
    for (scope, lease) in table.leases().await? {
        table.release_lease(&scope, &lease.holder).await?;
    }
    Ok(())
}

/// More than an hour, the time for 200 million items. No start waits longer.
const MICROSECONDS_MAX: u64 = 4_000_000_000;

/// About how long a rebuild of the page index takes, for a table with this many items.
fn time_of_rebuild(items: u64) -> Duration {
    // Measured: 29 s for the 1.4 million items of 42,940 comments. Shorter than the first term, nobody gains from a
    // rebuild.
    Duration::from_secs(20) + Duration::from_micros(items.saturating_mul(20).min(MICROSECONDS_MAX))
}

/// Reconciles everything that the journal names since the snapshot of the index, for as long as a rebuild would take.
/// Then the index is ready, or the text says why it is not.
pub(crate) async fn catch_up(table: &Table, index: &PageIndex, table_id: &str) -> Result<(), String> {
    let unavailable = |error: StoreError| error.to_string();
    let marks = index.marks(table_id).await.map_err(unavailable)?;
    let of_duplicates = table.watermark().await.map_err(unavailable)?;
    let watermarks = marks.into_iter().map(|(_, mark)| mark.watermark).chain(of_duplicates);
    if let Some(watermark) = watermarks.max().filter(|watermark| *watermark > now()) {
        return Err(format!("the watermark {watermark} is later than the present: the clock was set back"));
    }
    // The confirmation of this run makes the index ready. It requires that the journal is reconciled up to the present
    // and the settle delay beyond, for a clock that was ahead. Readers need not wait for the time before the
    // watermarks: later runs reconcile that again.
    let settings = JobSettings { apply: true, overlap: Duration::ZERO, ..JobSettings::default() };
    let items = table.describe().await.map_err(unavailable)?.items;
    let stop = Stop::after(Some(time_of_rebuild(items)));
    let report = Job::new(table.clone(), index.clone(), settings, stop).recent().await;
    let partitions = index.readiness(table_id, now()).await.map_err(unavailable)?;
    match partitions.iter().find_map(|(_, answer)| answer.as_ref().err()) {
        Some(not_ready) => Err(format!("after the last run, {not_ready}: {report}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::time::Instant;

    use super::*;

    /// The stored form of the sequence number in the middle.
    const NEWEST: i64 = 43;
    const SHOWN: [&str; 3] = ["100000000000000000042", "100000000000000000043", "100000000000000000044"];

    fn is_over(state: MappingState) -> bool {
        let mapping = watch::Sender::new(state);
        Replay { newest: NEWEST, indexing: mapping.subscribe() }.finished().now_or_never().is_some()
    }

    #[test]
    fn catching_up_may_take_as_long_as_a_rebuild_of_the_table() {
        assert_eq!(
            [0, 1_400_000, u64::MAX].map(|items| time_of_rebuild(items) > Duration::from_secs(40)),
            [false, true, true]
        );
        assert!(time_of_rebuild(0) > Duration::ZERO);
    }

    #[test]
    fn a_replay_is_over_when_the_newest_record_of_the_start_is_processed() {
        let processed = |shown: &str| MappingState { processed: Some(shown.to_owned()), ..MappingState::default() };
        assert_eq!(Engine::stored_number(SHOWN[1]).unwrap(), NEWEST);
        assert!(!is_over(MappingState::default()));
        assert_eq!(SHOWN.map(|shown| is_over(processed(shown))), [false, true, true]);
        // The stream has nothing more to deliver.
        assert!(is_over(MappingState { caught_up_at: Some(Instant::now()), ..processed(SHOWN[0]) }));
    }
}
