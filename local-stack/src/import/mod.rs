//! The importer: comments and records of products from files, through the same transactions as the
//! API's.
//!
//! An import is idempotent. So an interrupted import is simply run again. It leaves what exists as
//! it is, unless the options say to update. Then a field that a row does not name stays, and one
//! that it names as empty is emptied.
//!
//! - `lines`: the lines of a file, compressed or not.
//! - `source`: the rows of a file in any format; `separated`: those of tables, and `database`
//!   of tables with escapes.
//! - `row`: a row of any source; `comment`, `product`: what it says, as an export writes it, and
//!   its import.
//! - `earlier`: the rows so far, so that no row takes the id of another one without notice.
//! - `reading`: which columns of a foreign file are the fields of a comment; `date`: its dates;
//!   `value`: its values; `id_from`: ids made of columns; `status_words`: columns that look like a status.
//! - `undo`: removes what an import has created.
//! - `spreadsheet`: what spreadsheets make of values; `kind`: files that are neither JSON Lines nor
//!   tables.
//!
//! **Invariant:** an import whose rows were not all read ends with an error.

mod comment;
mod database;
mod date;
mod earlier;
mod fields;
mod format;
mod html;
mod id_from;
mod imported;
mod kind;
mod lines;
mod options;
mod preset;
mod product;
mod reading;
mod row;
mod separated;
mod source;
mod spreadsheet;
mod status_words;
mod undo;
mod value;

use std::{
    collections::HashSet,
    fs::File,
    io::{self, Write},
    panic::resume_unwind,
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use model::Timestamp;
use process::{Backoff, StoreError};
use repair_job::Progress;
use serde::Serialize;
use serde_json::{Value, json};
use table::{Table, WriteError};
use thiserror::Error;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};

use comment::NOT_LINES;
pub use comment::{parse_line, to_line};
use earlier::EarlierRow;
pub use earlier::EarlierRows;
pub(crate) use format::Format;
use imported::ImportedRow;
pub use lines::LineReader;
pub use options::ReadingArgs;
pub use product::to_product_line;
use row::{ImportRow, ImportRows, RowContent};
pub use source::ImportSource;
pub(crate) use undo::{UndoOptions, UndoReport, undo_import};

/// Whom the journal names for what an import wrote. No token has a space in its name.
pub(crate) const IMPORT: &str = "pagemark import";
/// How many comments or records are written concurrently.
const CONCURRENT: usize = 16;
/// How many kinds of mistakes are kept with their reasons; the rest is only counted.
const MISTAKES_KEPT: usize = 100;
/// How long an interrupted import waits for what is under way.
const FINISH_WITHIN: Duration = Duration::from_millis(700);
/// How long a row is tried again while the table is unavailable, which the SDK's own attempts come
/// on top of, or while other writers are faster.
const TRIED_FOR: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Whether existing comments and records are changed where they differ. The id, the product and
    /// the creation time of a comment never change, so a row with others is a bad one.
    pub update: bool,
    /// Whether nothing is written. The outcome says what an import would do.
    pub dry_run: bool,
    /// Where rows go that are not imported. Each is a JSON object with `file`, `line`, `reason` and
    /// `row`, which is null where the row could not be read. An import reads the corrected rows:
    /// `jq -c .row`.
    pub rejects: Option<Arc<File>>,
    /// When this becomes true, the import ends after what is under way, or after `FINISH_WITHIN`.
    pub interrupted: Option<watch::Receiver<bool>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum RowOutcome {
    Created,
    /// An earlier row says the same.
    Repeated,
    /// The table said the same before.
    Unchanged,
    /// The stored comment differs, and stays.
    Differing,
    Updated {
        /// How many fields have no value any more.
        emptied: u64,
    },
    Refused(String),
}

/// How many fields have no value any more.
fn emptied<const FIELDS: usize>(before: [bool; FIELDS], after: [bool; FIELDS]) -> u64 {
    before
        .iter()
        .zip(&after)
        .filter(|(before, after)| **before && !**after)
        .count() as u64
}

