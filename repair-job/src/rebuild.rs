//! `rebuild`: from the table to the page index, then the markers.
//!
//! Live writes may go on: a comment that changes during the rebuild has a journal entry, and every comment that the
//! journal names is reconciled after the scan. So what the scan read too early cannot stay in the index.

use std::time::{Duration, Instant};

use futures_util::{TryStreamExt, stream};
use model::{
    CommentId, Placement,
    item::Image,
    plan::{IndexEdit, index_edits},
};
use serde_dynamo::Item;
use stores::{PageIndex, StoreError, Table, now};

use crate::{
    error::RepairError,
    plan::{Scanned, changed_comments, plan_item},
};

/// How far back the journal is read before the rebuild's beginning: longer than a write may take (30 s), plus what
/// the clocks of writers may differ. The same time is read ahead of this machine's clock.
const SETTLE_DELAY: Duration = Duration::from_secs(60);

/// Items read in one call; the table holds 32 items a comment.
const SCAN_LIMIT: u32 = 1_000;

/// How many comments are reconciled at the same time.
const RECONCILE_CONCURRENCY: usize = 8;

/// How often a comment that keeps changing is tried.
const RECONCILE_ATTEMPTS_MAX: usize = 20;

/// What a rebuild did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// Items read from the table.
    pub items: u64,
    /// Comments put into the page index.
    pub comments: u64,
    /// Comments that changed meanwhile and were reconciled.
    pub changed_meanwhile: u64,
    /// Primary items that cannot be read; a person has to look.
    pub unresolved: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

impl RebuildReport {
    fn add(mut self, other: Self) -> Self {
        self.items += other.items;
        self.comments += other.comments;
        self.unresolved.extend(other.unresolved);
        self
    }
}

/// Rebuilds the page index, reading the table in `segments` parts at the same time.
///
/// # Errors
/// A store's, also that the page index was lost meanwhile or that another rebuild began: the index is then not ready,
/// and running it again is safe.
pub async fn rebuild(table: &Table, index: &PageIndex, segments: u32) -> Result<RebuildReport, RepairError> {
    let started = Instant::now();
    let settle_ms = i64::try_from(SETTLE_DELAY.as_millis()).unwrap_or(i64::MAX);
    let table_id = table.describe().await?.id;
    let since = now().plus_ms(-settle_ms);
    let run = index.begin_rebuild().await?;
    let segments = segments.max(1);
    let parts = stream::iter((0..segments).map(Ok::<u32, RepairError>))
        .map_ok(|segment| async move { fill_segment(table, index, segment, segments).await })
        .try_buffer_unordered(usize::try_from(segments).unwrap_or(1));
    let mut report = parts.try_fold(RebuildReport::default(), async |sum, part| Ok(sum.add(part))).await?;
    let changed = changed_comments(table.journal(since, now().plus_ms(settle_ms)).await?);
    report.changed_meanwhile = u64::try_from(changed.len()).unwrap_or(u64::MAX);
    let unresolved: Vec<Option<String>> = stream::iter(changed.into_iter().map(Ok::<_, RepairError>))
        .map_ok(|(id, seen)| async move { reconcile_index(table, index, &id, seen).await })
        .try_buffer_unordered(RECONCILE_CONCURRENCY)
        .try_collect()
        .await?;
    report.unresolved.extend(unresolved.into_iter().flatten());
    index.finish_rebuild(&run, &table_id, since).await?;
    report.took = started.elapsed();
    Ok(report)
}

async fn fill_segment(
    table: &Table,
    index: &PageIndex,
    segment: u32,
    segments: u32,
) -> Result<RebuildReport, RepairError> {
    let mut report = RebuildReport::default();
    let mut position = None;
    loop {
        let part = table.scan(position, segment, segments, SCAN_LIMIT).await?;
        let mut edits: Vec<IndexEdit> = Vec::new();
        report.items += u64::try_from(part.items.len()).unwrap_or(u64::MAX);
        for item in part.items {
            match plan_item(item) {
                Scanned::Member(of_comment) => {
                    report.comments += 1;
                    edits.extend(of_comment);
                }
                Scanned::Other => {}
                Scanned::Unresolved(what) => {
                    tracing::error!(item = what, "a primary item cannot be read");
                    report.unresolved.push(what);
                }
            }
        }
        index.apply(&edits).await?;
        position = part.next;
        if position.is_none() {
            return Ok(report);
        }
    }
}

/// Makes the page index right for one comment by its primary item as it is now; reads it again afterwards and starts
/// over when it has changed, because the page indexer may have been faster with the change than this with its edit.
///
/// Returns what is wrong with a primary item that cannot be read.
async fn reconcile_index(
    table: &Table,
    index: &PageIndex,
    id: &CommentId,
    mut seen: Vec<Placement>,
) -> Result<Option<String>, RepairError> {
    for _ in 0..RECONCILE_ATTEMPTS_MAX {
        let (present, after) = match reconcile_once(table, index, id, &mut seen).await {
            Err(StoreError::Malformed(malformed)) => return Ok(Some(format!("comment {id}: {malformed}"))),
            outcome => outcome?,
        };
        if after == present {
            return Ok(None);
        }
    }
    Err(RepairError::KeepsChanging { id: id.clone(), attempts: RECONCILE_ATTEMPTS_MAX })
}

/// Returns the primary item before and after; `seen` grows by what was written, which may be wrong by then.
async fn reconcile_once(
    table: &Table,
    index: &PageIndex,
    id: &CommentId,
    seen: &mut Vec<Placement>,
) -> Result<(Option<Item>, Option<Item>), StoreError> {
    let present = table.raw_primary_item(id).await?;
    let image = present.as_ref().map(Image::of_primary).transpose()?;
    let last = image.as_ref().map(|image| (&image.placement, image.created_at));
    index.apply(&index_edits(id, last, seen)).await?;
    seen.extend(image.map(|image| image.placement));
    Ok((present, table.raw_primary_item(id).await?))
}
