//! PostgreSQL: statements prepared once, one connection, loopback.
//!
//! Its plan (`EXPLAIN`) is identical for page 1, for the last page, and for a generic page: it reads the index from its
//! beginning.

mod server;

use std::{pin::pin, sync::Arc, time::Duration};

use anyhow::Context;
use futures_util::FutureExt;
use model::{Cd, Comment};
use tokio_postgres::{
    Client, Statement,
    binary_copy::BinaryCopyInWriter,
    types::{ToSql, Type},
};

use super::{
    race::{Contestant, Walk, walk},
    server::Server,
    sql::{CREATE_KEY, CREATE_TABLE, Row, Way, after, count, skip},
    starts::{self, INSERT_TOTAL, Start},
};
use crate::{dataset::drawn_in_time, listing::Listing};
use server::SETTINGS;

/// The rating is in the index, but not part of its order.
const CREATE_INDEX: &str =
    "CREATE INDEX comment_newest ON comment (product, created_ms DESC, id DESC) INCLUDE (rating)";
/// `FREEZE`: rows are frozen on arrival, because no other session sees the table before. The index alone then shows
/// which rows are visible.
const COPY: &str = "COPY comment FROM STDIN WITH (FORMAT binary, FREEZE)";
const TYPES: [Type; 9] =
    [Type::TEXT, Type::TEXT, Type::TEXT, Type::INT2, Type::INT8, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT];

pub(super) struct Postgres {
    client: Client,
    /// The server's version and settings.
    pub(super) about: String,
    // Declared last, so that the client is dropped before the server stops.
    _server: Server,
}

impl Postgres {
    pub(super) async fn fill(comments: u32) -> anyhow::Result<Self> {
        let (server, mut client) = server::start().await?;
        let version: String = client.query_one("SHOW server_version", &[]).await?.try_get(0)?;
        let transaction = client.transaction().await?;
        transaction.batch_execute(CREATE_TABLE).await?;
        let mut rows = pin!(BinaryCopyInWriter::new(transaction.copy_in(COPY).await?, &TYPES));
        for comment in drawn_in_time(comments)? {
            let Comment { id, product, language, rating, created_at, revision, text, .. } = comment;
            rows.as_mut()
                .write(&[
                    &id.as_str(),
                    &product.as_str(),
                    &language.as_str(),
                    &i16::from(rating.get()),
                    &created_at.epoch_ms(),
                    &revision.to_string(),
                    &text.title,
                    &text.body,
                    &text.author,
                ])
                .await?;
        }
        rows.finish().await?;
        transaction.batch_execute(&format!("{CREATE_KEY}; {CREATE_INDEX}; {}", starts::CREATE)).await?;
        transaction.commit().await?;
        let about = format!("PostgreSQL {version}, {}", SETTINGS.join(", "));
        Ok(Self { client, about, _server: server })
    }

    /// Stores what finds the pages of these listings.
    pub(super) async fn add(&self, listings: &[Arc<Listing>]) -> anyhow::Result<()> {
        for listing in listings {
            let key = listing.key.to_string();
            self.client.execute(INSERT_TOTAL, &[&key, &i64::try_from(listing.total())?]).await?;
            for (insert, rows) in starts::rows(listing)? {
                let insert = self.client.prepare(insert).await?;
                for (number, cd) in rows {
                    self.client.execute(&insert, &[&key, &number, &cd.created_at.epoch_ms(), &cd.id.as_str()]).await?;
                }
            }
        }
        Ok(self.client.batch_execute("VACUUM ANALYZE").await?)
    }

    /// A reader that finds the listing's pages this way.
    pub(super) async fn contestant<'store>(
        &'store self,
        listing: &'store Listing,
        way: Way,
    ) -> anyhow::Result<Contestant<'store>> {
        let statement = self.client.prepare(&way.statement(&listing.key.filter)).await?;
        let find_start = match way.start() {
            Some(sql) => Some(self.client.prepare(sql).await?),
            None => None,
        };
        Ok(Contestant::new(format!("PostgreSQL {way}"), move |page| {
            let (statement, find_start) = (statement.clone(), find_start.clone());
            async move {
                if let Some(find_start) = find_start {
                    let Start { created_ms, id, newer } = self.start(&find_start, listing, page).await?;
                    return self.read(&statement, listing, &[&created_ms, &id, &(skip(page)? - newer)]).await;
                }
                match way {
                    Way::Keyset => self.after(&statement, listing, listing.before(page)).await,
                    Way::Offset | Way::Deferred | Way::Anchors | Way::Blocks => {
                        self.read(&statement, listing, &[&skip(page)?]).await
                    }
                }
            }
            .boxed_local()
        }))
    }

    /// Walks from the first page, by the last comment of each page.
    pub(super) async fn walk(&self, listing: &Listing, time: Duration) -> anyhow::Result<Walk> {
        let statement = self.client.prepare(&Way::Keyset.statement(&listing.key.filter)).await?;
        // The very first request is not timed, like for the other contestants.
        self.after(&statement, listing, None).await?;
        let mut last = None;
        walk("PostgreSQL walk by keyset", listing, listing.pages(), time, async || {
            let comments = self.after(&statement, listing, last.as_ref()).await?;
            last = comments.last().map(Comment::cd);
            Ok(comments)
        })
        .await
    }

    /// The stored comment from which a page is found.
    async fn start(&self, find_start: &Statement, listing: &Listing, page: u64) -> anyhow::Result<Start> {
        let row = self.client.query_opt(find_start, &[&listing.key.to_string(), &skip(page)?]).await?;
        row.map_or(Ok(Start::FRONT), |row| {
            Ok(Start { created_ms: row.try_get(0)?, id: row.try_get(1)?, newer: row.try_get(2)? })
        })
    }

    async fn after(&self, keyset: &Statement, listing: &Listing, before: Option<&Cd>) -> anyhow::Result<Vec<Comment>> {
        let (created_ms, id) = after(before);
        self.read(keyset, listing, &[&created_ms, &id]).await
    }

    async fn read(
        &self,
        statement: &Statement,
        listing: &Listing,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> anyhow::Result<Vec<Comment>> {
        let product = listing.key.product.as_str();
        let parameters: Vec<&(dyn ToSql + Sync)> =
            [&product as &(dyn ToSql + Sync)].into_iter().chain(parameters.iter().copied()).collect();
        self.client.query(statement, &parameters).await?.iter().map(comment).collect()
    }

    /// The number of comments in the listing, as a page bar needs it.
    pub(super) async fn count(&self, listing: &Listing) -> anyhow::Result<u64> {
        let row = self.client.query_one(&count(&listing.key.filter), &[&listing.key.product.as_str()]).await?;
        Ok(u64::try_from(row.try_get::<_, i64>(0)?)?)
    }
}

fn comment(row: &tokio_postgres::Row) -> anyhow::Result<Comment> {
    Row {
        id: row.try_get(0)?,
        product: row.try_get(1)?,
        language: row.try_get(2)?,
        rating: row.try_get(3)?,
        created_ms: row.try_get(4)?,
        revision: row.try_get(5)?,
        title: row.try_get(6)?,
        body: row.try_get(7)?,
        author: row.try_get(8)?,
    }
    .into_comment()
    .context("a row of PostgreSQL")
}