/// Why rows were not imported, or are in doubt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// The reason of the first line with it.
    pub reason: String,
    /// The reason without its values, which equal mistakes share.
    #[serde(skip)]
    kind: String,
    /// The number of the first line with it, from 1.
    #[serde(rename = "line")]
    pub number: u64,
    pub more: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    pub created: u64,
    /// The first and the last date of the created comments. A wrong form of dates shows there.
    pub dates: Option<(Timestamp, Timestamp)>,
    pub repeated: u64,
    pub unchanged: u64,
    pub differing: u64,
    pub updated: u64,
    /// Fields of the updated that have no value any more.
    pub emptied: u64,
    pub bad: u64,
    /// Their first reasons, by line.
    pub mistakes: Vec<Mistake>,
    /// What may be wrong with rows that could be imported.
    pub doubts: Vec<Mistake>,
}

fn add_mistake(mistakes: &mut Vec<Mistake>, number: u64, reason: String) {
    let kind = kind_of(&reason);
    if let Some(mistake) = mistakes.iter_mut().find(|mistake| mistake.kind == kind) {
        mistake.more += 1;
        if number < mistake.number {
            (mistake.number, mistake.reason) = (number, reason);
        }
    } else if mistakes.len() < MISTAKES_KEPT {
        mistakes.push(Mistake {
            reason,
            kind,
            number,
            more: 0,
        });
    }
}

/// A reason without its values: without digits, and what is in quotes.
fn kind_of(reason: &str) -> String {
    let mut kind = String::new();
    let mut is_quoted = false;
    let mut is_escaped = false;
    for c in reason.chars() {
        if !is_quoted && !c.is_ascii_digit() {
            kind.push(c);
        }
        if c == '"' && !is_escaped {
            is_quoted = !is_quoted;
        }
        is_escaped = is_quoted && c == '\\' && !is_escaped;
    }
    kind
}

/// The reason why an import ended early, with advice for the user. Imported comments stay, and a
/// further import leaves them as they are.
#[derive(Debug, Error)]
pub enum ImportError {
    #[error(
        "its {compression} data is broken or cut off after line {line} ({source}); `{compression} -t` checks a file; \
         import a whole copy of it, which leaves what was imported as it is; if the check finds nothing, `{compression} -dc FILE | \
         pagemark import -` reads it"
    )]
    Broken {
        compression: &'static str,
        line: u64,
        source: io::Error,
    },
    #[error("it cannot be read beyond line {0}: {1}; import it again when that is solved")]
    File(u64, #[source] io::Error),
    /// The first line begins a JSON array.
    #[error("line {0} {NOT_LINES}; nothing of it was imported")]
    Array(u64),
    /// It is neither JSON Lines nor a table.
    #[error("it {0}; nothing of it was imported")]
    WrongKind(String),
    /// A required field has no column.
    #[error("{0}; nothing of it was imported")]
    Columns(String),
    /// A value shows that a column is a status, which the rows before lack.
    #[error(
        "line {0}: {1}; rows before it may have been imported without a status: import the file again with --update, which \
         corrects them"
    )]
    Undecided(u64, String),
    #[error(
        "the row that begins in line {0} has a quote that is not closed; correct it and import the file again"
    )]
    OpenQuote(u64),
    #[error(
        "it was interrupted; import it again for the rest, which leaves what was imported as it is"
    )]
    Interrupted,
    #[error(
        "the temporary file of the ids so far cannot be used: {0}; TMPDIR names another folder for it"
    )]
    Earlier(#[from] rusqlite::Error),
    #[error("{0}; run it again to go on, which leaves what was imported as it is")]
    Store(#[from] StoreError),
    #[error(
        "the file of rejected lines cannot be written: {0}; run it again, which leaves what was imported as it is"
    )]
    Rejects(#[source] io::Error),
}

/// Imports comments or records, after the earlier ones of the same command. Returns the outcome, also of an import that ended early. ImportRows
/// before an error of the source are imported, too.
pub async fn import(
    table: &Table,
    source: ImportSource,
    options: &ImportOptions,
    earlier: &mut EarlierRows,
) -> (ImportReport, Result<(), ImportError>) {
    let ImportSource {
        name,
        rows,
        progress,
    } = source;
    earlier.begin_file(&name);
    let mut import = Import {
        table,
        options,
        earlier,
        name,
        progress,
        writes: JoinSet::new(),
        keys: HashSet::new(),
        report: ImportReport::default(),
    };
    let interrupted = async {
        let mut interrupted = options.interrupted.clone()?;
        interrupted.wait_for(|is| *is).await.ok().map(drop)
    };
    let ended = tokio::select! {
        ended = import.write_all(rows) => ended,
        Some(()) = interrupted => Err(ImportError::Interrupted),
    };
    if matches!(ended, Err(ImportError::Interrupted)) {
        // The rest is dropped. An import that is run again finds what became of it.
        timeout(FINISH_WITHIN, import.finish_all()).await.ok();
    }
    import.report.mistakes.sort_by_key(|mistake| mistake.number);
    (import.report, ended)
}

