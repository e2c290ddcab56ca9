//! The comments that an export has read, in a SQLite file. So a killed export resumes, and lines that do not fit into
//! memory are put into order.
//!
//! - `scanned`: the comments as the scan of the table's indexes found them.
//! - `changed`: the comments that were read again, strongly consistent. A row here replaces the comment's scanned rows; a
//!   row without a line removes them.
//! - `problem`: the items that are not exported, or that an import would refuse.
//! - `shard`: how far each shard has been scanned. It changes in one transaction with the rows.
//!
//! **Invariant:** every line of the export is the last that was read of its comment.

use std::{
    io::{self, Write},
    path::Path,
    time::Duration,
};

use model::{Cd, Comment, CommentId, CommentText, FilterKey, ProductId, Timestamp, item::comment_pk};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};
use table::{CommentsPart, MalformedItem};

use super::ExportError;
use crate::import::to_line;

/// The version of the file's tables and lines.
const FORMAT: u32 = 2;

/// Memory for the file's pages, in KiB. The changed comments are looked up in it.
const CACHE_KIB: i64 = 64 * 1024;

/// The comments of one product and time with several ids are in the order of `cd`, which ends with the id.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS shard (number INTEGER PRIMARY KEY, product TEXT, cd TEXT, is_over INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS scanned (product TEXT, cd TEXT, id TEXT, line TEXT, PRIMARY KEY (product, cd));
    CREATE TABLE IF NOT EXISTS changed (product TEXT, id TEXT, cd TEXT, line TEXT, PRIMARY KEY (product, id));
    CREATE INDEX IF NOT EXISTS changed_in_order ON changed (product, cd);
    CREATE TABLE IF NOT EXISTS problem (pk TEXT, sk TEXT, what TEXT NOT NULL, PRIMARY KEY (pk, sk)) WITHOUT ROWID;";

/// Both parts are read in the order of an index, so nothing is sorted.
const LINES: &str = "
    SELECT product, cd, line FROM scanned WHERE NOT EXISTS (
        SELECT 1 FROM changed WHERE changed.product = scanned.product AND changed.id = scanned.id)
    UNION ALL SELECT product, cd, line FROM changed WHERE line IS NOT NULL
    ORDER BY 1, 2";

/// What an export is about. Only an export of the same resumes from a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Subject {
    pub(super) format: u32,
    /// The table's id: a table that was created again is another one.
    pub(super) table: String,
    /// The products, ascending; all if there are none.
    pub(super) products: Vec<ProductId>,
}

impl Subject {
    pub(super) fn new(table: String, products: &[ProductId]) -> Self {
        let mut products = products.to_vec();
        products.sort();
        products.dedup();
        Self { format: FORMAT, table, products }
    }

    /// Whether the export holds comments of this product.
    pub(super) fn includes(&self, product: &ProductId) -> bool {
        self.products.is_empty() || self.products.binary_search(product).is_ok()
    }
}

/// What a file says to an export that opens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resumes {
    /// The file is new.
    Nothing,
    /// The file belongs to a different export.
    Foreign,
    /// The export resumes, and reads the journal from this instant.
    At(Timestamp),
}

/// How far a shard has been scanned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scanned {
    Nothing,
    /// Every product up to this one.
    Product(ProductId),
    /// Every product before this one, and this one's comments up to a place.
    Within(ProductId, Cd),
    All,
}

/// What was read again of a comment in one product.
pub(super) struct ReadAgain {
    pub(super) id: CommentId,
    pub(super) product: ProductId,
    /// `None` when the comment is not there; otherwise the comment, or what is wrong with its item.
    pub(super) found: Option<Result<Comment, String>>,
}

/// The file.
pub(super) struct Staging {
    connection: Connection,
}

impl Staging {
    /// A file without a name, which ends with the process.
    pub(super) fn temporary() -> rusqlite::Result<Self> {
        Self::of(Connection::open("")?)
    }

    /// Opens the file at a path, or creates it. Until the process ends, no other one can open it.
    pub(super) fn open(path: &Path) -> rusqlite::Result<Self> {
        Self::of(Connection::open(path)?)
    }

    fn of(connection: Connection) -> rusqlite::Result<Self> {
        connection.busy_timeout(Duration::ZERO)?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // The rows of a crashed machine may be lost, but then also how far the scan came.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.execute_batch(TABLES)?;
        Ok(Self { connection })
    }

    /// Whether this export resumes from the file.
    pub(super) fn resumes(&self, subject: &Subject) -> Result<Resumes, ExportError> {
        let Some(found) = self.state("subject")? else { return Ok(Resumes::Nothing) };
        let from = self.state("journal_from")?.and_then(|from| Timestamp::parse(&from).ok());
        let is_same = serde_json::from_str(&found).is_ok_and(|found: Subject| found == *subject);
        Ok(from.filter(|_| is_same).map_or(Resumes::Foreign, Resumes::At))
    }

