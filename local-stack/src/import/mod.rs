//! The importer: comments from a file, with their ids and times, and records of products, through the same transactions
//! as the API's.
//!
//! An import is idempotent. So an interrupted import is simply run again. It leaves an existing comment as it is, unless it
//! is told to update.
//!
//! - `line`: a line of a file, parsed. `product`: the same for a file of products' records.
//! - `reader`: the lines of a file, compressed or not.
//! - `source`: where comments come from, and the reasons why they may end early.
//!
//! **Invariant:** an import whose lines were not all read is an error, for any reason (`source`).

mod line;
mod product;
mod reader;
mod source;

use std::{
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use model::{Comment, CommentText, ProductId};
use process::StoreError;
use table::{CommentPatch, NewComment, Table, WriteError};
use thiserror::Error;
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinSet},
};

pub use line::{parse_line, to_line};
pub use product::{NewProduct, parse_product_line, to_product_line};
pub use reader::{LineReader, read_lines, read_lines_with};
pub use source::{Numbered, Source, SourceError};

/// How many workers write comments concurrently. Lines with one id go to one worker, so they stay in order.
const WORKERS: usize = 16;
/// How many comments wait for each worker.
const WORKER_QUEUE: usize = 32;
/// How many bad lines are kept with their reasons; the rest is only counted.
const BAD_LINES_KEPT: usize = 100;
/// Maximum number of retries for a comment while the table is unavailable. The SDK retries within each of them.
const RETRIES_MAX: usize = 5;
/// Pause before each of these retries.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of look-ups of a comment, the first included. Each further one follows a faster writer.
const LOOKUPS_MAX: usize = 4;

/// What becomes of an existing comment that differs from the imported one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It stays.
    Keep,
    /// It is changed. Its id, product and creation time never change, so a line with others is a bad one.
    Update,
}

/// A line that was not imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub number: u64,
    /// The reason.
    pub reason: String,
}

/// What a file may hold.
pub trait Importable: Clone + Send + Sync + 'static {
    /// The product that it is about.
    fn product(&self) -> &ProductId;

    /// What two lines about the same have in common: they are imported in the order of the file.
    fn key(&self) -> &str;

    /// Imports it, as line `number` of the file. Returns the outcome of this line.
    fn import(
        &self,
        table: &Table,
        existing: Existing,
        number: u64,
    ) -> impl Future<Output = Result<ImportReport, StoreError>> + Send;
}

impl Importable for NewComment {
    fn product(&self) -> &ProductId {
        &self.product
    }

    fn key(&self) -> &str {
        self.id.as_str()
    }

    async fn import(&self, table: &Table, existing: Existing, number: u64) -> Result<ImportReport, StoreError> {
        import_comment(table, existing, number, self).await
    }
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

    fn created() -> Self {
        Self { created: 1, ..Self::default() }
    }

    fn unchanged() -> Self {
        Self { unchanged: 1, ..Self::default() }
    }

    fn differing() -> Self {
        Self { differing: 1, ..Self::default() }
    }

    fn updated() -> Self {
        Self { updated: 1, ..Self::default() }
    }

    fn bad(number: u64, reason: String) -> Self {
        Self { bad: 1, bad_lines: vec![BadLine { number, reason }], ..Self::default() }
    }

    fn add(&mut self, other: Self) {
        self.created += other.created;
        self.unchanged += other.unchanged;
        self.differing += other.differing;
        self.updated += other.updated;
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
    import_with(table, source, Existing::Keep, done).await
}

/// Imports comments or records; `done` counts those that have been looked at. The comments before an error of the source are
/// imported, too.
///
/// # Errors
/// The source's or the table's, with the outcome until then.
pub async fn import_with<T: Importable>(
    table: &Table,
    mut source: Source<T>,
    existing: Existing,
    done: &Arc<AtomicU64>,
) -> Result<ImportReport, Unfinished> {
    let began = Instant::now();
    let mut queues = Vec::with_capacity(WORKERS);
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (sender, queue) = mpsc::channel(WORKER_QUEUE);
        queues.push(sender);
        workers.spawn(work(table.clone(), existing, queue, done.clone()));
    }
    let mut report = ImportReport::default();
    let mut ended = distribute(&mut source, &queues, &mut report, done).await.err().map(ImportError::Source);
    drop((queues, source));
    while let Some(worked) = workers.join_next().await {
        match worked {
            Ok((part, failed)) => {
                report.add(part);
                ended = failed.map(ImportError::Store).or(ended);
            }
            Err(error) => ended = Some(ImportError::Worker(error)),
        }
    }
    report.took = began.elapsed();
    match ended {
        Some(reason) => Err(Unfinished { report: Box::new(report), reason }),
        None => Ok(report),
    }
}

