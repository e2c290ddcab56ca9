//! The page index: a comment's rank in every base set, so that a page number costs the same on
//! every page.
//!
//! This crate says what a page index can do: `backend` lists the operations. Two crates do it:
//! `redis-index` on servers that several processes share, `embedded-index` inside one process.
//! Neither knows the other.

mod backend;
mod comparison;
mod confirmation;
mod contents;
mod marker;
mod marker_state;
mod partition;
mod query;
mod readiness;
mod server_identity;

use std::{collections::BTreeSet, ops::Deref, sync::Arc, time::Duration};

use model::{ProductId, Timestamp};
use process::{Store, StoreError};

pub use backend::{Backend, Contents, Edits, Markers, Reads, Rebuilds};
pub use comparison::Name;
pub use confirmation::{Check, LastConfirmation};
pub use contents::{IndexPart, IndexScanPosition, Sought};
pub use marker::{Advance, ConfirmationTime, Mark, Marker, Rebuild};
pub use marker_state::{FinishStep, MarkerState};
pub use partition::IndexPartition;
pub use query::{
    CommentPosition, IndexAnswer, PositionQuery, Ranked, RankedQuery, RawRanked, Stats, StatsWanted,
};
pub use readiness::{Freshness, NotReady};
pub use server_identity::{Server, ServerIdentity};

/// A confirmation is overdue after this part of the time for which readers believe it. The rest is
/// time to react.
const FRESH_PART: u32 = 3;

/// A page index. Clones are the same index.
#[derive(Debug, Clone)]
pub struct PageIndex {
    backend: Arc<dyn Backend>,
    /// How long a confirmation makes a partition believable.
    max_age: Duration,
}

impl Deref for PageIndex {
    type Target = dyn Backend;

    fn deref(&self) -> &Self::Target {
        &*self.backend
    }
}

impl PageIndex {
    pub fn new(backend: impl Backend + 'static, max_age: Duration) -> Self {
        Self {
            backend: Arc::new(backend),
            max_age,
        }
    }

    pub fn with_own_connections(&self) -> Self {
        Self {
            backend: self.backend.with_own_connections(false),
            ..self.clone()
        }
    }

    /// This index through separate connections, for callers that must not wait. A server that
    /// does not answer in time opens a circuit breaker for a second. Meanwhile calls fail at once,
    /// except one half-open probe per second. Clones of the returned index share the breakers. So
    /// do those made from it [with separate connections](Self::with_own_connections).
    pub fn with_circuit_breakers(&self) -> Self {
        Self {
            backend: self.backend.with_own_connections(true),
            ..self.clone()
        }
    }

    pub fn partitions(&self) -> impl Iterator<Item = IndexPartition> + use<> {
        IndexPartition::all(self.partition_count())
    }

    pub fn partition_of(&self, product: &ProductId) -> IndexPartition {
        IndexPartition::of(product, self.partition_count())
    }

