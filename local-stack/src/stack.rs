//! The whole stack in one process: engine, page index, event source mappings, page index keeper,
//! API.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use deployed_index::PageIndexSettings;
use functions::Quarantine;
use futures_util::FutureExt;
use page_index::PageIndex;
use page_indexer::PageIndexer;
use process::{Backoff, StoreError, aws::new_http_client, now};
use stream_writer::StreamWriter;
use table::{Table, TableConfig, TableDescription};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use crate::{
    backlog::MappingProgress,
    blocking::blocking,
    control::{ControlSocket, Running, Stores},
    data_dir::{DataDir, Entrance},
    engine::{DataFile, Engine, parse_sequence_number},
    event_source_mapping::{
        EventSourceMapping, Handler, MappingSettings, MappingState, streams_client,
    },
    index_host::{IndexHost, remember_redis},
    index_keeper::{IndexKeeper, KeeperState, looked_at, replayed},
    parts::Parts,
    repair::{begin_watermark, on_schedule, release_leases},
    room::watch_room,
    served::ServedApi,
    settings::{QUARANTINE, StackSettings, TABLE, WITHOUT_NETWORK, table_config},
    trim::{trim, trim_processed},
};

/// Maximum number of concurrent calls for one fan-out batch; the engine has one connection.
const WRITE_CONCURRENCY: usize = 4;
/// Maximum number of retries of a batch; after them it goes to quarantine.
const RETRY_ATTEMPTS_MAX: u32 = 20;
/// How long a start waits for another engine that does not answer yet.
const ENGINE_ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// Time limit of the handlers at a stop, to process what remains. Without that, the next start
/// takes longer.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(2);
#[derive(Debug)]
pub struct Stack {
    table: Table,
    index: PageIndex,
    /// Where other processes reach the engine; `None` without a port.
    dynamodb_url: Option<String>,
    index_host: IndexHost,
    mappings: MappingProgress,
    index_state: watch::Receiver<KeeperState>,
    parts: Parts,
    api: Option<ServedApi>,
    engine: Option<Arc<Engine>>,
    data_dir: DataDir,
}

impl Stack {
    /// Starts everything. The stack serves at once; the page index is ready a moment later.
    ///
    /// # Errors
    /// The part that could not be started, and why: one line that says what to do.
    pub async fn start(settings: StackSettings) -> anyhow::Result<Self> {
        let data_dir = DataDir::open(settings.data_dir.as_deref())?;
        data_dir.refuse_other_numbers()?;
        let redis_url = settings.redis_url.clone();
        let stack = Self::start_in(data_dir, settings).await?;
        remember_redis(redis_url, stack.data_dir())
            .context("the place of the page index cannot be remembered")?;
        Ok(stack)
    }

    /// Like [`Stack::start`], in a folder that is locked already.
    pub(crate) async fn start_in(
        mut data_dir: DataDir,
        settings: StackSettings,
    ) -> anyhow::Result<Self> {
        let mut parts = Parts::default();
        // 1. The engine, and the table in it.
        let (engine, dynamodb_url) = start_engine(&settings, &data_dir).await?;
        let OpenedTable {
            table,
            table_id,
            stream_arn,
        } = open_table(&settings, dynamodb_url.as_deref(), engine.as_deref()).await?;
        // 2. The page index, with what its snapshot holds.
        let index_host =
            IndexHost::open(settings.redis_url.as_deref(), &data_dir.path, &table_id).await;
        let index = index_host.client()?;
        index.ping().await?;
        // 3. Where other commands find this stack.
        let control = ControlSocket::bind(&data_dir.path)?;
        let socket = control.path().to_owned();
        Running { socket }.announce(&table).await?;
        // 4. The two functions, and the keeper of the page index, which waits for what the stream
        //    delivers again.
        let quarantine = data_dir.path.join(QUARANTINE);
        let [fan_out, indexing] = event_source_mappings(
            engine.as_deref(),
            dynamodb_url.as_deref(),
            stream_arn,
            &table,
            &index,
            &quarantine,
        )
        .await;
        let mappings = MappingProgress::of(
            [fan_out.state(), indexing.state()],
            engine.as_ref(),
            Arc::clone(&settings.api.disk_is_full),
        );
        let newest = match &engine {
            Some(engine) => Some(engine.newest_stream_record(TABLE).await?),
            None => None,
        };
        let replayed = replayed(newest, indexing.state());
        let keeper = IndexKeeper::new(table.clone(), table_id.clone(), index.clone());
        let index_state = keeper.state();
        // 5. The API.
        let api_index = index_host.client()?;
        let api =
            ServedApi::start(&settings, &data_dir.path, table.clone(), api_index, &parts).await?;
        if api.is_some() {
            let other_engine = settings.dynamodb_url.clone();
            data_dir.announce(Entrance { other_engine })?;
        }
        // 6. What runs as long as the stack.
        parts.spawn("the mapping of stream-writer", fan_out.run());
        parts.spawn("the mapping of page-indexer", indexing.run());
        // Another process may write to another engine while no stack runs.
        let is_from_snapshot = index_host.is_from_snapshot() && engine.is_some();
        parts.spawn(
            "the keeper of the page index",
            keeper.run(replayed, is_from_snapshot),
        );
        let stores = Stores {
            table: table.clone(),
            index: index.clone(),
            index_state: index_state.clone(),
            quarantine,
            disk_is_full: Arc::clone(&settings.api.disk_is_full),
            engine: engine.as_deref().map(Engine::port),
        };
        let controlled = control.serve(stores, mappings.clone());
        parts.spawn("the control socket", controlled);
        let mut stack = Self {
            table,
            index,
            dynamodb_url,
            index_host,
            mappings,
            index_state,
            parts,
            api,
            engine,
            data_dir,
        };
        stack.spawn_beside_engine(&settings);
        stack.spawn_schedule(settings);
        Ok(stack)
    }

