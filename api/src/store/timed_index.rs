//! The page index with a watch: each call is measured, under the name that the metrics have for it.

use std::{sync::Arc, time::Instant};

use model::ProductId;
use page_index::{
    CommentPosition, Freshness, IndexAnswer, IndexPartition, PageIndex, PositionQuery, Ranked,
    RankedQuery, ServerIdentity,
};
use process::{StoreError, now};

use super::per_thread::PerThread;
use crate::telemetry::metrics::{ApiMetrics, CalledStore};

pub(super) struct TimedIndex {
    index: PerThread<PageIndex>,
    metrics: Arc<ApiMetrics>,
}

impl TimedIndex {
    pub(super) fn new(index: &PageIndex, metrics: Arc<ApiMetrics>) -> Self {
        // Readers should rather get pages without totals than wait for a server that does not
        // answer.
        let index = index.with_circuit_breakers();
        Self {
            index: PerThread::new(index, PageIndex::with_own_connections),
            metrics,
        }
    }

    pub(super) fn partitions(&self) -> impl Iterator<Item = IndexPartition> + use<> {
        self.index.partitions()
    }

    pub(super) fn partition_of(&self, product: &ProductId) -> IndexPartition {
        self.index.partition_of(product)
    }

    /// `call` says what the answers are for.
    pub(super) async fn ranked(
        &self,
        call: &'static str,
        queries: &[RankedQuery<'_>],
        table_id: &str,
    ) -> Result<Vec<IndexAnswer<Ranked>>, StoreError> {
        self.timed(call, self.index.ranked(queries, table_id, now()))
            .await
    }

    pub(super) async fn position(
        &self,
        query: &PositionQuery<'_>,
        table_id: &str,
    ) -> Result<IndexAnswer<CommentPosition>, StoreError> {
        self.timed("position", self.index.position(query, table_id, now()))
            .await
    }

    pub(super) async fn products(
        &self,
        partition: IndexPartition,
        table_id: &str,
    ) -> Result<IndexAnswer<Vec<ProductId>>, StoreError> {
        self.timed("catalog", self.index.products(partition, table_id, now()))
            .await
    }

    pub(super) async fn readiness(
        &self,
        table_id: &str,
    ) -> Result<Vec<(IndexPartition, IndexAnswer<Freshness>)>, StoreError> {
        self.timed("readiness", self.index.readiness(table_id, now()))
            .await
    }

    pub(super) async fn server_identity(&self) -> Result<ServerIdentity, StoreError> {
        self.timed("servers", self.index.server_identity()).await
    }

    pub(super) async fn ping(&self) -> Result<(), StoreError> {
        self.timed("ping", self.index.ping()).await
    }

    async fn timed<T>(
        &self,
        call: &'static str,
        asking: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        let answer = asking.await;
        self.metrics.count_store_call(
            CalledStore::PageIndex,
            call,
            began.elapsed(),
            answer.is_ok(),
        );
        answer
    }
}
