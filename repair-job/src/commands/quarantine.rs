//! `quarantine`: repairs what batches in quarantine name, and removes the batches that are done.
//!
//! Comments are repaired by their **current** state. The records themselves, which may be old, are never applied. A
//! batch is removed when all its comments are right. It stays when a comment needs a person or a record is unreadable.

use functions::Quarantine;
use process::StoreError;

use crate::{
    find::quarantine::{BatchRead, QuarantineFinder},
    repair::{
        pipeline::{Checkpoint, find_and_repair},
        suspect::Outcome,
    },
    run::Run,
    state::index_snapshot::{IndexSnapshot, Scope},
};

/// Maximum number of batches that are counted, for the progress display or the status.
pub(crate) const COUNTED_MAX: usize = 10_000;

pub(crate) async fn work_off(run: &Run<'_>, quarantine: &Quarantine) -> Result<(), StoreError> {
    let table_id = run.job.table.describe().await?.id;
    let snapshot = IndexSnapshot::read(run, &table_id).await?;
    let all = quarantine.list(None, COUNTED_MAX).await?.len();
    run.job.progress.expect(u64::try_from(all).unwrap_or(u64::MAX));
    let mut finder = QuarantineFinder::new(run, quarantine);
    let mut removal = Removal { run, quarantine, snapshot, removed: 0, kept: 0 };
    find_and_repair(run, &mut finder, &mut removal).await?;
    run.ledger.add_note(format!("{} batches removed, {} kept", removal.removed, removal.kept));
    Ok(())
}

struct Removal<'run> {
    run: &'run Run<'run>,
    quarantine: &'run Quarantine,
    snapshot: IndexSnapshot,
    removed: u64,
    kept: u64,
}

impl Checkpoint<BatchRead> for Removal<'_> {
    fn scope(&self) -> Scope<'_> {
        Scope { duplicates: true, index: self.snapshot.scope() }
    }

    async fn record(&mut self, batch: BatchRead, outcome: &Outcome) -> Result<bool, StoreError> {
        // A rebuild fills partitions without a marker from the table, regardless of the quarantine. But a page index
        // that does not answer may have markers and miss entries.
        let is_done = outcome.is_settled() && batch.is_readable && self.snapshot.has_kept_repairs(self.run).await?;
        if !is_done {
            self.kept += 1;
        } else if self.run.job.settings.apply {
            self.quarantine.remove(&batch.name).await?;
            self.removed += 1;
        }
        self.run.job.progress.advance(1);
        Ok(true)
    }
}