    /// Begins an export anew.
    pub(super) fn begin(&mut self, subject: &Subject, journal_from: Timestamp) -> Result<(), ExportError> {
        let transaction = self.connection.transaction()?;
        transaction.execute_batch(
            "DELETE FROM state; DELETE FROM shard; DELETE FROM scanned; DELETE FROM changed; DELETE FROM problem;",
        )?;
        let subject = serde_json::to_string(subject).unwrap_or_default();
        put_state(&transaction, "subject", &subject)?;
        put_state(&transaction, "journal_from", &journal_from.to_string())?;
        Ok(transaction.commit()?)
    }

    /// Remembers that the journal was read up to here.
    pub(super) fn set_journal_from(&mut self, from: Timestamp) -> Result<(), ExportError> {
        let transaction = self.connection.transaction()?;
        put_state(&transaction, "journal_from", &from.to_string())?;
        Ok(transaction.commit()?)
    }

    fn state(&self, name: &str) -> Result<Option<String>, ExportError> {
        let found = self.connection.query_row("SELECT value FROM state WHERE name = ?1", [name], |row| row.get(0));
        Ok(found.optional()?)
    }

    /// How far a shard has been scanned.
    pub(super) fn scanned(&self, shard: u32) -> Result<Scanned, ExportError> {
        let sql = "SELECT product, cd, is_over FROM shard WHERE number = ?1";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let found: Option<(Option<String>, Option<String>, bool)> =
            self.connection.query_row(sql, [shard], row).optional()?;
        let Some((product, cd, is_over)) = found else { return Ok(Scanned::Nothing) };
        let product = product.and_then(|product| ProductId::parse(&product).ok());
        Ok(match (is_over, product, cd.and_then(|cd| Cd::parse(&cd).ok())) {
            (true, ..) => Scanned::All,
            (false, Some(product), Some(cd)) => Scanned::Within(product, cd),
            (false, Some(product), None) => Scanned::Product(product),
            (false, None, _) => Scanned::Nothing,
        })
    }

    /// Adds comments of a product that a scan found. Returns how many there were.
    pub(super) fn add(&mut self, shard: u32, product: &ProductId, part: CommentsPart) -> Result<u64, ExportError> {
        let transaction = self.connection.transaction()?;
        let (mut added, mut last) = (0, None);
        for comment in part.comments {
            match comment {
                Ok(comment) => {
                    last = Some(comment.cd());
                    put_scanned(&transaction, comment)?;
                    added += 1;
                }
                Err(MalformedItem { pk, problem, .. }) => {
                    put_problem(&transaction, &pk, &primary_sk(product), &problem.to_string())?;
                }
            }
        }
        // Where a whole answer is malformed, the place stays: a scan that resumes reads that answer again.
        if part.next.is_none() || last.is_some() {
            let cd = last.filter(|_| part.next.is_some()).map(|cd| cd.to_string());
            let row = params![shard, product.as_str(), cd];
            transaction.execute("INSERT OR REPLACE INTO shard VALUES (?1, ?2, ?3, FALSE)", row)?;
        }
        transaction.commit()?;
        Ok(added)
    }

    /// Adds comments that a scan found and that are not published.
    pub(super) fn add_unpublished(&mut self, comments: Vec<Comment>) -> Result<(), ExportError> {
        let transaction = self.connection.transaction()?;
        comments.into_iter().try_for_each(|comment| put_scanned(&transaction, comment))?;
        Ok(transaction.commit()?)
    }

    /// Remembers that a shard has been scanned to its end.
    pub(super) fn end_shard(&mut self, shard: u32) -> Result<(), ExportError> {
        self.connection.execute("INSERT OR REPLACE INTO shard VALUES (?1, NULL, NULL, TRUE)", [shard])?;
        Ok(())
    }

    /// Replaces comments by what was read again of them.
    pub(super) fn replace(&mut self, comments: Vec<ReadAgain>) -> Result<(), ExportError> {
        let transaction = self.connection.transaction()?;
        for ReadAgain { id, product, found } in comments {
            let key = params![comment_pk(&id), primary_sk(&product)];
            transaction.prepare_cached("DELETE FROM problem WHERE pk = ?1 AND sk = ?2")?.execute(key)?;
            let (cd, line) = match found {
                Some(Ok(comment)) => (Some(comment.cd().to_string()), Some(staged_line(&transaction, comment)?)),
                Some(Err(problem)) => {
                    put_problem(&transaction, &comment_pk(&id), &primary_sk(&product), &problem)?;
                    (None, None)
                }
                None => (None, None),
            };
            let row = params![product.as_str(), id.as_str(), cd, line];
            transaction.prepare_cached("INSERT OR REPLACE INTO changed VALUES (?1, ?2, ?3, ?4)")?.execute(row)?;
        }
        Ok(transaction.commit()?)
    }

