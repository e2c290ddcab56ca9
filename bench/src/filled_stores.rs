//! Stores that are filled with many comments in little time, and readers of their pages.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context, bail, ensure};
use aws_sdk_dynamodb::{operation::query::builders::QueryFluentBuilder, types::AttributeValue as SdkValue};
use dynoxide::{AttributeValue as EngineValue, Database, ImportOptions};
use four_index::{FourIndexTable, Tally};
use itertools::Itertools;
use local_stack::engine::Engine;
use model::{
    Cd, Comment, FilterKey, Order,
    item::{Image, attribute, comment_pk},
    plan::IndexEdit,
};
use page_index::{PageIndex, PageStart, PageStartQuery};
use serde_dynamo::AttributeValue;
use table::{GSI, PageQuery, Table, TableConfig};
use tempfile::TempDir;

use crate::{
    index::insertion,
    listing::{Listing, PAGE_SIZE},
    statistics::as_f64,
    workload::{Redis, create_table_without_stream, folder, primary_item},
};

const TABLE: &str = "bench";
pub(crate) const FOUR_INDEX: &str = "four-index";
/// Number of comments whose ranks are loaded at once, so that a million need little memory here.
const CHUNK: usize = 10_000;
/// Number of items that are imported in one transaction.
const TRANSACTION_ITEMS: usize = 20_000;
/// Long time-out, so that a busy machine does not end a measurement.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// An engine on a file in a separate folder, and a client of one of its tables.
pub(crate) struct TableOnEngine {
    pub(crate) table: Table,
    pub(crate) engine: Engine,
    // Declared last, so that the engine ends before the folder is removed.
    folder: TempDir,
}

impl TableOnEngine {
    pub(crate) async fn start(table: &str) -> anyhow::Result<Self> {
        Self::start_in(folder()?, table).await
    }

    async fn start_in(folder: TempDir, table: &str) -> anyhow::Result<Self> {
        let engine = Engine::start(&folder.path().join("table"), ([127, 0, 0, 1], 0).into()).await?;
        Ok(Self { table: connect(table, &engine.endpoint_url()).await, engine, folder })
    }
}

/// A client of a table like the API's, but with long time-outs.
pub(crate) async fn connect(name: &str, url: &str) -> Table {
    connect_to(name, Some(url)).await
}

/// The same; without an endpoint, of AWS in the region of the environment.
pub(crate) async fn connect_to(name: &str, url: Option<&str>) -> Table {
    Table::connect(&TableConfig {
        attempt_timeout: TIMEOUT,
        call_timeout: TIMEOUT * 2,
        ..TableConfig::new(name, url.map(str::to_owned))
    })
    .await
}

/// The four-index design's table, with the client of another table.
pub(crate) fn four_index_table(table: &Table, name: &str) -> FourIndexTable {
    FourIndexTable::new(table.client().clone(), name)
}

/// An engine and a Redis with the same comments.
pub(crate) struct FilledStores {
    pub(crate) table: Table,
    table_id: Arc<str>,
    pub(crate) engine: Engine,
    pub(crate) redis: Redis,
    /// Number of items in all tables.
    pub(crate) items: usize,
    /// Bytes per comment in the page index.
    pub(crate) redis_bytes: f64,
    _folder: TempDir,
}

