//! The whole stack in one process: engine, Redis, event source mappings, page index keeper, API.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use api::{ApiSettings, Application, SiteSettings, WriteToken};
use aws_sdk_dynamodbstreams::config::{BehaviorVersion, Credentials, Region};
use functions::Quarantine;
use futures_util::FutureExt;
use model::{BlobFormat, ProductId};
use page_index::{PageIndex, PageIndexConfig};
use page_indexer::PageIndexer;
use process::StoreError;
use stream_writer::{FanOut, StreamWriter};
use table::{Table, TableConfig};
use tempfile::TempDir;
use thiserror::Error;
use tokio::{
    sync::{oneshot, watch},
    task::{JoinHandle, JoinSet},
    time::Instant,
};

use crate::{
    engine::{Engine, EngineError},
    event_source_mapping::{EventSourceMapping, Handler, MappingState},
    index_keeper::{INDEX_MAX_AGE, IndexKeeper, IndexState},
    redis_server::{RedisServer, RedisServerError},
    repair::{AuditSchedule, RepairSchedule, audit, begin_watermark, repair},
    running::RunningStack,
    trim::trim,
};

/// The table's name. Each data folder belongs to one table, so the name need not change.
pub const TABLE: &str = "pagemark";
/// Maximum number of concurrent calls for one fan-out batch; the engine has one connection.
const WRITE_CONCURRENCY: usize = 4;
/// Maximum number of retries of a batch; after them it goes to quarantine.
const RETRY_ATTEMPTS_MAX: u32 = 20;
/// Grace period for requests under way at a stop.
const API_STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of a stack.
#[derive(Clone)]
pub struct StackSettings {
    /// The address of the API; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The address of the engine; port 0 takes a free one.
    pub dynamodb_listen: SocketAddr,
    /// An engine to use instead of the embedded one, such as DynamoDB Local. The table is created there if it is
    /// missing, and stays there.
    pub dynamodb_url: Option<String>,
    /// The table's name.
    pub table: String,
    /// A Redis server to use instead of a child of the stack.
    pub redis_url: Option<String>,
    /// The folder for data; `None` for a temporary folder, which is removed at the end.
    pub data_dir: Option<PathBuf>,
    /// The bearer token for writes.
    pub write_token: WriteToken,
    /// Products to link from the start page.
    pub sample_products: Vec<ProductId>,
    /// The settings of the pages.
    pub site: SiteSettings,
    /// How duplicates are written.
    pub fan_out: FanOut,
    /// The format in which comments' texts are written.
    pub comment_blob: BlobFormat,
    /// The schedule of the repair job's `recent`; `None` to run none.
    pub repair: Option<RepairSchedule>,
    /// The schedule of the repair job's audits; `None` to run none.
    pub audit: Option<AuditSchedule>,
}

impl std::fmt::Debug for StackSettings {
    /// Omits the URL of Redis, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackSettings").field("listen", &self.listen).finish_non_exhaustive()
    }
}

impl StackSettings {
    /// A stack on free ports, which keeps no data; texts are written as maps.
    pub fn ephemeral(write_token: WriteToken) -> Self {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            listen: any_port,
            dynamodb_listen: any_port,
            dynamodb_url: None,
            table: TABLE.to_owned(),
            redis_url: None,
            data_dir: None,
            write_token,
            sample_products: Vec::new(),
            site: SiteSettings { comment_form: true, ..SiteSettings::default() },
            fan_out: FanOut::Batch,
            comment_blob: BlobFormat::Map,
            repair: None,
            audit: None,
        }
    }
}

