//! `depth`: the cost of any numbered page of one product, from the first to the last, here and in other systems.
//!
//! All systems hold the same comments, with random times over two years. They show pages of 20, newest first, with
//! every field of a comment. One client requests pages 1, 2, 5, 10 and so on, and the last. For each page, all
//! contestants' answers are compared with each other and with the expected comments. Only then are they timed, in
//! rounds in which each contestant has a turn of some requests; slow ones have fewer turns. The time of a request runs
//! from the call until its comments are in memory as this project's comment type, which all contestants use. Everything
//! is on this machine and in memory, and each page is requested repeatedly. So nothing waits for a disk, and everything
//! is warm.
//!
//! - **Pagemark**: the page's start from Redis, and the page by one Query: the work of the API without the API. The
//!   engine that stands in for DynamoDB answers by HTTP and takes nearly all of the time. DynamoDB's latency differs,
//!   and so do the pages where the curves cross. The flat curve does not.
//! - **Pagemark with another page index**: inside the process, as in the edition for one machine, and in Valkey, where
//!   it is installed. The table is the same, so the difference is the index's.
//! - **PostgreSQL**: `LIMIT`/`OFFSET` as most programs write it; the same on the index alone, followed by the 20 rows
//!   by id; and the keyset, which needs the last comment of the previous page. A jump to page N does not know that
//!   comment. So the keyset is shown twice: as a request, and as the walk that it needs.
//!   Two more ways store where pages start: anchors, and counted blocks ([`starts`]).
//! - **SQLite**: the same statements in this process, without network or server.
//! - **Ranks in a relational table**, in SQLite and MariaDB ([`ranks`]): they find the comment before the page, and the
//!   page is the same Query as Pagemark's.
//! - **The four-index design**: it has only cursors, so page N is reached by walking. One walk gives the time to every
//!   page. It ends after a time limit, and no point is drawn beyond. There, the rate shows how long the rest would
//!   take.
//!
//! Pagemark's answer also holds the number of comments; the statements' answers do not. The report gives the time of a
//! count separately.
//!
//! The second listing has three of five ratings (three quarters of the comments).

mod curve;
mod four_index;
mod indexes;
mod mariadb;
mod postgres;
mod race;
mod ranks;
mod result;
mod server;
mod sql;
mod sqlite;
mod starts;

use std::time::Duration;

use anyhow::ensure;
use futures_util::FutureExt;
use model::Filter;
use strum::VariantArray;

use crate::{
    dataset::Dataset,
    listing::{Listing, PAGE_SIZE},
    report::{Figure, Report},
    statistics::timed,
};
use four_index::FourIndex;
use indexes::OtherIndexes;
use mariadb::Mariadb;
use postgres::Postgres;
use race::{Budget, Contestant, ContestantLatencies, race};
use result::Measured;
use sql::Way;
use sqlite::Sqlite;

/// Measures with a product of `comments` comments.
pub(crate) async fn measure(report: &mut Report, comments: u32, is_quick: bool) -> anyhow::Result<()> {
    let budget = if is_quick { Budget::QUICK } else { Budget::FULL };
    report.step(&format!("loading {comments} comments into all stores"));
    // Loading the page index and its table takes longer than loading all others. The machine has a second core for it.
    let dataset = tokio::spawn(Dataset::fill(comments, true));
    let postgres = Postgres::fill(comments).await?;
    let mut sqlite = Sqlite::fill(comments)?;
    let four_index = FourIndex::fill(comments, budget.walk_pages).await?;
    let mut dataset = dataset.await??;
    let indexes = OtherIndexes::fill(&mut dataset.stores, comments).await?;
    postgres.add(&dataset.listings()).await?;
    sqlite.add(&dataset.listings())?;
    let mariadb = Mariadb::fill(&dataset.listings()).await?;

    let stores = Stores {
        dataset: &dataset,
        indexes: &indexes,
        postgres: &postgres,
        sqlite: &sqlite,
        mariadb: &mariadb,
        four_index: &four_index,
    };
    report.step("pages of all comments");
    let all = stores.measure("depth", "all comments", &dataset.all, budget).await?;
    report.step("pages of three ratings");
    let union = stores.measure("depth, three ratings", "three ratings", dataset.union()?, budget).await?;
    let mut figures: Vec<Figure<String>> = Vec::new();
    for result in [&all, &union] {
        result.figures(&mut figures);
        result.add_to(report);
    }
    let about = format!(
        "a product of {comments} comments in pages of {PAGE_SIZE}; counting and walking. The four-index design has the newest \
         {}. {}. {}. {}. SQLite {}",
        four_index.comments,
        indexes.about,
        postgres.about,
        mariadb.about,
        rusqlite::version(),
    );
    report.add("depth, counts", &about, &figures);
    drop((postgres, mariadb));
    four_index.close().await;
    indexes.stop().await;
    dataset.stores.stop().await;
    Ok(())
}

struct Stores<'stores> {
    dataset: &'stores Dataset,
    indexes: &'stores OtherIndexes,
    postgres: &'stores Postgres,
    sqlite: &'stores Sqlite,
    mariadb: &'stores Mariadb,
    four_index: &'stores FourIndex,
}

impl Stores<'_> {
    /// Requests pages from all contestants that can jump to any page of a listing.
    async fn race(&self, listing: &Listing, budget: Budget) -> anyhow::Result<Vec<ContestantLatencies>> {
        let reader = &self.dataset.stores.reader().with_own_connections();
        let mut contestants = vec![Contestant::new("Pagemark", |page| reader.page(listing, page).boxed_local())];
        contestants.extend(self.indexes.contestants(listing));
        for way in Way::VARIANTS {
            contestants.push(self.postgres.contestant(listing, *way).await?);
        }
        contestants.extend(Way::VARIANTS.iter().map(|way| self.sqlite.contestant(listing, *way)));
        contestants.push(Contestant::new("ranks in SQLite, then a Query", move |page| {
            async move { reader.page_after(listing, self.sqlite.before(listing, page)?).await }.boxed_local()
        }));
        contestants.push(Contestant::new("ranks in MariaDB, then a Query", move |page| {
            async move { reader.page_after(listing, self.mariadb.before(listing, page)?).await }.boxed_local()
        }));
        race(listing, &contestants, budget).await
    }

    async fn measure(
        &self,
        name: &'static str,
        of: &'static str,
        listing: &Listing,
        budget: Budget,
    ) -> anyhow::Result<Measured> {
        let jumps = self.race(listing, budget).await?;
        let mut walks = vec![self.four_index.walk(listing, budget.walk).await?];
        if listing.key.filter == Filter::ANY {
            walks.push(self.postgres.walk(listing, budget.walk).await?);
        }
        Ok(Measured { name, of, pages: listing.pages(), jumps, walks, counts_s: self.counts_s(listing).await? })
    }

    /// How long each system takes to count the listing, in seconds.
    async fn counts_s(&self, listing: &Listing) -> anyhow::Result<Vec<(&'static str, f64)>> {
        let counts = [
            ("PostgreSQL", timed(self.postgres.count(listing)).await?),
            ("SQLite", timed(async { self.sqlite.count(listing) }).await?),
            ("ranks in SQLite", timed(async { self.sqlite.count_ranks(listing) }).await?),
            ("ranks in MariaDB", timed(async { self.mariadb.count(listing) }).await?),
        ];
        let counted = |(who, (comments, took)): (&'static str, (u64, Duration))| {
            ensure!(comments == listing.total(), "{who} counts {comments} comments instead of {}", listing.total());
            Ok((who, took.as_secs_f64()))
        };
        counts.into_iter().map(counted).collect()
    }
}