impl FilledStores {
    /// Starts fresh stores and fills them. Returns the complete listings.
    ///
    /// - The table gets every primary item, and the duplicates of these listings.
    /// - The page index gets every comment.
    /// - On request, the table of the four-index design gets every comment and its counters.
    pub(crate) async fn fill(
        mut comments: impl Iterator<Item = anyhow::Result<Comment>>,
        mut listings: Vec<Listing>,
        with_four_index: bool,
    ) -> anyhow::Result<(Self, Vec<Arc<Listing>>)> {
        let store = TableOnEngine::start(TABLE).await?;
        create_table_without_stream(&store.table).await?;
        if with_four_index {
            four_index_table(&store.table, FOUR_INDEX).create().await?;
        }
        let mut import = Import::into(store).await?;
        let mut redis = Redis::start().await?;
        let empty_bytes = redis.memory_bytes().await?;
        let rebuild = redis.index.begin_rebuild().await?;
        let (mut count, mut tally) = (0, Tally::default());
        loop {
            let mut edits: Vec<IndexEdit> = Vec::new();
            for comment in comments.by_ref().take(CHUNK) {
                let comment = comment?;
                import.push_comment(&comment, &mut listings)?;
                if with_four_index {
                    import.push(FOUR_INDEX, &four_index::comment_item(&comment))?;
                    tally.add(&comment);
                }
                edits.extend(insertion(&comment));
                count += 1;
            }
            if edits.is_empty() {
                break;
            }
            redis.index.apply(&edits).await?;
        }
        tally.items().iter().try_for_each(|item| import.push(FOUR_INDEX, item))?;
        let redis_bytes = as_f64(redis.memory_bytes().await?.saturating_sub(empty_bytes)) / as_f64(count);
        let (TableOnEngine { table, engine, folder }, items) = import.finish().await?;
        let table_id: Arc<str> = table.describe().await?.id.into();
        redis.index.finish_rebuild(&rebuild, &table_id, process::now()).await?;
        let listings = listings.into_iter().map(Listing::sorted).collect::<anyhow::Result<_>>()?;
        Ok((Self { table, table_id, engine, redis, items, redis_bytes, _folder: folder }, listings))
    }

    pub(crate) fn reader(&self) -> PageReader {
        self.reader_through(self.table.clone(), self.redis.index.clone())
    }

    /// A reader of pages that reaches the stores by other connections.
    pub(crate) fn reader_through(&self, table: Table, index: PageIndex) -> PageReader {
        PageReader { table, index, table_id: self.table_id.clone() }
    }

    /// Fills another page index of the same table. Its comments must be those of the stores.
    pub(crate) async fn fill_index(
        &self,
        index: &PageIndex,
        comments: impl Iterator<Item = anyhow::Result<Comment>>,
    ) -> anyhow::Result<()> {
        let rebuild = index.begin_rebuild().await?;
        for chunk in &comments.chunks(CHUNK) {
            let edits: Vec<Vec<IndexEdit>> =
                chunk.map(|comment| Ok(insertion(&comment?))).collect::<anyhow::Result<_>>()?;
            index.apply(&edits.concat()).await?;
        }
        index.finish_rebuild(&rebuild, &self.table_id, process::now()).await?;
        Ok(())
    }

    pub(crate) async fn stop(self) {
        self.redis.stop().await;
        self.engine.stop().await;
    }
}

/// Reads pages by their number like the API, without HTTP: the page's start from the page index, its comments by one
/// Query.
#[derive(Clone)]
pub(crate) struct PageReader {
    pub(crate) table: Table,
    pub(crate) index: PageIndex,
    pub(crate) table_id: Arc<str>,
}

impl PageReader {
    /// A copy of the reader with separate connections.
    pub(crate) fn with_own_connections(&self) -> Self {
        let (table, index) = (self.table.with_own_connections(), self.index.with_own_connections());
        Self { table, index, table_id: self.table_id.clone() }
    }

    /// The comment before a page; `None` for page 1.
    pub(crate) async fn start(&self, listing: &Listing, page: u64) -> anyhow::Result<Option<Cd>> {
        let start = page_start(&self.index, &self.table_id, &listing.key, page).await?;
        ensure!(start.total == listing.total(), "{} comments instead of {}", start.total, listing.total());
        Ok(start.before)
    }

    pub(crate) async fn page(&self, listing: &Listing, page: u64) -> anyhow::Result<Vec<Comment>> {
        let start = self.start(listing, page).await?;
        self.page_after(listing, start).await
    }

    /// The page after a comment, by one Query; the first page for `None`.
    pub(crate) async fn page_after(&self, listing: &Listing, start: Option<Cd>) -> anyhow::Result<Vec<Comment>> {
        let (key, limit) = (listing.key.clone(), u16::try_from(PAGE_SIZE)?);
        Ok(self.table.page(&PageQuery { key, order: Order::Newest, limit, start }).await?.comments)
    }
}

