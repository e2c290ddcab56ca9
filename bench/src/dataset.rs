//! A shop with one product: its engine, its Redis, its comments.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, bail, ensure};
use dynoxide::{AttributeValue as EngineValue, Database, ImportOptions};
use local_stack::engine::Engine;
use model::{
    BlobFormat, Cd, Comment, Filter, FilterKey, ProductId, Rating, RatingSet,
    item::{CommentItem, Image},
    plan::{IndexEdit, index_edits},
};
use page_index::PageIndex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_dynamo::AttributeValue;
use table::{Table, TableConfig};
use tempfile::TempDir;

use crate::workload::{Comments, Redis, create_table_without_stream, folder};

/// Everything but unreserved characters. Any other spelling of a page's address redirects to this one.
pub(crate) const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Comments per page: the default.
pub(crate) const PAGE_SIZE: usize = 20;
const PRODUCT: &str = "shop/item-00000";
/// The ratings of 20 consecutive comments, whose times are random. 15 of them match the union.
const RATINGS: [u64; PAGE_SIZE] = [5, 1, 5, 4, 5, 3, 5, 4, 5, 1, 5, 2, 5, 3, 5, 4, 5, 1, 5, 4];
const UNION: &str = "1.3.5";
/// With a multiple of this number of comments the last page is full, for the union too.
const FULL_PAGES: u32 = 80;
/// Number of comments generated and loaded at once, so that a million need little memory here.
pub(crate) const CHUNK: u32 = 10_000;

/// Comments of one filter, newest first.
pub(crate) struct Listing {
    pub(crate) filter: Filter,
    pub(crate) key: FilterKey,
    cds: Vec<Cd>,
}

impl Listing {
    fn new(product: &ProductId, filter: Filter) -> Self {
        let key = FilterKey { product: product.clone(), filter: filter.clone() };
        Self { filter, key, cds: Vec::new() }
    }

    fn sorted(mut self) -> anyhow::Result<Arc<Self>> {
        self.cds.sort_by(|a, b| b.cmp(a));
        ensure!(!self.cds.is_empty() && self.cds.len().is_multiple_of(PAGE_SIZE), "the last page is full");
        Ok(Arc::new(self))
    }

    /// Number of pages.
    pub(crate) fn pages(&self) -> u64 {
        (self.cds.len() / PAGE_SIZE) as u64
    }

    /// The comments of a page, counted from 1.
    pub(crate) fn page(&self, page: u64) -> &[Cd] {
        let first = Self::first(page);
        self.cds.get(first..first + PAGE_SIZE).unwrap_or_default()
    }

    /// The comment before a page; `None` for page 1.
    pub(crate) fn before(&self, page: u64) -> Option<&Cd> {
        self.cds.get(Self::first(page).checked_sub(1)?)
    }

    fn first(page: u64) -> usize {
        usize::try_from(page - 1).unwrap_or(usize::MAX).saturating_mul(PAGE_SIZE)
    }

    /// The API's path of a page as JSON.
    pub(crate) fn json_path(&self, page: u64) -> String {
        let product = utf8_percent_encode(self.key.product.as_str(), &RESERVED);
        let mut path = format!("/api/v1/products/{product}/comments?page={page}");
        for rating in self.filter.ratings().iter().flat_map(|ratings| ratings.iter()) {
            path.push_str("&rating=");
            path.push_str(rating.as_str());
        }
        path
    }

    /// The API's path of a page for people.
    pub(crate) fn html_path(&self, page: u64) -> String {
        let product = utf8_percent_encode(self.key.product.as_str(), &RESERVED);
        let filter = self.filter.ratings().map_or(String::new(), |ratings| format!("/~/{ratings}"));
        let page = if page > 1 { format!("?page={page}") } else { String::new() };
        format!("/product/{product}/comments{filter}{page}")
    }
}

/// The shop's comments: identical on every call, and at least `comments`, so that the last page is full.
pub(crate) fn drawn(comments: u32) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Comment>>> {
    let product = ProductId::parse(PRODUCT)?;
    let mut workload = Comments::new(8)?;
    let ratings = RATINGS.into_iter().cycle().take(comments.next_multiple_of(FULL_PAGES) as usize);
    Ok(ratings
        .map(move |rating| Ok(Comment { product: product.clone(), rating: Rating::new(rating)?, ..workload.draw()? })))
}

/// These comments in the order of time, the oldest first, as a shop receives them.
pub(crate) fn drawn_in_time(comments: u32) -> anyhow::Result<Vec<Comment>> {
    let mut drawn = drawn(comments)?.collect::<anyhow::Result<Vec<_>>>()?;
    drawn.sort_by_key(Comment::cd);
    Ok(drawn)
}

/// The filled stores.
pub(crate) struct Shop {
    pub(crate) table: Table,
    pub(crate) all: Arc<Listing>,
    /// The listing of three ratings, if its items are loaded.
    pub(crate) union: Option<Arc<Listing>>,
    /// Items in the table.
    pub(crate) items: u64,
    pub(crate) engine: Engine,
    redis: Redis,
    _folder: TempDir,
}

