//! Both designs, loaded with the same comments.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use aws_sdk_dynamodb::{
    operation::query::QueryOutput,
    types::{AttributeValue, ReturnConsumedCapacity},
};
use four_index::{Cursor, FourIndexTable};
use local_stack::engine::Engine;
use model::{
    BlobFormat, Cd, Comment, Filter, FilterKey, Language, Order, PageSize, ProductId, Rating, RatingSet, Revision,
    item::{CommentItem, Image, attribute, comment_pk},
    plan::{IndexEdit, index_edits},
};
use page_index::{PageIndex, PageIndexConfig, PageStartQuery};
use table::{GSI, NewComment, PageQuery, Table, TableConfig};
use tempfile::TempDir;

use crate::{
    payload::read_comments,
    shop::Import,
    statistics::as_f64,
    workload::{self, Redis, create_table_without_stream, folder},
};

/// Comments per page: the default.
pub(super) const PAGE_SIZE: u16 = 20;
const PRODUCT: &str = "shop/item-00000";
/// Three ratings. The product with two ratings has two of them.
const THREE_RATINGS: &str = "1.4.5";
const SPARSE_COMMENTS: u32 = 1_000;
const PAGEMARK: &str = "pagemark";
const FOUR_INDEX: &str = "four-index";
/// The filters' ratings, by their number: rare and frequent ones, as in the articles' test.
const RATINGS: [Option<&str>; 5] = [Some("5"), Some("1.5"), Some("1.4.5"), Some("1.2.4.5"), None];
/// Number of comments that are generated and loaded at once.
const CHUNK: usize = 10_000;
/// Long time-out, so that a busy machine does not end a measurement.
const CALL_TIME_MAX: Duration = Duration::from_secs(60);

/// A comment of a listing.
type Listed = (Cd, Rating);

/// The comments of a filter, newest first.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(super) filter: Filter,
    /// Number of ratings in the filter. A filter without ratings counts as all five.
    pub(super) ratings: usize,
    pub(super) product: ProductId,
    /// Whether the product lacks some ratings.
    is_sparse: bool,
    comments: Vec<Listed>,
}

impl Listing {
    fn new(product: &ProductId, language: Option<Language>, ratings: Option<&str>) -> anyhow::Result<Self> {
        let ratings = ratings.map(RatingSet::parse).transpose()?;
        let count = ratings.map_or(Rating::ALL.len(), |ratings| ratings.iter().count());
        let filter = Filter::new(language, ratings);
        Ok(Self { filter, ratings: count, product: product.clone(), is_sparse: false, comments: Vec::new() })
    }

    /// Its filter key.
    pub(super) fn key(&self) -> FilterKey {
        FilterKey { product: self.product.clone(), filter: self.filter.clone() }
    }

    /// The query for the other design.
    fn four_query(&self, skip_empty: bool) -> anyhow::Result<four_index::PageQuery> {
        let page_size = PageSize::new(PAGE_SIZE.into())?;
        Ok(four_index::PageQuery { product: self.product.clone(), filter: self.filter.clone(), page_size, skip_empty })
    }

    /// Whether the filter matches any language.
    pub(super) fn is_any_language(&self) -> bool {
        self.filter.language().is_none() && !self.is_sparse
    }

    /// The filter's name in the report.
    pub(crate) fn name(&self) -> String {
        let language = self.filter.language().map_or("any", Language::as_str);
        let ratings = self.filter.ratings().map_or_else(|| "1 to 5".to_owned(), |ratings| ratings.to_string());
        let product = if self.is_sparse { ", product without 2, 3 and 4" } else { "" };
        format!("{language}, {ratings}{product}")
    }

    /// Number of pages.
    pub(super) fn pages(&self) -> u64 {
        (self.comments.len() as u64).div_ceil(u64::from(PAGE_SIZE))
    }

    /// The comment ids of a page, counted from 1.
    pub(crate) fn page(&self, page: u64) -> Vec<&str> {
        let shown = self.comments.iter().skip(skipped(page)).take(usize::from(PAGE_SIZE));
        shown.map(|(cd, _)| cd.id.as_str()).collect()
    }

    /// The comments before a page, and the comments from the page on.
    fn around(&self, page: u64) -> (&[Listed], &[Listed]) {
        self.comments.split_at(skipped(page).min(self.comments.len()))
    }
}

fn skipped(page: u64) -> usize {
    usize::try_from(page - 1).unwrap_or(usize::MAX).saturating_mul(usize::from(PAGE_SIZE))
}

/// A page to request.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) listing: Arc<Listing>,
    pub(super) number: u64,
    /// Where the four-index design resumes; `None` on page 1.
    pub(super) cursor: Option<Cursor>,
}