    /// Adds what is wrong with an item, by its key.
    pub(super) fn add_problem(&mut self, pk: &str, sk: &str, what: &str) -> Result<(), ExportError> {
        let transaction = self.connection.transaction()?;
        put_problem(&transaction, pk, sk, what)?;
        Ok(transaction.commit()?)
    }

    /// What is wrong: the first `limit` of them, and how many there are.
    pub(super) fn problems(&self, limit: u32) -> Result<(Vec<String>, u64), ExportError> {
        let mut select = self.connection.prepare("SELECT what FROM problem ORDER BY sk, pk LIMIT ?1")?;
        let first = select.query_map([limit], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok((first, self.count("SELECT COUNT(*) FROM problem")?))
    }

    /// The number of comments that were read again because they changed.
    pub(super) fn changed(&self) -> Result<u64, ExportError> {
        self.count("SELECT COUNT(*) FROM changed")
    }

    /// The products among these without a comment and without a problem.
    pub(super) fn unknown(&self, products: &[ProductId]) -> Result<Vec<ProductId>, ExportError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM scanned WHERE product = ?1 AND NOT EXISTS (
                       SELECT 1 FROM changed WHERE changed.product = scanned.product AND changed.id = scanned.id))
                   OR EXISTS (SELECT 1 FROM changed WHERE product = ?1 AND line IS NOT NULL)
                   OR EXISTS (SELECT 1 FROM problem WHERE sk = ?2)";
        let mut unknown = Vec::new();
        for product in products {
            let key = params![product.as_str(), primary_sk(product)];
            if !self.connection.query_row(sql, key, |row| row.get(0))? {
                unknown.push(product.clone());
            }
        }
        Ok(unknown)
    }

    fn count(&self, sql: &str) -> Result<u64, ExportError> {
        let count: i64 = self.connection.query_row(sql, [], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// Writes every line of the export, in order. Returns how many there were.
    pub(super) fn write_lines(&self, to: &mut dyn Write) -> io::Result<u64> {
        let mut select = self.connection.prepare(LINES).map_err(io::Error::other)?;
        let (mut rows, mut count) = (select.query([]).map_err(io::Error::other)?, 0);
        while let Some(row) = rows.next().map_err(io::Error::other)? {
            let line = row.get_ref(2).map_err(io::Error::other)?;
            to.write_all(line.as_bytes().map_err(io::Error::other)?)?;
            to.write_all(b"\n")?;
            count += 1;
        }
        Ok(count)
    }
}

/// The line of a comment. What an import would refuse is written nevertheless, and is a problem: an earlier version or
/// another tool wrote it.
fn staged_line(transaction: &Transaction<'_>, comment: Comment) -> Result<String, ExportError> {
    let CommentText { title, body, author } = comment.text.clone();
    if let Err(error) = CommentText::new(title, body, author).and_then(|_| comment.site.check()) {
        let (pk, sk) = (comment_pk(&comment.id), primary_sk(&comment.product));
        let what = format!("pk {pk:?}, sk {sk:?}: it is exported, but an import will refuse it: {error}");
        put_problem(transaction, &pk, &sk, &what)?;
    }
    to_line(comment).map_err(ExportError::Line)
}

fn put_scanned(transaction: &Transaction<'_>, comment: Comment) -> Result<(), ExportError> {
    let (cd, id, product) = (comment.cd(), comment.id.clone(), comment.product.clone());
    let row = params![product.as_str(), cd.to_string(), id.as_str(), staged_line(transaction, comment)?];
    transaction.prepare_cached("INSERT OR REPLACE INTO scanned VALUES (?1, ?2, ?3, ?4)")?.execute(row)?;
    Ok(())
}

fn put_problem(transaction: &Transaction<'_>, pk: &str, sk: &str, what: &str) -> Result<(), ExportError> {
    let sql = "INSERT OR REPLACE INTO problem VALUES (?1, ?2, ?3)";
    transaction.prepare_cached(sql)?.execute([pk, sk, what])?;
    Ok(())
}

fn put_state(transaction: &Transaction<'_>, name: &str, value: &str) -> Result<(), ExportError> {
    transaction.execute("INSERT OR REPLACE INTO state VALUES (?1, ?2)", [name, value])?;
    Ok(())
}

/// The sort key of the primary items of a product.
fn primary_sk(product: &ProductId) -> String {
    FilterKey::primary(product.clone()).to_string()
}
