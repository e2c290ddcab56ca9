//! How far the scans of an audit have come: of each segment of the table, and of the page index.
//!
//! **Invariant:** everything before a stored position was checked, in the page index too. A scan
//! counts as done when that holds for all of it (`tests/repair/resumed.rs`).
//!
//! **Invariant:** nothing is stored after the page index may have lost what was repaired there
//! (`tests/repair/lost.rs`).

use std::collections::BTreeMap;

use model::Timestamp;
use process::StoreError;
use serde::{Deserialize, Serialize};
use table::{ItemKey, Table};
use tokio::time::{Duration, Instant};

use crate::{
    repair::index_snapshot::IndexSnapshot,
    run::{Run, outcome::RepairOutcome},
};

pub(crate) const AUDIT: &str = "audit";

/// How often a position is stored.
pub(crate) const STORE_EVERY: Duration = Duration::from_secs(10);

/// The kind of state that the index scan stores, and its only name.
pub(crate) const INDEX_SCAN: &str = "index_scan";
pub(crate) const POSITION: &str = "position";

/// What the job stores about a scan: the position of the current pass, and the end of the last one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, bound(deserialize = "P: Deserialize<'de>"))]
pub(crate) struct ScanState<P> {
    pub(crate) position: Option<P>,
    /// The id of the table that was checked. After a restoration, the states belong to a different
    /// table.
    pub(crate) table: Option<String>,
    /// When the current pass began.
    pub(crate) began: Option<Timestamp>,
    /// When the first pass began. `None` once a pass has completed.
    pub(crate) first_began: Option<Timestamp>,
    /// When the last pass that completed began.
    pub(crate) last_began: Option<Timestamp>,
    /// Whether the current pass compares the table's indexes with the table from its beginning on.
    /// Earlier versions did not.
    pub(crate) compares_indexes: bool,
    /// When the last pass began that completed, and compared them.
    pub(crate) indexes_compared: Option<Timestamp>,
}

pub(crate) type SegmentState = ScanState<ItemKey>;

impl<P> Default for ScanState<P> {
    fn default() -> Self {
        Self {
            position: None,
            table: None,
            began: None,
            first_began: None,
            last_began: None,
            compares_indexes: false,
            indexes_compared: None,
        }
    }
}

impl<P> ScanState<P> {
    pub(crate) fn begun_anew(self) -> Self {
        Self {
            position: None,
            began: None,
            ..self
        }
    }
}

/// The states of this table's segments. States of a table before its restoration say nothing about
/// it, so they are omitted.
pub(crate) async fn segment_states(
    table: &Table,
    table_id: &str,
) -> Result<BTreeMap<String, SegmentState>, StoreError> {
    let states: Vec<(String, SegmentState)> = table.states(AUDIT).await?;
    Ok(states
        .into_iter()
        .filter(|(_, state)| state.table.as_deref() == Some(table_id))
        .collect())
}

/// For a person: how far the comments can be trusted that were found by the table's indexes. DynamoDB
/// promises that an index becomes complete, other engines have lost entries (ADR 95).
pub async fn said_of_indexes(table: &Table) -> Result<String, StoreError> {
    let compared = match indexes_compared(table).await? {
        Some(at) => format!("which an audit from {at} on has compared with the table"),
        None => "which no audit has compared with the table yet".to_owned(),
    };
    Ok(format!(
        "comments were found by the table's indexes, {compared}"
    ))
}

/// When the oldest of the passes began that last compared each part of the table with its indexes.
/// `None` while some part never was, with any number of segments.
pub async fn indexes_compared(table: &Table) -> Result<Option<Timestamp>, StoreError> {
    let table_id = table.describe().await?.id;
    let states = segment_states(table, &table_id).await?;
    let mut parts: BTreeMap<u32, Vec<Timestamp>> = BTreeMap::new();
    for (name, state) in states {
        if let Some((segments, _)) = name.split_once('/')
            && let Ok(segments) = segments.parse()
            && let Some(compared) = state.indexes_compared
        {
            parts.entry(segments).or_default().push(compared);
        }
    }
    let whole = parts
        .into_iter()
        .filter(|(segments, compared)| compared.len() as u64 == u64::from(*segments));
    Ok(whole
        .filter_map(|(_, compared)| compared.into_iter().min())
        .max())
}

/// Under what the table stores a state.
#[derive(Debug)]
pub(crate) struct StateKey {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
}

