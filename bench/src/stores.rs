//! The stores of the measurements, filled with many comments in little time, and readers of their
//! pages.

use std::{collections::BTreeMap, env, fmt::Display, process::Command, sync::Arc, time::Duration};

use anyhow::{Context, anyhow, bail, ensure};
use aws_sdk_dynamodb::{
    Client,
    operation::query::builders::QueryFluentBuilder,
    types::{AttributeValue as SdkValue, BillingMode, PutRequest, TableStatus, WriteRequest},
};
use cost::primary_item;
use dynoxide::{AttributeValue as EngineValue, Database, ImportOptions};
use four_index::{FourIndexTable, Tally};
use local_stack::engine::Engine;
use model::{
    Cd, Comment, FilterKey, Order,
    item::{Image, attribute, comment_pk},
    plan::IndexEdit,
};
use page_index::{PageIndex, Ranked, RankedQuery};
use process::{Backoff, aws::Calls};
use redis::aio::MultiplexedConnection;
use redis_index::RedisIndexConfig;
use serde_dynamo::{AttributeValue, Item};
use table::{GSI, PageQuery, Table, TableConfig, definition};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::{
    listing::{ExpectedListing, PAGE_SIZE},
    measure::as_f64,
    server::{Home, ServerProcess, folder, free_port},
    workload::insertion,
};

/// Comments whose ranks are loaded at once.
const CHUNK: usize = 10_000;
/// Items that the engine imports in one transaction, and that one call to a service puts.
const TRANSACTION_ITEMS: usize = 20_000;
const CALL_ITEMS: usize = 25;
/// Long time-outs, so that a busy machine does not end a measurement.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time for a table to become active, and for a call that a service throttles.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(300);

/// A table on an engine with a file in a separate folder, or on a service.
pub(crate) struct TableStore {
    pub(crate) table: Table,
    engine: Option<(Engine, TempDir)>,
}

impl TableStore {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Self::start_in(folder()?, "bench").await
    }

    async fn start_in(folder: TempDir, table: &str) -> anyhow::Result<Self> {
        let engine = Engine::start(
            &folder.path().join("table"),
            Some(([127, 0, 0, 1], 0).into()),
        )
        .await?;
        Ok(Self {
            table: connect(table, engine.endpoint_url().as_deref()).await,
            engine: Some((engine, folder)),
        })
    }

    /// A table on a service; without a URL, on AWS in the region of the environment.
    pub(crate) async fn at(url: Option<&str>, table: &str) -> Self {
        Self {
            table: connect(table, url).await,
            engine: None,
        }
    }

    pub(crate) fn engine_url(&self) -> anyhow::Result<String> {
        let (engine, _folder) = self.engine.as_ref().context("a local engine")?;
        engine.endpoint_url().context("a port of the engine")
    }

    pub(crate) async fn stop(self) {
        if let Some((engine, _folder)) = self.engine {
            engine.stop().await;
        }
    }
}

pub(crate) async fn connect(name: &str, url: Option<&str>) -> Table {
    let calls = Calls {
        attempt_timeout: TIMEOUT,
        call_timeout: TIMEOUT * 2,
        ..Calls::PROMPT
    };
    Table::connect(&TableConfig {
        calls,
        ..TableConfig::new(name, url.map(str::to_owned))
    })
    .await
}

/// The four-index design's table beside a table, by the same client.
pub(crate) fn four_index_table(table: &Table) -> FourIndexTable {
    FourIndexTable::new(
        table.client().clone(),
        format!("{}-four-index", table.name()),
    )
}

/// Creates the project's table without its stream, time to live and backups. The embedded engine
/// pays for every stream record in proportion to all earlier ones, which would hide what is
/// compared.
pub(crate) async fn create_table(table: &Table) -> anyhow::Result<()> {
    let attributes = definition::attribute_definitions()?;
    let create = table
        .client()
        .create_table()
        .table_name(table.name())
        .billing_mode(BillingMode::PayPerRequest)
        .set_attribute_definitions(Some(attributes))
        .set_global_secondary_indexes(Some(definition::indexes()?));
    create
        .set_key_schema(Some(definition::key_schema(attribute::PK, attribute::SK)?))
        .send()
        .await?;
    await_active(table.client(), table.name()).await
}

