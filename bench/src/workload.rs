//! The comments of the measurements, the events made from them, and the servers.

use std::{ffi::OsString, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use aws_lambda_events::{dynamodb::Event, streams::DynamoDbEventResponse};
use aws_sdk_dynamodb::{
    operation::create_table::builders::CreateTableFluentBuilder,
    types::{AttributeDefinition, BillingMode, GlobalSecondaryIndex, StreamSpecification, StreamViewType},
};
use local_stack::demo::demo_comments;
use model::{
    BlobFormat, Comment, CommentId, CommentText, FilterKey, Language, ProductId, Rating, Revision, SiteData, Status,
    Timestamp,
    item::{CommentItem, Image, attribute},
};
use page_index::PageIndex;
use rand::{
    RngExt, SeedableRng,
    distr::{Distribution, weighted::WeightedIndex},
    rngs::StdRng,
};
use redis::aio::MultiplexedConnection;
use redis_index::RedisIndexConfig;
use redis_server::RedisServer;
use serde_dynamo::Item;
use serde_json::{Value, json};
use table::{Table, definition, store_error};
use tempfile::TempDir;

/// Records per invocation: the setting of the event source mappings in the deployment template.
pub(crate) const EVENT_RECORDS: usize = 100;

/// How many of ten comments belong to the top product.
const TOP_PRODUCT_OF_TEN: u32 = 3;
/// Number of other products. The k-th one is drawn in proportion to 1/k (Zipf's law).
const PRODUCTS: u32 = 10_000;
/// Languages with their relative frequencies.
pub(crate) const LANGUAGES: [(&str, u32); 7] =
    [("en", 60), ("de", 12), ("fr", 10), ("es", 8), ("pt-BR", 5), ("he", 3), ("ja", 2)];
/// Relative frequencies of the ratings 1 to 5.
pub(crate) const RATING_WEIGHTS: [u32; 5] = [14, 6, 9, 21, 50];
/// The time of the first comment, 2024-01-01T00:00:00Z; then the time span of all comments, two years.
pub(crate) const FIRST_MS: i64 = 1_704_067_200_000;
pub(crate) const SPAN_MS: i64 = 2 * 365 * 24 * 3_600_000;
const TEXTS: u64 = 1_000;
/// Long time-out, so that a busy machine does not end a measurement.
const REDIS_TIMEOUT: Duration = Duration::from_secs(30);

/// An endless generator of comments. Ids are ULIDs. A given seed always gives the same comments.
pub(crate) struct Comments {
    rng: StdRng,
    top_product: ProductId,
    products: Vec<ProductId>,
    product_weights: WeightedIndex<f64>,
    languages: Vec<Language>,
    language_weights: WeightedIndex<u32>,
    rating_weights: WeightedIndex<u32>,
    texts: Vec<CommentText>,
    drawn: u32,
}

impl Comments {
    pub(crate) fn new(seed: u64) -> anyhow::Result<Self> {
        let product = |number: u32| ProductId::parse(&format!("shop/item-{number:05}"));
        Ok(Self {
            rng: StdRng::seed_from_u64(seed),
            top_product: product(0)?,
            products: (1..=PRODUCTS).map(product).collect::<Result<_, _>>()?,
            product_weights: WeightedIndex::new((1..=PRODUCTS).map(|rank| 1.0 / f64::from(rank)))?,
            languages: LANGUAGES.iter().map(|(tag, _)| Language::parse(tag)).collect::<Result<_, _>>()?,
            language_weights: WeightedIndex::new(LANGUAGES.map(|(_, weight)| weight))?,
            rating_weights: WeightedIndex::new(RATING_WEIGHTS)?,
            texts: demo_comments(TEXTS).map(|comment| comment.text).collect(),
            drawn: 0,
        })
    }

    pub(crate) fn draw(&mut self) -> anyhow::Result<Comment> {
        let rng = &mut self.rng;
        let created_at = Timestamp::from_epoch_ms(FIRST_MS + rng.random_range(0..SPAN_MS))?;
        // A revision is a ULID, like our comment ids.
        let (id, revision) =
            (Revision::after(None, created_at, rng.random()), Revision::after(None, created_at, rng.random()));
        let is_top = self.drawn % 10 < TOP_PRODUCT_OF_TEN;
        let product =
            if is_top { Some(&self.top_product) } else { self.products.get(self.product_weights.sample(rng)) };
        let language = self.languages.get(self.language_weights.sample(rng));
        let text = self.texts.get(rng.random_range(0..self.texts.len()));
        self.drawn += 1;
        Ok(Comment {
            id: CommentId::parse(&id.to_string())?,
            product: product.context("a product")?.clone(),
            language: language.context("a language")?.clone(),
            rating: Rating::new(1 + self.rating_weights.sample(rng) as u64)?,
            created_at,
            revision,
            status: Status::Published,
            text: text.context("a text")?.clone(),
            site: SiteData::default(),
        })
    }

    pub(crate) fn take(&mut self, count: u32) -> anyhow::Result<Vec<Comment>> {
        (0..count).map(|_| self.draw()).collect()
    }
}

pub(crate) fn primary_item(comment: &Comment) -> anyhow::Result<Item> {
    Ok(serde_dynamo::to_item(CommentItem::primary(comment, BlobFormat::Map))?)
}

/// A comment's 32 items, the primary one first.
pub(crate) fn items(comment: &Comment) -> anyhow::Result<Vec<Item>> {
    let primary = primary_item(comment)?;
    let image = Image::of_primary(&primary)?;
    let duplicates: Vec<Item> = comment.placement().duplicate_keys().map(|key| image.duplicate(&key)).collect();
    Ok([primary].into_iter().chain(duplicates).collect())
}

/// All filter keys of a comment, the primary one first.
pub(crate) fn filter_keys(comment: &Comment) -> Vec<FilterKey> {
    let primary = FilterKey::primary(comment.product.clone());
    [primary].into_iter().chain(comment.placement().duplicate_keys()).collect()
}

/// The events that the Lambda service would send for these new comments, in this order.
pub(crate) fn events(comments: &[Comment]) -> anyhow::Result<Vec<Event>> {
    let mut sequence_number = 0_u64;
    let mut event = |comments: &[Comment]| -> anyhow::Result<Event> {
        let mut records = Vec::with_capacity(comments.len());
        for comment in comments {
            sequence_number += 1;
            let item = primary_item(comment)?;
            records.push(record(None, Some(&item), sequence_number)?);
        }
        Ok(serde_json::from_value(json!({ "Records": records }))?)
    };
    comments.chunks(EVENT_RECORDS).map(&mut event).collect()
}

/// The event that the Lambda service would send for one change of a primary item.
pub(crate) fn event(old: Option<&Item>, new: Option<&Item>, sequence_number: u64) -> anyhow::Result<Event> {
    Ok(serde_json::from_value(json!({ "Records": [record(old, new, sequence_number)?] }))?)
}

fn record(old: Option<&Item>, new: Option<&Item>, sequence_number: u64) -> anyhow::Result<Value> {
    let event_name = match (old, new) {
        (None, _) => "INSERT",
        (Some(_), Some(_)) => "MODIFY",
        (Some(_), None) => "REMOVE",
    };
    let any = new.or(old).context("a change has an image")?;
    let change = json!({
        "ApproximateCreationDateTime": 1_767_225_600.0,
        "Keys": { "pk": any.get("pk"), "sk": any.get("sk") },
        "SequenceNumber": format!("{sequence_number:021}"),
        "SizeBytes": 400,
        "StreamViewType": "NEW_AND_OLD_IMAGES",
        "OldImage": old,
        "NewImage": new,
    });
    Ok(json!({
        "eventID": format!("{sequence_number:032x}"),
        "eventName": event_name,
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "eu-central-1",
        "eventSourceARN": "arn:aws:dynamodb:eu-central-1:000000000000:table/bench/stream/2026-01-01T00:00:00.000",
        "dynamodb": change,
    }))
}

/// A time limit for a handler, far above any duration.
pub(crate) fn deadline() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_secs(600)
}