pub(crate) struct Checkpoint<'run, P> {
    run: &'run Run<'run>,
    snapshot: &'run IndexSnapshot,
    key: StateKey,
    pass: Timestamp,
    state: ScanState<P>,
    /// Whether everything was checked so far, including the page index. When it was not, the stored
    /// position stays.
    counts: bool,
    stored_at: Instant,
}

impl<'run, P: Clone + Serialize> Checkpoint<'run, P> {
    pub(crate) fn new(
        run: &'run Run<'run>,
        snapshot: &'run IndexSnapshot,
        key: StateKey,
        state: ScanState<P>,
        pass: Timestamp,
    ) -> Self {
        Self {
            run,
            snapshot,
            key,
            pass,
            state,
            counts: snapshot.is_in_use(),
            stored_at: Instant::now(),
        }
    }

    pub(crate) fn position(&self) -> Option<P> {
        self.state.position.clone()
    }

    /// Records the position after some suspects. It stays where it is when some were skipped.
    pub(crate) async fn record(
        &mut self,
        position: Option<P>,
        outcome: &RepairOutcome,
    ) -> Result<(), StoreError> {
        self.state.began = Some(self.pass);
        if let Some(why) = outcome.index_away() {
            self.snapshot.give_up(why, &self.run.ledger);
        }
        if outcome.unfinished() > 0 {
            // The next run resumes before these comments. If they only took too long, the rest is
            // checked now.
            self.store().await?;
            self.counts = false;
        }
        self.counts &= self.snapshot.is_in_use();
        self.state.position = position;
        if self.stored_at.elapsed() > STORE_EVERY {
            self.store().await?;
        }
        Ok(())
    }

    /// Drops the position: what was scanned is not there any more.
    pub(crate) fn begin_anew(&mut self) {
        self.state.position = None;
    }

    /// Stores that the pass has ended if the scan was complete, or else its position.
    pub(crate) async fn close(&mut self, is_complete: bool) -> Result<(), StoreError> {
        if is_complete {
            let table = self.state.table.take();
            let mut indexes_compared = self.state.indexes_compared;
            if self.state.compares_indexes {
                indexes_compared = Some(self.pass);
            }
            self.state = ScanState {
                table,
                last_began: Some(self.pass),
                indexes_compared,
                ..ScanState::default()
            };
        }
        // A pass that has read nothing leaves no trace.
        if is_complete || self.state.began.is_some() {
            self.store().await?;
        }
        Ok(())
    }

    /// Stores the state, unless the page index has lost what was repaired there.
    async fn store(&mut self) -> Result<(), StoreError> {
        self.stored_at = Instant::now();
        self.counts = self.counts && self.snapshot.has_kept_repairs(self.run).await?;
        if self.counts && self.run.may_remember() {
            let StateKey { kind, name } = &self.key;
            let table = &self.run.job.table;
            table.put_state(kind, name, &self.state).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use embedded_index::EmbeddedIndex;
    use model::CommentId;
    use page_index::PageIndex;
    use table::TableConfig;

    use super::*;
    use crate::run::{Job, outcome::CommentOutcome, settings::JobSettings};

    #[tokio::test]
    async fn a_segment_with_a_comment_that_takes_too_long_does_not_count_as_checked() {
        // The table is not asked for anything that matters here.
        let table = Table::connect(&TableConfig::new(
            "t",
            Some("http://127.0.0.1:1".to_owned()),
        ))
        .await;
        let index = PageIndex::new(EmbeddedIndex::new(1), STORE_EVERY);
        let job = Job::new(
            table,
            index,
            JobSettings::default(),
            process::Stop::default(),
        );
        let too_late =
            CommentOutcome::Unfinished("its edits came too late after it was read".to_owned());
        for (comment_outcome, is_whole) in [(CommentOutcome::Repaired, true), (too_late, false)] {
            let outcome = RepairOutcome {
                comments: vec![(CommentId::parse("c1").unwrap(), comment_outcome)],
            };
            let mut seen = None;
            let report = job
                .run("audit", None, async |run| {
                    let snapshot = IndexSnapshot::read(run, "t").await?;
                    let key = StateKey {
                        kind: AUDIT,
                        name: "1/000000".to_owned(),
                    };
                    let state = SegmentState::default();
                    let mut checkpoint = Checkpoint::new(run, &snapshot, key, state, run.began);
                    checkpoint.record(None, &outcome).await?;
                    seen = Some(checkpoint.counts);
                    Ok(())
                })
                .await;
            assert_eq!((report.failure, seen), (None, Some(is_whole)));
        }
    }
}