async fn await_active(client: &Client, table: &str) -> anyhow::Result<()> {
    let mut backoff = Backoff::until(Instant::now() + READY_WITHIN);
    loop {
        let described = client
            .describe_table()
            .table_name(table)
            .send()
            .await?
            .table;
        if described.and_then(|table| table.table_status) == Some(TableStatus::Active) {
            return Ok(());
        }
        ensure!(
            backoff.wait().await,
            "{table} is not active after {READY_WITHIN:?}"
        );
    }
}

pub(crate) struct Redis {
    pub(crate) index: PageIndex,
    pub(crate) config: RedisIndexConfig,
    pub(crate) connection: MultiplexedConnection,
    pub(crate) url: String,
    _server: ServerProcess,
}

impl Redis {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let program = env::var_os("PAGEMARK_REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
        let home = Home::new()?;
        let port = free_port()?;
        let url = format!("redis://127.0.0.1:{port}/");
        let mut command = Command::new(program);
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        let (server, connection) = home
            .start(&mut command, "KILL", async || connect_redis(&url).await)
            .await?;
        let config = RedisIndexConfig {
            timeout: TIMEOUT,
            ..RedisIndexConfig::new(url.clone())
        };
        Ok(Self {
            index: redis_index::connect(&config)?,
            config,
            connection,
            url,
            _server: server,
        })
    }

    pub(crate) async fn memory_bytes(&mut self) -> anyhow::Result<u64> {
        let info: redis::InfoDict = redis::cmd("INFO")
            .arg("memory")
            .query_async(&mut self.connection)
            .await?;
        let used = memory_field(&info, "used_memory")?;
        let of_clients = memory_field(&info, "mem_clients_normal")?;
        Ok(used.saturating_sub(of_clients))
    }

    pub(crate) async fn reset_statistics(&mut self) -> anyhow::Result<()> {
        let mut reset = redis::cmd("CONFIG");
        Ok(reset
            .arg("RESETSTAT")
            .exec_async(&mut self.connection)
            .await?)
    }

    /// How long the server has worked for scripts since its statistics were reset, in microseconds.
    pub(crate) async fn script_us(&mut self) -> anyhow::Result<f64> {
        let info: redis::InfoDict = redis::cmd("INFO")
            .arg("commandstats")
            .query_async(&mut self.connection)
            .await?;
        let of_scripts: String = info.get("cmdstat_evalsha").context("no script has run")?;
        let us = of_scripts
            .split(',')
            .find_map(|field| field.strip_prefix("usec="));
        Ok(us.context("the time of scripts")?.parse()?)
    }
}

/// Connects to a Redis that answers.
async fn connect_redis(url: &str) -> anyhow::Result<MultiplexedConnection> {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(TIMEOUT));
    let client = redis::Client::open(url)?;
    let mut connection = client
        .get_multiplexed_async_connection_with_config(&config)
        .await?;
    redis::cmd("PING").exec_async(&mut connection).await?;
    Ok(connection)
}

fn memory_field(info: &redis::InfoDict, name: &str) -> anyhow::Result<u64> {
    info.get(name)
        .with_context(|| format!("INFO memory has no {name}"))
}

pub(crate) struct FilledStores {
    pub(crate) store: TableStore,
    table_id: Arc<str>,
    pub(crate) redis: Redis,
    pub(crate) redis_bytes_per_comment: f64,
    pub(crate) listings: Vec<Arc<ExpectedListing>>,
}