impl Ask {
    pub(super) fn new(listing: &Arc<Listing>, number: u64) -> anyhow::Result<Self> {
        let (shown, to_come) = listing.around(number);
        let cursor = match shown.is_empty() {
            true => None,
            false => {
                let shown = shown.iter().map(|(cd, rating)| (cd, *rating));
                let to_come = to_come.iter().map(|(_, rating)| *rating);
                Cursor::following(&listing.four_query(false)?, shown, to_come)
            }
        };
        Ok(Self { listing: listing.clone(), number, cursor })
    }
}

/// Both designs on one engine, in separate tables.
pub(crate) struct Contestants {
    table: Table,
    redis: Redis,
    /// The requested listings: the filters of the large product, then one of a product that lacks three ratings.
    pub(super) listings: Vec<Arc<Listing>>,
    /// Number of items in each design. Only items of the requested filter keys are loaded.
    pub(super) items: u64,
    /// Bytes per comment in the page index.
    pub(super) redis_bytes: f64,
    table_id: Arc<str>,
    engine: Engine,
    _folder: TempDir,
}

/// The comments of one product, and of another product with only two ratings.
pub(crate) struct Comments {
    pub(super) product: ProductId,
    pub(super) language: Language,
    pub(crate) all: Vec<Comment>,
}

impl Contestants {
    /// Starts stores and fills them.
    pub(crate) async fn fill(comments: &Comments) -> anyhow::Result<Self> {
        let folder = folder()?;
        let file = folder.path().join("table");
        let start = || Engine::start(&file, ([127, 0, 0, 1], 0).into());
        let engine = start().await?;
        create_table_without_stream(&connect(&engine.endpoint_url()).await).await?;
        connect_four(&connect(&engine.endpoint_url()).await, FOUR_INDEX).create().await?;
        // The import bypasses the engine's server, and only one process may own the file.
        engine.stop().await;

        let mut redis = Redis::start().await?;
        let empty_bytes = redis.memory_bytes().await?;
        let rebuild = redis.index.begin_rebuild().await?;
        let mut listings = comments.listings()?;
        let mut import = Import::open(&file)?;
        for chunk in comments.all.chunks(CHUNK) {
            let mut edits: Vec<IndexEdit> = Vec::new();
            for comment in chunk {
                let primary = serde_dynamo::to_item(CommentItem::primary(comment, BlobFormat::Map))?;
                let image = Image::of_primary(&primary)?;
                import.push(PAGEMARK, &primary)?;
                import.push(FOUR_INDEX, &four_index::comment_item(comment))?;
                for listing in &mut listings {
                    if listing.product == comment.product && listing.filter.matches(&comment.placement()) {
                        listing.comments.push((comment.cd(), comment.rating));
                        let key = listing.key();
                        if !key.is_primary() {
                            import.push(PAGEMARK, &image.duplicate(&key))?;
                        }
                    }
                }
                edits.extend(index_edits(&comment.id, Some((&comment.placement(), comment.created_at)), &[]));
            }
            import.flush()?;
            redis.index.apply(&edits).await?;
        }
        let redis_bytes = redis.memory_bytes().await?.saturating_sub(empty_bytes);
        let redis_bytes = as_f64(redis_bytes) / as_f64(comments.all.len() as u64);
        for item in four_index::counter_items(&comments.all) {
            import.push(FOUR_INDEX, &item)?;
        }
        import.flush()?;
        let items = import.items;
        drop(import);

        let engine = start().await?;
        let table = connect(&engine.endpoint_url()).await;
        let table_id = table.describe().await?.id;
        redis.index.finish_rebuild(&rebuild, &table_id, process::now()).await?;
        for listing in &mut listings {
            listing.comments.sort_by(|a, b| b.cmp(a));
            ensure!(!listing.comments.is_empty(), "{} has no comments", listing.name());
        }
        let listings = listings.into_iter().map(Arc::new).collect();
        Ok(Self { table, redis, listings, items, redis_bytes, table_id: table_id.into(), engine, _folder: folder })
    }

    /// A reader of pages. It uses other addresses of engine and Redis if they are given.
    pub(super) async fn reader(&self, addresses: Option<(&str, &str)>, tells_costs: bool) -> anyhow::Result<Reader> {
        let (table, index) = match addresses {
            Some((table_url, redis_url)) => {
                let config = PageIndexConfig { timeout: CALL_TIME_MAX, ..PageIndexConfig::new(redis_url) };
                (connect(table_url).await, PageIndex::connect(&config)?)
            }
            None => (self.table.clone(), self.redis.index.clone()),
        };
        let four = connect_four(&table, FOUR_INDEX);
        let four = if tells_costs { four } else { four.without_costs() };
        Ok(Reader { four, table, index, table_id: self.table_id.clone() })
    }

    /// The addresses of engine and Redis.
    pub(crate) fn addresses(&self) -> (String, String) {
        (self.engine.endpoint_url(), self.redis.url())
    }

    pub(crate) async fn stop(self) {
        self.redis.stop().await;
        self.engine.stop().await;
    }
}

