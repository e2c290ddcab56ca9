//! The tables of a run, and everything that fills and reads them.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, bail, ensure};
use aws_sdk_dynamodb::{
    Client,
    error::{DisplayErrorContext, ProvideErrorMetadata},
    types::{IndexStatus, TableStatus},
};
use four_index::{FourIndexTable, KeepCounters};
use functions::Quarantine;
use futures_util::FutureExt;
use local_stack::{
    clients::streams_client,
    event_source_mapping::{EventSourceMapping, Handler, MappingSettings, MappingState},
};
use model::Comment;
use page_indexer::PageIndexer;
use process::{Backoff, StoreError};
use stream_writer::StreamWriter;
use table::{Created, NewComment, Table};
use tempfile::TempDir;
use tokio::{sync::watch, task::JoinSet, time::Instant};

use super::budget::Budget;
use crate::{
    compare::Reader,
    filled_stores::{PageReader, connect_to},
    workload::{Redis, create_table_with_stream, folder},
};

/// Maximum time for a table to become active, or deletable. DynamoDB takes up to a minute with indexes.
const READY_WITHIN: Duration = Duration::from_secs(300);
/// Maximum time for the functions to process what was written.
const SETTLED_WITHIN: Duration = Duration::from_secs(600);
/// Calls of the fan-out in parallel: the function's default.
const WRITE_CONCURRENCY: usize = 8;

/// Where the tables are, and their names.
pub(super) struct Place {
    /// Creates, describes and deletes tables, which takes no units.
    client: Client,
    endpoint: Option<String>,
    pub(super) pagemark: String,
    pub(super) four: String,
}

impl Place {
    pub(super) async fn new(prefix: &str, endpoint: Option<&str>) -> Self {
        let (pagemark, four) = (format!("{prefix}-pagemark"), format!("{prefix}-four-index"));
        let client = connect_to(&pagemark, endpoint).await.client().clone();
        Self { client, endpoint: endpoint.map(str::to_owned), pagemark, four }
    }

    /// Creates both tables. Names each in `created` before it does, so that an interrupted creation is undone too.
    ///
    /// # Errors
    /// One of them exists: it is left alone, and not in `created`.
    pub(super) async fn create(&self, created: &mut Vec<String>) -> anyhow::Result<()> {
        for name in [&self.pagemark, &self.four] {
            ensure!(!self.exists(name).await?, "the table {name} exists, and is left alone: choose another --table");
        }
        for name in [&self.pagemark, &self.four] {
            created.push(name.clone());
            let done = if *name == self.pagemark {
                create_table_with_stream(&Table::new(self.client.clone(), name)).await
            } else {
                FourIndexTable::new(self.client.clone(), name).create().await.map_err(|error| {
                    if let four_index::Error::Store(error) = error { error.into() } else { error.into() }
                })
            };
            let is_refused =
                |error: &anyhow::Error| error.downcast_ref::<StoreError>().is_some_and(|error| !error.is_unavailable());
            if done.as_ref().is_err_and(is_refused) {
                // It is somebody else's, who was faster, or does not exist.
                created.pop();
            }
            done.with_context(|| format!("the table {name} cannot be created"))?;
        }
        self.until_active(&self.pagemark).await
    }

    async fn exists(&self, name: &str) -> anyhow::Result<bool> {
        match self.client.describe_table().table_name(name).send().await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some("ResourceNotFoundException") => Ok(false),
            Err(error) => bail!("{name} cannot be described: {}", DisplayErrorContext(error)),
        }
    }

    async fn until_active(&self, name: &str) -> anyhow::Result<()> {
        let mut backoff = Backoff::until(Instant::now() + READY_WITHIN);
        loop {
            let table = self.client.describe_table().table_name(name).send().await?.table.context("a description")?;
            let mut indexes = table.global_secondary_indexes().iter();
            if table.table_status == Some(TableStatus::Active)
                && indexes.all(|index| index.index_status == Some(IndexStatus::Active))
            {
                return Ok(());
            }
            ensure!(backoff.wait().await, "{name} is not active after {READY_WITHIN:?}");
        }
    }

    /// Deletes tables. One that is still being created is deleted afterwards.
    ///
    /// # Errors
    /// Names the tables that are left.
    pub(super) async fn delete(&self, created: &[String]) -> anyhow::Result<()> {
        let mut left = Vec::new();
        for name in created {
            let mut backoff = Backoff::until(Instant::now() + READY_WITHIN);
            while let Err(error) = self.client.delete_table().table_name(name).send().await {
                if error.code() == Some("ResourceNotFoundException") {
                    break;
                }
                if error.code() != Some("ResourceInUseException") || !backoff.wait().await {
                    left.push(format!("{name}: {}", DisplayErrorContext(error)));
                    break;
                }
            }
        }
        ensure!(left.is_empty(), "delete these tables yourself, because this failed: {}", left.join("; "));
        Ok(())
    }
}

