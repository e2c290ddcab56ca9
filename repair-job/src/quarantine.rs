//! `quarantine`: works off the batches that the event source mappings and the functions gave up on.
//!
//! It reconciles every comment that a batch names by its **current** state. It never applies the records themselves,
//! which may be old. A batch is removed when all its comments are in order. It stays when a comment needs a person or a
//! record is unreadable.

use std::collections::BTreeMap;

use functions::{Quarantine, quarantine::QuarantinedBatch};
use model::{CommentId, plan::reconcile::Places};

use crate::{
    error::RepairError,
    follow::Follow,
    job::{Job, Run, looked_at},
    reconcile::{Scope, State},
    report::Report,
};

/// How many batch names are listed at a time.
const LIST_LIMIT: usize = 200;

/// Maximum number of batches counted in advance for the progress display.
const COUNTED_MAX: usize = 10_000;

impl Job {
    /// Works off the quarantine.
    pub async fn quarantine(&self, quarantine: &Quarantine) -> Report {
        self.run("quarantine", "quarantine", async |run| Box::pin(work_off(run, quarantine)).await).await
    }
}

async fn work_off(run: &Run<'_>, quarantine: &Quarantine) -> Result<(), RepairError> {
    let table_id = run.job.table.describe().await?.id;
    let follow = Follow::read(run, &table_id).await?;
    // A rebuild fills partitions without a marker from the table, regardless of the quarantine. But a page index that
    // does not answer may have markers and miss entries.
    let index_answers = follow.answers();
    let scope = Scope { duplicates: true, index: follow.scope() };
    let whole = quarantine.list(None, COUNTED_MAX).await?.len();
    run.job.progress.expect(u64::try_from(whole).unwrap_or(u64::MAX));
    let (mut removed, mut kept) = (0_u64, 0_u64);
    let goes_on = || "the next run goes on with what is left".to_owned();
    let mut after: Option<String> = None;
    loop {
        let names = quarantine.list(after.as_deref(), LIST_LIMIT).await?;
        let Some(last) = names.last().cloned() else { break };
        for name in names {
            if run.must_stop(goes_on) {
                run.add_note(said(removed, kept));
                return Ok(());
            }
            let Some(document) = quarantine.get(&name).await? else { continue };
            let batch = QuarantinedBatch::read(&document);
            for what in &batch.unreadable {
                run.add_unresolved(format!("{name}: {what}"));
            }
            let mut comments: BTreeMap<CommentId, Places> = BTreeMap::new();
            for (id, places) in batch.comments {
                comments.entry(id).or_default().join(&places);
            }
            let all = comments.len();
            let states = run.reconcile_all(comments, &scope).await?;
            run.add_checked(looked_at(&states));
            if looked_at(&states) < all {
                run.must_stop(goes_on);
            }
            let is_done = states.iter().all(|(_, state)| *state == State::Settled) && index_answers;
            if !is_done || !batch.unreadable.is_empty() {
                kept += 1;
            } else if run.job.settings.apply {
                quarantine.remove(&name).await?;
                removed += 1;
            }
            run.job.progress.advance(1);
        }
        after = Some(last);
    }
    run.job.progress.finish();
    run.add_note(said(removed, kept));
    Ok(())
}

fn said(removed: u64, kept: u64) -> String {
    format!("{removed} batches removed, {kept} kept")
}
