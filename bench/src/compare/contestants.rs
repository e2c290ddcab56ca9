//! Both designs, loaded with the same comments.

use std::{sync::Arc, time::Duration};

use four_index::{FourIndexTable, MergedCursor};
use model::{Comment, Filter, FilterKey, ProductId, RatingSet};

use crate::{
    listing::{ExpectedListing, PRODUCT},
    recorded_table::sleep_precisely,
    stores::{FilledStores, PageReader, TableStore, connect, four_index_table},
    workload::Comments,
};

/// To Redis in the same zone and back: an assumption.
const REDIS_ROUND_TRIP: Duration = Duration::from_micros(500);
/// The filters' ratings, by their number: rare and frequent ones, as in the articles' test.
const RATINGS: [Option<&str>; 5] = [Some("5"), Some("1.5"), Some("1.4.5"), Some("1.2.4.5"), None];
/// With the highest one, which is a filter of its own above, they are all that `order=highest` reads.
const LOWER_RATINGS: [&str; 4] = ["4", "3", "2", "1"];
/// Which of the stores' listings they are.
const HIGHEST_RATING: usize = 0;
pub(crate) const THREE_RATINGS: usize = 2;
pub(crate) const ANY_RATING: usize = 4;

#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) listing: Arc<ExpectedListing>,
    pub(super) number: u64,
    /// Where the four-index design resumes; `None` on page 1.
    pub(super) cursor: Option<MergedCursor>,
}

impl Ask {
    pub(crate) fn new(listing: &Arc<ExpectedListing>, number: u64) -> anyhow::Result<Self> {
        let mut ask = Self {
            listing: listing.clone(),
            number,
            cursor: None,
        };
        let (shown, to_come) = listing.around(number);
        if !shown.is_empty() {
            let shown = shown.iter().map(|(cd, rating)| (cd, *rating));
            ask.cursor = MergedCursor::following(
                &listing.four_index_query()?,
                shown,
                to_come.iter().map(|(_, rating)| *rating),
            );
        }
        Ok(ask)
    }

    /// Such as "middle page, rating 1.4.5".
    pub(super) fn name(&self) -> String {
        match self.listing.key.filter.ratings() {
            Some(ratings) => format!("middle page, rating {ratings}"),
            None => "middle page, rating any".to_owned(),
        }
    }

    /// Refuses other comments than those of the page.
    pub(super) fn expect(&self, shown: &[Comment]) -> anyhow::Result<()> {
        self.listing.expect_comments(self.number, shown)
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
            redis_delay: Duration::ZERO,
        }
    }

    /// A reader of a table at another address, with the delay of Redis.
    pub(crate) async fn delayed_reader(&self, table_url: &str) -> anyhow::Result<Reader> {
        let table = connect(self.stores.store.table.name(), Some(table_url)).await;
        let four = four_index_table(&table);
        let pages = self
            .stores
            .reader_through(table, self.stores.redis.index.clone());
        Ok(Reader {
            four,
            pages,
            redis_delay: REDIS_ROUND_TRIP,
        })
    }
}

#[derive(Clone)]
pub(crate) struct Reader {
    pub(crate) pages: PageReader,
    pub(super) four: FourIndexTable,
    /// Time to Redis and back that loopback does not take.
    redis_delay: Duration,
}

impl Reader {
    pub(crate) async fn pagemark(&self, ask: &Ask) -> anyhow::Result<Vec<Comment>> {
        self.await_redis().await?;
        self.pages.page(&ask.listing, ask.number).await
    }

    pub(crate) async fn four_index(&self, ask: &Ask) -> anyhow::Result<four_index::MergedPage> {
        Ok(self
            .four
            .page(&ask.listing.four_index_query()?, ask.cursor.as_ref())
            .await?)
    }

    /// By the page's number, with the page index; by one BatchGetItem instead of queries, if
    /// requested.
    pub(crate) async fn four_index_by_number(
        &self,
        ask: &Ask,
        in_batch: bool,
    ) -> anyhow::Result<four_index::MergedPage> {
        self.await_redis().await?;
        self.pages
            .four_index_page(&self.four, &ask.listing, ask.number, in_batch)
            .await
    }

    async fn await_redis(&self) -> anyhow::Result<()> {
        if self.redis_delay > Duration::ZERO {
            sleep_precisely(self.redis_delay).await
        } else {
            Ok(())
        }
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
            let mut walk = Ask::new(listing, 1).unwrap();
            for number in 1..=listing.pages() {
                let walked = reader.four_index(&walk).await.unwrap();
                listing.expect_comments(number, &walked.comments).unwrap();
                walk.cursor = walked.next;
                for (in_batch, calls) in [(false, queries), (true, 1)] {
                    let ask = Ask::new(listing, number).unwrap();
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
