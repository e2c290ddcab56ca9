//! The importer: comments from a file, with their ids and times, through the same transactions as the API's.
//!
//! An import is idempotent. So an interrupted import is simply run again. It leaves an existing comment as it is, unless it
//! is told to update.
//!
//! - `input_file`: an open file, compressed or not; `reader`: its lines.
//! - `format`: which kind of file it is; `separated`: tables with commas or tabs; `line`: a line of an export.
//! - `comment`, `product`: the import of a line that says a comment, or a product's record.
//! - `scan`: the items of another table; `article`: those of the articles' design.
//! - `mapping`: which columns of a foreign file are the fields of a comment; `scale`, `date_format`: its values.
//! - `source`: where comments come from, and the reasons why they may end early.
//! - `checkpoint`: how far an import has come; `scan_position`: in another table.
//! - `pace`: how fast it writes.
//! - `rejects`: a file of what was not imported.
//! - `retry`: further attempts while a table is unavailable.
//!
//! **Invariant:** an import whose lines were not all read is an error, for any reason (`source`).

mod article;
mod checkpoint;
mod comment;
mod date_format;
mod format;
mod input_file;
mod line;
mod mapping;
mod pace;
mod product;
mod reader;
mod rejects;
mod retry;
mod scale;
mod scan;
mod scan_position;
mod separated;
mod source;

use std::{
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use model::ProductId;
use process::StoreError;
use table::{NewComment, Table};
use thiserror::Error;
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinSet},
};

pub use checkpoint::{Checkpoint, CheckpointError};
pub use date_format::DateFormat;
pub use format::{Format, Reading};
pub use input_file::InputFile;
pub use line::{parse_line, to_line};
pub use mapping::{Assignment, Field, MappingArgs};
pub use pace::Pace;
pub use product::{NewProduct, parse_product_line, to_product_line};
pub use reader::{LineReader, read_lines, read_lines_with};
pub use rejects::Rejects;
pub(crate) use retry::retried;
pub use scale::Scale;
pub use scan::Scan;
pub use source::{Numbered, Source, SourceError};

/// How many workers write comments concurrently by default. Lines with one id go to one worker, so they stay in order.
pub const WORKERS_DEFAULT: u16 = 16;
/// How many comments wait for each worker.
const WORKER_QUEUE: usize = 32;
/// How many bad lines are kept with their reasons; the rest is only counted.
const BAD_LINES_KEPT: usize = 100;
/// Maximum number of look-ups of a comment, the first included. Each further one follows a faster writer.
const LOOKUPS_MAX: usize = 4;

/// What becomes of an existing comment that differs from the imported one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It stays.
    Keep,
    /// It is changed. Its id, product and creation time never change, so a line with others is a bad one.
    Update,
    /// It is changed. One of another product or creation time is deleted, and created as the line says.
    Replace,
}

/// How comments are imported.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// What becomes of an existing comment that differs.
    pub existing: Existing,
    /// Whether nothing is written. The outcome says what an import would do, except that two lines of one id, both new,
    /// count as two.
    pub dry_run: bool,
    /// Whether there is no table yet, so that a dry run cannot look.
    pub table_is_missing: bool,
    /// How many comments are written concurrently.
    pub workers: u16,
    /// Where lines go that are not imported.
    pub rejects: Option<Rejects>,
    /// Where it is kept which lines are done. Those are skipped.
    pub checkpoint: Option<Arc<Checkpoint>>,
    /// How fast comments are written; `None` means as fast as possible.
    pub pace: Option<Arc<Pace>>,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            existing: Existing::Keep,
            dry_run: false,
            table_is_missing: false,
            workers: WORKERS_DEFAULT,
            rejects: None,
            checkpoint: None,
            pace: None,
        }
    }
}