/// Both designs' clients, whose calls the budget limits, and the running functions of Pagemark.
pub(super) struct Stores {
    pub(super) reader: Reader,
    redis: Redis,
    states: [watch::Receiver<MappingState>; 2],
    /// The mappings. They end with this.
    _running: JoinSet<()>,
    /// The quarantine of records that a function gave up.
    _quarantine: TempDir,
}

impl Stores {
    /// Starts a private Redis, and the functions on the stream of the table, which must be empty.
    pub(super) async fn start(place: &Place, budget: &Budget) -> anyhow::Result<Self> {
        let config = place.client.config().to_builder().interceptor(budget.clone());
        let client = Client::from_conf(config.build());
        let table = Table::new(client.clone(), &place.pagemark);
        let four = FourIndexTable::new(client, &place.four).without_costs();
        let description = Table::new(place.client.clone(), &place.pagemark).describe().await?;
        let redis = Redis::start().await?;
        let rebuild = redis.index.begin_rebuild().await?;
        redis.index.finish_rebuild(&rebuild, &description.id, process::now()).await?;

        let writer = StreamWriter::new(table.clone(), Quarantine::Mapping, WRITE_CONCURRENCY);
        let indexer = PageIndexer::new(redis.index.clone(), Quarantine::Mapping);
        let fan_out: Handler = Arc::new(move |event, deadline| {
            let writer = writer.clone();
            async move { writer.handle(&event, deadline).await.response }.boxed()
        });
        let indexing: Handler = Arc::new(move |event, deadline| {
            let indexer = indexer.clone();
            async move { indexer.handle(&event, deadline).await.response }.boxed()
        });
        let quarantine = folder()?;
        let streams = streams_client(place.endpoint.as_deref(), None).await;
        let arn = description.stream_arn.context("the table has a stream")?;
        let mut running = JoinSet::new();
        let mut start = |function, settings, handler| {
            let client = streams.clone();
            let given_up = Quarantine::Folder(quarantine.path().to_owned());
            let mapping = EventSourceMapping::new(function, settings, client, arn.clone(), handler, given_up);
            let state = mapping.state();
            running.spawn(mapping.run());
            state
        };
        let states = [
            start(stream_writer::FUNCTION, MappingSettings::STREAM_WRITER, fan_out),
            start(page_indexer::FUNCTION, MappingSettings::PAGE_INDEXER, indexing),
        ];
        let pages = PageReader { table, index: redis.index.clone(), table_id: description.id.into() };
        Ok(Self { reader: Reader { pages, four }, redis, states, _running: running, _quarantine: quarantine })
    }

    /// Writes a new comment, as the API does, or as the four-index design does without counters.
    pub(super) async fn insert(&self, is_ours: bool, comment: &Comment) -> anyhow::Result<()> {
        if !is_ours {
            self.reader.four.insert(comment, KeepCounters::No).await?;
            return Ok(());
        }
        let Comment { id, product, language, rating, created_at, text, site, .. } = comment.clone();
        let new = NewComment { id, product, language, rating, created_at, status: None, text, site };
        match self.reader.pages.table.create_comment(new, None).await? {
            Created::New(_) => Ok(()),
            Created::Before(before) => bail!("{} was there before", before.id),
        }
    }

    /// Waits until both functions have processed what the stream has shown so far.
    pub(super) async fn settle(&self) -> anyhow::Result<()> {
        let asked = Instant::now();
        for mut state in self.states.clone() {
            let done = state.wait_for(|state| state.caught_up_at.is_some_and(|at| at > asked));
            let done = tokio::time::timeout_at(asked + SETTLED_WITHIN, done).await;
            let state = done.with_context(|| format!("not all is processed after {SETTLED_WITHIN:?}"))??;
            ensure!(state.quarantined == 0, "the functions gave up some comments");
        }
        Ok(())
    }

    pub(super) async fn stop(self) {
        self.redis.stop().await;
    }
}