/// Reads rows on a thread: reading a pipe may block for as long as it likes.
fn read_ahead(
    rows: ImportRows,
) -> (
    mpsc::Receiver<Result<ImportRow, ImportError>>,
    JoinHandle<()>,
) {
    let (sender, receiver) = mpsc::channel(CONCURRENT);
    let reading = std::thread::spawn(move || {
        for row in rows {
            if sender.blocking_send(row).is_err() {
                return;
            }
        }
    });
    (receiver, reading)
}

struct Import<'a> {
    table: &'a Table,
    options: &'a ImportOptions,
    earlier: &'a mut EarlierRows,
    name: String,
    progress: Progress,
    /// At most [`CONCURRENT`].
    writes: JoinSet<WrittenRow>,
    keys: HashSet<String>,
    report: ImportReport,
}

/// What became of a row, and what a report says about it.
struct WrittenRow {
    content: RowContent,
    number: u64,
    text: String,
    imported: Result<ImportedRow, StoreError>,
}

impl ImportError {
    /// Whether no row was read, so that the counts say nothing.
    pub(crate) fn is_of_the_whole_file(&self) -> bool {
        match self {
            Self::Array(_) | Self::WrongKind(_) | Self::Columns(_) => true,
            Self::Broken { .. }
            | Self::File(..)
            | Self::Undecided(..)
            | Self::OpenQuote(_)
            | Self::Interrupted
            | Self::Earlier(_)
            | Self::Store(_)
            | Self::Rejects(_) => false,
        }
    }
}

impl Import<'_> {
    /// Writes all rows. Rows under way are finished, for whichever reason the rows end.
    async fn write_all(&mut self, rows: ImportRows) -> Result<(), ImportError> {
        let started = self.start_all(rows).await;
        let finished = self.finish_all().await;
        started.and(finished)
    }

    async fn start_all(&mut self, rows: ImportRows) -> Result<(), ImportError> {
        let (mut rows, reading) = read_ahead(rows);
        while let Some(row) = rows.recv().await {
            let ImportRow {
                number,
                content,
                text,
                doubt,
            } = row?;
            if let Some(doubt) = doubt {
                add_mistake(&mut self.report.doubts, number, doubt.to_owned());
            }
            match content {
                Ok(content) => {
                    for doubt in content.doubts() {
                        add_mistake(&mut self.report.doubts, number, doubt);
                    }
                    self.start(number, content, text).await?;
                }
                Err(reason) => self.count(number, RowOutcome::Refused(reason), &text)?,
            }
        }
        reading
            .join()
            .unwrap_or_else(|panicked| resume_unwind(panicked));
        Ok(())
    }

    async fn finish_all(&mut self) -> Result<(), ImportError> {
        let mut ended = Ok(());
        while !self.writes.is_empty() {
            ended = ended.and(self.finish_one().await);
        }
        ended
    }

    /// Starts to write what a row says, after what was there before of its key.
    async fn start(
        &mut self,
        number: u64,
        content: RowContent,
        text: String,
    ) -> Result<(), ImportError> {
        while self.writes.len() >= CONCURRENT || self.keys.contains(content.key()) {
            self.finish_one().await?;
        }
        self.keys.insert(content.key().to_owned());
        let earlier = self.earlier.find(content.kind(), content.key())?;
        let table = self.table.clone();
        let options = self.options.clone();
        self.writes.spawn(async move {
            let imported = import_row(&content, &table, &options, earlier.as_ref()).await;
            WrittenRow {
                content,
                number,
                text,
                imported,
            }
        });
        Ok(())
    }

    async fn finish_one(&mut self) -> Result<(), ImportError> {
        let Some(written) = self.writes.join_next().await else {
            return Ok(());
        };
        let written = written.unwrap_or_else(|panicked| resume_unwind(panicked.into_panic()));
        self.keys.remove(written.content.key());
        let ImportedRow { outcome, stored } = written.imported?;
        if outcome == RowOutcome::Created
            && let Some(date) = written.content.created_at()
        {
            let (first, last) = self.report.dates.unwrap_or((date, date));
            self.report.dates = Some((first.min(date), last.max(date)));
        }
        let is_written = matches!(outcome, RowOutcome::Created | RowOutcome::Updated { .. });
        if is_written && matches!(written.content, RowContent::Comment(_)) {
            self.progress.add_change();
        }
        match outcome {
            RowOutcome::Created
            | RowOutcome::Repeated
            | RowOutcome::Unchanged
            | RowOutcome::Updated { .. } => {
                let content = &written.content;
                self.earlier.add(
                    content.kind(),
                    content.key(),
                    written.number,
                    stored.as_deref(),
                )?;
            }
            // The table does not say what such a row says.
            RowOutcome::Differing | RowOutcome::Refused(_) => {}
        }
        self.count(written.number, outcome, &written.text)
    }

    fn count(&mut self, number: u64, outcome: RowOutcome, text: &str) -> Result<(), ImportError> {
        self.progress.add(1);
        match outcome {
            RowOutcome::Created => self.report.created += 1,
            RowOutcome::Repeated => self.report.repeated += 1,
            RowOutcome::Unchanged => self.report.unchanged += 1,
            RowOutcome::Differing => self.report.differing += 1,
            RowOutcome::Updated { emptied } => {
                self.report.updated += 1;
                self.report.emptied += emptied;
            }
            RowOutcome::Refused(reason) => {
                self.reject(number, &reason, text)
                    .map_err(ImportError::Rejects)?;
                self.report.bad += 1;
                add_mistake(&mut self.report.mistakes, number, reason);
            }
        }
        Ok(())
    }

    fn reject(&self, number: u64, reason: &str, text: &str) -> io::Result<()> {
        let Some(mut file) = self.options.rejects.as_deref() else {
            return Ok(());
        };
        let read = Some(text).filter(|text| !text.is_empty());
        let row = serde_json::from_str(text).unwrap_or_else(|_| Value::from(read));
        let line = json!({"file": self.name, "line": number, "reason": reason, "row": row});
        file.write_all(format!("{line}\n").as_bytes())
    }
}

