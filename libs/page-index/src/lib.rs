//! The page index: a comment's rank in every base set, so that a page number costs the same on every page.
//!
//! This crate says what a page index can do. Two crates do it: `redis-index` on servers that several processes share,
//! `embedded-index` inside one process. Neither knows the other.
//!
//! - `backend`: the operations.
//! - `query`: what a reader asks, and what it answers.
//! - `readiness`: whether readers may believe a partition.
//! - `partition`: the parts of the index.
//! - `marker`: what a partition's marker says.
//! - `contents`: a scan of everything that the index holds.
//! - `comparison`: what a caller that compares the index with the table asks, whatever the backend.

mod backend;
mod comparison;
mod contents;
mod marker;
mod partition;
mod query;
mod readiness;

use std::{collections::BTreeSet, ops::Deref, sync::Arc};

use model::{ProductId, Timestamp};
use process::StoreError;

pub use backend::{Backend, Contents, Edits, Markers, Reads, Rebuilds};
pub use comparison::Name;
pub use contents::{IndexPart, IndexScanPosition};
pub use marker::{Advance, ConfirmationTime, Mark, Marker, Rebuild, ServerIdentity};
pub use partition::IndexPartition;
pub use query::{
    Ends, Extent, IndexAnswer, ListedProduct, PageStart, PageStartQuery, Position, ProductRank, Stats, Summary,
};
pub use readiness::NotReady;

/// A page index. Clones are the same index.
#[derive(Debug, Clone)]
pub struct PageIndex(Arc<dyn Backend>);

impl Deref for PageIndex {
    type Target = dyn Backend;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PageIndex {
    pub fn new(backend: impl Backend + 'static) -> Self {
        Self(Arc::new(backend))
    }

    pub fn partitions(&self) -> impl Iterator<Item = IndexPartition> + use<> {
        IndexPartition::all(self.partition_count())
    }

    pub fn partition_of(&self, product: &ProductId) -> IndexPartition {
        IndexPartition::of(product, self.partition_count())
    }

    /// Begins a rebuild of all partitions.
    ///
    /// # Errors
    /// As for [`Rebuilds::begin_rebuild_of`].
    pub async fn begin_rebuild(&self) -> Result<Rebuild, StoreError> {
        self.begin_rebuild_of(self.partitions().collect()).await
    }

    /// The partitions without any marker: they are new, were lost, or an unfinished rebuild has emptied them. A
    /// partition of another table has one.
    pub async fn unmarked(&self) -> Result<BTreeSet<IndexPartition>, StoreError> {
        let unmarked = self.all_markers().await?.filter(|(_, marker)| marker.owner.is_none());
        Ok(unmarked.map(|(partition, _)| partition).collect())
    }

    pub async fn readiness(
        &self,
        table_id: &str,
        now: Timestamp,
    ) -> Result<Vec<(IndexPartition, IndexAnswer<Timestamp>)>, StoreError> {
        let owner = owner(table_id, self.partition_count());
        let judge = |marker: Marker| marker.judge(&owner, now, self.max_age());
        Ok(self.all_markers().await?.map(|(partition, marker)| (partition, judge(marker))).collect())
    }

    /// The markers of all partitions that belong to this table. Nothing in another partition can be kept up to date
    /// until a rebuild.
    pub async fn marks(&self, table_id: &str) -> Result<Vec<(IndexPartition, Mark)>, StoreError> {
        let owner = owner(table_id, self.partition_count());
        let markers = self.all_markers().await?;
        Ok(markers.filter_map(|(partition, marker)| Some((partition, marker.of_owner(&owner)?))).collect())
    }

    async fn all_markers(&self) -> Result<impl Iterator<Item = (IndexPartition, Marker)> + use<>, StoreError> {
        let partitions: Vec<IndexPartition> = self.partitions().collect();
        let markers = self.markers(&partitions).await?;
        Ok(partitions.into_iter().zip(markers))
    }
}

/// The owner that a marker names: the table and the number of partitions. With another number, products would be looked
/// up in partitions that never held them.
pub fn owner(table_id: &str, partition_count: u16) -> String {
    format!("{table_id}/{partition_count}")
}
