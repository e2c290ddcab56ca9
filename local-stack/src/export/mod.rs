//! The exporter: every comment of a table as the lines that an import reads, ordered by product, creation time and id.
//!
//! - `scan`: reads every comment from the table's indexes.
//! - `catch_up`: reads every comment again that changed meanwhile.
//! - `staging`: keeps what was read in a SQLite file, and puts it into order.
//! - `target`: where the lines go.
//! - `products`: the records of products, into a file of their own.
//!
//! Writes may continue. The last pass over the journal bounds what an export holds (ADR 56). Every change acknowledged
//! before the pass began is in it. No change made after the pass ended is.

mod catch_up;
mod products;
mod scan;
mod staging;
mod target;

use std::{
    cell::RefCell,
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use model::ProductId;
use process::{StoreError, now};
use repair_job::{JobSettings, journal_from, reaches_back_to};
use table::Table;
use thiserror::Error;
use tokio::sync::oneshot;

pub use catch_up::Bounds;
use catch_up::catch_up;
pub use products::{ExportedProducts, export_products};
use scan::scan;
use staging::{Resumes, Staging, Subject};
pub use target::Target;

/// How many problems are kept with their reasons; the rest is only counted.
const PROBLEMS_KEPT: u32 = 100;

/// The reason why an export ended early, with advice for the user.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The table's error.
    #[error("{0}; the same command goes on where this one stopped, unless it wrote to a pipe")]
    Store(#[from] StoreError),
    /// Another process exports to this file.
    #[error("another export to {} is running", .0.display())]
    InUse(PathBuf),
    /// The folder beside the target belongs to another export.
    #[error(
        "{} holds what an export of another table, of other products or by another version has read; remove it, or export to another file",
        .0.display()
    )]
    Foreign(PathBuf),
    /// The SQLite file cannot be read or written.
    #[error("what was read cannot be kept, or not be read back: {0}")]
    Staging(#[from] rusqlite::Error),
    /// The journal lost entries that this export still needed.
    #[error(
        "the export took so long that the journal no longer holds every change since; the same command begins anew"
    )]
    TooOld,
    /// The folder beside the target cannot be made.
    #[error("the folder {} cannot be used: {source}", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The file system's error.
        source: io::Error,
    },
    /// The lines cannot be written.
    #[error("{0} cannot be written: {1}")]
    Target(String, #[source] io::Error),
    /// A line cannot be written, which is a bug.
    #[error("a comment or a record cannot be written as a line: {0}; please report this")]
    Line(#[source] serde_json::Error),
}

/// How far an export has come, for a display.
#[derive(Debug, Clone, Default)]
pub struct ExportProgress(Arc<[AtomicU64; 2]>);

impl ExportProgress {
    fn add_comments(&self, count: u64) {
        let [comments, _] = &*self.0;
        comments.fetch_add(count, Ordering::Relaxed);
    }

    fn end_shard(&self) {
        let [_, shards] = &*self.0;
        shards.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of comments read, and of shards read to their end.
    pub fn counts(&self) -> (u64, u64) {
        let [comments, shards] = &*self.0;
        (comments.load(Ordering::Relaxed), shards.load(Ordering::Relaxed))
    }
}

/// The outcome of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Number of comments written.
    pub comments: u64,
    /// Number of comments that were read again, because they changed during the export or shortly before.
    pub changed: u64,
    /// The time of what it holds.
    pub bounds: Bounds,
    /// The first items that are not in it, or that an import will refuse.
    pub problems: Vec<String>,
    /// How many there are.
    pub problem_count: u64,
    /// The products that were asked for and have no comments.
    pub unknown: Vec<ProductId>,
}

/// An export under way.
struct Export<'run> {
    table: &'run Table,
    subject: Subject,
    staging: RefCell<Staging>,
    progress: &'run ExportProgress,
}

/// Exports the comments of these products, or of all if there are none. `note` gets what a person should know meanwhile.
///
/// An export that ends early leaves the target as it was. What it has read stays beside a file, and the same export
/// resumes there.
///
/// # Errors
/// See [`ExportError`].
pub async fn export(
    table: &Table,
    products: &[ProductId],
    target: Target,
    progress: &ExportProgress,
    note: impl Fn(String),
) -> Result<Exported, ExportError> {
    let began = now();
    let subject = Subject::new(table.describe().await?.id, products);
    let mut staging = target.open_staging()?;
    let partial = target.partial();
    let kept = match staging.resumes(&subject)? {
        Resumes::Foreign => return Err(ExportError::Foreign(partial)),
        Resumes::Nothing => None,
        Resumes::At(from) if reaches_back_to(from) => {
            note(format!("going on with the export that is kept in {}", partial.display()));
            Some(from)
        }
        Resumes::At(_) => {
            note(format!("the export that is kept in {} is too old to go on with; it starts anew", partial.display()));
            None
        }
    };
    let journal_from = match kept {
        Some(from) => from,
        None => {
            let from = journal_from(began, &JobSettings::default());
            staging.begin(&subject, from)?;
            from
        }
    };
    let export = Export { table, subject, staging: RefCell::new(staging), progress };
    scan(&export).await?;
    let bounds = catch_up(&export, journal_from).await?;
    let Export { staging, subject, .. } = export;
    let staging = staging.into_inner();
    let changed = staging.changed()?;
    let unknown = staging.unknown(&subject.products)?;
    let (problems, problem_count) = staging.problems(PROBLEMS_KEPT)?;
    let (comments, staging) = write(staging, target.clone()).await?;
    // Until the folder has gone, the open database keeps other exports out of it.
    if let Err(error) = target.remove_partial() {
        note(format!("{} cannot be removed, and is needed no more: {error}", partial.display()));
    }
    drop(staging);
    Ok(Exported { comments, changed, bounds, problems, problem_count, unknown })
}

/// Writes the lines in a thread of their own. The process does not wait for it when it ends: the reader of a pipe may
/// have stopped reading.
async fn write(staging: Staging, target: Target) -> Result<(u64, Staging), ExportError> {
    let (sender, written) = oneshot::channel();
    let failed = |error| ExportError::Target("the target".to_owned(), error);
    let writer = move || {
        // Fails when the export was interrupted.
        sender.send(target.write(&staging).map(|count| (count, staging))).ok();
    };
    thread::Builder::new().name("writer".to_owned()).spawn(writer).map_err(failed)?;
    written.await.map_err(|_| failed(io::Error::other("the thread that writes ended by a mistake of this program")))?
}
