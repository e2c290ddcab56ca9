//! `rebuild`: from the table to the page index, then the markers.
//!
//! Live writes may go on: a comment that changes during the rebuild has a journal entry, and every comment that the
//! journal names is reconciled after the scan. So what the scan read too early cannot stay in the index.
//!
//! The journal is read again until little has been left, so that the index is ready when a rebuild ends, however long it
//! took; and it is marked up to where the last pass found the journal complete, never further
//! (`tests/repair/rebuild.rs`).

use std::{sync::Mutex, time::Duration};

use futures_util::{TryStreamExt, future::try_join, stream};
use model::{
    item::{Image, attribute, text},
    plan::{IndexEdit, index_edits},
};
use serde_dynamo::Item;
use stores::{PageIndex, Table, capacity::Meter, now, table::ScanOf};

use crate::{
    changed::{Window, reconcile_window, windows},
    error::RepairError,
    job::{Job, JobSettings, Run},
    reconcile::{IndexScope, Scope},
    report::Report,
    stop::Stop,
};

/// Items read in one call, of which one in 32 is a primary item; an answer ends at a megabyte read.
const SCAN_LIMIT: u32 = 4_000;

/// How often the journal is read at most, and a pass over it that took no longer is the last.
const PASSES_MAX: u32 = 10;
const PASS_MS_SHORT: i64 = 60_000;

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

/// Rebuilds the page index, reading the table in `segments` parts at the same time.
///
/// # Errors
/// A store's, also that the page index was lost meanwhile or that another rebuild began: the index is then not ready,
/// and running it again is safe.
pub async fn rebuild(table: &Table, index: &PageIndex, segments: u32) -> Result<RebuildReport, RepairError> {
    let settings = JobSettings { apply: true, ..JobSettings::default() };
    let job = Job::new(table.clone(), index.clone(), settings, Meter::default(), Stop::default());
    let filled = Mutex::new(Filled::default());
    let mut failed = None;
    let report = job
        .without_lease("rebuild", async |run| {
            match Box::pin(fill(run, segments)).await {
                Ok(done) => *filled.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = done,
                Err(error) => failed = Some(error),
            }
            Ok(())
        })
        .await;
    if let Some(error) = failed {
        return Err(error);
    }
    let filled = filled.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(RebuildReport {
        items: report.items,
        comments: filled.comments,
        changed_meanwhile: filled.changed_meanwhile,
        unresolved: report.unresolved,
        took: Duration::from_secs_f64(report.seconds),
    })
}

impl Job {
    /// Rebuilds the page index. Without `--apply`, it only counts what it would put there.
    pub async fn rebuild(&self, segments: u32) -> Report {
        let work = async |run: &Run<'_>| {
            let filled = Box::pin(fill(run, segments)).await?;
            run.add_note(format!(
                "{} comments, of which {} changed meanwhile",
                filled.comments, filled.changed_meanwhile
            ));
            Ok(())
        };
        self.run("rebuild", "rebuild", work).await
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Filled {
    comments: u64,
    changed_meanwhile: u64,
}

async fn fill(run: &Run<'_>, segments: u32) -> Result<Filled, RepairError> {
    let job = run.job;
    let settle_ms = i64::try_from(job.settings.settle.as_millis()).unwrap_or(i64::MAX);
    let described = job.table.describe().await?;
    let mut reconciled_to = now().plus_ms(-settle_ms);
    let rebuild = if job.settings.apply { Some(job.index.begin_rebuild().await?) } else { None };
    let segments = segments.max(1);
    let parts = stream::iter((0..segments).map(Ok::<u32, RepairError>))
        .map_ok(|segment| fill_segment(run, segment, segments, described.items))
        .try_buffer_unordered(usize::try_from(segments).unwrap_or(1));
    let comments: Vec<u64> = parts.try_collect().await?;
    let mut filled = Filled { comments: comments.into_iter().sum(), changed_meanwhile: 0 };
    let Some(rebuild) = rebuild else { return Ok(filled) };
    // Clocks of writers may be ahead.
    let scope = Scope { duplicates: false, index: IndexScope::All };
    let mut is_whole = job.stop.reason().is_none();
    for _ in 0..PASSES_MAX {
        let present = now();
        let mut left: Vec<Window> = windows(reconciled_to, present.plus_ms(settle_ms)).collect();
        left.reverse();
        while let Some(window) = left.pop() {
            let outcome = Box::pin(reconcile_window(run, window, &scope)).await?;
            if outcome.is_to_be_halved {
                left.extend(window.halves().into_iter().flatten().rev());
                continue;
            }
            filled.changed_meanwhile += outcome.comments;
            is_whole &= outcome.is_whole && !outcome.index_was_away;
        }
        // Entries of later than that may have come after they were looked for.
        reconciled_to = present.plus_ms(-settle_ms);
        if !is_whole || now().epoch_ms() - present.epoch_ms() <= PASS_MS_SHORT {
            break;
        }
    }
    // What it mends there is its own doing, not a difference that there was.
    run.forget_drift();
    if is_whole {
        job.index.finish_rebuild(&rebuild, &described.id, reconciled_to).await?;
    } else {
        run.add_skipped("the page index is not ready; the next rebuild begins anew".to_owned());
    }
    job.progress.set_share(1, 1);
    Ok(filled)
}

/// Returns how many comments it put there; the table has about so many items.
async fn fill_segment(run: &Run<'_>, segment: u32, segments: u32, items: u64) -> Result<u64, RepairError> {
    let (job, mut comments, mut position) = (run.job, 0, None);
    let mut edits: Vec<IndexEdit> = Vec::new();
    loop {
        if run.must_stop(|| "the next rebuild begins anew".to_owned()) {
            return Ok(comments);
        }
        // What was read is written while more is read.
        let apply = async { if job.settings.apply { job.index.apply(&edits).await } else { Ok(()) } };
        let scan = job.table.scan_segment(ScanOf::Placements, position, segment, segments, SCAN_LIMIT);
        let (scanned, ()) = try_join(scan, apply).await?;
        run.add_items(scanned.read, items);
        edits.clear();
        for item in &scanned.items {
            match edits_of(item) {
                Ok(of_comment) => edits.extend(of_comment),
                Err(what) => run.add_unresolved(what),
            }
        }
        comments += u64::try_from(edits.len()).unwrap_or(u64::MAX);
        run.add_checked(edits.len());
        position = scanned.next;
        if position.is_none() {
            if job.settings.apply {
                job.index.apply(&edits).await?;
            }
            return Ok(comments);
        }
    }
}

/// Where a scanned item puts its comment; nothing for one that is no primary item; what is wrong with one that cannot be
/// read.
fn edits_of(item: &Item) -> Result<Vec<IndexEdit>, String> {
    let (pk, sk) = (text(item, attribute::PK).unwrap_or_default(), text(item, attribute::SK).unwrap_or_default());
    if !sk.ends_with(model::FilterKey::PRIMARY_SUFFIX) {
        return Ok(Vec::new());
    }
    let image = Image::of_primary(item).map_err(|malformed| format!("{pk} {sk}: {malformed}"))?;
    Ok(index_edits(&image.id, Some((&image.placement, image.created_at)), &[]))
}