    /// Spawns the parts that only a stack with the embedded engine has.
    fn spawn_beside_engine(&mut self, settings: &StackSettings) {
        let Some(engine) = &self.engine else { return };
        if let IndexHost::Embedded(embedded) = &self.index_host
            && !self.data_dir.is_temporary()
        {
            let saved = embedded
                .clone()
                .save_regularly(engine.clone(), settings.snapshot_every);
            self.parts.spawn("what saves the page index", saved);
        }
        self.parts.spawn("the engine", engine.ended());
        let disk_is_full = Arc::clone(&settings.api.disk_is_full);
        let watched = watch_room(self.data_dir.path.clone(), disk_is_full);
        self.parts.spawn("what watches the disk", watched);
        let table = self.table.name().to_owned();
        let trimmed = trim(engine.clone(), table, self.mappings.clone());
        self.parts.spawn("what trims the stream", trimmed);
    }

    fn spawn_schedule(&mut self, settings: StackSettings) {
        let started = looked_at(self.index_state.clone());
        let scheduled = on_schedule(self.table.clone(), self.index.clone(), started, settings);
        self.parts.spawn("the schedule of repairs", scheduled);
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    pub fn index(&self) -> &PageIndex {
        &self.index
    }

    /// How the page index is reached in Redis; `None` when it is inside this process.
    pub fn redis_config(&self) -> Option<&PageIndexSettings> {
        self.index_host.redis_config()
    }

    /// Where the page index is, for people.
    pub fn index_host(&self) -> &'static str {
        self.index_host.shown()
    }

    /// The embedded engine; `None` when the stack uses another one.
    pub fn engine(&self) -> Option<&Engine> {
        self.engine.as_deref()
    }

    /// The URL of the API and the pages, without a slash at the end; `None` without an API.
    pub fn api_url(&self) -> Option<String> {
        self.api
            .as_ref()
            .map(|api| format!("http://{}", api.address))
    }

    /// The URL of health and metrics, without a slash at the end; `None` if they are served with
    /// everything else.
    pub fn operations_url(&self) -> Option<String> {
        let address = self.api.as_ref().and_then(|api| api.operations);
        address.map(|address| format!("http://{address}"))
    }

    /// Where other processes reach the engine by the network, if they do.
    pub fn dynamodb_url(&self) -> Option<&str> {
        self.dynamodb_url.as_deref()
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir.path
    }

    /// The progress of the two mappings: `stream-writer`'s, then `page-indexer`'s.
    pub fn mapping_states(&self) -> [MappingState; 2] {
        self.mappings.states()
    }

    pub fn index_state(&self) -> KeeperState {
        self.index_state.borrow().clone()
    }

    /// Waits until both mappings have processed every record written before this call.
    pub async fn wait_until_caught_up(&mut self) {
        self.mappings.wait_until_caught_up().await;
    }

    pub(crate) fn mapping_progress(&self) -> MappingProgress {
        self.mappings.clone()
    }

