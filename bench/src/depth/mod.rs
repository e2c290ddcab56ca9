//! `depth`: the cost of any numbered page of one product, from the first to the last, here and in
//! other systems.
//!
//! All systems hold the same comments, in memory on this machine. They show pages of 20, newest
//! first, with every field of a comment. One client requests pages 1, 2, 5, 10 and so on, and the
//! last. For each page, all contestants' answers are compared. Only then are they timed, in rounds
//! in which each contestant has a turn of some requests. The time runs from the call until the
//! comments are in memory as this project's comment type.
//!
//! - **Pagemark**: the work of the API without the API. The engine that stands in for DynamoDB
//!   answers by HTTP and takes nearly all of the time.
//! - **PostgreSQL and SQLite**: `OFFSET`, as most programs write it, and counted blocks ([`sql`]).
//! - **The four-index design** has only cursors, so page N is reached by walking. One walk gives
//!   the time to every page.
//! - **With the page index** it reads any page by one query, if the filter has one rating or any.
//!   Only such pages are requested, because the engine answers one call at a time.

mod postgres;
mod race;
mod sql;
mod sqlite;

use std::{sync::Arc, time::Duration};

use four_index::FourIndexTable;
use futures_util::FutureExt;
use model::Comment;
use strum::VariantArray;

use crate::{
    listing::{ExpectedListing, all_and_union, drawn},
    measure::as_f64,
    report::{BenchReport, FOUR_INDEXES, FOUR_INDEXES_PAGE_INDEX, PAGEMARK, Plot, PlotLine, count},
    stores::{FilledStores, PageReader, TableStore, four_index_table},
};
use postgres::Postgres;
use race::{Contestant, Curve, Limits, race};
use sql::Paging;
use sqlite::Sqlite;

/// These lines are like those of the other database.
const NOT_DRAWN: [&str; 2] = ["SQLite OFFSET", "PostgreSQL counted blocks"];

pub(crate) async fn measure(
    report: &mut BenchReport,
    comments: u32,
    is_quick: bool,
) -> anyhow::Result<()> {
    // A hundred requests for a median. Slow contestants get fewer.
    let limits = if is_quick {
        Limits {
            rounds: 3,
            time: Duration::from_millis(20),
            walk: Duration::from_secs(1),
        }
    } else {
        Limits {
            rounds: 20,
            time: Duration::from_millis(150),
            walk: Duration::from_secs(10),
        }
    };
    report.step(&format!(
        "loading {} comments into all stores",
        count(comments)
    ));
    let stores = FilledStores::fill(
        TableStore::start().await?,
        drawn(comments)?,
        all_and_union()?,
        true,
    )
    .await?;
    let systems = Systems {
        pagemark: stores.reader().with_own_connections(),
        postgres: Postgres::fill(comments, &stores.listings).await?,
        sqlite: Sqlite::fill(comments, &stores.listings)?,
    };
    for (listing, of) in stores
        .listings
        .iter()
        .zip(["all comments", "three ratings"])
    {
        report.step(&format!("pages of {of}"));
        let curves = systems.measure(listing, limits).await?;
        for Curve { name, points } in &curves {
            for (page, us) in points {
                report.add(
                    format!("{of}, page {}: {name}, p50", count(*page)),
                    *us,
                    "us",
                );
            }
        }
        let mut lines = Vec::new();
        for Curve { name, points } in curves {
            if !NOT_DRAWN.contains(&name.as_str()) {
                let points = points.into_iter().map(|(page, us)| (as_f64(page), us));
                lines.push(PlotLine::new(name, points));
            }
        }
        let name = if listing.key.is_primary() {
            "depth"
        } else {
            "depth-three-ratings"
        };
        let axes = ["page number", "latency p50, us"];
        report.plot(Plot::new(name, axes, lines))?;
    }
    drop(systems);
    stores.store.stop().await;
    Ok(())
}

struct Systems {
    pagemark: PageReader,
    postgres: Postgres,
    sqlite: Sqlite,
}

impl Systems {
    async fn measure(
        &self,
        listing: &Arc<ExpectedListing>,
        limits: Limits,
    ) -> anyhow::Result<Vec<Curve>> {
        let four = four_index_table(&self.pagemark.table);
        let mut contestants = vec![Contestant::new(PAGEMARK, |page| {
            self.pagemark.page(listing, page).boxed_local()
        })];
        if listing.key.is_primary() {
            contestants.push(Contestant::new(FOUR_INDEXES_PAGE_INDEX, |page| {
                self.page_of_four_indexes(&four, listing, page)
                    .boxed_local()
            }));
        }
        for paging in Paging::VARIANTS {
            contestants.push(self.postgres.contestant(listing, *paging).await?);
        }
        for paging in Paging::VARIANTS {
            contestants.push(self.sqlite.contestant(listing, *paging));
        }
        let mut curves = race(listing, &contestants, limits).await?;

        let query = listing.four_index_query()?;
        // The very first request is not timed, like for the other contestants. Cursors are passed
        // on in memory: the time excludes writing them as text and parsing them.
        four.page(&query, None).await?;
        let mut cursor = None;
        let name = format!("{FOUR_INDEXES}, walk by cursor");
        let walked = race::walk(&name, listing, limits.walk, async || {
            let page = four.page(&query, cursor.as_ref()).await?;
            cursor = page.next;
            Ok(page.comments)
        });
        curves.push(walked.await?);
        Ok(curves)
    }

    /// A page of four indexes with the page index.
    async fn page_of_four_indexes(
        &self,
        four: &FourIndexTable,
        listing: &ExpectedListing,
        page: u64,
    ) -> anyhow::Result<Vec<Comment>> {
        let named = self.pagemark.named(listing, page).await?;
        let page = self
            .pagemark
            .four_index_page(four, listing, &named, false)
            .await?;
        Ok(page.comments)
    }
}