impl ImportOptions {
    /// Whether an earlier import has done this line.
    fn is_done(&self, number: u64) -> bool {
        self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.begin_line(number))
    }

    /// A line is done.
    fn done(&self, number: u64) -> Result<(), ImportError> {
        let kept = self.checkpoint.as_ref().map(|checkpoint| checkpoint.end_line(number));
        kept.transpose().map_err(ImportError::Checkpoint).map(|_| ())
    }

    /// Waits until a comment may be written.
    async fn admit(&self, comment: &NewComment) {
        if let Some(pace) = &self.pace {
            pace.admit(comment).await;
        }
    }

    /// Writes what is still in memory.
    fn finish(&self) -> Result<(), ImportError> {
        self.rejects.as_ref().map(Rejects::flush).transpose().map_err(ImportError::Rejects)?;
        self.checkpoint.as_ref().map(|checkpoint| checkpoint.save()).transpose().map_err(ImportError::Checkpoint)?;
        Ok(())
    }

    /// The outcome of a line that is not imported. It also goes to the file of such lines.
    fn refuse(&self, number: u64, reason: String, text: &str) -> Result<ImportReport, ImportError> {
        if let Some(rejects) = &self.rejects {
            rejects.write(number, &reason, text).map_err(ImportError::Rejects)?;
        }
        if let Some(checkpoint) = &self.checkpoint {
            checkpoint.refuse_line(number);
        }
        Ok(ImportReport::bad(number, reason))
    }
}

/// What became of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// What it says is new.
    Created,
    /// It was there.
    Unchanged,
    /// What is there differs, and stays.
    Differing,
    /// What was there has been changed.
    Updated,
    /// It was not imported, for this reason.
    Refused(String),
}

/// What a line of a file says: a comment, or a product's record.
pub trait Importable: Sized + Send + Sync + 'static {
    /// The product that it belongs to.
    fn product(&self) -> &ProductId;

    /// What it is stored under. Lines with one key are imported in order.
    fn key(&self) -> &str;

    /// Writes it unless it is there, or as the options say.
    fn import(
        &self,
        table: &Table,
        options: &ImportOptions,
    ) -> impl Future<Output = Result<Outcome, StoreError>> + Send;
}

/// A line that was not imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub number: u64,
    /// The reason.
    pub reason: String,
}

/// The outcome of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Comments that are new.
    pub created: u64,
    /// Existing comments that equal the imported ones.
    pub unchanged: u64,
    /// Existing comments that differ; they were left as they are.
    pub differing: u64,
    /// Existing comments that were changed.
    pub updated: u64,
    /// Lines that an earlier import had done.
    pub skipped: u64,
    /// Lines that were not imported.
    pub bad: u64,
    /// The first of them.
    pub bad_lines: Vec<BadLine>,
    /// The product of the first comment, as an example to show.
    pub first_product: Option<ProductId>,
    /// How long it took.
    pub took: Duration,
}

impl ImportReport {
    /// The number of lines that were looked at.
    pub fn lines(&self) -> u64 {
        self.created + self.unchanged + self.differing + self.updated + self.bad
    }

    fn bad(number: u64, reason: String) -> Self {
        Self { bad: 1, bad_lines: vec![BadLine { number, reason }], ..Self::default() }
    }

    fn add(&mut self, other: Self) {
        self.created += other.created;
        self.unchanged += other.unchanged;
        self.differing += other.differing;
        self.updated += other.updated;
        self.skipped += other.skipped;
        self.bad += other.bad;
        self.bad_lines.extend(other.bad_lines);
        self.bad_lines.sort_by_key(|line| line.number);
        self.bad_lines.truncate(BAD_LINES_KEPT);
        self.first_product = self.first_product.take().or(other.first_product);
    }
}

