//! SQLite: a separate file, queried in the measuring thread, without server or network.

use std::{rc::Rc, sync::Arc};

use futures_util::FutureExt;
use model::Comment;
use rusqlite::{Connection, params};
use tempfile::TempDir;

use super::{
    race::Contestant,
    sql::{
        CREATE_INDEXES, CREATE_TABLE, FIND_BLOCK, INSERT_BLOCK, Paging, SqlComment, blocks,
        drawn_in_time, skip,
    },
};
use crate::{listing::ExpectedListing, server::folder};

/// A cache that holds everything, in KiB. The other settings only speed up loading.
const SETTINGS: &str =
    "PRAGMA cache_size = -2097152; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;";

pub(super) struct Sqlite {
    connection: Connection,
    // Declared last, so that the file is closed before it is removed.
    _folder: TempDir,
}

impl Sqlite {
    pub(super) fn fill(comments: u32, listings: &[Arc<ExpectedListing>]) -> anyhow::Result<Self> {
        let folder = folder()?;
        let mut connection = Connection::open(folder.path().join("comments"))?;
        connection.execute_batch(SETTINGS)?;
        let transaction = connection.transaction()?;
        transaction.execute_batch(CREATE_TABLE)?;
        let mut insert = transaction
            .prepare("INSERT INTO comment VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?;
        for comment in drawn_in_time(comments)? {
            let Comment {
                id,
                product,
                language,
                rating,
                created_at,
                revision,
                text,
                ..
            } = comment;
            insert.execute(params![
                id.as_str(),
                product.as_str(),
                language.as_str(),
                rating.get(),
                created_at.epoch_ms(),
                revision.to_string(),
                text.title,
                text.body.unwrap_or_default(),
                text.author,
            ])?;
        }
        drop(insert);
        transaction.execute_batch(CREATE_INDEXES)?;
        for listing in listings {
            for (comments, cd) in blocks(listing)? {
                let newest = params![
                    listing.key.to_string(),
                    comments,
                    cd.created_at.epoch_ms(),
                    cd.id.as_str()
                ];
                transaction.execute(INSERT_BLOCK, newest)?;
            }
        }
        transaction.execute_batch("ANALYZE")?;
        transaction.commit()?;
        Ok(Self {
            connection,
            _folder: folder,
        })
    }

    pub(super) fn contestant<'store>(
        &'store self,
        listing: &'store ExpectedListing,
        paging: Paging,
    ) -> Contestant<'store> {
        let sql: Rc<str> = paging.statement(&listing.key.filter).into();
        Contestant::new(format!("SQLite {paging}"), move |page| {
            let sql = sql.clone();
            async move { self.read(&sql, listing, paging, page) }.boxed_local()
        })
    }

    fn read(
        &self,
        sql: &str,
        listing: &ExpectedListing,
        paging: Paging,
        page: u64,
    ) -> anyhow::Result<Vec<Comment>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let product = listing.key.product.as_str();
        let mut rows = match paging {
            Paging::Offset => statement.query(params![product, skip(page)?])?,
            Paging::Blocks => {
                let start = self.start(listing, page)?;
                let offset = skip(page)? - start.newer;
                statement.query(params![product, start.created_ms, start.id, offset])?
            }
        };
        let mut comments = Vec::new();
        while let Some(row) = rows.next()? {
            let comment = SqlComment {
                id: row.get_ref(0)?.as_str()?,
                product: row.get_ref(1)?.as_str()?,
                language: row.get_ref(2)?.as_str()?,
                rating: row.get(3)?,
                created_ms: row.get(4)?,
                revision: row.get_ref(5)?.as_str()?,
                title: row.get_ref(6)?.as_str_or_null()?,
                body: row.get_ref(7)?.as_str()?,
                author: row.get_ref(8)?.as_str_or_null()?,
            };
            comments.push(comment.into_comment()?);
        }
        Ok(comments)
    }

    fn start(&self, listing: &ExpectedListing, page: u64) -> anyhow::Result<BlockStart> {
        let mut statement = self.connection.prepare_cached(FIND_BLOCK)?;
        let parameters = params![listing.key.to_string(), skip(page)?];
        Ok(statement.query_row(parameters, |row| {
            Ok(BlockStart {
                created_ms: row.get(0)?,
                id: row.get(1)?,
                newer: row.get(2)?,
            })
        })?)
    }
}

/// The newest comment of a page's block.
struct BlockStart {
    created_ms: i64,
    id: String,
    /// How many comments are newer.
    newer: i64,
}

#[cfg(test)]
mod tests {
    use strum::VariantArray;

    use super::*;
    use crate::{depth::sql::BLOCK, listing::all_and_union};

    const COMMENTS: u32 = 2_400;

    #[test]
    fn every_way_shows_every_page_of_both_listings_and_a_block_skips_few_rows() {
        let mut listings = all_and_union().unwrap();
        for comment in drawn_in_time(COMMENTS).unwrap() {
            for listing in &mut listings {
                listing.add(&comment);
            }
        }
        let listings: Vec<_> = listings
            .into_iter()
            .map(|listing| listing.sorted().unwrap())
            .collect();
        let sqlite = Sqlite::fill(COMMENTS, &listings).unwrap();
        for listing in &listings {
            for page in 1..=listing.pages() {
                for paging in Paging::VARIANTS {
                    let sql = paging.statement(&listing.key.filter);
                    listing
                        .expect_comments(page, &sqlite.read(&sql, listing, *paging, page).unwrap())
                        .unwrap();
                }
                let skipped = skip(page).unwrap() - sqlite.start(listing, page).unwrap().newer;
                assert!(
                    usize::try_from(skipped).unwrap() < BLOCK,
                    "page {page}: {skipped} rows"
                );
            }
        }
    }
}
