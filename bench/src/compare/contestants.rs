//! Both designs, loaded with the same comments.

use std::{sync::Arc, time::Duration};

use four_index::{Cursor, FourIndexTable};
use model::{Comment, Filter, FilterKey, Language, PageSize, ProductId, Rating, RatingSet};
use strum::VariantArray;

use crate::{
    listing::{Listing, PAGE_SIZE, PRODUCT},
    recorded_table::sleep_precisely,
    stores::{FilledStores, PageReader, Store, connect, four_index_table},
    workload::Comments,
};

/// To Redis in the same zone and back: an assumption.
const REDIS_ROUND_TRIP: Duration = Duration::from_micros(500);
/// A product whose comments have two of the five ratings.
const SPARSE_PRODUCT: &str = "shop/loved-or-hated";
const SPARSE_COMMENTS: u32 = 1_000;
/// The filters' ratings, by their number: rare and frequent ones, as in the articles' test.
const RATINGS: [Option<&str>; 5] = [Some("5"), Some("1.5"), THREE, Some("1.2.4.5"), None];
/// The product with two ratings has two of them.
const THREE: Option<&str> = Some("1.4.5");
/// Places of listings among those of the stores.
pub(crate) const THREE_RATINGS: usize = 2;
pub(crate) const ANY_RATING: usize = 4;
/// The most frequent language.
const LANGUAGE: &str = "en";

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Depth {
    First,
    Middle,
    Last,
}

/// Whether the product lacks some ratings.
pub(super) fn is_sparse(listing: &Listing) -> bool {
    listing.key.product.as_str() == SPARSE_PRODUCT
}

/// Whether the four-index design gets the page by one query. Otherwise it sends one query for each rating in parallel.
pub(super) fn one_query(listing: &Listing) -> bool {
    listing.key.filter.ratings().is_none_or(|ratings| ratings.iter().count() == 1)
}

/// A page, and where each design finds it.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) listing: Arc<Listing>,
    pub(super) depth: Depth,
    pub(super) number: u64,
    /// Where the four-index design resumes; `None` on page 1.
    pub(super) cursor: Option<Cursor>,
}

impl Ask {
    pub(crate) fn new(listing: &Arc<Listing>, depth: Depth) -> anyhow::Result<Self> {
        let number = match depth {
            Depth::First => 1,
            Depth::Middle => listing.pages().div_ceil(2),
            Depth::Last => listing.pages(),
        };
        let mut ask = Self { listing: listing.clone(), depth, number, cursor: None };
        let (shown, to_come) = listing.around(number);
        if !shown.is_empty() {
            let shown = shown.iter().map(|(cd, rating)| (cd, *rating));
            ask.cursor = Cursor::following(&ask.four_query(false)?, shown, to_come.iter().map(|(_, rating)| *rating));
        }
        Ok(ask)
    }

    fn four_query(&self, skip_empty: bool) -> anyhow::Result<four_index::PageQuery> {
        let (FilterKey { product, filter }, page_size) = (self.listing.key.clone(), PageSize::new(PAGE_SIZE as u64)?);
        Ok(four_index::PageQuery { product, filter, page_size, skip_empty })
    }

    /// Such as "middle page of any language, ratings 1.4.5".
    pub(super) fn name(&self) -> String {
        let filter = &self.listing.key.filter;
        let language = filter.language().map_or("any language", Language::as_str);
        let ratings = filter.ratings().map_or_else(|| "any".to_owned(), |ratings| ratings.to_string());
        let product = if is_sparse(&self.listing) { " of a product without 2, 3 and 4" } else { "" };
        format!("{} page, {language}, rating {ratings}{product}", self.depth)
    }
}

/// Listings of each number of ratings in any language; of three ratings in one language, and of a product with two.
fn listings() -> anyhow::Result<Vec<Listing>> {
    let (product, sparse) = (ProductId::parse(PRODUCT)?, ProductId::parse(SPARSE_PRODUCT)?);
    let language = Some(Language::parse(LANGUAGE)?);
    let cases = RATINGS.map(|ratings| (&product, None, ratings)).into_iter();
    cases
        .chain([(&product, language, THREE), (&sparse, None, THREE)])
        .map(|(product, language, ratings)| {
            Ok(Listing::new(product, Filter::new(language, ratings.map(RatingSet::parse).transpose()?)))
        })
        .collect()
}

/// Both designs on one store, in separate tables.
pub(crate) struct Contestants {
    pub(crate) stores: FilledStores,
    pub(super) comments: Vec<Comment>,
}

impl Contestants {
    /// Loads comments of one product, and of another product with only two ratings.
    pub(crate) async fn load(store: Store, count: u32) -> anyhow::Result<Self> {
        let (product, sparse) = (ProductId::parse(PRODUCT)?, ProductId::parse(SPARSE_PRODUCT)?);
        let mut comments = Comments::new(8)?.take(count)?;
        comments.iter_mut().for_each(|comment| comment.product = product.clone());
        let mut workload = Comments::new(9)?;
        for number in 0..SPARSE_COMMENTS.min(count) {
            let rating = Rating::new(if number % 2 == 0 { 1 } else { 5 })?;
            comments.push(Comment { product: sparse.clone(), rating, ..workload.draw()? });
        }
        let stores = FilledStores::fill(store, comments.iter().cloned().map(Ok), listings()?, true).await?;
        Ok(Self { stores, comments })
    }

    /// A reader of pages. On request the four-index design reports the cost of its pages.
    pub(super) fn reader(&self, reports_costs: bool) -> Reader {
        let pages = self.stores.reader();
        let four = four_index_table(&pages.table);
        Reader { four: if reports_costs { four } else { four.without_costs() }, pages, redis_delay: Duration::ZERO }
    }

    /// A reader of a table at another address, with the delay of Redis.
    pub(crate) async fn delayed_reader(&self, table_url: &str) -> anyhow::Result<Reader> {
        let table = connect(self.stores.store.table.name(), Some(table_url)).await;
        let four = four_index_table(&table).without_costs();
        let pages = self.stores.reader_through(table, self.stores.redis.index.clone());
        Ok(Reader { four, pages, redis_delay: REDIS_ROUND_TRIP })
    }
}

#[derive(Clone)]
pub(crate) struct Reader {
    pub(crate) pages: PageReader,
    four: FourIndexTable,
    /// Time to Redis and back that loopback does not take.
    redis_delay: Duration,
}

impl Reader {
    pub(crate) async fn pagemark(&self, ask: &Ask) -> anyhow::Result<Vec<Comment>> {
        if self.redis_delay > Duration::ZERO {
            sleep_precisely(self.redis_delay).await?;
        }
        self.pages.page(&ask.listing, ask.number).await
    }

    /// Reads the page at which the cursor resumes.
    pub(crate) async fn four_index(&self, ask: &Ask, skip_empty: bool) -> anyhow::Result<four_index::Page> {
        Ok(self.four.page(&ask.four_query(skip_empty)?, ask.cursor.as_ref()).await?)
    }

    /// The number of comments in the listing, by the counters.
    pub(crate) async fn four_index_total(&self, ask: &Ask) -> anyhow::Result<u64> {
        let FilterKey { product, filter } = &ask.listing.key;
        let counters = self.four.stats(product, filter.language()).await?;
        Ok(filter.ratings().map_or(counters.total, |ratings| ratings.iter().map(|rating| counters.get(rating)).sum()))
    }
}