/// The reason why an import ended early, with advice for the user.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The comments were not read to their end.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The table's error.
    #[error("{0}; run it again to go on, which leaves what was imported as it is")]
    Store(#[from] StoreError),
    /// The file of rejected lines cannot be written.
    #[error("the file of rejected lines cannot be written: {0}; run it again, which leaves what was imported as it is")]
    Rejects(#[source] io::Error),
    /// The file that keeps how far the import has come cannot be written.
    #[error("the checkpoint cannot be written: {0}; run it again, which leaves what was imported as it is")]
    Checkpoint(#[source] io::Error),
    /// A worker panicked.
    #[error(
        "a comment could not be imported by a mistake of this program: {0}; please report this; what was imported stays"
    )]
    Worker(#[source] JoinError),
}

/// An import that ended early. The comments that were already imported stay.
#[derive(Debug, Error)]
#[error("{reason}")]
pub struct Unfinished {
    /// The outcome until then.
    pub report: Box<ImportReport>,
    /// The reason why it ended.
    pub reason: ImportError,
}

/// Imports comments, and leaves existing ones as they are. See [`import_with`].
///
/// # Errors
/// As for [`import_with`].
pub async fn import(table: &Table, source: Source, done: &Arc<AtomicU64>) -> Result<ImportReport, Unfinished> {
    import_with(table, source, &ImportOptions::default(), done).await
}

/// Imports comments or records; `done` counts those that have been looked at. Those before an error of the source are
/// imported, too.
///
/// # Errors
/// The source's, the table's, or that of the file of rejected lines, with the outcome until then.
pub async fn import_with<T: Importable>(
    table: &Table,
    mut source: Source<T>,
    options: &ImportOptions,
    done: &Arc<AtomicU64>,
) -> Result<ImportReport, Unfinished> {
    let began = Instant::now();
    let mut queues = Vec::new();
    let mut workers = JoinSet::new();
    for _ in 0..options.workers.max(1) {
        let (sender, queue) = mpsc::channel(WORKER_QUEUE);
        queues.push(sender);
        workers.spawn(work(table.clone(), options.clone(), queue, done.clone()));
    }
    let mut report = ImportReport::default();
    let mut ended = distribute(&mut source, &queues, options, &mut report, done).await.err();
    if let (Some(ImportError::Source(SourceError::Interrupted)), Some(pace)) = (&ended, &options.pace) {
        pace.release();
    }
    drop((queues, source));
    while let Some(worked) = workers.join_next().await {
        match worked {
            Ok((part, failed)) => {
                report.add(part);
                ended = failed.or(ended);
            }
            Err(error) => ended = Some(ImportError::Worker(error)),
        }
    }
    if let Err(error) = options.finish() {
        ended.get_or_insert(error);
    }
    report.took = began.elapsed();
    match ended {
        Some(reason) => Err(Unfinished { report: Box::new(report), reason }),
        None => Ok(report),
    }
}

/// A line for a worker.
struct Task<T> {
    number: u64,
    content: T,
    text: String,
}

/// Sends each line to the worker for its key.
async fn distribute<T: Importable>(
    source: &mut Source<T>,
    queues: &[mpsc::Sender<Task<T>>],
    options: &ImportOptions,
    report: &mut ImportReport,
    done: &AtomicU64,
) -> Result<(), ImportError> {
    while let Some(Numbered { number, content, text }) = source.next().await.transpose()? {
        if options.is_done(number) {
            report.skipped += 1;
            done.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        match content {
            Err(reason) => {
                report.add(options.refuse(number, reason, &text)?);
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(content) => {
                report.first_product.get_or_insert_with(|| content.product().clone());
                let hash = BuildHasherDefault::<DefaultHasher>::new().hash_one(content.key());
                let worker = usize::try_from(hash % queues.len().max(1) as u64).unwrap_or(0);
                let Some(queue) = queues.get(worker) else { continue };
                // A worker that accepts no more lines has failed; the join returns its error.
                if queue.send(Task { number, content, text }).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Imports the lines of a queue. Returns the outcome, and the error that ended it early.
async fn work<T: Importable>(
    table: Table,
    options: ImportOptions,
    mut queue: mpsc::Receiver<Task<T>>,
    done: Arc<AtomicU64>,
) -> (ImportReport, Option<ImportError>) {
    let mut report = ImportReport::default();
    while let Some(Task { number, content, text }) = queue.recv().await {
        let outcome = match retried(content.key(), || content.import(&table, &options)).await {
            Ok(outcome) => outcome,
            Err(error) => return (report, Some(error.into())),
        };
        let is_refused = matches!(outcome, Outcome::Refused(_));
        match outcome {
            Outcome::Created => report.created += 1,
            Outcome::Unchanged => report.unchanged += 1,
            Outcome::Differing => report.differing += 1,
            Outcome::Updated => report.updated += 1,
            Outcome::Refused(reason) => match options.refuse(number, reason, &text) {
                Ok(refused) => report.add(refused),
                Err(error) => return (report, Some(error)),
            },
        }
        if !is_refused && let Err(error) = options.done(number) {
            return (report, Some(error));
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    (report, None)
}
