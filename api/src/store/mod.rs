//! The stores, and which of their answers may be believed. An invalid primary item is no comment. A
//! partition of the page index that is not ready has no answer.

pub(crate) mod kept;
mod newest_comments;
mod per_thread;
mod product_cache;
mod reports;
mod timed_index;

use std::{collections::BTreeMap, fmt::Display, sync::Arc, time::Duration};

use actix_web::web::Data;
use model::{
    AuthorId, Cd, Comment, CommentId, Filter, Malformed, PageSize, ProductId, Status, Timestamp,
    planted::{self, Bug},
};
use page_index::{
    CommentPosition, Freshness, IndexAnswer, IndexPartition, LastConfirmation, PageIndex,
    PositionQuery, Ranked, RankedQuery, ServerIdentity, Stats, StatsWanted,
};
use parking_lot::Mutex;
use process::{StoreError, now};
use table::{
    CommentPatch, Created, Idempotency, InvalidEntry, NewComment, Page, PageQuery, Part,
    Position as TablePosition, Table, WriteError,
};

use crate::{
    secrets::TokenName,
    settings::ApiSettings,
    telemetry::{
        index_watch::{IndexAnswerKind, IndexWatch},
        metrics::ApiMetrics,
    },
};
use kept::{Fresh, Kept};
use newest_comments::NewestComments;
use per_thread::PerThread;
pub(crate) use product_cache::KnownRecord;
use product_cache::ProductCache;
pub(crate) use reports::Difference;
use reports::Reports;
use timed_index::TimedIndex;

/// How many partitions of the page index are ready.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PartitionsReady {
    pub(crate) ready: usize,
    /// Ready ones whose confirmation is overdue.
    pub(crate) overdue: usize,
    pub(crate) all: usize,
}

/// Age at which the table's id is requested again. A table that was restored or re-created under
/// its name has another id.
const TABLE_ID_MAX_AGE: Duration = Duration::from_secs(60);

/// A known id stays, because page numbers must not depend on the call that asks for it.
const FOREVER: Duration = Duration::from_secs(1 << 32);

pub(crate) struct StoreClients {
    table: PerThread<Table>,
    index: TimedIndex,
    /// Markers of the page index must carry it. The first use asks for it, so the
    /// service can start while DynamoDB is down.
    table_id: Arc<Kept<String>>,
    records: ProductCache,
    newest_comments: NewestComments,
    reports: Mutex<Reports>,
    settings: Data<ApiSettings>,
    pub(crate) metrics: Arc<ApiMetrics>,
    pub(crate) index_watch: IndexWatch,
}

impl StoreClients {
    pub(crate) fn new(
        table: Table,
        index: PageIndex,
        metrics: Arc<ApiMetrics>,
        settings: Data<ApiSettings>,
    ) -> Self {
        Self {
            table_id: Kept::new(),
            records: ProductCache::new(settings.product_max_age),
            newest_comments: NewestComments::default(),
            reports: Mutex::default(),
            table: PerThread::new(
                table.observed(Arc::<ApiMetrics>::clone(&metrics)),
                Table::with_own_connections,
            ),
            index_watch: IndexWatch::new(index.partitions().count()),
            index: TimedIndex::new(&index, Arc::clone(&metrics)),
            metrics,
            settings,
        }
    }

    /// The table's id; `None` while it is unknown. An engine on one machine may take seconds to
    /// describe a large table, and until then the page index cannot be trusted.
    pub(crate) async fn table_id(&self) -> Option<String> {
        let describe = |table: Table| async move {
            let described = table.describe().await;
            let described =
                described.inspect_err(|error| tracing::warn!(%error, "the table's id is unknown"));
            Some(Fresh {
                value: described.ok()?.id,
                pause: TABLE_ID_MAX_AGE,
                used_for: FOREVER,
            })
        };
        self.table_id
            .get(|| describe(Table::clone(&self.table)))
            .await
    }

    /// The comment of this id for readers, strongly consistent. One that is not published counts as
    /// absent, and so does an invalid primary item.
    pub(crate) async fn comment(&self, id: &CommentId) -> Result<Option<Comment>, StoreError> {
        Ok(self
            .comment_of_any_status(id)
            .await?
            .filter(|comment| comment.status.is_published()))
    }

    /// The comment of this id, published or not, strongly consistent. An invalid primary item
    /// counts as absent.
    pub(crate) async fn comment_of_any_status(
        &self,
        id: &CommentId,
    ) -> Result<Option<Comment>, StoreError> {
        match self.table.comment(id).await {
            Err(StoreError::Malformed(problem)) => {
                self.note_invalid(&problem);
                Ok(None)
            }
            read => read,
        }
    }

    /// The comments of a product with these ids for readers, in their order, strongly consistent.
    /// An unpublished comment counts as absent, and so does an invalid primary item. No id may
    /// occur twice.
    pub(crate) async fn comments_in(
        &self,
        product: &ProductId,
        ids: &[CommentId],
    ) -> Result<Vec<Option<Comment>>, StoreError> {
        let read = self.table.comments_in(product, ids).await?;
        let valid = read.into_iter().map(|comment| {
            comment?
                .inspect_err(|problem| self.note_invalid(problem))
                .ok()
        });
        Ok(valid
            .map(|comment| comment.filter(|comment| comment.status.is_published()))
            .collect())
    }