/// Finds the start of a page, counted from 1, in the page index.
pub(crate) async fn page_start(
    index: &PageIndex,
    table_id: &str,
    FilterKey { product, filter }: &FilterKey,
    page: u64,
) -> anyhow::Result<PageStart> {
    let skip = (page - 1) * PAGE_SIZE as u64;
    let query = PageStartQuery { product, filter, skip, order: Order::Newest, as_of: None };
    match index.page_start(&query, table_id, process::now()).await? {
        Ok(start) if start.before.is_some() == (page > 1) => Ok(start),
        Ok(start) => bail!("page {page} starts after {:?}", start.before),
        Err(not_ready) => bail!("the page index is not ready: {not_ready}"),
    }
}

/// The Query that a page takes, ready to be sent by the bare SDK.
pub(crate) fn bare_query(table: &Table, key: &FilterKey, before: Option<&Cd>) -> anyhow::Result<QueryFluentBuilder> {
    let text = |text: String| SdkValue::S(text);
    let start = before.map(|cd| {
        [(attribute::PK, comment_pk(&cd.id)), (attribute::SK, key.to_string()), (attribute::CD, cd.to_string())]
            .map(|(name, value)| (name.to_owned(), text(value)))
            .into()
    });
    let query = table.client().query().table_name(table.name()).index_name(GSI);
    Ok(query
        .key_condition_expression("sk = :sk")
        .expression_attribute_values(":sk", text(key.to_string()))
        .scan_index_forward(false)
        .limit(i32::try_from(PAGE_SIZE)?)
        .set_exclusive_start_key(start))
}

/// Puts items into the tables of an engine that is not running, some thousand per transaction. It creates no stream
/// records.
pub(crate) struct Import {
    database: Database,
    folder: TempDir,
    table: String,
    waiting: BTreeMap<String, Vec<dynoxide::Item>>,
    /// Number of items pushed so far, for all tables.
    items: usize,
}

impl Import {
    /// Stops an engine and opens its file: the import bypasses the engine's server, and only one process may own the
    /// file.
    pub(crate) async fn into(TableOnEngine { table, engine, folder }: TableOnEngine) -> anyhow::Result<Self> {
        engine.stop().await;
        let database = Database::new(folder.path().join("table").to_str().context("the path is UTF-8")?)?;
        // This setting ends with the connection.
        database.enable_bulk_loading()?;
        Ok(Self { database, folder, table: table.name().to_owned(), waiting: BTreeMap::new(), items: 0 })
    }

    /// Queues an item. Every [`TRANSACTION_ITEMS`] the queued ones are written.
    pub(crate) fn push(&mut self, table: &str, item: &serde_dynamo::Item) -> anyhow::Result<()> {
        self.waiting.entry(table.to_owned()).or_default().push(engine_item(item.iter())?);
        self.items += 1;
        if self.items.is_multiple_of(TRANSACTION_ITEMS) { self.flush() } else { Ok(()) }
    }

    /// Adds the comment to the listings that show it. Queues its primary item, and the duplicates of these listings.
    fn push_comment(&mut self, comment: &Comment, listings: &mut [Listing]) -> anyhow::Result<()> {
        let primary = primary_item(comment)?;
        let image = Image::of_primary(&primary)?;
        for listing in listings {
            if listing.add(comment) && !listing.key.is_primary() {
                self.push(TABLE, &image.duplicate(&listing.key))?;
            }
        }
        self.push(TABLE, &primary)
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        for (table, items) in std::mem::take(&mut self.waiting) {
            self.database.import_items(&table, items, ImportOptions::default())?;
        }
        Ok(())
    }

    /// Writes the queued items and starts an engine on the file. Also returns the number of items put.
    pub(crate) async fn finish(mut self) -> anyhow::Result<(TableOnEngine, usize)> {
        self.flush()?;
        let Self { database, folder, table, items, .. } = self;
        drop(database);
        Ok((TableOnEngine::start_in(folder, &table).await?, items))
    }
}

/// Converts directly, because a conversion through JSON takes several times as long.
fn engine_item<'item>(
    item: impl Iterator<Item = (&'item String, &'item AttributeValue)>,
) -> anyhow::Result<dynoxide::Item> {
    item.map(|(name, value)| Ok((name.clone(), engine_value(value)?))).collect()
}

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
