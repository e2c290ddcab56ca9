//! Both designs, loaded with the same comments.

use std::sync::Arc;

use anyhow::{Context, ensure};
use four_index::{FourIndexTable, MergedCursor, MergedQuery};
use futures_util::future::try_join;
use model::{Cd, Comment, Filter, FilterKey, PageSize, ProductId, RatingSet};

use crate::{
    listing::{ExpectedListing, PAGE_SIZE, PRODUCT},
    recorded_table::{Delay, REDIS_MEDIAN, sleep_precisely},
    stores::{FilledStores, PageReader, TableStore, connect, four_index_table},
    workload::Comments,
};

/// The filters' ratings, by their number: rare and frequent ones, as in the articles' test.
const RATINGS: [Option<&str>; 5] = [Some("5"), Some("1.5"), Some("1.4.5"), Some("1.2.4.5"), None];
/// With the highest one, which is a filter of its own above, they are all that `order=highest` reads.
const LOWER_RATINGS: [&str; 4] = ["4", "3", "2", "1"];
/// Which of the stores' listings they are.
const HIGHEST_RATING: usize = 0;
pub(crate) const THREE_RATINGS: usize = 2;
pub(crate) const ANY_RATING: usize = 4;

/// Consecutive comments of a listing: a page, or a part of one in the order of ratings.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) listing: Arc<ExpectedListing>,
    /// Number of the listing's comments before them.
    skip: usize,
    pub(super) count: usize,
    /// Where the four-index design resumes; `None` at the beginning.
    cursor: Option<MergedCursor>,
}

impl Ask {
    pub(crate) fn page(listing: &Arc<ExpectedListing>, number: u64) -> anyhow::Result<Self> {
        let skip = usize::try_from(number - 1)? * PAGE_SIZE;
        Self::new(listing, skip, PAGE_SIZE)
    }

    pub(super) fn new(
        listing: &Arc<ExpectedListing>,
        skip: usize,
        count: usize,
    ) -> anyhow::Result<Self> {
        let mut ask = Self {
            listing: listing.clone(),
            skip,
            count,
            cursor: None,
        };
        let (shown, to_come) = listing.split_at(skip);
        if !shown.is_empty() {
            let shown = shown.iter().map(|(cd, rating)| (cd, *rating));
            let to_come = to_come.iter().map(|(_, rating)| *rating);
            ask.cursor = MergedCursor::following(&ask.four_index_query()?, shown, to_come);
        }
        Ok(ask)
    }

    fn four_index_query(&self) -> anyhow::Result<MergedQuery> {
        Ok(MergedQuery {
            page_size: PageSize::new(self.count as u64)?,
            ..self.listing.four_index_query()?
        })
    }

    /// The comment that they follow.
    fn before(&self) -> anyhow::Result<&Cd> {
        let (shown, _) = self.listing.split_at(self.skip);
        Ok(&shown.last().context("a page after the first")?.0)
    }

    /// Refuses other comments than those that are asked for.
    pub(super) fn expect(&self, shown: &[Comment]) -> anyhow::Result<()> {
        let (_, expected) = self.listing.split_at(self.skip);
        let expected = expected.iter().take(self.count).map(|(cd, _)| &cd.id);
        ensure!(
            shown.iter().map(|comment| &comment.id).eq(expected),
            "{}: other comments than {} from {} on",
            self.listing.key,
            self.count,
            self.skip
        );
        Ok(())
    }
}

fn listings() -> anyhow::Result<Vec<ExpectedListing>> {
    let product = ProductId::parse(PRODUCT)?;
    let mut listings = Vec::new();
    for ratings in RATINGS.into_iter().chain(LOWER_RATINGS.map(Some)) {
        let ratings = ratings.map(RatingSet::parse).transpose()?;
        listings.push(ExpectedListing::new(&product, Filter::new(None, ratings)));
    }
    Ok(listings)
}

pub(crate) struct Contestants {
    pub(crate) stores: FilledStores,
    pub(super) comments: Vec<Comment>,
    /// The listing of each rating, the highest first.
    pub(super) ratings: Vec<Arc<ExpectedListing>>,
}

impl Contestants {
    pub(crate) async fn load(store: TableStore, count: u32) -> anyhow::Result<Self> {
        let product = ProductId::parse(PRODUCT)?;
        let mut comments = Comments::new(8)?.take(count)?;
        for comment in &mut comments {
            comment.product = product.clone();
        }
        let mut stores =
            FilledStores::fill(store, comments.iter().cloned().map(Ok), listings()?, true).await?;
        let lower = stores.listings.split_off(RATINGS.len());
        let mut ratings = vec![Arc::clone(stores.listing(HIGHEST_RATING)?)];
        ratings.extend(lower);
        Ok(Self {
            stores,
            comments,
            ratings,
        })
    }

    pub(super) fn reader(&self) -> Reader {
        let pages = self.stores.reader();
        Reader {
            four: four_index_table(&pages.table),
            pages,
            redis_delay: None,
        }
    }