    /// Whether every server answers that has a partition.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.all_markers().await.map(drop)
    }

    /// Begins a rebuild of all partitions.
    pub async fn begin_rebuild(&self) -> Result<Rebuild, StoreError> {
        self.begin_rebuild_of(self.partitions().collect()).await
    }

    /// The partitions without any marker: they are new, were lost, or an unfinished rebuild has
    /// emptied them. A partition that a different table owns has one.
    pub async fn unmarked(&self) -> Result<BTreeSet<IndexPartition>, StoreError> {
        let unmarked = self
            .all_markers()
            .await?
            .filter(|(_, marker)| marker.owner.is_none());
        Ok(unmarked.map(|(partition, _)| partition).collect())
    }

    /// The answers, in the order of the queries. Products of different partitions are read at
    /// different moments, so each query has a separate answer.
    ///
    /// # Errors
    /// [`StoreError::refused`] if a query asks for more than [`RankedQuery::COUNT_MAX`] comments.
    pub async fn ranked(
        &self,
        queries: &[RankedQuery<'_>],
        table_id: &str,
        now: Timestamp,
    ) -> Result<Vec<IndexAnswer<Ranked>>, StoreError> {
        if queries
            .iter()
            .any(|query| query.count > RankedQuery::COUNT_MAX)
        {
            return Err(StoreError::refused(
                Store::PageIndex,
                "a query asks for too many comments",
            ));
        }
        let found = self.backend.ranked(queries).await?;
        let answers = queries.iter().zip(found).map(|(query, (marker, found))| {
            let watermark = self.judge(&marker, table_id, now)?;
            let RawRanked {
                comments,
                total,
                settled,
                all,
                newest,
                stats,
            } = found;
            // Without comments, the index has reached the watermark: the journal has been
            // reconciled up to it.
            let reached = query.as_of.unwrap_or(newest.unwrap_or(watermark).min(now));
            Ok(Ranked {
                comments,
                total,
                settled,
                all,
                reached,
                stats,
            })
        });
        Ok(answers.collect())
    }

    pub async fn position(
        &self,
        query: &PositionQuery<'_>,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<CommentPosition>, StoreError> {
        let (marker, position) = self.backend.position(query).await?;
        Ok(self.judge(&marker, table_id, now).map(|_| position))
    }

    pub async fn products(
        &self,
        partition: IndexPartition,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<Vec<ProductId>>, StoreError> {
        let (marker, products) = self.backend.products(partition).await?;
        Ok(self.judge(&marker, table_id, now).map(|_| products))
    }

    pub async fn readiness(
        &self,
        table_id: &str,
        now: Timestamp,
    ) -> Result<Vec<(IndexPartition, IndexAnswer<Freshness>)>, StoreError> {
        let mut partitions = Vec::new();
        for (partition, marker) in self.all_markers().await? {
            partitions.push((partition, self.freshness(&marker, table_id, now)));
        }
        Ok(partitions)
    }

    /// Whether readers of this table may believe the whole page index.
    pub async fn is_ready(&self, table_id: &str, now: Timestamp) -> Result<bool, StoreError> {
        Ok(self
            .readiness(table_id, now)
            .await?
            .iter()
            .all(|(_, answer)| answer.is_ok()))
    }

    /// The markers of all partitions that belong to this table. Nothing in another partition can be
    /// kept up to date until a rebuild.
    pub async fn marks(&self, table_id: &str) -> Result<Vec<(IndexPartition, Mark)>, StoreError> {
        let owner = self.owner(table_id);
        let markers = self.all_markers().await?;
        Ok(markers
            .filter_map(|(partition, marker)| Some((partition, marker.of_owner(&owner)?)))
            .collect())
    }

    fn freshness(&self, marker: &Marker, table_id: &str, now: Timestamp) -> IndexAnswer<Freshness> {
        self.judge(marker, table_id, now)?;
        let soon = self.max_age / FRESH_PART;
        let is_fresh = marker.judge(&self.owner(table_id), now, soon).is_ok();
        Ok(if is_fresh {
            Freshness::Fresh
        } else {
            Freshness::Overdue
        })
    }

    fn judge(&self, marker: &Marker, table_id: &str, now: Timestamp) -> IndexAnswer<Timestamp> {
        marker.judge(&self.owner(table_id), now, self.max_age)
    }

    fn owner(&self, table_id: &str) -> String {
        owner(table_id, self.partition_count())
    }

    async fn all_markers(
        &self,
    ) -> Result<impl Iterator<Item = (IndexPartition, Marker)> + use<>, StoreError> {
        let partitions: Vec<IndexPartition> = self.partitions().collect();
        let markers = self.markers(&partitions).await?;
        Ok(partitions.into_iter().zip(markers))
    }
}

/// The owner that a marker names: the table and the number of partitions. With another number,
/// products would be looked up in partitions that never held them.
pub fn owner(table_id: &str, partition_count: u16) -> String {
    format!("{table_id}/{partition_count}")
}
