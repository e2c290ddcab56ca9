//! Both designs, loaded with the same comments.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use anyhow::{Context, bail};
use four_index::{Cursor, FourIndexTable};
use itertools::Itertools;
use local_stack::import::{LineReader, parse_line};
use model::{Comment, Filter, FilterKey, Language, PageSize, ProductId, Rating, RatingSet, Revision};
use redis_index::RedisIndexConfig;
use table::NewComment;

use crate::{
    dataset::PRODUCT,
    filled_stores::{FOUR_INDEX, FilledStores, PageReader, TIMEOUT, connect, four_index_table},
    listing::{Listing, PAGE_SIZE},
    workload,
};

/// A product whose comments have two of the five ratings.
const SPARSE_PRODUCT: &str = "shop/loved-or-hated";
const SPARSE_COMMENTS: u32 = 1_000;
/// The filters' ratings, by their number: rare and frequent ones, as in the articles' test.
pub(crate) const RATINGS: [Option<&str>; 5] = [Some("5"), Some("1.5"), Some(THREE_RATINGS), Some("1.2.4.5"), None];
/// The product with two ratings has two of them.
const THREE_RATINGS: &str = "1.4.5";

/// Whether the product lacks some ratings.
pub(super) fn is_sparse(listing: &Listing) -> bool {
    listing.key.product.as_str() == SPARSE_PRODUCT
}

/// Whether the filter matches any language, of a product with all ratings.
pub(super) fn is_any_language(listing: &Listing) -> bool {
    listing.key.filter.language().is_none() && !is_sparse(listing)
}

/// The filter's name in the report.
pub(crate) fn name(listing: &Listing) -> String {
    let filter = &listing.key.filter;
    let language = filter.language().map_or("any", Language::as_str);
    let ratings = filter.ratings().map_or_else(|| "1 to 5".to_owned(), |ratings| ratings.to_string());
    let product = if is_sparse(listing) { ", product without 2, 3 and 4" } else { "" };
    format!("{language}, {ratings}{product}")
}

#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) listing: Arc<Listing>,
    pub(crate) number: u64,
    /// Where the four-index design resumes; `None` on page 1.
    pub(super) cursor: Option<Cursor>,
}

impl Ask {
    pub(crate) fn new(listing: &Arc<Listing>, number: u64) -> anyhow::Result<Self> {
        let mut ask = Self { listing: listing.clone(), number, cursor: None };
        let (shown, to_come) = listing.around(number);
        if !shown.is_empty() {
            let shown = shown.iter().map(|(cd, rating)| (cd, *rating));
            ask.cursor = Cursor::following(&ask.four_query(false)?, shown, to_come.iter().map(|(_, rating)| *rating));
        }
        Ok(ask)
    }

    fn four_query(&self, skip_empty: bool) -> anyhow::Result<four_index::PageQuery> {
        let (key, page_size) = (self.listing.key.clone(), PageSize::new(PAGE_SIZE as u64)?);
        Ok(four_index::PageQuery { product: key.product, filter: key.filter, page_size, skip_empty })
    }
}

/// The comments of one product, and of another product with only two ratings.
pub(super) struct Comments {
    product: ProductId,
    /// The most frequent language.
    language: Language,
    pub(super) all: Vec<Comment>,
}

impl Comments {
    /// The comments of the largest product in a file, or generated ones.
    pub(super) fn new(data: Option<&Path>, count: u32) -> anyhow::Result<Self> {
        let (product, mut all) = match data {
            Some(path) => largest_product(path)?,
            None => (ProductId::parse(PRODUCT)?, workload::Comments::new(8)?.take(count)?),
        };
        all.iter_mut().for_each(|comment| comment.product = product.clone());
        let by_language = all.iter().counts_by(|comment| &comment.language);
        let (language, _) = by_language.into_iter().max_by_key(|(_, count)| *count).context("there are no comments")?;
        let language = language.clone();
        let sparse = ProductId::parse(SPARSE_PRODUCT)?;
        let mut workload = workload::Comments::new(9)?;
        for number in 0..SPARSE_COMMENTS {
            let rating = Rating::new(if number % 2 == 0 { 1 } else { 5 })?;
            all.push(Comment { product: sparse.clone(), rating, ..workload.draw()? });
        }
        Ok(Self { product, language, all })
    }