/// Sends each line to the worker for its key.
async fn distribute<T: Importable>(
    source: &mut Source<T>,
    queues: &[mpsc::Sender<(u64, T)>],
    report: &mut ImportReport,
    done: &AtomicU64,
) -> Result<(), SourceError> {
    while let Some(numbered) = source.next().await.transpose()? {
        match numbered {
            (number, Err(reason)) => {
                report.add(ImportReport::bad(number, reason));
                done.fetch_add(1, Ordering::Relaxed);
            }
            (number, Ok(line)) => {
                report.first_product.get_or_insert_with(|| line.product().clone());
                let hash = BuildHasherDefault::<DefaultHasher>::new().hash_one(line.key());
                let worker = usize::try_from(hash % WORKERS as u64).unwrap_or(0);
                let Some(queue) = queues.get(worker) else { continue };
                // A worker that accepts no more comments has failed; the join returns its error.
                if queue.send((number, line)).await.is_err() {
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
    existing: Existing,
    mut queue: mpsc::Receiver<(u64, T)>,
    done: Arc<AtomicU64>,
) -> (ImportReport, Option<StoreError>) {
    let mut report = ImportReport::default();
    while let Some((number, line)) = queue.recv().await {
        let mut retries = 0;
        loop {
            match line.import(&table, existing, number).await {
                Ok(outcome) => break report.add(outcome),
                Err(error) if error.is_unavailable() && retries < RETRIES_MAX => {
                    retries += 1;
                    tracing::warn!(%error, key = line.key(), "trying again");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(error) => return (report, Some(error)),
            }
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    (report, None)
}

/// Creates a comment unless its id is in use. An id is used only once. Returns the outcome of this line.
async fn import_comment(
    table: &Table,
    existing: Existing,
    number: u64,
    comment: &NewComment,
) -> Result<ImportReport, StoreError> {
    let refused = |reason: String| Ok(ImportReport::bad(number, reason));
    for _ in 0..LOOKUPS_MAX {
        let written = match table.comment(&comment.id).await {
            Ok(Some(present)) if present.product != comment.product => {
                let product = present.product.as_str();
                return refused(format!("id: {} is in use by a comment of product {product:?}", comment.id));
            }
            Ok(Some(present)) if is_same(comment, &present) => {
                return Ok(ImportReport::unchanged());
            }
            Ok(Some(_)) if existing == Existing::Keep => {
                return Ok(ImportReport::differing());
            }
            Ok(Some(present)) if present.created_at != comment.created_at => {
                let present = present.created_at;
                return refused(format!("created_at: {} is of {present}, which never changes", comment.id));
            }
            Ok(Some(present)) => {
                // Only this comment is changed, and none that took its id since.
                let patched = table.patch_comment(&comment.id, Some(present.revision), &whole_patch(comment)).await;
                patched.map(|_| ImportReport::updated())
            }
            Ok(None) => {
                let created = table.create_comment(comment.clone(), None).await;
                created.map(|_| ImportReport::created())
            }
            Err(StoreError::Malformed(malformed)) => {
                return refused(format!("id: {} is in use: {malformed}", comment.id));
            }
            Err(error) => return Err(error),
        };
        match written {
            Ok(outcome) => return Ok(outcome),
            // Another writer was faster, or a deleted comment's duplicates hide this one: look again.
            Err(
                WriteError::AlreadyExists
                | WriteError::NotFound
                | WriteError::RevisionMismatch { .. }
                | WriteError::Contended,
            ) => {}
            Err(WriteError::Store(error)) => return Err(error),
            Err(other) => return refused(other.to_string()),
        }
    }
    refused(format!("id: {} is in use and being changed; import it again later", comment.id))
}

/// The change that gives a comment the content of the imported one.
fn whole_patch(comment: &NewComment) -> CommentPatch {
    let CommentText { title, body, author } = comment.text.clone();
    CommentPatch {
        language: Some(comment.language.clone()),
        rating: Some(comment.rating),
        title: Some(title),
        body: Some(body),
        author: Some(author),
    }
}

/// Whether a comment of the same id and product has the same content.
fn is_same(comment: &NewComment, present: &Comment) -> bool {
    present.language == comment.language
        && present.rating == comment.rating
        && present.created_at == comment.created_at
        && present.text == comment.text
}