/// Refuses the answer of a handler that did not process its whole batch.
pub(crate) fn expect_processed(answer: &DynamoDbEventResponse) -> anyhow::Result<()> {
    match answer.batch_item_failures.len() {
        0 => Ok(()),
        failures => bail!("the handler reports {failures} records for retry"),
    }
}

/// A folder in memory if the system has one, so that the measurement uses no disk.
pub(crate) fn folder() -> anyhow::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { TempDir::with_prefix_in("pagemark-bench-", memory) } else { TempDir::new() };
    folder.context("a folder for the data")
}

/// The project's table without its stream, time to live and backups.
pub(crate) async fn create_table_without_stream(table: &Table) -> anyhow::Result<()> {
    create_table_with(table, definition::attribute_definitions()?, indexes()?).await
}

/// The project's table with its stream, without time to live and backups. It may not be active yet.
///
/// # Errors
/// [`process::StoreError`], a refusal when there is a table of this name.
pub(crate) async fn create_table_with_stream(table: &Table) -> anyhow::Result<()> {
    let stream = StreamSpecification::builder().stream_enabled(true);
    let stream = stream.stream_view_type(StreamViewType::NewAndOldImages).build()?;
    let create = create_call(table, definition::attribute_definitions()?, indexes()?)?;
    create.stream_specification(stream).send().await.map_err(store_error)?;
    Ok(())
}

