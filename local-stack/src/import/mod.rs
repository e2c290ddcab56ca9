//! The importer: comments and records of products from files, through the same transactions as the API's.
//!
//! An import is idempotent. So an interrupted import is simply run again. It leaves what exists as it is, unless it is told
//! to update. Then a field that a row does not name stays, and one that it names as empty is emptied.
//!
//! - `source`: the rows of a file, compressed or not, in any format; `separated`: those of tables.
//! - `comment`, `product`: what a row says, as an export writes it, and its import.
//! - `mapping`: which columns of a foreign file are the fields of a comment; `date`: its dates.
//!
//! **Invariant:** an import whose rows were not all read is an error, for any reason (`source`).

mod comment;
mod date;
mod mapping;
mod product;
mod separated;
mod source;

use std::{
    collections::HashSet,
    fs::File,
    io::{self, Write},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use model::ProductId;
use process::StoreError;
use serde_json::{Value, json};
use table::Table;
use thiserror::Error;
use tokio::task::{JoinError, JoinSet};

pub use comment::{CommentRow, parse_line, to_line};
pub use mapping::ReadingArgs;
pub use product::{parse_product_line, to_product_line};
use source::Row;
pub use source::{LineReader, Reading, Source, SourceError, json_rows, read_lines};

/// How many comments or records are written concurrently.
const CONCURRENT: usize = 16;
/// How many mistakes are kept with their reasons; the rest is only counted.
const MISTAKES_KEPT: usize = 100;
/// Maximum number of look-ups of a comment, the first included. Each further one follows a faster writer.
const LOOKUPS_MAX: usize = 4;
/// Maximum number of further attempts while a table is unavailable. The SDK retries within each.
const RETRIES_MAX: usize = 5;
const RETRY_PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Whether existing comments and records are changed where they differ. The id, the product and the creation time of a
    /// comment never change, so a row with others is a bad one.
    pub update: bool,
    /// Whether nothing is written. The outcome says what an import would do, except that two rows of one id, both new,
    /// count as two.
    pub dry_run: bool,
    /// Where rows go that are not imported.
    pub rejects: Option<Rejects>,
}

/// A file of the rows that were not imported. Each is a JSON object with `file`, `line`, `reason` and `row`, which is null
/// where the row could not be read. An import reads the corrected rows: `jq -c .row`.
#[derive(Debug, Clone)]
pub struct Rejects {
    of: String,
    file: Arc<File>,
}

impl Rejects {
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { of: String::new(), file: Arc::new(File::create(path)?) })
    }

    #[must_use]
    pub fn of_file(&self, name: &str) -> Self {
        Self { of: name.to_owned(), file: Arc::clone(&self.file) }
    }

    fn write(&self, number: u64, reason: &str, text: &str) -> io::Result<()> {
        let read = Some(text).filter(|text| !text.is_empty());
        let row = read.map(|text| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)));
        let line = json!({"file": self.of, "line": number, "reason": reason, "row": row});
        self.file.as_ref().write_all(format!("{line}\n").as_bytes())
    }
}

/// What became of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Created,
    Unchanged,
    /// What is there differs, and stays.
    Differing,
    Updated,
    /// It was not imported, for this reason.
    Refused(String),
}

/// What a row says: a comment, or a product's record.
pub trait Importable: Sized + Send + Sync + 'static {
    fn product(&self) -> &ProductId;

    /// What it is stored under. Rows with one key are imported in order.
    fn key(&self) -> &str;

    /// Writes it unless it is there, or as the options say.
    fn import(
        &self,
        table: &Table,
        options: &ImportOptions,
    ) -> impl Future<Output = Result<Outcome, StoreError>> + Send;
}

/// Why rows were not imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    pub reason: String,
    /// The number of the first line with it, from 1.
    pub number: u64,
    pub more: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    pub created: u64,
    pub unchanged: u64,
    pub differing: u64,
    pub updated: u64,
    /// Rows that were not imported.
    pub bad: u64,
    /// Their first reasons, by line.
    pub mistakes: Vec<Mistake>,
    /// The product of the first comment, as an example to show.
    pub first_product: Option<ProductId>,
    pub took: Duration,
}

impl ImportReport {
    /// The number of rows that were looked at.
    pub fn lines(&self) -> u64 {
        self.created + self.unchanged + self.differing + self.updated + self.bad
    }

    fn add_mistake(&mut self, number: u64, reason: String) {
        self.bad += 1;
        if let Some(mistake) = self.mistakes.iter_mut().find(|mistake| mistake.reason == reason) {
            mistake.number = mistake.number.min(number);
            mistake.more += 1;
        } else if self.mistakes.len() < MISTAKES_KEPT {
            self.mistakes.push(Mistake { reason, number, more: 0 });
        }
    }
}

