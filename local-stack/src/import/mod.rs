//! The importer: comments from a file, with their ids and times, through the same transactions as the API's.
//!
//! An import is idempotent: an existing comment is left as it is. So an interrupted import is simply run again.
//!
//! **Invariant:** an import whose lines were not all read is an error, for any reason (`source`).

mod line;
mod reader;
mod source;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use model::{Comment, ProductId};
use process::StoreError;
use table::{NewComment, Table, WriteError};
use thiserror::Error;
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinSet},
};

pub use line::parse_line;
pub use reader::{LineReader, Progress, read_lines};
pub use source::{Numbered, Source, SourceError};

/// How many comments are written concurrently. Lines with one id use one lane, so they stay in order.
const LANES: usize = 16;
/// How many comments wait in each lane.
const LANE_QUEUE: usize = 32;
/// How many bad lines are kept with their reasons; the rest is only counted.
const BAD_LINES_KEPT: usize = 100;
/// Maximum number of retries for a comment while the table is unavailable. The SDK retries within each of them.
const TRIES_MAX: usize = 5;

/// Pause before each of these retries.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of look-ups of a comment, the first included. Each further one follows a faster writer.
const LOOKUPS_MAX: usize = 4;

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
        self.created + self.unchanged + self.differing + self.bad
    }

    fn bad(number: u64, reason: String) -> Self {
        Self { bad: 1, bad_lines: vec![BadLine { number, reason }], ..Self::default() }
    }

    fn add(&mut self, other: Self) {
        self.created += other.created;
        self.unchanged += other.unchanged;
        self.differing += other.differing;
        self.bad += other.bad;
        self.bad_lines.extend(other.bad_lines);
        self.bad_lines.sort_by_key(|line| line.number);
        self.bad_lines.truncate(BAD_LINES_KEPT);
        self.first_product = self.first_product.take().or(other.first_product);
    }
}

/// The reason why an import ended early.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The comments were not read to their end.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The table's error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A lane panicked.
    #[error("a comment could not be imported by a mistake of this program: {0}")]
    Lane(#[source] JoinError),
}

impl ImportError {
    /// Advice for the user.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Source(error) => error.advice(),
            Self::Store(_) => "run it again to go on, which leaves what was imported as it is",
            Self::Lane(_) => "please report this; what was imported stays",
        }
    }
}

/// An import that ended early. The comments that were already imported stay.
#[derive(Debug, Error)]
#[error("{reason}; {}", reason.advice())]
pub struct Unfinished {
    /// The outcome until then.
    pub report: Box<ImportReport>,
    /// The reason why it ended.
    pub reason: ImportError,
}

/// Imports comments; `done` counts those that have been looked at. The comments before an error of the source are
/// imported, too.
///
/// # Errors
/// The source's or the table's, with the outcome until then.
pub async fn import(table: &Table, mut source: Source, done: &Arc<AtomicU64>) -> Result<ImportReport, Unfinished> {
    let began = Instant::now();
    let mut lanes = Vec::with_capacity(LANES);
    let mut workers = JoinSet::new();
    for _ in 0..LANES {
        let (sender, lane) = mpsc::channel(LANE_QUEUE);
        lanes.push(sender);
        workers.spawn(work(table.clone(), lane, done.clone()));
    }
    let mut report = ImportReport::default();
    let mut ended = distribute(&mut source, &lanes, &mut report, done).await.err().map(ImportError::Source);
    drop((lanes, source));
    while let Some(worked) = workers.join_next().await {
        match worked {
            Ok((part, Ok(()))) => report.add(part),
            Ok((part, Err(error))) => {
                report.add(part);
                ended = Some(ImportError::Store(error));
            }
            Err(error) => ended = Some(ImportError::Lane(error)),
        }
    }
    report.took = began.elapsed();
    match ended {
        Some(reason) => Err(Unfinished { report: Box::new(report), reason }),
        None => Ok(report),
    }
}

/// Sends each comment to the lane of its id.
async fn distribute(
    source: &mut Source,
    lanes: &[mpsc::Sender<(u64, NewComment)>],
    report: &mut ImportReport,
    done: &AtomicU64,
) -> Result<(), SourceError> {
    while let Some(numbered) = source.next().await.transpose()? {
        match numbered {
            (number, Err(reason)) => {
                report.add(ImportReport::bad(number, reason));
                done.fetch_add(1, Ordering::Relaxed);
            }
            (number, Ok(comment)) => {
                report.first_product.get_or_insert_with(|| comment.product.clone());
                let mut hasher = DefaultHasher::new();
                comment.id.hash(&mut hasher);
                let lane = usize::try_from(hasher.finish() % LANES as u64).unwrap_or(0);
                let Some(sender) = lanes.get(lane) else { continue };
                // A lane that accepts no more comments has failed; the join returns its error.
                if sender.send((number, comment)).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

async fn work(
    table: Table,
    mut lane: mpsc::Receiver<(u64, NewComment)>,
    done: Arc<AtomicU64>,
) -> (ImportReport, Result<(), StoreError>) {
    let mut report = ImportReport::default();
    while let Some((number, comment)) = lane.recv().await {
        let mut tries = 0;
        let outcome = loop {
            match import_comment(&table, &comment).await {
                Err(error) if error.is_unavailable() && tries < TRIES_MAX => {
                    tries += 1;
                    tracing::warn!(%error, id = %comment.id, "trying again");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                outcome => break outcome,
            }
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => return (report, Err(error)),
        };
        match outcome {
            Outcome::Created => report.created += 1,
            Outcome::Unchanged => report.unchanged += 1,
            Outcome::Differing => report.differing += 1,
            Outcome::Refused(reason) => report.add(ImportReport::bad(number, reason)),
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    (report, Ok(()))
}

enum Outcome {
    Created,
    Unchanged,
    Differing,
    Refused(String),
}

/// Creates a comment unless its id is in use. An id is used only once, and an existing comment is left as it is.
async fn import_comment(table: &Table, comment: &NewComment) -> Result<Outcome, StoreError> {
    for _ in 0..LOOKUPS_MAX {
        match table.comment(&comment.id).await {
            Ok(Some(present)) => return Ok(compare(comment, &present)),
            Ok(None) => {}
            Err(StoreError::Malformed(malformed)) => {
                return Ok(Outcome::Refused(format!("id: {} is in use: {malformed}", comment.id)));
            }
            Err(error) => return Err(error),
        }
        match table.create_comment(comment.clone(), None).await {
            Ok(_) => return Ok(Outcome::Created),
            // Another writer was faster, or a deleted comment's duplicates hide this one: look again.
            Err(WriteError::AlreadyExists | WriteError::Contended) => {}
            Err(WriteError::Store(error)) => return Err(error),
            Err(other) => return Ok(Outcome::Refused(other.to_string())),
        }
    }
    Ok(Outcome::Refused(format!("id: {} is in use and being changed; import it again later", comment.id)))
}

fn compare(comment: &NewComment, present: &Comment) -> Outcome {
    if present.product != comment.product {
        let product = present.product.as_str();
        return Outcome::Refused(format!("id: {} is in use by a comment of product {product:?}", comment.id));
    }
    let same = present.language == comment.language
        && present.rating == comment.rating
        && present.created_at == comment.created_at
        && present.text == comment.text;
    if same { Outcome::Unchanged } else { Outcome::Differing }
}