impl FilledStores {
    /// Fills new tables on a store, and a new Redis. The table gets every primary item, and the
    /// duplicates of these listings. On request, the table of the four-index design gets every
    /// comment and its counters.
    pub(crate) async fn fill(
        store: TableStore,
        mut comments: impl Iterator<Item = anyhow::Result<Comment>>,
        mut listings: Vec<ExpectedListing>,
        with_four_index: bool,
    ) -> anyhow::Result<Self> {
        create_table(&store.table).await?;
        let four = four_index_table(&store.table);
        if with_four_index {
            four.create().await?;
            await_active(store.table.client(), four.name()).await?;
        }
        let mut loader = Loader::into(store).await?;
        let mut redis = Redis::start().await?;
        let empty_bytes = redis.memory_bytes().await?;
        let rebuild = redis.index.begin_rebuild().await?;
        let mut count = 0;
        let mut tally = Tally::default();
        loop {
            let mut edits: Vec<IndexEdit> = Vec::new();
            for comment in comments.by_ref().take(CHUNK) {
                let comment = comment?;
                loader.push_comment(&comment, &mut listings).await?;
                if with_four_index {
                    loader
                        .push(four.name(), &four_index::comment_item(&comment))
                        .await?;
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
        for item in tally.items() {
            loader.push(four.name(), &item).await?;
        }
        let redis_bytes = redis.memory_bytes().await?.saturating_sub(empty_bytes);
        let redis_bytes_per_comment = as_f64(redis_bytes) / as_f64(count);
        let store = loader.finish().await?;
        let table_id: Arc<str> = store.table.describe().await?.id.into();
        redis
            .index
            .finish_rebuild(&rebuild, &table_id, process::now())
            .await?;
        let listings = listings
            .into_iter()
            .map(ExpectedListing::sorted)
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            store,
            table_id,
            redis,
            redis_bytes_per_comment,
            listings,
        })
    }

    /// Fills another page index with these comments.
    pub(crate) async fn fill_index(
        &self,
        index: &PageIndex,
        comments: impl Iterator<Item = anyhow::Result<Comment>>,
    ) -> anyhow::Result<()> {
        let rebuild = index.begin_rebuild().await?;
        for comment in comments {
            index.apply(&insertion(&comment?)).await?;
        }
        Ok(index
            .finish_rebuild(&rebuild, &self.table_id, process::now())
            .await?)
    }

    pub(crate) fn reader(&self) -> PageReader {
        self.reader_through(self.store.table.clone(), self.redis.index.clone())
    }

    pub(crate) fn reader_through(&self, table: Table, index: PageIndex) -> PageReader {
        PageReader {
            table,
            index,
            table_id: self.table_id.clone(),
        }
    }

    pub(crate) fn listing(&self, number: usize) -> anyhow::Result<&Arc<ExpectedListing>> {
        self.listings.get(number).context("a listing")
    }
}

/// Reads pages by their number like the API, without HTTP.
#[derive(Clone)]
pub(crate) struct PageReader {
    pub(crate) table: Table,
    pub(crate) index: PageIndex,
    table_id: Arc<str>,
}

impl PageReader {
    pub(crate) fn with_own_connections(&self) -> Self {
        Self {
            table: self.table.with_own_connections(),
            index: self.index.with_own_connections(),
            table_id: self.table_id.clone(),
        }
    }

    /// The comments of a page, newest first, as the page index names them.
    pub(crate) async fn named(
        &self,
        listing: &ExpectedListing,
        page: u64,
    ) -> anyhow::Result<Vec<Cd>> {
        self.named_from(listing, (page - 1) * PAGE_SIZE as u64, PAGE_SIZE)
            .await
    }

    /// So many comments after the first `skip`, newest first, as the page index names them.
    pub(crate) async fn named_from(
        &self,
        listing: &ExpectedListing,
        skip: u64,
        count: usize,
    ) -> anyhow::Result<Vec<Cd>> {
        let ranked = ranked(&self.index, &self.table_id, &listing.key, skip, count).await?;
        ensure!(
            ranked.all == listing.total(),
            "{} comments instead of {}",
            ranked.all,
            listing.total()
        );
        Ok(ranked.comments)
    }

