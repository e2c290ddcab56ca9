//! Keeps the page index of the local stack ready. At the start it waits until the stream has
//! delivered again what it still holds. Then it reconciles what a snapshot of the index lacks, by
//! the journal, or it rebuilds the index. Later it rebuilds whenever markers are missing or
//! `recent` has withdrawn its confirmation. While a command rebuilds the index, it waits. In a
//! deployment, the repair function fills what was lost, after each `recent`.

use std::time::Duration;

use page_index::PageIndex;
use process::{Remedy, StoreError, now};
use repair_job::{Job, JobSettings, Report, Stop};
use table::Table;
use tokio::sync::watch;

use crate::{engine::parse_sequence_number, event_source_mapping::MappingState, repair::job};

/// Pause between two looks at the markers. Each reads the markers of all partitions, so looks are a
/// good part of what an idle stack does.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pause after a look or a rebuild that failed.
const ERROR_PAUSE: Duration = Duration::from_millis(500);
/// The engine has one connection.
const SHARDS_AT_ONCE: u32 = 1;
/// More than an hour, the time for 200 million items. No start waits longer.
const MICROSECONDS_MAX: u64 = 4_000_000_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum KeeperState {
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

/// Waits until the index has been looked at for the first time.
pub(crate) async fn looked_at(mut state: watch::Receiver<KeeperState>) {
    // The sender lives as long as the stack.
    state
        .wait_for(|state| !matches!(state, KeeperState::Unknown | KeeperState::Rebuilding))
        .await
        .ok();
}

/// Waits until the stream has delivered again what it held at the start. The index may not be
/// looked at yet.
pub(crate) async fn replay_ended(mut state: watch::Receiver<KeeperState>) {
    // The sender lives as long as the stack.
    state
        .wait_for(|state| *state != KeeperState::Unknown)
        .await
        .ok();
}

/// Waits until `page-indexer` has processed what the engine's stream held at the start, up to the
/// record `newest`. `None` is for an engine that does not say it: nothing is waited for. Until
/// then, old states of comments follow each other in the page index. `indexing` is the progress of
/// the function's mapping.
pub(crate) async fn replayed(newest: Option<i64>, mut indexing: watch::Receiver<MappingState>) {
    let Some(newest) = newest else { return };
    // The sender lives as long as the stack.
    indexing
        .wait_for(|state| has_processed(state, newest))
        .await
        .ok();
}

/// Whether a mapping has processed a stream record, by the record's stored number.
fn has_processed(state: &MappingState, record: i64) -> bool {
    if state.caught_up_at.is_some() {
        return true;
    }
    let Some(shown) = &state.processed else {
        return false;
    };
    parse_sequence_number(shown).is_ok_and(|stored| stored >= record)
}

#[derive(Debug)]
pub struct IndexKeeper {
    table: Table,
    table_id: String,
    index: PageIndex,
    state: watch::Sender<KeeperState>,
}

impl IndexKeeper {
    pub fn new(table: Table, table_id: String, index: PageIndex) -> Self {
        Self {
            table,
            table_id,
            index,
            state: watch::Sender::default(),
        }
    }

    pub fn state(&self) -> watch::Receiver<KeeperState> {
        self.state.subscribe()
    }

    /// Watches the page index, and rebuilds it when readers must no longer believe it. Runs until
    /// it is dropped.
    ///
    /// A Redis server that the stack did not start may hold an index from an earlier life of the
    /// stack. So the first look rebuilds, unless the index is from a snapshot and can catch up.
    /// Before either, it waits until the stream is `replayed`.
    pub async fn run(self, replayed: impl Future<Output = ()>, is_from_snapshot: bool) {
        let mut doubtful = true;
        replayed.await;
        if is_from_snapshot {
            self.set(KeeperState::Rebuilding);
            match self.catch_up().await {
                Ok(()) => doubtful = false,
                Err(reason) => tracing::info!(
                    reason,
                    "the page index is rebuilt, its snapshot cannot be continued"
                ),
            }
        }
        loop {
            let reached = self.look(doubtful).await;
            doubtful &= reached != KeeperState::Ready;
            let has_failed = matches!(reached, KeeperState::Failing(_) | KeeperState::Refused(_));
            self.set(reached);
            let pause = if has_failed { ERROR_PAUSE } else { LOOK_EVERY };
            tokio::time::sleep(pause).await;
        }
    }

    /// Reconciles everything that the journal names since the snapshot of the index, for as long as
    /// a rebuild would take. Then the index is ready, or the text says why it is not.
    async fn catch_up(&self) -> Result<(), String> {
        let marks = self
            .index
            .marks(&self.table_id)
            .await
            .map_err(unavailable)?;
        let mut latest = self.table.watermark().await.map_err(unavailable)?;
        for (_, mark) in marks {
            latest = latest.max(Some(mark.watermark));
        }
        if let Some(watermark) = latest
            && watermark > now()
        {
            return Err(format!(
                "the watermark {watermark} is later than the present: the clock was set back"
            ));
        }
        // The confirmation of this run makes the index ready. It requires that the journal is
        // reconciled up to the present and beyond, for a clock that was ahead.
        // Readers need not wait for the time before the watermarks: later runs reconcile that
        // again.
        let settings = JobSettings {
            apply: true,
            overlap: Duration::ZERO,
            ..JobSettings::default()
        };
        let items = self.table.describe().await.map_err(unavailable)?.items;
        let stop = Stop::after(Some(time_of_rebuild(items)));
        let report = Job::new(self.table.clone(), self.index.clone(), settings, stop)
            .recent()
            .await;
        let partitions = self
            .index
            .readiness(&self.table_id, now())
            .await
            .map_err(unavailable)?;
        match partitions
            .iter()
            .find_map(|(_, answer)| answer.as_ref().err())
        {
            Some(not_ready) => Err(format!("after the last run, {not_ready}: {report}")),
            None => Ok(()),
        }
    }

    /// Looks at the page index, and rebuilds it if readers must not believe it.
    async fn look(&self, doubtful: bool) -> KeeperState {
        match self.index.is_ready(&self.table_id, now()).await {
            Err(error) => return failed(error.remedy() == Remedy::CallOperator, error.to_string()),
            Ok(true) if !doubtful => return KeeperState::Ready,
            Ok(_) => {}
        }
        self.set(KeeperState::Rebuilding);
        let Report {
            failure,
            is_refused,
            stopped,
            items: entries,
            unresolved_count: unresolved,
            seconds,
            ..
        } = job(&self.table, &self.index).rebuild(SHARDS_AT_ONCE).await;
        if let Some(why) = failure {
            return failed(is_refused, why);
        }
        // It has lost its lease.
        if stopped.is_some() {
            return KeeperState::Rebuilding;
        }
        if entries > 0 || unresolved > 0 {
            tracing::info!(entries, unresolved, seconds, "page index rebuilt");
        }
        KeeperState::Ready
    }

    /// Publishes a state, and logs it if it is new.
    fn set(&self, new: KeeperState) {
        let old = self.state.send_replace(new.clone());
        if old == new {
            return;
        }
        match new {
            KeeperState::Failing(error) | KeeperState::Refused(error) => {
                tracing::warn!(error, "page index unavailable")
            }
            // At the start the index is empty, so a rebuild is not worth a log line.
            KeeperState::Rebuilding if old != KeeperState::Unknown => {
                tracing::info!("page index not ready, rebuilding it")
            }
            KeeperState::Rebuilding | KeeperState::Ready | KeeperState::Unknown => {}
        }
    }
}

/// Why the stores do not answer, in one line.
fn unavailable(error: StoreError) -> String {
    error.to_string()
}

/// The state of an index that cannot be reached or rebuilt.
fn failed(is_refused: bool, reason: String) -> KeeperState {
    if is_refused {
        KeeperState::Refused(reason)
    } else {
        KeeperState::Failing(reason)
    }
}

/// About how long a rebuild of the page index takes, for a table with this many items.
fn time_of_rebuild(items: u64) -> Duration {
    // Measured: 29 s for the 1.4 million items of 42,940 comments. Below the first term, a rebuild
    // gains nothing.
    Duration::from_secs(20) + Duration::from_micros(items.saturating_mul(20).min(MICROSECONDS_MAX))
}

#[cfg(test)]
mod tests {
    use embedded_index::EmbeddedIndex;
    use futures_util::{FutureExt, future::join};
    use table::Lease;
    use tokio::time::Instant;

    use super::*;
    use crate::{
        engine::Engine,
        index_host::INDEX_MAX_AGE,
        settings::{TABLE, WITHOUT_NETWORK, table_config},
    };

    #[tokio::test]
    async fn who_sees_a_rebuild_under_way_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::start(&folder.path().join("data"), None)
            .await
            .unwrap();
        let table =
            Table::connect_through(&table_config(TABLE, WITHOUT_NETWORK), engine.http_client())
                .await;
        let id = table.create_if_missing().await.unwrap().id;
        let index = PageIndex::new(EmbeddedIndex::new(4), INDEX_MAX_AGE);
        let keeper = IndexKeeper::new(table.clone(), id.clone(), index.clone());
        let until_ms = now().plus_ms(600_000).epoch_ms();
        let lease = Lease {
            holder: "a command".to_owned(),
            who: "a test".to_owned(),
            since: now(),
            until_ms,
        };
        assert!(
            table
                .take_lease("rebuild", &lease, now())
                .await
                .unwrap()
                .is_none()
        );
        let rebuild = index.begin_rebuild().await.unwrap();

        // The keeper of the stack, and another command.
        let other = job(&table, &index);
        let mut both = Box::pin(join(keeper.look(true), other.rebuild(1)));
        tokio::time::timeout(2 * LOOK_EVERY, &mut both)
            .await
            .unwrap_err();
        assert!(
            index.is_under_way(&rebuild).await.unwrap(),
            "somebody has begun another one"
        );

        index.finish_rebuild(&rebuild, &id, now()).await.unwrap();
        table.release_lease("rebuild", &lease.holder).await.unwrap();
        let (reached, report) = both.await;
        assert_eq!(reached, KeeperState::Ready);
        assert_eq!(
            report.notes,
            ["another rebuild has made the page index ready meanwhile"],
            "{report}"
        );
        assert_eq!(keeper.look(false).await, KeeperState::Ready);
        engine.stop().await;
    }

    /// The stored form of the sequence number in the middle.
    const NEWEST: i64 = 43;
    const SHOWN: [&str; 3] = [
        "100000000000000000042",
        "100000000000000000043",
        "100000000000000000044",
    ];

    fn is_over(state: MappingState) -> bool {
        let mapping = watch::Sender::new(state);
        replayed(Some(NEWEST), mapping.subscribe())
            .now_or_never()
            .is_some()
    }

    fn processed(shown: &str) -> MappingState {
        MappingState {
            processed: Some(shown.to_owned()),
            ..MappingState::default()
        }
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
        assert_eq!(parse_sequence_number(SHOWN[1]).unwrap(), NEWEST);
        assert!(!is_over(MappingState::default()));
        assert_eq!(
            SHOWN.map(|shown| is_over(processed(shown))),
            [false, true, true]
        );
        // The stream has nothing more to deliver.
        assert!(is_over(MappingState {
            caught_up_at: Some(Instant::now()),
            ..processed(SHOWN[0])
        }));
    }
}