impl Shop {
    /// Starts fresh stores and fills them.
    pub(crate) async fn fill(comments: u32, with_union: bool) -> anyhow::Result<Self> {
        let folder = folder()?;
        let file = folder.path().join("table");
        let name = "bench";
        let start = || Engine::start(&file, ([127, 0, 0, 1], 0).into());
        let engine = start().await?;
        create_table_without_stream(&connect(name, &engine).await).await?;
        // The import bypasses the engine's server, and only one process may own the file.
        engine.stop().await;

        let redis = Redis::start().await?;
        let rebuild = redis.index.begin_rebuild().await?;
        let product = ProductId::parse(PRODUCT)?;
        let union = RatingSet::parse(UNION)?;
        let mut all = Listing::new(&product, Filter::ANY);
        let mut union = with_union.then(|| Listing::new(&product, Filter::new(None, Some(union))));
        let mut import = Import::open(&file)?;
        let comments = comments.next_multiple_of(FULL_PAGES);
        let mut drawn = drawn(comments)?;
        for _ in (0..comments).step_by(CHUNK as usize) {
            let mut edits: Vec<IndexEdit> = Vec::new();
            for comment in drawn.by_ref().take(CHUNK as usize) {
                let comment = comment?;
                add(&mut import, name, &comment, union.as_ref())?;
                for listing in [Some(&mut all), union.as_mut()].into_iter().flatten() {
                    if listing.filter.matches(&comment.placement()) {
                        listing.cds.push(comment.cd());
                    }
                }
                edits.extend(index_edits(&comment.id, Some((&comment.placement(), comment.created_at)), &[]));
            }
            import.flush()?;
            redis.index.apply(&edits).await?;
        }
        let items = import.items;
        drop(import);

        let engine = start().await?;
        let table = connect(name, &engine).await;
        redis.index.finish_rebuild(&rebuild, &table.describe().await?.id, process::now()).await?;
        let union = union.map(Listing::sorted).transpose()?;
        Ok(Self { table, all: all.sorted()?, union, items, engine, redis, _folder: folder })
    }

    /// The page index.
    pub(crate) fn page_index(&self) -> &PageIndex {
        &self.redis.index
    }

    /// The URL of Redis.
    pub(crate) fn redis_url(&self) -> String {
        self.redis.url()
    }

    /// The process id of Redis.
    pub(crate) fn redis_pid(&self) -> anyhow::Result<u32> {
        self.redis.pid().context("Redis runs")
    }

    pub(crate) async fn close(self) {
        self.redis.stop().await;
        self.engine.stop().await;
    }
}

/// A client of the table like the API's, but with long time-outs, so that a busy machine does not end a measurement.
pub(crate) async fn connect(name: &str, engine: &Engine) -> Table {
    Table::connect(&TableConfig {
        attempt_timeout: Duration::from_secs(30),
        call_timeout: Duration::from_secs(60),
        ..TableConfig::new(name, Some(engine.endpoint_url()))
    })
    .await
}

/// Adds the comment's primary item, and the union's item if the union matches it.
fn add(import: &mut Import, table: &str, comment: &Comment, union: Option<&Listing>) -> anyhow::Result<()> {
    let primary = serde_dynamo::to_item(CommentItem::primary(comment, BlobFormat::Map))?;
    if let Some(union) = union.filter(|union| union.filter.matches(&comment.placement())) {
        import.push(table, &Image::of_primary(&primary)?.duplicate(&union.key))?;
    }
    import.push(table, &primary)
}

/// Puts items into the tables of an engine that is not running, some thousand per transaction. It creates no stream
/// records.
pub(crate) struct Import {
    database: Database,
    waiting: BTreeMap<String, Vec<dynoxide::Item>>,
    /// Number of items put so far, in all tables.
    pub(crate) items: u64,
}

impl Import {
    /// Opens the engine's file. No other process may have it open.
    pub(crate) fn open(file: &Path) -> anyhow::Result<Self> {
        let database = Database::new(file.to_str().context("the path is UTF-8")?)?;
        // This setting ends with the connection.
        database.enable_bulk_loading()?;
        Ok(Self { database, waiting: BTreeMap::new(), items: 0 })
    }

    /// Queues an item for the next flush.
    pub(crate) fn push(&mut self, table: &str, item: &serde_dynamo::Item) -> anyhow::Result<()> {
        self.waiting.entry(table.to_owned()).or_default().push(engine_item(item.iter())?);
        Ok(())
    }

    /// Writes the queued items.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        for (table, items) in std::mem::take(&mut self.waiting) {
            self.items += items.len() as u64;
            self.database.import_items(&table, items, ImportOptions::default())?;
        }
        Ok(())
    }
}

/// Converts directly, because a conversion through JSON takes several times as long.
fn engine_item<'item>(
    item: impl Iterator<Item = (&'item String, &'item AttributeValue)>,
) -> anyhow::Result<dynoxide::Item> {
    item.map(|(name, value)| Ok((name.clone(), engine_value(value)?))).collect()
}

/// Converts a value of the types that occur here.
fn engine_value(value: &AttributeValue) -> anyhow::Result<EngineValue> {
    Ok(match value {
        AttributeValue::S(text) => EngineValue::S(text.clone()),
        AttributeValue::N(digits) => EngineValue::N(digits.clone()),
        AttributeValue::B(bytes) => EngineValue::B(bytes.clone()),
        AttributeValue::Bool(truth) => EngineValue::BOOL(*truth),
        AttributeValue::M(fields) => EngineValue::M(engine_item(fields.iter())?),
        AttributeValue::Null(_)
        | AttributeValue::L(_)
        | AttributeValue::Ss(_)
        | AttributeValue::Ns(_)
        | AttributeValue::Bs(_) => bail!("no item has a value of this kind: {value:?}"),
    })
}