/// The reason why an import ended early, with advice for the user.
#[derive(Debug, Error)]
pub enum ImportError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("{0}; run it again to go on, which leaves what was imported as it is")]
    Store(#[from] StoreError),
    #[error("the file of rejected lines cannot be written: {0}; run it again, which leaves what was imported as it is")]
    Rejects(#[source] io::Error),
    #[error("a comment could not be imported by a mistake of this program: {0}; please report this")]
    Panic(#[source] JoinError),
}

/// An import that ended early. What was already imported stays.
#[derive(Debug, Error)]
#[error("{reason}")]
pub struct Unfinished {
    /// The outcome until then.
    pub report: Box<ImportReport>,
    pub reason: ImportError,
}

/// Imports comments, and leaves existing ones as they are. See [`import_with`].
pub async fn import(table: &Table, source: Source, done: &Arc<AtomicU64>) -> Result<ImportReport, Unfinished> {
    import_with(table, source, &ImportOptions::default(), done).await
}

/// Imports comments or records; `done` counts those that have been looked at. Those before an error of the source are
/// imported, too.
pub async fn import_with<T: Importable>(
    table: &Table,
    mut source: Source<T>,
    options: &ImportOptions,
    done: &Arc<AtomicU64>,
) -> Result<ImportReport, Unfinished> {
    let began = Instant::now();
    let (writes, keys, report) = (JoinSet::new(), HashSet::new(), ImportReport::default());
    let mut import = Import { table, options, done, writes, keys, report };
    let mut ended = import.start_all(&mut source).await.err();
    // What is under way is finished, whatever ended the import.
    while !import.writes.is_empty() {
        if let Err(error) = import.finish_one().await {
            ended.get_or_insert(error);
        }
    }
    let mut report = import.report;
    report.mistakes.sort_by_key(|mistake| mistake.number);
    report.took = began.elapsed();
    match ended {
        Some(reason) => Err(Unfinished { report: Box::new(report), reason }),
        None => Ok(report),
    }
}

struct Import<'a> {
    table: &'a Table,
    options: &'a ImportOptions,
    done: &'a AtomicU64,
    /// At most [`CONCURRENT`], each with its key, the number of its line and its text.
    writes: JoinSet<(String, u64, String, Result<Outcome, StoreError>)>,
    keys: HashSet<String>,
    report: ImportReport,
}

impl Import<'_> {
    async fn start_all<T: Importable>(&mut self, source: &mut Source<T>) -> Result<(), ImportError> {
        while let Some(row) = source.next().await.transpose()? {
            let Row { number, content, text } = row;
            match content {
                Ok(content) => self.start(number, content, text).await?,
                Err(reason) => self.count(number, Outcome::Refused(reason), &text)?,
            }
        }
        Ok(())
    }

    /// Starts to write what a row says, after what was there before of its key.
    async fn start<T: Importable>(&mut self, number: u64, content: T, text: String) -> Result<(), ImportError> {
        self.report.first_product.get_or_insert_with(|| content.product().clone());
        while self.writes.len() >= CONCURRENT || self.keys.contains(content.key()) {
            self.finish_one().await?;
        }
        let key = content.key().to_owned();
        self.keys.insert(key.clone());
        let (table, options) = (self.table.clone(), self.options.clone());
        self.writes.spawn(async move {
            let outcome = import_row(&content, &table, &options).await;
            (key, number, text, outcome)
        });
        Ok(())
    }

    async fn finish_one(&mut self) -> Result<(), ImportError> {
        let Some(written) = self.writes.join_next().await else { return Ok(()) };
        let (key, number, text, outcome) = written.map_err(ImportError::Panic)?;
        self.keys.remove(&key);
        self.count(number, outcome?, &text)
    }

    fn count(&mut self, number: u64, outcome: Outcome, text: &str) -> Result<(), ImportError> {
        self.done.fetch_add(1, Ordering::Relaxed);
        match outcome {
            Outcome::Created => self.report.created += 1,
            Outcome::Unchanged => self.report.unchanged += 1,
            Outcome::Differing => self.report.differing += 1,
            Outcome::Updated => self.report.updated += 1,
            Outcome::Refused(reason) => {
                if let Some(rejects) = &self.options.rejects {
                    rejects.write(number, &reason, text).map_err(ImportError::Rejects)?;
                }
                self.report.add_mistake(number, reason);
            }
        }
        Ok(())
    }
}

async fn import_row(row: &impl Importable, table: &Table, options: &ImportOptions) -> Result<Outcome, StoreError> {
    for _ in 0..RETRIES_MAX {
        match row.import(table, options).await {
            Err(error) if error.is_unavailable() => tracing::warn!(%error, key = row.key(), "trying again"),
            done => return done,
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    row.import(table, options).await
}
