//! Keeps the page index of the local stack ready. It rebuilds the index at the start, and whenever markers are missing
//! or `recent` has withdrawn its confirmation. While a command rebuilds the index, it waits.
//!
//! A deployment has no such keeper: there, a person runs `repair-job rebuild --apply`.

use std::time::Duration;

use page_index::PageIndex;
use process::{StoreError, now};
use table::Table;
use tokio::sync::watch;

use crate::catch_up::{Replay, catch_up};

/// Confirmations of the local page index do not expire, because the repair job may be switched off.
pub(crate) const INDEX_MAX_AGE: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// Pause between two looks at the markers. Each reads the markers of all partitions, so looks are a good part of what
/// an idle stack does.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pause after a look or a rebuild that failed.
const ERROR_PAUSE: Duration = Duration::from_millis(500);
/// Shards are read one after another: the engine has one connection.
const SHARDS_AT_ONCE: u32 = 1;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum IndexState {
    /// Not looked at yet.
    #[default]
    Unknown,
    Ready,
    Rebuilding,
    /// The index cannot be reached or rebuilt at the moment; the text says why.
    Failing(String),
    /// The index cannot be rebuilt on this server; the text says why.
    Refused(String),
}

/// Watches the page index of the table with this id, and rebuilds it when readers must no longer believe it. Runs until
/// it is dropped.
///
/// A Redis server that the stack did not start may hold an index from an earlier life of the stack. So the first look
/// rebuilds, unless the index is from a snapshot and can catch up. `replay` is over before either.
pub(crate) async fn keep_index(
    table: Table,
    index: PageIndex,
    table_id: String,
    mut replay: Option<Replay>,
    is_from_snapshot: bool,
    state: watch::Sender<IndexState>,
) {
    let mut doubtful = true;
    if let Some(replay) = &mut replay {
        replay.finished().await;
    }
    if is_from_snapshot {
        set(&state, IndexState::Rebuilding);
        match catch_up(&table, &index, &table_id).await {
            Ok(()) => doubtful = false,
            Err(reason) => tracing::info!(reason, "the page index is rebuilt, its snapshot cannot be continued"),
        }
    }
    loop {
        let looked = look(&table, &index, &table_id, &state, doubtful).await;
        doubtful &= !matches!(looked, Ok(true));
        let (reached, pause) = match looked {
            Ok(true) => (IndexState::Ready, LOOK_EVERY),
            Ok(false) => (IndexState::Rebuilding, LOOK_EVERY),
            Err(error @ StoreError::Refused { .. }) => (IndexState::Refused(error.to_string()), ERROR_PAUSE),
            Err(error) => (IndexState::Failing(error.to_string()), ERROR_PAUSE),
        };
        set(&state, reached);
        tokio::time::sleep(pause).await;
    }
}

/// Waits until the index has been looked at for the first time.
pub(crate) async fn looked_at(mut state: watch::Receiver<IndexState>) {
    let looked_at = |state: &IndexState| !matches!(state, IndexState::Unknown | IndexState::Rebuilding);
    // The sender lives as long as the stack.
    state.wait_for(looked_at).await.ok();
}

/// Looks at the page index, and rebuilds it if readers must not believe it. Returns whether it is ready now: not while another
/// rebuild is under way.
async fn look(
    table: &Table,
    index: &PageIndex,
    table_id: &str,
    state: &watch::Sender<IndexState>,
    doubtful: bool,
) -> Result<bool, StoreError> {
    let partitions = index.readiness(table_id, now()).await?;
    if !doubtful && partitions.iter().all(|(_, answer)| answer.is_ok()) {
        return Ok(true);
    }
    set(state, IndexState::Rebuilding);
    let rebuilt = repair_job::rebuild_unless_under_way(table, index, SHARDS_AT_ONCE).await?;
    let Some(report) = rebuilt else { return Ok(false) };
    let (entries, unresolved, seconds) = (report.items, report.unresolved_count, report.seconds);
    if entries > 0 || unresolved > 0 {
        tracing::info!(entries, unresolved, seconds, "page index rebuilt");
    }
    Ok(true)
}

/// Publishes a state, and logs it if it is new.
fn set(state: &watch::Sender<IndexState>, new: IndexState) {
    let old = state.send_replace(new.clone());
    if old == new {
        return;
    }
    match new {
        IndexState::Failing(error) | IndexState::Refused(error) => tracing::warn!(error, "page index unavailable"),
        // At the start the index is empty, so a rebuild is not worth a log line.
        IndexState::Rebuilding if old != IndexState::Unknown => tracing::info!("page index not ready, rebuilding it"),
        IndexState::Rebuilding | IndexState::Ready | IndexState::Unknown => {}
    }
}

#[cfg(test)]
mod tests {
    use embedded_index::EmbeddedIndex;
    use repair_job::JobSettings;
    use table::Lease;

    use super::*;
    use crate::{
        engine::Engine,
        repair::job,
        stack::{TABLE, table_config},
    };

    #[tokio::test]
    async fn who_sees_a_rebuild_under_way_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::start(&folder.path().join("data"), "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let table = Table::connect(&table_config(TABLE, &engine.endpoint_url())).await;
        let id = table.create_if_missing().await.unwrap().id;
        let index = PageIndex::new(EmbeddedIndex::new(4), INDEX_MAX_AGE);
        let (state, _state) = watch::channel(IndexState::default());
        let until_ms = now().plus_ms(600_000).epoch_ms();
        let lease = Lease { holder: "a command".to_owned(), who: "a test".to_owned(), since: now(), until_ms };
        assert!(table.take_lease("rebuild", &lease, now()).await.unwrap().is_none());
        let rebuild = index.begin_rebuild().await.unwrap();

        // The keeper of the stack, and another command.
        assert!(!look(&table, &index, &id, &state, true).await.unwrap());
        let job = job(&table, &index, JobSettings::default().settle);
        let mut command = Box::pin(job.rebuild(1));
        tokio::time::timeout(2 * LOOK_EVERY, &mut command).await.unwrap_err();
        assert!(index.is_under_way(&rebuild).await.unwrap(), "somebody has begun another one");

        index.finish_rebuild(&rebuild, &id, now()).await.unwrap();
        table.release_lease("rebuild", &lease.holder).await.unwrap();
        let report = command.await;
        assert_eq!(report.notes, ["another rebuild has made the page index ready meanwhile"], "{report}");
        assert!(look(&table, &index, &id, &state, false).await.unwrap());

        index.begin_rebuild().await.unwrap();
        let error = index.finish_rebuild(&rebuild, &id, now()).await.unwrap_err();
        assert_eq!(error.to_string(), "the page index is unavailable: another rebuild has begun");
        engine.stop().await;
    }
}
