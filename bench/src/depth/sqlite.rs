//! SQLite: a separate file, queried in the measuring thread, without server or network.

use std::{rc::Rc, sync::Arc};

use anyhow::Context;
use futures_util::FutureExt;
use model::{Cd, Comment};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Rows, params};
use tempfile::TempDir;

use super::{
    race::Contestant,
    ranks,
    sql::{CREATE_KEY, CREATE_TABLE, Row, Way, after, count, skip},
    starts::{self, INSERT_TOTAL, Start},
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
        transaction.execute_batch(&format!(
            "{CREATE_KEY}; {CREATE_INDEX}; {}; {}",
            starts::CREATE,
            ranks::CREATE_TABLE
        ))?;
        transaction.commit()?;
        Ok(Self { connection, _folder: folder })
    }

    /// Stores what finds the pages of these listings.
    pub(super) fn add(&mut self, listings: &[Arc<Listing>]) -> anyhow::Result<()> {
        let transaction = self.connection.transaction()?;
        for listing in listings {
            let key = listing.key.to_string();
            transaction.execute(INSERT_TOTAL, params![key, i64::try_from(listing.total())?])?;
            for (insert, rows) in starts::rows(listing)? {
                let mut insert = transaction.prepare(insert)?;
                for (number, cd) in rows {
                    insert.execute(params![key, number, cd.created_at.epoch_ms(), cd.id.as_str()])?;
                }
            }
            let mut insert = transaction.prepare("INSERT INTO comment_rank VALUES (?, ?)")?;
            for (cd, _) in listing.around(1).1.iter().rev() {
                insert.execute(params![key, cd.to_string()])?;
            }
        }
        transaction.execute_batch("ANALYZE")?;
        Ok(transaction.commit()?)
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
            Way::Anchors | Way::Blocks => {
                let Start { created_ms, id, newer } = self.start(listing, way, page)?;
                statement.query(params![product, created_ms, id, skip(page)? - newer])?
            }
        };
        comments(rows)
    }

    /// The stored comment from which a page is found.
    fn start(&self, listing: &Listing, way: Way, page: u64) -> anyhow::Result<Start> {
        let sql = way.start().context("a way with stored starts")?;
        let mut statement = self.connection.prepare_cached(sql)?;
        let start =
            |row: &rusqlite::Row<'_>| Ok(Start { created_ms: row.get(0)?, id: row.get(1)?, newer: row.get(2)? });
        let start = statement.query_row(params![listing.key.to_string(), skip(page)?], start).optional()?;
        Ok(start.unwrap_or(Start::FRONT))
    }

    /// The comment before a page, by its rank; `None` for page 1.
    pub(super) fn before(&self, listing: &Listing, page: u64) -> anyhow::Result<Option<Cd>> {
        let Some(skip) = ranks::skip(page) else { return Ok(None) };
        let mut statement = self.connection.prepare_cached(ranks::BEFORE)?;
        let parameters = params![listing.key.to_string(), i64::try_from(skip)?];
        let mut rows = statement.query(parameters)?;
        let row = rows.next()?.context("a comment before the page")?;
        Ok(Some(Cd::parse(row.get_ref(0)?.as_str()?)?))
    }

    /// The number of comments in the listing, by its ranks.
    pub(super) fn count_ranks(&self, listing: &Listing) -> anyhow::Result<u64> {
        let count: i64 = self.connection.query_row(ranks::COUNT, [listing.key.to_string()], |row| row.get(0))?;
        Ok(u64::try_from(count)?)
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

#[cfg(test)]
mod tests {
    use model::{Filter, ProductId, RatingSet};
    use strum::VariantArray;

    use super::*;
    use crate::dataset::PRODUCT;

    const COMMENTS: u32 = 2_400;

    fn listings() -> Vec<Arc<Listing>> {
        let product = ProductId::parse(PRODUCT).unwrap();
        let three_ratings = Filter::new(None, Some(RatingSet::parse("1.3.5").unwrap()));
        let mut listings = [Filter::ANY, three_ratings].map(|filter| Listing::new(&product, filter));
        for comment in drawn_in_time(COMMENTS).unwrap() {
            for listing in &mut listings {
                listing.add(&comment);
            }
        }
        listings.into_iter().map(|listing| listing.sorted().unwrap()).collect()
    }

    #[test]
    fn every_way_shows_every_page_of_both_listings() {
        let listings = listings();
        let mut sqlite = Sqlite::fill(COMMENTS).unwrap();
        sqlite.add(&listings).unwrap();
        for listing in &listings {
            for way in Way::VARIANTS {
                let sql = way.statement(&listing.key.filter);
                for page in 1..=listing.pages() {
                    let shown = sqlite.read(&sql, listing, *way, page).unwrap();
                    let shown: Vec<Cd> = shown.iter().map(Comment::cd).collect();
                    assert!(shown.iter().eq(listing.page(page)), "{way}, page {page}");
                }
            }
        }
    }

    #[test]
    fn ranks_find_the_comment_before_every_page_and_the_total() {
        let listings = listings();
        let mut sqlite = Sqlite::fill(COMMENTS).unwrap();
        sqlite.add(&listings).unwrap();
        for listing in &listings {
            assert_eq!(sqlite.count_ranks(listing).unwrap(), listing.total());
            for page in 1..=listing.pages() {
                assert_eq!(sqlite.before(listing, page).unwrap().as_ref(), listing.before(page), "page {page}");
            }
        }
    }

    #[test]
    fn a_stored_start_skips_few_rows() {
        let listings = listings();
        let mut sqlite = Sqlite::fill(COMMENTS).unwrap();
        sqlite.add(&listings).unwrap();
        for listing in &listings {
            for page in 1..=listing.pages() {
                for (way, skipped_max) in [(Way::Anchors, 200), (Way::Blocks, 1_000)] {
                    let start = sqlite.start(listing, way, page).unwrap();
                    let skipped = skip(page).unwrap() - start.newer;
                    assert!((0..skipped_max).contains(&skipped), "{way}, page {page}: {skipped} rows");
                }
            }
        }
    }
}