/// The reason why the stack does not start. Each message is one line and says what to do.
#[derive(Debug, Error)]
pub enum StackError {
    /// The folder for data cannot be used.
    #[error("the data folder {path} cannot be used: {source}")]
    DataDir {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The engine does not start.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Redis does not start.
    #[error(transparent)]
    Redis(#[from] RedisServerError),
    /// The table cannot be made.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The template's mappings cannot be read.
    #[error(transparent)]
    Template(#[from] infra::TemplateError),
    /// The table has no stream.
    #[error("the table {0} has no stream")]
    NoStream(String),
    /// The page index cannot be made ready on this server.
    #[error("{0}")]
    IndexRefused(String),
    /// The API does not start.
    #[error(transparent)]
    Api(#[from] api::StartError),
}

/// A running stack.
#[derive(Debug)]
pub struct Stack {
    table: Table,
    index: PageIndex,
    api_address: SocketAddr,
    dynamodb_url: String,
    redis_url: String,
    quarantine: Quarantine,
    data_dir: PathBuf,
    mappings: [watch::Receiver<MappingState>; 2],
    index_state: watch::Receiver<IndexState>,
    tasks: JoinSet<()>,
    api: JoinHandle<()>,
    stop_api: oneshot::Sender<()>,
    redis: Option<Arc<RedisServer>>,
    engine: Option<Arc<Engine>>,
    temporary: Option<TempDir>,
}

impl Stack {
    /// Starts everything. The stack serves at once; the page index is ready a moment later.
    ///
    /// # Errors
    /// The part that could not be started, and why.
    pub async fn start(settings: StackSettings) -> Result<Self, StackError> {
        let (data_dir, temporary) = data_dir(settings.data_dir.as_deref())?;
        let (engine, dynamodb_url) = start_engine(&settings, &data_dir).await?;
        let table_config = TableConfig {
            attempt_timeout: TABLE_TIMEOUT,
            call_timeout: TABLE_TIMEOUT,
            comment_blob: settings.comment_blob,
            ..TableConfig::new(&settings.table, Some(dynamodb_url.clone()))
        };
        let table = Table::connect(&table_config).await;
        let description = table.create_if_missing().await?;
        let stream_arn = description.stream_arn.ok_or_else(|| StackError::NoStream(settings.table.clone()))?;
        begin_watermark(&table).await?;
        let (redis, redis_url) = start_redis(&settings, &data_dir).await?;
        let mut index_config = PageIndexConfig { max_age: INDEX_MAX_AGE, ..PageIndexConfig::new(&redis_url) };
        if redis.is_none() {
            // A server that the stack did not start may hold the page index of a different stack.
            index_config.prefix = format!("pagemark-{}", description.id);
        }
        let index = PageIndex::connect(&index_config)?;
        index.ping().await?;

        let quarantine_folder = data_dir.join("quarantine");
        let own_redis_url = redis.as_ref().map(|redis| redis.url());
        RunningStack::new(own_redis_url, index_config.prefix.clone(), &quarantine_folder).announce(&table).await?;
        let quarantine = Quarantine::Folder(quarantine_folder);
        let [fan_out, indexing] =
            event_source_mappings(&settings, &dynamodb_url, stream_arn, &table, &index, &quarantine)?;
        let mappings = [fan_out.state(), indexing.state()];
        let keeper = IndexKeeper::new(table.clone(), index.clone(), description.id);
        let index_state = keeper.state();

        let (api_address, api, stop_api) = start_api(&settings, &table_config, &index_config).await?;

        let mut tasks = JoinSet::new();
        tasks.spawn(fan_out.run());
        tasks.spawn(indexing.run());
        tasks.spawn(keeper.run());
        if let Some(engine) = &engine {
            tasks.spawn(trim(engine.clone(), table.name().to_owned(), mappings.clone()));
        }
        if let Some(schedule) = settings.repair {
            tasks.spawn(repair(table.clone(), index.clone(), schedule));
        }
        if let Some(schedule) = settings.audit {
            tasks.spawn(audit(table.clone(), index.clone(), schedule));
        }
        if let Some(redis) = &redis {
            tasks.spawn(redis.clone().supervise(std::future::pending()));
        }
        Ok(Self {
            table,
            index,
            api_address,
            dynamodb_url,
            redis_url,
            quarantine,
            data_dir,
            mappings,
            index_state,
            tasks,
            api,
            stop_api,
            redis,
            engine,
            temporary,
        })
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The page index.
    pub fn index(&self) -> &PageIndex {
        &self.index
    }

    /// The Redis server that the stack started; `None` when it was given one.
    pub fn redis(&self) -> Option<&Arc<RedisServer>> {
        self.redis.as_ref()
    }

    /// The URL of the Redis server.
    pub fn redis_url(&self) -> &str {
        &self.redis_url
    }

    /// The embedded engine; `None` when the stack uses another one.
    pub fn engine(&self) -> Option<&Engine> {
        self.engine.as_deref()
    }

    /// The URL of the API and the pages, without a slash at the end.
    pub fn api_url(&self) -> String {
        format!("http://{}", self.api_address)
    }

    /// The DynamoDB endpoint.
    pub fn dynamodb_url(&self) -> &str {
        &self.dynamodb_url
    }

    /// The folder for batches that a mapping or a handler gave up on.
    pub fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }

    /// The folder of the data.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The progress of the two mappings: `stream-writer`'s, then `page-indexer`'s.
    pub fn mapping_states(&self) -> [MappingState; 2] {
        self.mappings.clone().map(|state| state.borrow().clone())
    }

    /// The state of the page index.
    pub fn index_state(&self) -> IndexState {
        self.index_state.borrow().clone()
    }

    /// Waits until both mappings have processed every record written before this call.
    pub async fn settle(&mut self) {
        let asked = Instant::now();
        for mapping in &mut self.mappings {
            // The sender lives in a task that ends only with the stack.
            mapping.wait_for(|state| state.caught_up_at.is_some_and(|at| at > asked)).await.ok();
        }
    }

    /// Waits until the page index is ready.
    ///
    /// # Errors
    /// The reason why it cannot become ready: the server is not suitable.
    pub async fn wait_until_index_ready(&mut self) -> Result<(), StackError> {
        let decided = |state: &IndexState| matches!(state, IndexState::Ready | IndexState::Refused(_));
        match self.index_state.wait_for(decided).await.as_deref() {
            Ok(IndexState::Refused(reason)) => Err(StackError::IndexRefused(reason.clone())),
            _ => Ok(()),
        }
    }

    /// How many batches and records have gone to quarantine in the life of this process.
    pub fn quarantined(&self) -> u64 {
        self.mapping_states().iter().map(|state| state.quarantined).sum()
    }

    /// Stops everything: requests under way are finished, no child stays behind, and temporary data is removed.
    pub async fn stop(mut self) {
        drop(self.stop_api);
        if tokio::time::timeout(API_STOP_TIMEOUT, &mut self.api).await.is_err() {
            self.api.abort();
        }
        self.tasks.shutdown().await;
        let table_stays = self.temporary.is_none() || self.engine.is_none();
        if table_stays && let Err(error) = RunningStack::withdraw(&self.table).await {
            tracing::warn!(%error, "the table still names this stack as running");
        }
        if self.redis.is_none() && self.temporary.is_some() && self.engine.is_some() {
            // The table is removed, so its page index would stay behind unused.
            if let Err(error) = self.index.clear().await {
                tracing::warn!(%error, "the page index is left behind");
            }
        }
        if let Some(redis) = &self.redis {
            redis.stop().await;
        }
        match self.engine.map(Arc::try_unwrap) {
            Some(Ok(engine)) => engine.stop().await,
            // Dropping the last one stops it as well.
            Some(Err(shared)) => drop(shared),
            None => {}
        }
        drop(self.temporary);
    }
}

/// The given engine's URL, or an embedded engine and its URL.
async fn start_engine(settings: &StackSettings, data_dir: &Path) -> Result<(Option<Arc<Engine>>, String), StackError> {
    if let Some(url) = &settings.dynamodb_url {
        return Ok((None, url.clone()));
    }
    let engine = Engine::start(&data_dir.join(DATA_FILE), settings.dynamodb_listen).await?;
    let url = engine.endpoint_url();
    Ok((Some(Arc::new(engine)), url))
}

/// The given server's URL, or a server of the stack's own and its URL.
async fn start_redis(
    settings: &StackSettings,
    data_dir: &Path,
) -> Result<(Option<Arc<RedisServer>>, String), StackError> {
    if let Some(url) = &settings.redis_url {
        return Ok((None, url.clone()));
    }
    let server = RedisServer::start(data_dir).await?;
    let url = server.url();
    Ok((Some(Arc::new(server)), url))
}

/// The mappings of `stream-writer` and `page-indexer`, which call the handlers in this process.
fn event_source_mappings(
    settings: &StackSettings,
    dynamodb_url: &str,
    stream_arn: String,
    table: &Table,
    index: &PageIndex,
    quarantine: &Quarantine,
) -> Result<[EventSourceMapping; 2], StackError> {
    let writer = StreamWriter::new(table.clone(), quarantine.clone(), settings.fan_out, WRITE_CONCURRENCY);
    let indexer = PageIndexer::new(index.clone(), quarantine.clone());
    let fan_out: Handler = Arc::new(move |event, deadline| {
        let writer = writer.clone();
        async move { writer.handle(&event, deadline).await.response }.boxed()
    });
    let indexing: Handler = Arc::new(move |event, deadline| {
        let indexer = indexer.clone();
        async move { indexer.handle(&event, deadline).await.response }.boxed()
    });
    let streams = streams_client(dynamodb_url);
    let is_embedded = settings.dynamodb_url.is_none();
    let mapping = |function, logical_id, handler| -> Result<EventSourceMapping, StackError> {
        let mut settings = infra::mapping_settings(logical_id)?;
        // A machine sleeps and a stack is stopped overnight, so old records may still be processed. Here the number of
        // tries is the limit instead of the age.
        settings.maximum_record_age_seconds = None;
        settings.maximum_retry_attempts = RETRY_ATTEMPTS_MAX;
        let (client, quarantine) = (streams.clone(), quarantine.clone());
        let mapping = EventSourceMapping::new(function, settings, client, stream_arn.clone(), handler, quarantine);
        // On long streams, polls alone keep DynamoDB Local busy (docs/engines.md).
        Ok(if is_embedded { mapping } else { mapping.paced_like_the_service() })
    };
    Ok([
        mapping(stream_writer::FUNCTION, "StreamWriter", fan_out)?,
        mapping(page_indexer::FUNCTION, "PageIndexer", indexing)?,
    ])
}

/// Starts the API, with clients of its own: their connections live on the API's threads and end with them. Returns its
/// address, its task, and the sender whose end stops it.
async fn start_api(
    settings: &StackSettings,
    table_config: &TableConfig,
    index_config: &PageIndexConfig,
) -> Result<(SocketAddr, JoinHandle<()>, oneshot::Sender<()>), StackError> {
    let api_settings = ApiSettings {
        write_tokens: vec![settings.write_token.hash()],
        sample_products: settings.sample_products.clone(),
        site: settings.site.clone(),
        ..ApiSettings::default()
    };
    let (table, index) = (Table::connect(table_config).await, PageIndex::connect(index_config)?);
    let application = Application::with_stores(settings.listen, table, index, api_settings)?;
    let address = application.address();
    let (stop, stopped) = oneshot::channel::<()>();
    let api = tokio::spawn(async move {
        let stopped = async move {
            // A dropped sender stops the API as well.
            stopped.await.ok();
        };
        if let Err(error) = application.run_until(stopped).await {
            tracing::error!(%error, "the API ended");
        }
    });
    Ok((address, api, stop))
}

fn streams_client(endpoint_url: &str) -> aws_sdk_dynamodbstreams::Client {
    let config = aws_sdk_dynamodbstreams::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("local"))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
        .endpoint_url(endpoint_url)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    aws_sdk_dynamodbstreams::Client::from_conf(config)
}

/// Time limit of one call to the engine: as long as a call with all its retries takes elsewhere. A writer's journal
/// relies on that bound.
pub(crate) const TABLE_TIMEOUT: Duration = Duration::from_secs(8);

/// The prefix of temporary data folders.
const TEMPORARY_PREFIX: &str = "pagemark-";
/// The engine's data file.
const DATA_FILE: &str = "dynamodb.sqlite";

/// The given folder for data, or else a temporary one, in memory where a file system for that exists.
fn data_dir(given: Option<&Path>) -> Result<(PathBuf, Option<TempDir>), StackError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| StackError::DataDir { path, source }
    };
    if let Some(path) = given {
        std::fs::create_dir_all(path).map_err(failed(path))?;
        return Ok((path.to_owned(), None));
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY_PREFIX);
    let in_memory = Path::new("/dev/shm");
    let directory = match builder.tempdir_in(in_memory) {
        Ok(directory) => {
            remove_abandoned(in_memory);
            directory
        }
        Err(_) => builder.tempdir().map_err(failed(&std::env::temp_dir()))?,
    };
    Ok((directory.path().to_owned(), Some(directory)))
}

/// A stack that is just starting locks its folder within this time.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// Removes temporary folders of stacks that were killed: memory would fill up with them. A folder of a stack that runs
/// has a locked lock file.
fn remove_abandoned(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let ours = entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX);
        let old = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > ABANDONED_AFTER));
        let Ok(lock) = std::fs::File::open(path.join(format!("{DATA_FILE}.lock"))) else { continue };
        if ours && old && lock.try_lock().is_ok() {
            tracing::info!(path = %path.display(), "removing what a killed stack left behind");
            // Another stack may be removing it too.
            std::fs::remove_dir_all(&path).ok();
        }
    }
}