    /// A reader of a table at another address, whose calls to Redis are delayed too.
    pub(crate) async fn delayed_reader(
        &self,
        table_url: &str,
        redis_delay: Delay,
    ) -> anyhow::Result<Reader> {
        let table = connect(self.stores.store.table.name(), Some(table_url)).await;
        let four = four_index_table(&table);
        let pages = self
            .stores
            .reader_through(table, self.stores.redis.index.clone());
        Ok(Reader {
            four,
            pages,
            redis_delay: Some(redis_delay),
        })
    }
}

#[derive(Clone)]
pub(crate) struct Reader {
    pub(crate) pages: PageReader,
    four: FourIndexTable,
    /// To Redis and back, which loopback does not take.
    redis_delay: Option<Delay>,
}

impl Reader {
    /// The comments that are asked for, as the page index names them.
    pub(super) async fn named(&self, ask: &Ask) -> anyhow::Result<Vec<Cd>> {
        self.await_redis().await?;
        self.pages
            .named_from(&ask.listing, ask.skip as u64, ask.count)
            .await
    }

    /// The same by the comment that they follow.
    async fn named_after(&self, ask: &Ask) -> anyhow::Result<Vec<Cd>> {
        self.await_redis().await?;
        let before = ask.before()?;
        self.pages
            .named_after(&ask.listing, before, ask.count)
            .await
    }

    /// How many comments each listing has, by one call to the page index.
    pub(super) async fn totals(
        &self,
        listings: &[Arc<ExpectedListing>],
    ) -> anyhow::Result<Vec<u64>> {
        self.await_redis().await?;
        self.pages.totals(listings).await
    }

    pub(crate) async fn pagemark(&self, ask: &Ask) -> anyhow::Result<Vec<Comment>> {
        let named = self.named(ask).await?;
        let start = named.first().and_then(Cd::just_after);
        self.pages.page_after(&ask.listing, start, ask.count).await
    }

    /// By a cursor: page index and table are asked in parallel, and compared.
    pub(super) async fn pagemark_by_cursor(&self, ask: &Ask) -> anyhow::Result<Vec<Comment>> {
        let start = Some(ask.before()?.clone());
        let rows = self.pages.page_after(&ask.listing, start, ask.count);
        let (named, comments) = try_join(self.named_after(ask), rows).await?;
        ensure!(
            comments.iter().map(Comment::cd).eq(named),
            "{}: duplicates and ranks differ",
            ask.listing.key
        );
        Ok(comments)
    }

    /// By a cursor.
    pub(crate) async fn four_index(&self, ask: &Ask) -> anyhow::Result<four_index::MergedPage> {
        Ok(self
            .four
            .page(&ask.four_index_query()?, ask.cursor.as_ref())
            .await?)
    }

    /// By the page's number, with the page index; by one BatchGetItem instead of queries, if
    /// requested.
    pub(crate) async fn four_index_by_number(
        &self,
        ask: &Ask,
        in_batch: bool,
    ) -> anyhow::Result<four_index::MergedPage> {
        let named = self.named(ask).await?;
        self.pages
            .four_index_page(&self.four, &ask.listing, &named, in_batch)
            .await
    }

    /// One BatchGetItem of the comments that follow a cursor, as the page index names them.
    pub(super) async fn batch_by_cursor(
        &self,
        ask: &Ask,
    ) -> anyhow::Result<four_index::MergedPage> {
        let named = self.named_after(ask).await?;
        self.pages
            .four_index_page(&self.four, &ask.listing, &named, true)
            .await
    }

    async fn await_redis(&self) -> anyhow::Result<()> {
        let Some(delay) = self.redis_delay else {
            return Ok(());
        };
        let delay = delay.draw(REDIS_MEDIAN, &mut rand::rng());
        sleep_precisely(delay).await
    }

    /// The number of comments in the listing, by the counters.
    pub(crate) async fn four_index_total(&self, ask: &Ask) -> anyhow::Result<u64> {
        let FilterKey { product, filter } = &ask.listing.key;
        let counters = self.four.counters(product, filter.language()).await?;
        Ok(match filter.ratings() {
            Some(ratings) => ratings.iter().map(|rating| counters.get(rating)).sum(),
            None => counters.total,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn four_indexes_show_every_page_by_cursors_and_by_the_page_index() {
        let contestants = Contestants::load(TableStore::start().await.unwrap(), 150)
            .await
            .unwrap();
        let reader = contestants.reader();
        for listing in &contestants.stores.listings {
            let queries = listing.named_ratings().max(1);
            let mut walk = Ask::page(listing, 1).unwrap();
            for number in 1..=listing.pages() {
                let walked = reader.four_index(&walk).await.unwrap();
                listing.expect_comments(number, &walked.comments).unwrap();
                walk.cursor = walked.next;
                for (in_batch, calls) in [(false, queries), (true, 1)] {
                    let ask = Ask::page(listing, number).unwrap();
                    let page = reader.four_index_by_number(&ask, in_batch).await.unwrap();
                    listing.expect_comments(number, &page.comments).unwrap();
                    let took = (page.cost.items_read as usize, page.cost.requests as usize);
                    assert_eq!(
                        took,
                        (page.comments.len(), calls),
                        "{}, page {number}",
                        listing.key
                    );
                }
            }
        }
        contestants.stores.store.stop().await;
    }
}
