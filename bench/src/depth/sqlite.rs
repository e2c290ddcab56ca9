//! SQLite: a separate file, queried in the measuring thread, without server or network.

use std::rc::Rc;

use anyhow::Context;
use futures_util::FutureExt;
use model::Comment;
use rusqlite::{CachedStatement, Connection, Rows, params};
use tempfile::TempDir;

use super::{
    race::Contestant,
    sql::{CREATE_KEY, CREATE_TABLE, Row, Way, after, count, skip},
};
use crate::{dataset::drawn_in_time, listing::Listing, workload::folder};

/// SQLite's indexes have no columns besides those of their order.
const CREATE_INDEX: &str = "CREATE INDEX comment_newest ON comment (product, created_ms DESC, id DESC, rating)";
/// A cache that holds everything, in KiB. The other settings only speed up loading.
const SETTINGS: &str = "PRAGMA cache_size = -2097152; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;";

pub(super) struct Sqlite {
    connection: Connection,
    // Declared last, so that the file is closed before it is removed.
    _folder: TempDir,
}

impl Sqlite {
    pub(super) fn fill(comments: u32) -> anyhow::Result<Self> {
        let folder = folder()?;
        let mut connection = Connection::open(folder.path().join("comments"))?;
        connection.execute_batch(SETTINGS)?;
        let transaction = connection.transaction()?;
        transaction.execute_batch(CREATE_TABLE)?;
        let mut insert = transaction.prepare("INSERT INTO comment VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?;
        for comment in drawn_in_time(comments)? {
            let Comment { id, product, language, rating, created_at, revision, text, .. } = comment;
            insert.execute(params![
                id.as_str(),
                product.as_str(),
                language.as_str(),
                rating.get(),
                created_at.epoch_ms(),
                revision.to_string(),
                text.title,
                text.body,
                text.author,
            ])?;
        }
        drop(insert);
        transaction.execute_batch(&format!("{CREATE_KEY}; {CREATE_INDEX}"))?;
        transaction.commit()?;
        connection.execute_batch("ANALYZE")?;
        Ok(Self { connection, _folder: folder })
    }

    /// A reader that finds the listing's pages this way.
    pub(super) fn contestant<'store>(&'store self, listing: &'store Listing, way: Way) -> Contestant<'store> {
        let sql: Rc<str> = way.statement(&listing.key.filter).into();
        Contestant::new(format!("SQLite {way}"), move |page| {
            let sql = sql.clone();
            async move { self.read(&sql, listing, way, page) }.boxed_local()
        })
    }

    fn read(&self, sql: &str, listing: &Listing, way: Way, page: u64) -> anyhow::Result<Vec<Comment>> {
        let mut statement: CachedStatement<'_> = self.connection.prepare_cached(sql)?;
        let product = listing.key.product.as_str();
        let rows = match way {
            Way::Offset | Way::Deferred => statement.query(params![product, skip(page)?])?,
            Way::Keyset => {
                let (created_ms, id) = after(listing.before(page));
                statement.query(params![product, created_ms, id])?
            }
        };
        comments(rows)
    }

    /// The number of comments in the listing, as a page bar needs it.
    pub(super) fn count(&self, listing: &Listing) -> anyhow::Result<u64> {
        let product = listing.key.product.as_str();
        let count: i64 = self.connection.query_row(&count(&listing.key.filter), [product], |row| row.get(0))?;
        Ok(u64::try_from(count)?)
    }
}

fn comments(mut rows: Rows<'_>) -> anyhow::Result<Vec<Comment>> {
    let mut comments = Vec::new();
    while let Some(row) = rows.next()? {
        let text = |column: usize| anyhow::Ok(row.get_ref(column)?.as_str()?);
        let text_or_none = |column: usize| anyhow::Ok(row.get_ref(column)?.as_str_or_null()?);
        let row = Row {
            id: text(0)?,
            product: text(1)?,
            language: text(2)?,
            rating: row.get(3)?,
            created_ms: row.get(4)?,
            revision: text(5)?,
            title: text_or_none(6)?,
            body: text(7)?,
            author: text_or_none(8)?,
        };
        comments.push(row.into_comment().context("a row of SQLite")?);
    }
    Ok(comments)
}