    /// Waits until the page index is ready.
    ///
    /// # Errors
    /// The reason why it cannot become ready: the server is not suitable.
    pub async fn wait_until_index_ready(&mut self) -> anyhow::Result<()> {
        let decided = self
            .index_state
            .wait_for(|state| matches!(state, KeeperState::Ready | KeeperState::Refused(_)))
            .await;
        match decided.as_deref() {
            Ok(KeeperState::Refused(reason)) => bail!("{reason}"),
            _ => Ok(()),
        }
    }

    /// Waits until the page index has been looked at for the first time. Then it is ready, or
    /// cannot become so for now.
    pub(crate) async fn wait_until_index_looked_at(&self) {
        looked_at(self.index_state.clone()).await;
    }

    /// Waits for the first part of the stack that ends unasked, and says which and why. Such a
    /// stack must be stopped.
    pub fn part_ended(&self) -> impl Future<Output = String> + use<> {
        self.parts.ended()
    }

    /// How many batches and records have gone to quarantine in the life of this process.
    pub fn quarantined(&self) -> u64 {
        self.mapping_states()
            .iter()
            .map(|state| state.quarantined)
            .sum()
    }

    /// Stops everything: requests under way are finished, the page index is saved, no child stays
    /// behind, and temporary data is removed.
    pub async fn stop(mut self) {
        // 1. Nothing new comes in.
        if let Some(api) = self.api.take() {
            api.stop().await;
        }
        // 2. The functions process what remains.
        let keeps_data = self.engine.is_some() && !self.data_dir.is_temporary();
        if keeps_data {
            self.leave_no_change().await;
        }
        self.parts.shutdown().await;
        // 3. The table is removed with its engine. Its page index in Redis would stay behind
        //    unused.
        let table_is_removed = self.engine.is_some() && !keeps_data;
        if table_is_removed
            && self.redis_config().is_some()
            && let Err(error) = self.index.clear().await
        {
            tracing::warn!(%error, "the page index is left behind");
        }
        // 4. The engine. If a task still shared it, the last one to drop it would stop it.
        if let Some(engine) = self.engine.take().and_then(Arc::into_inner) {
            if keeps_data {
                // The next start can do it. An engine that has ended unasked would not, and a
                // sweep may be under way.
                let trimmed = trim_processed(&engine, self.table.name(), &self.mappings);
                timeout(CATCH_UP_TIMEOUT, trimmed).await.ok();
            }
            engine.sync().await;
            engine.stop().await;
            // 5. The page index, of which nothing can change any more.
            if keeps_data && let IndexHost::Embedded(embedded) = &self.index_host {
                if self.has_indexed_everything().await {
                    embedded.leave_nothing_to_reconcile().await;
                }
                embedded.save(None).await;
            }
        }
    }

    /// Waits until every change has its duplicates, and then advances the watermark.
    async fn leave_no_change(&mut self) {
        // A change without its duplicates is in the stream, in quarantine, or older than the
        // unfinished catching up.
        let is_whole = timeout(CATCH_UP_TIMEOUT, self.wait_until_caught_up())
            .await
            .is_ok()
            && self.index_state() == KeeperState::Ready
            && !self.has_quarantine().await;
        if is_whole && let Err(error) = self.table.advance_watermark(now()).await {
            tracing::warn!(%error, "the next start takes longer");
        }
        // `stream-writer` has written records for `page-indexer` to pass over.
        timeout(CATCH_UP_TIMEOUT, self.wait_until_caught_up())
            .await
            .ok();
    }

    /// Whether stream records wait in quarantine, of this life of the stack or of an earlier one.
    async fn has_quarantine(&self) -> bool {
        let kept = Quarantine::Folder(self.data_dir.path.join(QUARANTINE))
            .list(None, 1)
            .await;
        self.quarantined() > 0 || !kept.is_ok_and(|names| names.is_empty())
    }

    /// Whether the page index has every change. The engine has stopped, so no other program can
    /// make one any more.
    async fn has_indexed_everything(&self) -> bool {
        let data_file = self.data_dir.data_file();
        let table = self.table.name().to_owned();
        let newest =
            blocking(move || DataFile::of_stopped(&data_file)?.newest_stream_record(&table)).await;
        let [_, indexing] = self.mapping_states();
        let processed = indexing
            .processed
            .and_then(|shown| parse_sequence_number(&shown).ok());
        // What went to quarantine counts as processed.
        self.quarantined() == 0 && newest.is_ok_and(|newest| Some(newest) == processed)
    }
}

