//! The state that all requests share. Handlers call the stores only through it, so each call is measured, and one place
//! judges the answers of the page index.

mod per_thread;
pub(crate) mod table_id;

use std::{fmt::Display, net::SocketAddr, sync::Arc, time::Duration};

use model::{Cd, Comment, CommentId, Filter, Malformed, Order, ProductId, Revision};
use page_index::{
    Extent, IndexAnswer, IndexPartition, PageIndex, PageStart, PageStartQuery, Position, ProductTotal, Stats,
};
use process::{StoreError, now};
use table::{CommentPatch, Created, Idempotency, NewComment, Page, PageQuery, Table, WriteError};

use crate::{
    html::sitemap::Catalogs,
    http::{answers::AnswerMemory, load::Load},
    json::auth::WriteTokens,
    ops::{
        index_watch::IndexWatch,
        metrics::{IndexAnswerKind, Metrics, StoreCall},
    },
    read::cursor::CursorSealer,
    settings::ApiSettings,
    site::Site,
    store::{per_thread::PerThread, table_id::TableId},
};

/// Maximum number of concurrent health checks and scrapes: several checkers, and some that have given up.
const OPERATIONS_IN_FLIGHT_MAX: usize = 32;

/// The stores, the secrets and the counters.
pub(crate) struct State {
    table: PerThread<Table>,
    index: PerThread<PageIndex>,
    pub(crate) cursors: CursorSealer,
    pub(crate) write_tokens: WriteTokens,
    pub(crate) sample_products: Vec<ProductId>,
    pub(crate) metrics: Metrics,
    pub(crate) load: Load,
    /// The load of health checks and metrics.
    pub(crate) operations_load: Load,
    pub(crate) answer_memory: AnswerMemory,
    pub(crate) cache_max_age_seconds: u32,
    pub(crate) request_timeout: Duration,
    pub(crate) body_timeout: Duration,
    /// The number of proxies that every request passes.
    pub(crate) proxies: usize,
    pub(crate) site: Site,
    /// The cache for the sitemap.
    pub(crate) catalogs: Catalogs,
    /// The last state of the page index.
    pub(crate) index_watch: IndexWatch,
    pub(crate) table_id: Arc<TableId>,
}

impl State {
    /// `address` is where the service listens.
    pub(crate) fn new(table: Table, index: PageIndex, settings: ApiSettings, address: SocketAddr) -> Self {
        Self {
            table_id: TableId::of(table.clone()),
            table: PerThread::new(table, Table::with_own_connections),
            index_watch: IndexWatch::new(index.partitions().count()),
            // Readers should rather get pages without totals than wait for a server that does not answer.
            index: PerThread::new(index.with_circuit_breakers(), PageIndex::with_own_connections),
            cursors: CursorSealer::new(settings.cursor_key, settings.other_cursor_keys),
            write_tokens: WriteTokens::new(settings.write_tokens),
            sample_products: settings.sample_products,
            metrics: Metrics::new(),
            cache_max_age_seconds: settings.cache_max_age_seconds,
            request_timeout: settings.request_timeout,
            body_timeout: settings.body_timeout,
            proxies: settings.proxies,
            answer_memory: AnswerMemory::new(settings.answer_memory_bytes),
            load: Load::new(settings.in_flight_max),
            operations_load: Load::new(OPERATIONS_IN_FLIGHT_MAX),
            catalogs: Catalogs::default(),
            site: Site::new(settings.site, address),
        }
    }

    /// The comment of this id, strongly consistent. An invalid primary item counts as absent.
    pub(crate) async fn comment(&self, id: &CommentId) -> Result<Option<Comment>, StoreError> {
        match self.metrics.timed(StoreCall::Comment, self.table.comment(id)).await {
            Err(StoreError::Malformed(problem)) => {
                self.note_invalid(&problem);
                Ok(None)
            }
            read => read,
        }
    }

    fn note_invalid(&self, problem: &Malformed) {
        self.metrics.count_malformed_items(1);
        tracing::error!(%problem, "an invalid primary item is answered as no comment");
    }

    /// The result of a change: an invalid primary item counts as absent.
    fn of_valid<T>(&self, changed: Result<T, WriteError>) -> Result<T, WriteError> {
        match changed {
            Err(WriteError::Store(StoreError::Malformed(problem))) => {
                self.note_invalid(&problem);
                Err(WriteError::NotFound)
            }
            changed => changed,
        }
    }

    /// A page of the table.
    pub(crate) async fn page(&self, query: &PageQuery) -> Result<Page, StoreError> {
        let page = self.metrics.timed(StoreCall::Page, self.table.page(query)).await?;
        let count = page.malformed.len() + page.left_out.len();
        if let Some(first) = page.malformed.iter().chain(&page.left_out).next() {
            self.metrics.count_malformed_items(count);
            let problem = &first.problem;
            tracing::error!(key = %query.key, %problem, count, "a page has malformed items, and is shown without them");
        }
        Ok(page)
    }

    /// Creates a comment.
    pub(crate) async fn create(
        &self,
        new: NewComment,
        idempotency: Option<Idempotency>,
    ) -> Result<Created, WriteError> {
        self.metrics.timed(StoreCall::Create, self.table.create_comment(new, idempotency)).await
    }

    /// Changes a comment.
    pub(crate) async fn patch(
        &self,
        id: &CommentId,
        expected: Option<Revision>,
        patch: &CommentPatch,
    ) -> Result<Comment, WriteError> {
        let patched = self.metrics.timed(StoreCall::Patch, self.table.patch_comment(id, expected, patch)).await;
        self.of_valid(patched)
    }