fn indexes() -> anyhow::Result<Vec<GlobalSecondaryIndex>> {
    Ok(vec![definition::gsi()?, definition::primaries()?, definition::authors()?, definition::moderation()?])
}

/// A table with these indexes, and these attributes in its keys and theirs.
pub(crate) async fn create_table_with(
    table: &Table,
    attributes: Vec<AttributeDefinition>,
    indexes: Vec<GlobalSecondaryIndex>,
) -> anyhow::Result<()> {
    create_call(table, attributes, indexes)?.send().await?;
    Ok(())
}

fn create_call(
    table: &Table,
    attributes: Vec<AttributeDefinition>,
    indexes: Vec<GlobalSecondaryIndex>,
) -> anyhow::Result<CreateTableFluentBuilder> {
    let create = table.client().create_table().table_name(table.name());
    let create = create.set_attribute_definitions(Some(attributes)).set_global_secondary_indexes(Some(indexes));
    let create = create.set_key_schema(Some(definition::key_schema(attribute::PK, attribute::SK)?));
    Ok(create.billing_mode(BillingMode::PayPerRequest))
}

/// A connection to a Redis for the measurement itself.
pub(crate) async fn redis_connection(url: &str) -> anyhow::Result<MultiplexedConnection> {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(REDIS_TIMEOUT));
    Ok(redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?)
}

/// A separate Redis, a page index in it, and a separate connection for the measurement.
pub(crate) struct Redis {
    pub(crate) index: PageIndex,
    pub(crate) config: RedisIndexConfig,
    pub(crate) connection: MultiplexedConnection,
    server: Arc<RedisServer>,
    // Declared last, so that the server ends before the folder is removed.
    _folder: TempDir,
}

impl Redis {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let folder = folder()?;
        Self::connect(RedisServer::start(folder.path(), &[]).await?, folder).await
    }

    /// Starts this program, whatever the environment names.
    pub(crate) async fn start_program(program: OsString) -> anyhow::Result<Self> {
        let folder = folder()?;
        Self::connect(RedisServer::start_program(program, folder.path(), &[]).await?, folder).await
    }

    async fn connect(server: Arc<RedisServer>, folder: TempDir) -> anyhow::Result<Self> {
        let config = RedisIndexConfig { timeout: REDIS_TIMEOUT, ..RedisIndexConfig::new(server.url()) };
        let index = redis_index::connect(&config)?;
        let connection = redis_connection(&server.url()).await?;
        Ok(Self { index, config, connection, server, _folder: folder })
    }

    /// Memory of the data: all used memory without the buffers of clients, which come and go.
    pub(crate) async fn memory_bytes(&mut self) -> anyhow::Result<u64> {
        let info: redis::InfoDict = redis::cmd("INFO").arg("memory").query_async(&mut self.connection).await?;
        let field = |name: &str| info.get::<u64>(name).with_context(|| format!("INFO memory has no {name}"));
        Ok(field("used_memory")?.saturating_sub(field("mem_clients_normal")?))
    }

    /// The name and version of the server, such as "Redis 7.0.15".
    pub(crate) async fn version(&mut self) -> anyhow::Result<String> {
        let info: redis::InfoDict = redis::cmd("INFO").arg("server").query_async(&mut self.connection).await?;
        let version = |field: &str, name: &str| info.get::<String>(field).map(|version| format!("{name} {version}"));
        // Valkey also tells the version of Redis that it is compatible with.
        version("valkey_version", "Valkey").or_else(|| version("redis_version", "Redis")).context("a version")
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    pub(crate) fn pid(&self) -> anyhow::Result<u32> {
        self.server.pid().context("Redis runs")
    }

    pub(crate) async fn stop(self) {
        drop(self.server);
    }
}
