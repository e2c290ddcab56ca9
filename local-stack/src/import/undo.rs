//! Removes the comments that an import of a file created, as long as they are as it left them.
//!
//! The journal says who created a comment, and at which revision. A comment that still has that
//! revision was not changed since. So neither a comment that was there before is removed, nor one
//! that somebody has edited. A comment that is not as the file says was created by another file, and
//! stays. An entry that has expired says nothing, and its comment stays.

use std::panic::resume_unwind;

use futures_util::{StreamExt, stream};
use model::{Timestamp, item::comment_of_primary, journal::JournalEntry};
use process::{Remedy, Stop, StoreError};
use serde::Serialize;
use table::{Table, WriteError};

use super::{
    CONCURRENT, IMPORT, ImportError, ImportSource, Mistake, add_mistake, read_ahead,
    row::{ImportRow, RowContent},
};

/// Whom the journal names for the removals.
const UNDO: &str = "pagemark repair undo-import";

#[derive(Debug, Clone, Copy)]
pub(crate) struct UndoOptions {
    /// Whether comments are removed. Without it, they are only counted.
    pub(crate) apply: bool,
    /// The beginning of the import. What was created earlier stays.
    pub(crate) since: Timestamp,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct UndoReport {
    pub(crate) apply: bool,
    /// Comments that are as an import left them. They were removed if it applies.
    pub(crate) as_imported: u64,
    /// When the first and the last of them were written.
    pub(crate) written: Option<(Timestamp, Timestamp)>,
    /// Comments that stay: they were there before the import, were changed since, or are not as the
    /// file says.
    pub(crate) staying: u64,
    /// Comments that stay because the journal no longer says who wrote them.
    pub(crate) unknown: u64,
    /// Comments that are not there any more.
    pub(crate) absent: u64,
    pub(crate) bad: u64,
    pub(crate) mistakes: Vec<Mistake>,
}

/// What becomes of a row.
enum UndoneRow {
    AsImported(Timestamp),
    Staying,
    Unknown,
    Absent,
    Refused(String),
}

/// Undoes what a file has created, until it is to stop. Returns the outcome, also of a run that ended
/// early: another one resumes it.
pub(crate) async fn undo_import(
    table: &Table,
    source: ImportSource,
    options: UndoOptions,
    stop: &Stop,
) -> (UndoReport, Result<(), ImportError>) {
    let mut report = UndoReport {
        apply: options.apply,
        ..UndoReport::default()
    };
    let ended = undo_rows(
        &table.written_by(UNDO),
        source,
        (options, stop),
        &mut report,
    )
    .await;
    report.mistakes.sort_by_key(|mistake| mistake.number);
    (report, ended)
}

async fn undo_rows(
    table: &Table,
    source: ImportSource,
    (options, stop): (UndoOptions, &Stop),
    report: &mut UndoReport,
) -> Result<(), ImportError> {
    let progress = source.progress;
    let (mut rows, reading) = read_ahead(source.rows);
    let rows = stream::poll_fn(move |context| rows.poll_recv(context));
    let rows = rows.take_until(Box::pin(stop.come()));
    let mut undone = rows
        .map(async |row| {
            let row = row?;
            let number = row.number;
            Ok::<_, ImportError>((number, undo_row(table, row, options).await?))
        })
        .buffer_unordered(CONCURRENT);
    while let Some(row) = undone.next().await {
        let (number, row) = row?;
        progress.add(1);
        report.count(number, row);
    }
    drop(undone);
    if stop.reason().is_some() {
        // The thread may wait for more of a pipe.
        return Ok(());
    }
    reading
        .join()
        .unwrap_or_else(|panicked| resume_unwind(panicked));
    Ok(())
}

async fn undo_row(
    table: &Table,
    row: ImportRow,
    options: UndoOptions,
) -> Result<UndoneRow, StoreError> {
    let row = match row.content {
        Ok(RowContent::Comment(row)) => row,
        Ok(RowContent::Product(_)) => {
            return Ok(UndoneRow::Refused("it is no comment".to_owned()));
        }
        Err(reason) => return Ok(UndoneRow::Refused(reason)),
    };
    let id = row.comment.id.clone();
    let Some(item) = table.primary_item(&id).await? else {
        return Ok(UndoneRow::Absent);
    };
    let comment = match comment_of_primary(&item) {
        Ok(comment) => comment,
        Err(problem) => return Ok(UndoneRow::Refused(problem.to_string())),
    };
    // Another file has used the id, or somebody has changed the comment.
    if !row.is_already(&comment).unwrap_or(false) {
        return Ok(UndoneRow::Staying);
    }
    let revision = comment.revision;
    let entry = match table.journal_entry(&id, revision).await {
        Err(error) if error.remedy() == Remedy::Quarantine => {
            return Ok(UndoneRow::Refused(error.to_string()));
        }
        entry => entry?,
    };
    let Some(entry) = entry.filter(|entry| entry.by.is_some()) else {
        return Ok(UndoneRow::Unknown);
    };
    if !is_of_import(&entry, options.since) {
        return Ok(UndoneRow::Staying);
    }
    if options.apply {
        let deleted = table
            .delete_comment(&id, |present| present.revision == revision)
            .await;
        match deleted {
            Ok(()) => {}
            Err(WriteError::NotFound) => return Ok(UndoneRow::Absent),
            Err(WriteError::RevisionMismatch { .. }) => return Ok(UndoneRow::Staying),
            Err(WriteError::Store(error @ StoreError::Call { .. })) => return Err(error),
            Err(other) => return Ok(UndoneRow::Refused(other.to_string())),
        }
    }
    Ok(UndoneRow::AsImported(revision.instant()))
}

/// Whether this is the creation of a comment by an import, not earlier than this instant.
fn is_of_import(entry: &JournalEntry, since: Timestamp) -> bool {
    let is_creation = entry.before.is_none() && entry.follows.is_none();
    is_creation && entry.by.as_deref() == Some(IMPORT) && entry.revision.instant() >= since
}

impl UndoReport {
    fn count(&mut self, number: u64, row: UndoneRow) {
        match row {
            UndoneRow::AsImported(at) => {
                self.as_imported += 1;
                let (first, last) = self.written.unwrap_or((at, at));
                self.written = Some((first.min(at), last.max(at)));
            }
            UndoneRow::Staying => self.staying += 1,
            UndoneRow::Unknown => self.unknown += 1,
            UndoneRow::Absent => self.absent += 1,
            UndoneRow::Refused(reason) => {
                self.bad += 1;
                add_mistake(&mut self.mistakes, number, reason);
            }
        }
    }
}