/// The given engine's URL, or an embedded engine and the URL of its port.
async fn start_engine(
    settings: &StackSettings,
    data_dir: &DataDir,
) -> anyhow::Result<(Option<Arc<Engine>>, Option<String>)> {
    if let Some(url) = &settings.dynamodb_url {
        return Ok((None, Some(url.clone())));
    }
    if !settings.new {
        data_dir.refuse_lost_database()?;
    }
    let engine = Engine::start(&data_dir.data_file(), settings.dynamodb_listen).await?;
    let url = engine.endpoint_url();
    Ok((Some(Arc::new(engine)), url))
}

struct OpenedTable {
    table: Table,
    table_id: String,
    stream_arn: String,
}

/// Opens the table, which is created if it is missing.
async fn open_table(
    settings: &StackSettings,
    dynamodb_url: Option<&str>,
    engine: Option<&Engine>,
) -> anyhow::Result<OpenedTable> {
    let dynamodb_url = dynamodb_url.unwrap_or(WITHOUT_NETWORK);
    let config = TableConfig {
        comment_blob: settings.comment_blob.comment_blob,
        ..table_config(TABLE, dynamodb_url)
    };
    let table = match engine {
        Some(engine) => Table::connect_through(&config, engine.http_client()).await,
        None => Table::connect(&config).await,
    };
    let description = created_when_it_answers(&table, settings.dynamodb_url.as_deref()).await?;
    let stream_arn = description
        .stream_arn
        .with_context(|| format!("the table {} has no stream", table.name()))?;
    begin_watermark(&table).await?;
    if engine.is_some() {
        release_leases(&table).await?;
    }
    Ok(OpenedTable {
        table,
        table_id: description.id,
        stream_arn,
    })
}

/// Creates the table if it is missing. Another engine may be just starting, or be slow.
async fn created_when_it_answers(
    table: &Table,
    other_engine: Option<&str>,
) -> Result<TableDescription, StoreError> {
    let mut backoff = Backoff::until(Instant::now() + ENGINE_ANSWERS_WITHIN);
    let mut is_said = false;
    loop {
        let error = match table.create_if_missing().await {
            Err(error) if error.is_unavailable() => error,
            decided => return decided,
        };
        let Some(url) = other_engine else {
            return Err(error);
        };
        if !is_said {
            is_said = true;
            let seconds = ENGINE_ANSWERS_WITHIN.as_secs();
            tracing::warn!(%error, url, "waiting up to {seconds} s for the engine");
        }
        if !backoff.wait().await {
            return Err(error);
        }
    }
}

/// The mappings of `stream-writer` and `page-indexer`, which call the handlers in this process.
async fn event_source_mappings(
    engine: Option<&Engine>,
    dynamodb_url: Option<&str>,
    stream_arn: String,
    table: &Table,
    index: &PageIndex,
    quarantine: &Path,
) -> [EventSourceMapping; 2] {
    let http_client = match engine {
        Some(engine) => engine.http_client(),
        None => new_http_client(dynamodb_url)(),
    };
    let streams = streams_client(dynamodb_url.unwrap_or(WITHOUT_NETWORK), http_client).await;
    let quarantine = Quarantine::Folder(quarantine.to_owned());
    let writer = StreamWriter::new(table.clone(), quarantine.clone(), WRITE_CONCURRENCY);
    let indexer = PageIndexer::new(index.clone(), quarantine.clone());
    let fan_out: Handler = Arc::new(move |event, deadline| {
        let writer = writer.clone();
        async move { writer.handle(&event, deadline).await.response }.boxed()
    });
    let indexing: Handler = Arc::new(move |event, deadline| {
        let indexer = indexer.clone();
        async move { indexer.handle(&event, deadline).await.response }.boxed()
    });
    [
        EventSourceMapping::new(
            stream_writer::FUNCTION,
            with_few_retries(MappingSettings::STREAM_WRITER),
            streams.clone(),
            stream_arn.clone(),
            fan_out,
            quarantine.clone(),
            engine.map(Engine::writes),
        ),
        EventSourceMapping::new(
            page_indexer::FUNCTION,
            with_few_retries(MappingSettings::PAGE_INDEXER),
            streams,
            stream_arn,
            indexing,
            quarantine,
            engine.map(Engine::writes),
        ),
    ]
}

/// A deployed mapping's settings, but for the number of retries.
fn with_few_retries(settings: MappingSettings) -> MappingSettings {
    MappingSettings {
        maximum_retry_attempts: RETRY_ATTEMPTS_MAX,
        ..settings
    }
}
