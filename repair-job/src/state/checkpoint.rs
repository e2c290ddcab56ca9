//! The checkpoints of an audit: how far the table scan of each segment has come, and how far the index scan.
//!
//! **Invariant:** a position is stored, and a segment counts as checked, only up to where everything was checked,
//! including the page index (`tests/repair/resumed.rs`).
//!
//! **Invariant:** nothing is stored after the page index may have lost what was repaired there
//! (`tests/repair/lost.rs`).

use std::collections::BTreeMap;

use model::Timestamp;
use page_index::IndexScanPosition;
use process::{StoreError, now};
use serde::{Deserialize, Serialize};
use table::Table;
use tokio::time::{Duration, Instant};

use crate::{
    commands::audit_plan::{AuditOptions, SegmentState, Which, is_due, state_name},
    find::{index_scan::IndexPosition, table_scan::TablePosition},
    repair::{pipeline::Checkpoint, suspect::Outcome},
    run::Run,
    state::index_snapshot::{IndexScope, IndexSnapshot, Scope},
};

pub(crate) const AUDIT: &str = "audit";

const STORE_EVERY: Duration = Duration::from_secs(10);

/// The kind of state that the index scan stores, and its only name.
pub(crate) const INDEX_SCAN: &str = "index_scan";
pub(crate) const POSITION: &str = "position";

pub(crate) const ITEMS_PER_COMMENT: u64 = 32;

/// The states of this table's segments. States of a table before its restoration say nothing about it, so they are left
/// out.
pub(crate) async fn segment_states(
    table: &Table,
    table_id: &str,
) -> Result<BTreeMap<String, SegmentState>, StoreError> {
    let states: Vec<(String, SegmentState)> = table.states(AUDIT).await?;
    Ok(states.into_iter().filter(|(_, state)| state.table.as_deref() == Some(table_id)).collect())
}

pub(crate) struct SegmentCheckpoint<'run> {
    run: &'run Run<'run>,
    snapshot: &'run IndexSnapshot,
    name: String,
    pass: Timestamp,
    state: SegmentState,
    /// Whether everything was checked so far, including the page index. When it was not, the stored position stays.
    counts: bool,
    stored_at: Instant,
    items: u64,
}

impl<'run> SegmentCheckpoint<'run> {
    pub(crate) fn new(
        run: &'run Run<'run>,
        snapshot: &'run IndexSnapshot,
        (segment, segments, items): (u32, u32, u64),
        state: SegmentState,
        pass: Timestamp,
    ) -> Self {
        let name = state_name(segment, segments);
        Self { run, snapshot, name, pass, state, counts: snapshot.answers(), stored_at: Instant::now(), items }
    }

    pub(crate) fn start(&self) -> TablePosition {
        TablePosition { key: self.state.position.clone(), items: self.state.items.unwrap_or(0) }
    }

    /// Stores that the segment is checked if the scan was complete, or else its position. Returns whether it counts as
    /// checked.
    pub(crate) async fn close(mut self, is_complete: bool) -> Result<bool, StoreError> {
        if is_complete {
            self.advance(u64::MAX);
            self.state = SegmentState {
                table: self.state.table,
                last_began: Some(self.pass),
                last_ended: Some(now()),
                ..SegmentState::default()
            };
        }
        // A pass that has read nothing leaves no trace.
        if is_complete || self.state.began.is_some() {
            self.store().await?;
        }
        Ok(is_complete && self.counts)
    }

    /// Stores the state, unless the page index has lost what was repaired there.
    async fn store(&mut self) -> Result<(), StoreError> {
        self.stored_at = Instant::now();
        self.counts = self.counts && self.snapshot.has_kept_repairs(self.run).await?;
        if self.counts && self.run.may_remember() {
            self.run.job.table.put_state(AUDIT, &self.name, &self.state).await?;
        }
        Ok(())
    }

    /// Shows progress up to this number of items, at most as many as the segment is expected to have.
    fn advance(&mut self, items: u64) {
        let before = self.state.items.unwrap_or(0).min(self.items);
        self.run.job.progress.advance(items.min(self.items).saturating_sub(before));
        self.state.items = Some(items);
    }
}

impl Checkpoint<TablePosition> for SegmentCheckpoint<'_> {
    fn scope(&self) -> Scope<'_> {
        Scope { duplicates: true, index: self.snapshot.scope() }
    }

    async fn record(&mut self, position: TablePosition, outcome: &Outcome) -> Result<bool, StoreError> {
        self.state.began = Some(self.pass);
        if let Some(why) = outcome.index_away() {
            self.snapshot.give_up_and_report(why, &self.run.ledger);
        }
        if outcome.left_out() > 0 {
            // The next run resumes before these comments. If they only took too long, the rest is checked now.
            self.store().await?;
            self.counts = false;
        }
        self.counts &= self.snapshot.answers();
        self.advance(position.items);
        self.state.position = position.key;
        if self.stored_at.elapsed() > STORE_EVERY {
            self.store().await?;
        }
        Ok(true)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct IndexScanState {
    pub(crate) position: Option<IndexScanPosition>,
    pub(crate) members: Option<u64>,
    pub(crate) began: Option<Timestamp>,
    /// When the first scan began. `None` once a scan has completed.
    pub(crate) first_began: Option<Timestamp>,
    pub(crate) last_began: Option<Timestamp>,
    pub(crate) last_ended: Option<Timestamp>,
}

impl IndexScanState {
    fn begin_anew(&mut self) {
        (self.position, self.members, self.began) = (None, None, None);
    }
}

/// The work of scanning this many comments of the page index, in steps of reading one item. The ratio is approximate,
/// from times measured by `bench`.
pub(crate) fn index_steps(comments: u64) -> u64 {
    comments.saturating_mul(ITEMS_PER_COMMENT / 2)
}

pub(crate) struct IndexCheckpoint<'run> {
    run: &'run Run<'run>,
    snapshot: &'run IndexSnapshot,
    state: IndexScanState,
    /// Whether everything was checked so far. When it was not, the stored position stays.
    counts: bool,
    stored_at: Instant,
}