    pub(crate) async fn page(
        &self,
        listing: &ExpectedListing,
        page: u64,
    ) -> anyhow::Result<Vec<Comment>> {
        let named = self.named(listing, page).await?;
        let start = named.first().and_then(Cd::just_after);
        self.page_after(listing, start, PAGE_SIZE).await
    }

    /// So many comments that follow another one, newest first, as the page index names them.
    pub(crate) async fn named_after(
        &self,
        listing: &ExpectedListing,
        after: &Cd,
        count: usize,
    ) -> anyhow::Result<Vec<Cd>> {
        let FilterKey { product, filter } = &listing.key;
        let query = RankedQuery {
            after: Some(after),
            count: u16::try_from(count)?,
            ..RankedQuery::new(product, filter)
        };
        Ok(one_ranked(&self.index, &self.table_id, query)
            .await?
            .comments)
    }

    /// How many comments each listing has, by one call to the page index.
    pub(crate) async fn totals(
        &self,
        listings: &[Arc<ExpectedListing>],
    ) -> anyhow::Result<Vec<u64>> {
        let mut queries = Vec::new();
        for listing in listings {
            queries.push(RankedQuery::new(&listing.key.product, &listing.key.filter));
        }
        let answers = self
            .index
            .ranked(&queries, &self.table_id, process::now())
            .await?;
        answers
            .into_iter()
            .map(|answer| Ok(answer.map_err(not_ready)?.all))
            .collect()
    }

    /// The comments that the page index has named, in four indexes: each rating's query reads its
    /// own, or one BatchGetItem reads all.
    pub(crate) async fn four_index_page(
        &self,
        four: &FourIndexTable,
        listing: &ExpectedListing,
        named: &[Cd],
        in_batch: bool,
    ) -> anyhow::Result<four_index::MergedPage> {
        let query = listing.four_index_query()?;
        if in_batch {
            return Ok(four.page_of(&query, named).await?);
        }
        let newest = named.first().context("a page")?;
        let oldest = named.last().context("a page")?;
        Ok(four.page_between(&query, newest, oldest).await?)
    }

    pub(crate) async fn page_after(
        &self,
        listing: &ExpectedListing,
        start: Option<Cd>,
        count: usize,
    ) -> anyhow::Result<Vec<Comment>> {
        let query = PageQuery {
            key: listing.key.clone(),
            order: Order::Newest,
            limit: u16::try_from(count)?,
            start,
        };
        Ok(self.table.page(&query).await?.comments)
    }
}

/// So many comments after the first `skip`, newest first, by their ranks.
pub(crate) async fn ranked(
    index: &PageIndex,
    table_id: &str,
    FilterKey { product, filter }: &FilterKey,
    skip: u64,
    count: usize,
) -> anyhow::Result<Ranked> {
    let query = RankedQuery {
        skip,
        count: u16::try_from(count)?,
        ..RankedQuery::new(product, filter)
    };
    one_ranked(index, table_id, query).await
}

async fn one_ranked(
    index: &PageIndex,
    table_id: &str,
    query: RankedQuery<'_>,
) -> anyhow::Result<Ranked> {
    let mut answers = index.ranked(&[query], table_id, process::now()).await?;
    answers.pop().context("an answer")?.map_err(not_ready)
}

fn not_ready(why: impl Display) -> anyhow::Error {
    anyhow!("the page index is not ready: {why}")
}

pub(crate) fn bare_query(
    table: &Table,
    key: &FilterKey,
    before: Option<&Cd>,
) -> anyhow::Result<QueryFluentBuilder> {
    let mut query = table
        .client()
        .query()
        .table_name(table.name())
        .index_name(GSI)
        .key_condition_expression("sk = :sk")
        .expression_attribute_values(":sk", SdkValue::S(key.to_string()))
        .scan_index_forward(false)
        .limit(i32::try_from(PAGE_SIZE)?);
    if let Some(cd) = before {
        query = query
            .exclusive_start_key(attribute::PK, SdkValue::S(comment_pk(&cd.id)))
            .exclusive_start_key(attribute::SK, SdkValue::S(key.to_string()))
            .exclusive_start_key(attribute::CD, SdkValue::S(cd.to_string()));
    }
    Ok(query)
}

/// Puts items into the tables of a store: into the file of a stopped engine, or by calls to a
/// service.
pub(crate) struct Loader {
    table: Table,
    file: Option<(Database, TempDir)>,
    waiting: BTreeMap<String, Vec<Item>>,
    count: usize,
}

impl Loader {
    /// Stops an engine: only one process may own its file.
    pub(crate) async fn into(TableStore { table, engine }: TableStore) -> anyhow::Result<Self> {
        let file = match engine {
            Some((engine, folder)) => {
                engine.stop().await;
                let database = Database::new(
                    folder
                        .path()
                        .join("table")
                        .to_str()
                        .context("the path is UTF-8")?,
                )?;
                // This setting ends with the connection.
                database.enable_bulk_loading()?;
                Some((database, folder))
            }
            None => None,
        };
        Ok(Self {
            table,
            file,
            waiting: BTreeMap::new(),
            count: 0,
        })
    }