    /// Deletes a comment.
    pub(crate) async fn delete(&self, id: &CommentId, expected: Option<Revision>) -> Result<(), WriteError> {
        let deleted = self.metrics.timed(StoreCall::Delete, self.table.delete_comment(id, expected)).await;
        self.of_valid(deleted)
    }

    /// Where a page starts; `None` when the page index is unavailable. The reason does not matter here, because a page
    /// that can do without the index is the same for all reasons.
    pub(crate) async fn page_start(&self, query: &PageStartQuery<'_>) -> Option<PageStart> {
        let partition = self.index.partition_of(query.product);
        let table_id = self.known_table_id(partition).await?;
        let asking = self.index.page_start(query, &table_id, now());
        self.available(partition, self.metrics.timed(StoreCall::PageStart, asking).await)
    }

    /// The first `count` comments that the ranks promise for a page; `None` when the page index is unavailable.
    pub(crate) async fn promised(&self, query: &PageStartQuery<'_>, count: u64) -> Option<Vec<Cd>> {
        let partition = self.index.partition_of(query.product);
        let table_id = self.known_table_id(partition).await?;
        let asking = self.index.comments_of_page(query, count, &table_id, now());
        self.available(partition, self.metrics.timed(StoreCall::PageStart, asking).await)
    }

    /// The newest and oldest ranked comment, and their number; `None` when the page index is unavailable.
    pub(crate) async fn extent(&self, query: &PageStartQuery<'_>) -> Option<Extent> {
        let partition = self.index.partition_of(query.product);
        let table_id = self.known_table_id(partition).await?;
        let asking = self.index.extent(query, &table_id, now());
        self.available(partition, self.metrics.timed(StoreCall::PageStart, asking).await)
    }

    /// The place of a comment; `None` when the page index is unavailable.
    pub(crate) async fn position(&self, comment: &Comment, filter: &Filter, order: Order) -> Option<Position> {
        let partition = self.index.partition_of(&comment.product);
        let table_id = self.known_table_id(partition).await?;
        let cd = comment.cd();
        let asking = self.index.position(&comment.product, filter, &cd, order, &table_id, now());
        self.available(partition, self.metrics.timed(StoreCall::Position, asking).await)
    }

    /// The number of a product's comments beside a filter; `None` when the page index is unavailable.
    pub(crate) async fn stats(&self, product: &ProductId, filter: &Filter) -> Option<Stats> {
        let partition = self.index.partition_of(product);
        let table_id = self.known_table_id(partition).await?;
        let asking = self.index.stats(product, filter, &table_id, now());
        self.available(partition, self.metrics.timed(StoreCall::Stats, asking).await)
    }

    /// The partitions of the page index.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = IndexPartition> + use<> {
        self.index.partitions()
    }

    /// The products of a partition; `None` when the page index is unavailable.
    pub(crate) async fn catalog(&self, partition: IndexPartition) -> Option<Vec<ProductTotal>> {
        let table_id = self.known_table_id(partition).await?;
        let asking = self.index.catalog(partition, &table_id, now());
        self.available(partition, self.metrics.timed(StoreCall::Catalog, asking).await)
    }

    /// How many partitions of the page index are ready, and how many there are. `None` when the table's id is unknown:
    /// only the id shows whether the index belongs to the table. Checks call this often, so partitions that no reader
    /// uses are known, too. A check that fails as a whole does not show which partitions it concerns, and notes
    /// nothing.
    pub(crate) async fn partitions_ready(&self) -> Result<Option<(usize, usize)>, StoreError> {
        let Some(table_id) = self.table_id.get().await else {
            self.index.ping().await?;
            return Ok(None);
        };
        let partitions = self.metrics.timed(StoreCall::Readiness, self.index.readiness(&table_id, now())).await?;
        for (partition, answer) in &partitions {
            match answer {
                Ok(_) => self.index_watch.note(*partition, IndexAnswerKind::Ready, None),
                Err(reason) => {
                    self.index_watch.note(*partition, IndexAnswerKind::NotReady, Some(reason));
                }
            }
        }
        Ok(Some((partitions.iter().filter(|(_, answer)| answer.is_ok()).count(), partitions.len())))
    }

    /// The table's id. Without it, the owner of the page index is unknown.
    async fn known_table_id(&self, partition: IndexPartition) -> Option<String> {
        let table_id = self.table_id.get().await;
        if table_id.is_none() {
            self.count_answer(partition, IndexAnswerKind::Unknown, None);
        }
        table_id
    }

    /// A partition's answer; `None` without a trustworthy one.
    fn available<T>(&self, partition: IndexPartition, answer: Result<IndexAnswer<T>, StoreError>) -> Option<T> {
        match answer {
            Ok(Ok(answer)) => {
                self.count_answer(partition, IndexAnswerKind::Ready, None);
                return Some(answer);
            }
            Ok(Err(not_ready)) => self.count_answer(partition, IndexAnswerKind::NotReady, Some(&not_ready)),
            Err(error) if error.is_unavailable() => {
                self.count_answer(partition, IndexAnswerKind::Unreachable, Some(&error));
            }
            Err(error) => self.count_answer(partition, IndexAnswerKind::Broken, Some(&error)),
        }
        None
    }

    fn count_answer(&self, partition: IndexPartition, kind: IndexAnswerKind, reason: Option<&dyn Display>) {
        self.metrics.count_index_answer(kind);
        self.index_watch.note(partition, kind, reason);
    }
}