async fn import_row(
    content: &RowContent,
    table: &Table,
    options: &ImportOptions,
    earlier: Option<&EarlierRow>,
) -> Result<ImportedRow, StoreError> {
    let key = content.key();
    let mut backoff = Backoff::until(tokio::time::Instant::now() + TRIED_FOR);
    loop {
        let last = match content.import(table, options, earlier).await {
            Ok(imported) => return Ok(imported),
            Err(WriteError::Store(StoreError::Malformed(malformed))) => {
                let reason = format!("{key:?} is in use: {malformed}");
                return Ok(RowOutcome::Refused(reason).into());
            }
            Err(WriteError::Store(error)) if error.is_unavailable() => Err(error),
            Err(WriteError::Store(error)) => return Err(error),
            // Another writer was faster, or a deleted comment's duplicates hide this one: look
            // again.
            Err(
                WriteError::AlreadyExists
                | WriteError::NotFound
                | WriteError::RevisionMismatch { .. }
                | WriteError::PreconditionFailed { .. }
                | WriteError::Contended,
            ) => {
                let reason = format!("{key:?} is being changed; import it again later");
                Ok(RowOutcome::Refused(reason).into())
            }
            Err(other) => return Ok(RowOutcome::Refused(other.to_string()).into()),
        };
        if !backoff.wait().await {
            return last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_mistakes_are_one_with_the_reason_of_the_first_line() {
        let mut mistakes = Vec::new();
        for (number, reason) in [
            (7, r#"created_at: "2024-01-07" is no date at column 7"#),
            (5, r#"created_at: "2024-\"05" is no date at column 15"#),
            (9, r#"created_at: "" is no date at column 9"#),
            (8, r#"body: "" is no date at column 9"#),
        ] {
            add_mistake(&mut mistakes, number, reason.to_owned());
        }
        let found: Vec<_> = mistakes
            .iter()
            .map(|found| (found.number, found.more, found.reason.contains("05")))
            .collect();
        assert_eq!(found, [(5, 2, true), (8, 0, false)]);
    }
}