    fn of_valid<T>(&self, changed: Result<T, WriteError>) -> Result<T, WriteError> {
        match changed {
            Err(WriteError::Store(StoreError::Malformed(problem))) => {
                self.note_invalid(&problem);
                Err(WriteError::NotFound)
            }
            changed => changed,
        }
    }

    fn note_invalid(&self, problem: &Malformed) {
        self.metrics.count_malformed_items(1);
        tracing::error!(%problem, "an invalid primary item is answered as no comment");
    }

    pub(crate) async fn page(&self, query: &PageQuery) -> Result<Page, StoreError> {
        let page = self.table.page(query).await?;
        self.note_malformed_of(query, &page);
        Ok(page)
    }

    pub(crate) async fn page_of_ranks(
        &self,
        query: &PageQuery,
        ranks: &[Cd],
    ) -> Result<Page, StoreError> {
        let page = self.table.page_of_ranks(query, ranks).await?;
        self.note_malformed_of(query, &page);
        Ok(page)
    }

    fn note_malformed_of(&self, query: &PageQuery, page: &Page) {
        let malformed = page
            .malformed
            .iter()
            .chain(&page.omitted)
            .map(|item| &item.problem);
        self.note_malformed(format_args!("a page of {}", query.key), malformed);
    }

    /// Counts the malformed items that an answer is made without, and logs the first.
    fn note_malformed<'answer>(
        &self,
        answer: impl Display,
        mut problems: impl Iterator<Item = &'answer Malformed>,
    ) {
        if let Some(problem) = problems.next() {
            let count = 1 + problems.count();
            self.metrics.count_malformed_items(count);
            tracing::error!(%problem, count, "{answer} is made without malformed items");
        }
    }

    /// Some comments of a status that readers do not see, oldest first.
    pub(crate) async fn moderation_part(
        &self,
        status: Status,
        after: Option<&Cd>,
        from: Option<TablePosition>,
        limit: u16,
    ) -> Result<Part<Result<Comment, InvalidEntry>>, StoreError> {
        let part = self
            .table
            .moderation_part(status, after, from, limit)
            .await?;
        let invalid = part
            .rows
            .iter()
            .filter_map(|comment| comment.as_ref().err());
        self.note_malformed("a list for moderators", invalid.map(|entry| &entry.problem));
        Ok(part)
    }

    /// The table for changes by the owner of a token.
    fn written_by(&self, writer: &TokenName) -> Table {
        self.table.written_by(writer.as_str())
    }

    /// Creates a comment, with the status that new comments have.
    pub(crate) async fn create(
        &self,
        writer: &TokenName,
        new: NewComment,
        idempotency: Option<Idempotency>,
    ) -> Result<Created, WriteError> {
        let new = NewComment {
            status: Some(self.settings.writing.new_comments),
            ..new
        };
        let table = self.written_by(writer);
        table.create_comment(new, idempotency).await
    }

    pub(crate) async fn patch(
        &self,
        writer: &TokenName,
        id: &CommentId,
        allows: impl Fn(&Comment) -> bool,
        patch: &CommentPatch,
    ) -> Result<Comment, WriteError> {
        let table = self.written_by(writer);
        self.of_valid(table.patch_comment(id, allows, patch).await)
    }

    pub(crate) async fn delete(
        &self,
        writer: &TokenName,
        id: &CommentId,
        allows: impl Fn(&Comment) -> bool,
    ) -> Result<(), WriteError> {
        let table = self.written_by(writer);
        self.of_valid(table.delete_comment(id, allows).await)
    }

    pub(crate) async fn comments_of_author(
        &self,
        author: &AuthorId,
        after: Option<&CommentId>,
        page_size: PageSize,
    ) -> Result<Part<Result<Comment, Malformed>, CommentId>, StoreError> {
        let part = self
            .table
            .comments_of_author(author, after, page_size.get().into())
            .await?;
        let invalid = part
            .rows
            .iter()
            .filter_map(|comment| comment.as_ref().err());
        self.note_malformed("the list of an author's comments", invalid);
        Ok(part)
    }

    /// Comments dated later are not settled: archive pages do not count them yet.
    pub(crate) fn settled_at(&self) -> Timestamp {
        let after_seconds = if planted::has(Bug::NotSettled) {
            0
        } else {
            self.settings.archive_after_seconds
        };
        now().plus_ms(-1_000 * i64::from(after_seconds))
    }

    /// The answers to questions about some listings, in their order. `None` when the page index is
    /// unavailable for one of them: the reason does not matter to a reader.
    pub(crate) async fn ranked(
        &self,
        call: &'static str,
        queries: &[RankedQuery<'_>],
    ) -> Option<Vec<Ranked>> {
        let partitions = queries
            .iter()
            .map(|query| self.index.partition_of(query.product))
            .collect();
        let ask = async |table_id: &str| self.index.ranked(call, queries, table_id).await;
        self.ask_index_of(partitions, ask).await
    }

    /// The number of a product's comments beside a filter; `None` when the page index is
    /// unavailable.
    pub(crate) async fn stats(&self, product: &ProductId, filter: &Filter) -> Option<Stats> {
        let query = RankedQuery {
            stats: StatsWanted::WithLanguages,
            ..RankedQuery::new(product, filter)
        };
        self.ranked("stats", &[query]).await?.pop()?.stats
    }

    /// Where a comment stands under a filter that matches it; `None` when the page index is
    /// unavailable.
    pub(crate) async fn position(
        &self,
        comment: &Comment,
        filter: &Filter,
    ) -> Option<CommentPosition> {
        let (product, cd, settled_at) = (&comment.product, &comment.cd(), Some(self.settled_at()));
        let query = &PositionQuery {
            product,
            filter,
            cd,
            settled_at,
        };
        let ask = async |table_id: &str| self.index.position(query, table_id).await;
        self.ask_index(self.index.partition_of(product), ask).await
    }

    pub(crate) fn partitions(&self) -> impl Iterator<Item = IndexPartition> + use<> {
        self.index.partitions()
    }

    /// The products that a partition names; `None` when the page index is unavailable.
    pub(crate) async fn products(&self, partition: IndexPartition) -> Option<Vec<ProductId>> {
        let ask = async |table_id: &str| self.index.products(partition, table_id).await;
        self.ask_index(partition, ask).await
    }

    /// The last confirmation of the page index by the repair job.
    pub(crate) async fn confirmation(&self) -> Result<Option<LastConfirmation>, StoreError> {
        let (kind, name) = (LastConfirmation::KIND, LastConfirmation::NAME);
        self.table.state(kind, name).await
    }

    /// Asks the servers of the page index who they are. `None` without an answer.
    pub(crate) async fn index_servers(&self, product: &ProductId) -> Option<ServerIdentity> {
        let ask = async |_: &str| Ok(Ok(self.index.server_identity().await?));
        self.ask_index(self.index.partition_of(product), ask).await
    }

    /// How many partitions of the page index are ready. `None` when the table's id is unknown: only
    /// the id shows whether the index belongs to the table. Checks call this often, so partitions
    /// that no reader uses are known, too. A check that fails as a whole does not show which
    /// partitions it concerns, and notes nothing.
    pub(crate) async fn partitions_ready(&self) -> Result<Option<PartitionsReady>, StoreError> {
        let Some(table_id) = self.table_id().await else {
            self.index.ping().await?;
            return Ok(None);
        };
        let partitions = self.index.readiness(&table_id).await?;
        let mut counted = PartitionsReady {
            all: partitions.len(),
            ..PartitionsReady::default()
        };
        for (partition, answer) in &partitions {
            match answer {
                Ok(freshness) => {
                    counted.ready += 1;
                    counted.overdue += usize::from(*freshness == Freshness::Overdue);
                    self.index_watch
                        .note(*partition, IndexAnswerKind::Ready, None)
                }
                Err(reason) => {
                    self.index_watch
                        .note(*partition, IndexAnswerKind::NotReady, Some(reason))
                }
            }
        }
        Ok(Some(counted))
    }

    /// Asks the page index about a partition. `None` without a trustworthy answer.
    async fn ask_index<T>(
        &self,
        partition: IndexPartition,
        ask: impl AsyncFnOnce(&str) -> Result<IndexAnswer<T>, StoreError>,
    ) -> Option<T> {
        let ask = async |table_id: &str| Ok(vec![ask(table_id).await?]);
        self.ask_index_of(vec![partition], ask).await?.pop()
    }

    /// Asks the page index once about partitions, with the table's id: without it, the owner of the
    /// page index is unknown. The answers are in the order of the partitions. `None` unless all are
    /// trustworthy.
    async fn ask_index_of<T>(
        &self,
        partitions: Vec<IndexPartition>,
        ask: impl AsyncFnOnce(&str) -> Result<Vec<IndexAnswer<T>>, StoreError>,
    ) -> Option<Vec<T>> {
        let table_id = self.table_id().await;
        let answers = match &table_id {
            Some(table_id) => ask(table_id).await.map_err(Some),
            None => Err(None),
        };
        // One call may ask a partition thousands of questions. It counts once.
        let asked: BTreeMap<IndexPartition, usize> = partitions.into_iter().zip(0..).collect();
        for (partition, place) in asked {
            let (kind, reason): (_, Option<&dyn Display>) = match &answers {
                Ok(answers) => match answers.get(place) {
                    Some(Err(not_ready)) => (IndexAnswerKind::NotReady, Some(not_ready)),
                    Some(Ok(_)) | None => (IndexAnswerKind::Ready, None),
                },
                Err(None) => (IndexAnswerKind::Unknown, None),
                Err(Some(error)) if error.is_unavailable() => {
                    (IndexAnswerKind::Unreachable, Some(error))
                }
                Err(Some(error)) => (IndexAnswerKind::Broken, Some(error)),
            };
            self.metrics.count_index_answer(kind);
            self.index_watch.note(partition, kind, reason);
        }
        answers.ok()?.into_iter().map(Result::ok).collect()
    }
}