    /// Listings with every number of ratings, in the language and in any; and one with three ratings for a product with
    /// two.
    fn listings(&self) -> anyhow::Result<Vec<Listing>> {
        let sparse = ProductId::parse(SPARSE_PRODUCT)?;
        let cases = [None, Some(&self.language)].into_iter().cartesian_product(RATINGS);
        cases
            .map(|(language, ratings)| (&self.product, language, ratings))
            .chain([(&sparse, None, Some(THREE_RATINGS))])
            .map(|(product, language, ratings)| {
                let ratings = ratings.map(RatingSet::parse).transpose()?;
                Ok(Listing::new(product, Filter::new(language.cloned(), ratings)))
            })
            .collect()
    }
}

/// Both designs on one engine, in separate tables.
pub(crate) struct Contestants {
    pub(crate) stores: FilledStores,
    pub(crate) listings: Vec<Arc<Listing>>,
}

impl Contestants {
    /// Starts stores with the comments of the largest product in a file, or with generated ones.
    pub(crate) async fn load(data: Option<&Path>, count: u32) -> anyhow::Result<Self> {
        Self::fill(&Comments::new(data, count)?).await
    }

    pub(super) async fn fill(comments: &Comments) -> anyhow::Result<Self> {
        let all = comments.all.iter().cloned().map(Ok);
        let (stores, listings) = FilledStores::fill(all, comments.listings()?, true).await?;
        Ok(Self { stores, listings })
    }

    /// A reader of pages. On request the four-index design reports the cost of its pages.
    pub(super) fn reader(&self, reports_costs: bool) -> Reader {
        let pages = self.stores.reader();
        let four = four_index_table(&pages.table, FOUR_INDEX);
        Reader { four: if reports_costs { four } else { four.without_costs() }, pages }
    }

    /// A reader that reaches engine and Redis at other addresses.
    pub(crate) async fn reader_at(&self, table_url: &str, redis_url: &str) -> anyhow::Result<Reader> {
        let config = RedisIndexConfig { timeout: TIMEOUT, ..RedisIndexConfig::new(redis_url) };
        let table = connect(self.stores.table.name(), table_url).await;
        let four = four_index_table(&table, FOUR_INDEX).without_costs();
        Ok(Reader { four, pages: self.stores.reader_through(table, redis_index::connect(&config)?) })
    }
}

#[derive(Clone)]
pub(crate) struct Reader {
    pub(crate) pages: PageReader,
    pub(crate) four: FourIndexTable,
}

impl Reader {
    pub(crate) async fn pagemark(&self, ask: &Ask) -> anyhow::Result<Vec<Comment>> {
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

/// The comments of the largest product in a file of JSON lines.
fn largest_product(path: &Path) -> anyhow::Result<(ProductId, Vec<Comment>)> {
    let comments = read_comments(path)?.into_iter().map(|new| {
        let NewComment { id, product, language, rating, created_at, status, text, site } = new;
        let status = status.unwrap_or_default();
        let revision = Revision::after(None, created_at, rand::random());
        (product.clone(), Comment { id, product, language, rating, created_at, revision, status, text, site })
    });
    let products: BTreeMap<ProductId, Vec<Comment>> = comments.into_group_map().into_iter().collect();
    products.into_iter().max_by_key(|(_, comments)| comments.len()).context("the file has no comments")
}

/// One line in this many may be refused: a few real reviews have no visible character.
const REFUSED_ONE_IN: usize = 1_000;

/// The comments of a file of JSON lines.
fn read_comments(path: &Path) -> anyhow::Result<Vec<NewComment>> {
    let mut reader = LineReader::open(path).with_context(|| path.display().to_string())?;
    let mut comments = Vec::new();
    let mut refused = Vec::new();
    while let Some((number, line)) = reader.next_line()? {
        match line.and_then(|line| parse_line(&line)) {
            Ok(comment) => comments.push(comment),
            Err(reason) => refused.push(format!("line {number}: {reason}")),
        }
    }
    if refused.len() * REFUSED_ONE_IN > comments.len() {
        bail!("{} lines are refused; the first: {}", refused.len(), refused.first().map_or("", String::as_str));
    }
    Ok(comments)
}