    pub(crate) async fn push(&mut self, table: &str, item: &Item) -> anyhow::Result<()> {
        self.waiting
            .entry(table.to_owned())
            .or_default()
            .push(item.clone());
        self.count += 1;
        if self.count.is_multiple_of(TRANSACTION_ITEMS) {
            self.flush().await
        } else {
            Ok(())
        }
    }

    async fn push_comment(
        &mut self,
        comment: &Comment,
        listings: &mut [ExpectedListing],
    ) -> anyhow::Result<()> {
        let primary = primary_item(comment)?;
        let table = self.table.name().to_owned();
        let image = Image::of_primary(&primary)?;
        for listing in listings {
            if listing.add(comment) && !listing.key.is_primary() {
                self.push(&table, &image.duplicate(&listing.key)).await?;
            }
        }
        self.push(&table, &primary).await
    }

    async fn flush(&mut self) -> anyhow::Result<()> {
        for (table, items) in std::mem::take(&mut self.waiting) {
            match &self.file {
                Some((database, _)) => {
                    let items = items
                        .iter()
                        .map(|item| engine_item(item.iter()))
                        .collect::<anyhow::Result<_>>()?;
                    database.import_items(&table, items, ImportOptions::default())?;
                }
                None => put_all(self.table.client(), &table, items).await?,
            }
        }
        Ok(())
    }

    pub(crate) async fn finish(mut self) -> anyhow::Result<TableStore> {
        self.flush().await?;
        match self.file {
            Some((database, folder)) => {
                drop(database);
                TableStore::start_in(folder, self.table.name()).await
            }
            None => Ok(TableStore {
                table: self.table,
                engine: None,
            }),
        }
    }
}

async fn put_all(client: &Client, table: &str, items: Vec<Item>) -> anyhow::Result<()> {
    for items in items.chunks(CALL_ITEMS) {
        let mut unwritten = Vec::new();
        for item in items {
            let put = PutRequest::builder()
                .set_item(Some(item.clone().into()))
                .build()?;
            unwritten.push(WriteRequest::builder().put_request(put).build());
        }
        let mut backoff = Backoff::until(Instant::now() + READY_WITHIN);
        while !unwritten.is_empty() {
            let answer = client
                .batch_write_item()
                .request_items(table, unwritten)
                .send()
                .await?;
            unwritten = answer
                .unprocessed_items
                .unwrap_or_default()
                .remove(table)
                .unwrap_or_default();
            ensure!(
                unwritten.is_empty() || backoff.wait().await,
                "{table} took no more items for {READY_WITHIN:?}"
            );
        }
    }
    Ok(())
}

/// Converts directly, because a conversion through JSON takes several times as long.
fn engine_item<'item>(
    item: impl Iterator<Item = (&'item String, &'item AttributeValue)>,
) -> anyhow::Result<dynoxide::Item> {
    item.map(|(name, value)| Ok((name.clone(), engine_value(value)?)))
        .collect()
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