impl Comments {
    /// The comments of the largest product in a file, or generated ones.
    pub(crate) fn new(data: Option<&Path>, count: u32) -> anyhow::Result<Self> {
        let (product, mut all) = match data {
            Some(path) => largest_product(path)?,
            None => {
                let product = ProductId::parse(PRODUCT)?;
                let mut workload = workload::Comments::new(8)?;
                let draw = |_| Ok(Comment { product: product.clone(), ..workload.draw()? });
                let all = (0..count).map(draw).collect::<anyhow::Result<Vec<_>>>()?;
                (product, all)
            }
        };
        let mut by_language: BTreeMap<&Language, usize> = BTreeMap::new();
        for comment in &all {
            *by_language.entry(&comment.language).or_default() += 1;
        }
        let most = by_language.into_iter().max_by_key(|(_, count)| *count).context("there are no comments")?;
        let language = most.0.clone();
        // A product with only two ratings.
        let sparse = sparse_product()?;
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
        let mut listings = Vec::new();
        for language in [None, Some(self.language.clone())] {
            for ratings in RATINGS {
                listings.push(Listing::new(&self.product, language.clone(), ratings)?);
            }
        }
        let sparse = Listing::new(&sparse_product()?, None, Some(THREE_RATINGS))?;
        listings.push(Listing { is_sparse: true, ..sparse });
        Ok(listings)
    }
}

/// A product whose comments have two of the five ratings.
pub(super) fn sparse_product() -> anyhow::Result<ProductId> {
    Ok(ProductId::parse("shop/loved-or-hated")?)
}

/// Reads pages of both designs.
#[derive(Clone)]
pub(super) struct Reader {
    table: Table,
    index: PageIndex,
    four: FourIndexTable,
    table_id: Arc<str>,
}

impl Reader {
    /// Reads a page by its number like the API: first the page index, then the table.
    pub(super) async fn pagemark(&self, ask: &Ask) -> anyhow::Result<Vec<Comment>> {
        let query = self.plan(ask).await?;
        Ok(self.table.page(&query).await?.comments)
    }

    /// Sends the same query and returns the complete answer of the engine.
    pub(super) async fn pagemark_query(&self, ask: &Ask) -> anyhow::Result<QueryOutput> {
        let PageQuery { key, limit, start, .. } = self.plan(ask).await?;
        let text = |text: String| AttributeValue::S(text);
        let start = start.map(|cd| {
            [(attribute::PK, comment_pk(&cd.id)), (attribute::SK, key.to_string()), (attribute::CD, cd.to_string())]
                .map(|(name, value)| (name.to_owned(), text(value)))
                .into()
        });
        let query = self.table.client().query().table_name(self.table.name()).index_name(GSI);
        let query = query
            .key_condition_expression("sk = :sk")
            .expression_attribute_values(":sk", text(key.to_string()))
            .scan_index_forward(false)
            .limit(limit.into())
            .set_exclusive_start_key(start)
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        Ok(query.send().await?)
    }

    /// The query for the table.
    async fn plan(&self, ask: &Ask) -> anyhow::Result<PageQuery> {
        let Listing { product, filter, .. } = &*ask.listing;
        let skip = (ask.number - 1) * u64::from(PAGE_SIZE);
        let query = PageStartQuery { product, filter, skip, order: Order::Newest, as_of: None };
        let start = self.index.page_start(&query, &self.table_id, process::now()).await?;
        let start = start.ok().context("the page index is ready")?;
        Ok(PageQuery { key: ask.listing.key(), order: Order::Newest, limit: PAGE_SIZE, start: start.before })
    }

    /// Reads the page at which the cursor resumes.
    pub(super) async fn four_index(&self, ask: &Ask, skip_empty: bool) -> anyhow::Result<four_index::Page> {
        Ok(self.four.page(&ask.listing.four_query(skip_empty)?, ask.cursor.as_ref()).await?)
    }
}

/// The comments of the largest product in a file of JSON lines.
fn largest_product(path: &Path) -> anyhow::Result<(ProductId, Vec<Comment>)> {
    let mut products: BTreeMap<ProductId, Vec<Comment>> = BTreeMap::new();
    for new in read_comments(path)? {
        let NewComment { id, product, language, rating, created_at, text } = new;
        let revision = Revision::after(None, created_at, rand::random());
        let comment = Comment { id, product, language, rating, created_at, revision, text };
        products.entry(comment.product.clone()).or_default().push(comment);
    }
    products.into_iter().max_by_key(|(_, comments)| comments.len()).context("the file has no comments")
}

/// A client of this design's table.
pub(super) async fn connect(url: &str) -> Table {
    Table::connect(&TableConfig {
        attempt_timeout: CALL_TIME_MAX,
        call_timeout: CALL_TIME_MAX,
        ..TableConfig::new(PAGEMARK, Some(url.to_owned()))
    })
    .await
}

/// The other design's table, with the same client and settings.
pub(super) fn connect_four(table: &Table, name: &str) -> FourIndexTable {
    FourIndexTable::new(table.client().clone(), name)
}