impl<'run> IndexCheckpoint<'run> {
    /// Reads the stored position, or starts anew. A scan that began before `since` is not resumed. `None` when no scan is
    /// due.
    pub(crate) async fn read(
        run: &'run Run<'run>,
        snapshot: &'run IndexSnapshot,
        options: AuditOptions,
        since: Option<Timestamp>,
    ) -> Result<Option<Self>, StoreError> {
        let (job, index) = (run.job, &run.job.index);
        let mut state: IndexScanState = match job.settings.apply {
            true => job.table.state(INDEX_SCAN, POSITION).await?.unwrap_or_default(),
            false => IndexScanState::default(),
        };
        if options.restart {
            state.begin_anew();
        }
        if options.which == Which::Due && state.position.is_none() && !is_due(state.last_began, now()) {
            return Ok(None);
        }
        let is_of_this_pass = state.began.is_some_and(|began| since.is_none_or(|since| began >= since));
        let resumes = match &state.position {
            Some(position) if is_of_this_pass => index.is_index_scan_valid(position).await?,
            Some(_) | None => false,
        };
        if !resumes {
            state.begin_anew();
            state.position = Some(index.begin_index_scan().await?);
        }
        if let Some(began) = state.began {
            run.ledger.add_note(format!("it resumes the scan of the page index that began at {began}"));
        }
        let began = *state.began.get_or_insert_with(now);
        if state.last_ended.is_none() {
            state.first_began.get_or_insert(began);
        }
        job.progress.advance(index_steps(*state.members.get_or_insert_default()));
        Ok(Some(Self { run, snapshot, state, counts: true, stored_at: Instant::now() }))
    }

    pub(crate) fn start(&self) -> Option<IndexScanPosition> {
        self.state.position.clone()
    }

    /// Stores that the index was scanned if the scan was complete, or else its position.
    pub(crate) async fn close(mut self, is_complete: bool) -> Result<(), StoreError> {
        let is_valid = match &self.state.position {
            Some(position) if is_complete => self.run.job.index.is_index_scan_valid(position).await?,
            Some(_) | None => false,
        };
        if is_valid {
            let (last_began, last_ended) = (self.state.began, Some(now()));
            self.state = IndexScanState { last_began, last_ended, ..IndexScanState::default() };
        } else if is_complete {
            let what = "part of the index scan, whose servers have changed: the next one starts anew";
            self.run.ledger.add_skipped(what.to_owned());
            self.state.begin_anew();
        }
        self.store().await
    }

    async fn store(&mut self) -> Result<(), StoreError> {
        self.stored_at = Instant::now();
        if self.counts && self.run.may_remember() {
            self.run.job.table.put_state(INDEX_SCAN, POSITION, &self.state).await?;
        }
        Ok(())
    }
}

impl Checkpoint<IndexPosition> for IndexCheckpoint<'_> {
    /// The index scan uses the page index even if the table scan has given it up.
    fn scope(&self) -> Scope<'_> {
        Scope { duplicates: true, index: IndexScope::Snapshot(self.snapshot) }
    }

    async fn record(&mut self, position: IndexPosition, outcome: &Outcome) -> Result<bool, StoreError> {
        if let Some(why) = outcome.index_away() {
            self.run.ledger.add_skipped(format!("the rest of the scan of the page index, because {why}"));
            return Ok(false);
        }
        if outcome.left_out() > 0 {
            // The next run resumes before these comments. If they only took too long, the rest is checked now.
            self.store().await?;
            self.counts = false;
        }
        *self.state.members.get_or_insert_default() += position.comments;
        self.state.position = Some(position.next);
        self.run.job.progress.advance(index_steps(position.comments));
        if self.stored_at.elapsed() > STORE_EVERY {
            self.store().await?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use embedded_index::EmbeddedIndex;
    use model::CommentId;
    use page_index::PageIndex;
    use table::TableConfig;

    use super::*;
    use crate::{
        repair::suspect::State,
        run::{Job, settings::JobSettings, stop::Stop},
    };

    #[tokio::test]
    async fn a_comment_that_takes_too_long_does_not_end_the_audit_of_its_segment_which_does_not_count() {
        // The table is not asked for anything that matters here.
        let table = Table::connect(&TableConfig::new("t", Some("http://127.0.0.1:1".to_owned()))).await;
        let index = PageIndex::new(EmbeddedIndex::new(1), STORE_EVERY);
        let job = Job::new(table, index, JobSettings::default(), Stop::default());
        let too_late = State::LeftOut("its edits came too late after it was read".to_owned());
        for (state, is_whole) in [(State::Settled, true), (too_late, false)] {
            let outcome = Outcome { states: vec![(CommentId::parse("c1").unwrap(), state)] };
            let mut seen = None;
            let work = async |run: &Run<'_>| {
                let snapshot = IndexSnapshot::read(run, "t").await?;
                let place = (0, 1, 100);
                let mut checkpoint = SegmentCheckpoint::new(run, &snapshot, place, SegmentState::default(), run.began);
                let goes_on = checkpoint.record(TablePosition::default(), &outcome).await?;
                seen = Some((goes_on, checkpoint.close(true).await?));
                Ok(())
            };
            let report = job.run("audit", None, work).await;
            assert_eq!((report.failure, seen), (None, Some((true, is_whole))));
        }
    }
}
