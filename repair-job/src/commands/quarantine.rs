//! `quarantine`: repairs what batches in quarantine name, and removes the batches that are done.
//!
//! Comments are repaired by their **current** state. The records themselves, which may be old, are
//! never applied. A batch is removed when all its comments are right. It stays when a comment needs
//! a person or a record is unreadable.

use std::collections::VecDeque;

use functions::{Quarantine, quarantine::QuarantinedBatch};
use process::StoreError;

use crate::{
    repair::{
        index_snapshot::{IndexSnapshot, RepairScope},
        pipeline::{Finder, Finding, Pipeline},
    },
    run::{Job, Run, report::Report},
};

/// Maximum number of batches that are listed at once, and counted for the progress display or the
/// status.
pub(crate) const LISTED_MAX: usize = 10_000;

impl Job {
    pub async fn quarantine(&self, quarantine: &Quarantine) -> Report {
        self.run("quarantine", Some("quarantine"), async |run| {
            Box::pin(work_off(run, quarantine)).await
        })
        .await
    }
}

async fn work_off(run: &Run<'_>, quarantine: &Quarantine) -> Result<(), StoreError> {
    let table_id = run.job.table.describe().await?.id;
    let snapshot = IndexSnapshot::read(run, &table_id).await?;
    let names = quarantine.list(None, LISTED_MAX).await?;
    run.job
        .progress
        .expect(u64::try_from(names.len()).unwrap_or(u64::MAX));
    let mut batches = Pipeline::new(
        run,
        QuarantineFinder {
            run,
            quarantine,
            names: names.into(),
        },
    );
    let mut removed = 0;
    let mut kept = 0;
    while let Some((batch, outcome)) = batches.next(RepairScope::of_all(&snapshot)).await? {
        // A rebuild fills partitions without a marker from the table, regardless of the quarantine.
        // But a page index that does not answer may have markers and miss entries.
        let is_done = outcome.are_all_repaired()
            && batch.is_readable
            && snapshot.has_kept_repairs(run).await?;
        if !is_done {
            kept += 1;
        } else if run.job.settings.apply {
            quarantine.remove(&batch.name).await?;
            removed += 1;
        }
    }
    run.ledger
        .add_note(format!("{removed} batches removed, {kept} kept"));
    Ok(())
}

struct QuarantineFinder<'run> {
    run: &'run Run<'run>,
    quarantine: &'run Quarantine,
    names: VecDeque<String>,
}

struct BatchRead {
    name: String,
    is_readable: bool,
}

impl Finder for QuarantineFinder<'_> {
    type ScanPosition = BatchRead;

    async fn find(&mut self) -> Result<Option<Finding<BatchRead>>, StoreError> {
        loop {
            let Some(name) = self.names.pop_front() else {
                return Ok(None);
            };
            if self.names.is_empty() {
                self.names = self.quarantine.list(Some(&name), LISTED_MAX).await?.into();
            }
            let Some(document) = self.quarantine.get(&name).await? else {
                continue;
            };
            let batch = QuarantinedBatch::read(&document);
            for what in &batch.unreadable {
                self.run.ledger.add_unresolved(format!("{name}: {what}"));
            }
            let position = BatchRead {
                name,
                is_readable: batch.unreadable.is_empty(),
            };
            let checked = batch.comments.len();
            return Ok(Some(Finding {
                suspects: batch.comments.into(),
                checked,
                steps: 1,
                position,
                is_last: false,
            }));
        }
    }

    fn resumes(&self) -> String {
        "the next run resumes with what is left".to_owned()
    }
}
