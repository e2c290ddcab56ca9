//! What a page index must be able to do. `redis-index` and `embedded-index` implement it.
//!
//! Every call may fail with the store's error. `# Errors` names what else a call may fail with, or
//! what that error means there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
};

use async_trait::async_trait;
use model::{
    BaseSet, Language, ProductId, RankEntry, Timestamp,
    plan::{IndexEdit, reconcile::Names},
};
use process::{Store, StoreError};

use crate::{
    Advance, CommentPosition, ConfirmationTime, FinishStep, IndexPart, IndexPartition,
    IndexScanPosition, Marker, PositionQuery, RankedQuery, RawRanked, Rebuild, ServerIdentity,
    Sought,
};

pub trait Backend: Reads + Edits + Rebuilds + Markers + Contents + Debug + Send + Sync {
    /// Number of partitions. It never changes during the life of an index.
    fn partition_count(&self) -> u16;

    /// See [`PageIndex`](crate::PageIndex).
    fn with_own_connections(&self, with_circuit_breakers: bool) -> Arc<dyn Backend>;
}

/// What readers ask. Each answer comes with the partition's marker of the same moment.
/// [`PageIndex`](crate::PageIndex) judges it, so a caller never concludes anything from a partition
/// that is not ready.
#[async_trait]
pub trait Reads {
    /// The answers, in the order of the queries.
    async fn ranked(
        &self,
        queries: &[RankedQuery<'_>],
    ) -> Result<Vec<(Marker, RawRanked)>, StoreError>;

    async fn position(
        &self,
        query: &PositionQuery<'_>,
    ) -> Result<(Marker, CommentPosition), StoreError>;

    /// The products that the partition names, in ascending byte order of their ids. A product that
    /// is added or removed during the read may be included or not.
    ///
    /// # Errors
    /// [`StoreError::unavailable`] when the partition's marker keeps changing.
    async fn products(
        &self,
        partition: IndexPartition,
    ) -> Result<(Marker, Vec<ProductId>), StoreError>;
}

#[async_trait]
pub trait Edits {
    /// Applies edits, each atomically, in any order. All changes of one comment must be in one
    /// edit. Applying edits again changes nothing.
    ///
    /// # Errors
    /// Some of the edits may have been applied.
    async fn apply(&self, edits: &[IndexEdit]) -> Result<(), StoreError>;

    /// Removes the name of a product (`None`), or of one of its languages, if it has no comments.
    /// An index that stores no names has nothing to do.
    async fn forget_if_empty(
        &self,
        _product: &ProductId,
        _language: Option<&Language>,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    /// Counts a product's comments again, and repairs the counts that are wrong. An index whose
    /// counts cannot be wrong has nothing to do.
    async fn recount(&self, _product: &ProductId) -> Result<(), StoreError> {
        Ok(())
    }

    /// Removes a name from a partition's products that is not of a product in it.
    async fn forget_stray(
        &self,
        _partition: IndexPartition,
        _name: &str,
    ) -> Result<(), StoreError> {
        Ok(())
    }
}

const OTHER_SERVERS: &str = "its servers were started again or replaced during the rebuild, and may lack some of its \
                             edits (or a first replica came, or the last one left)";
const OTHER_REBUILD: &str = "it lost its data during the rebuild, or another rebuild has begun";

#[async_trait]
pub trait Rebuilds: Markers + Sync {
    /// Removes everything, including the markers. Only the tokens of rebuilds stay.
    async fn clear(&self) -> Result<(), StoreError>;

    /// Empties partitions, markers first, so that readers no longer believe them. The entries of a
    /// rebuild that began meanwhile stay. That rebuild may finish, and readers may believe it,
    /// before this call ends.
    ///
    /// # Errors
    /// [`StoreError::refused`] when a server may evict keys, or is too old.
    async fn begin_rebuild_of(
        &self,
        partitions: BTreeSet<IndexPartition>,
    ) -> Result<Rebuild, StoreError>;

    /// Whether a rebuild that began earlier may continue: the same servers answer, and no other
    /// rebuild has begun in its partitions. [`Rebuilds::finish_rebuild`] decides again.
    async fn is_under_way(&self, rebuild: &Rebuild) -> Result<bool, StoreError>;

    /// Marks the rebuild's partitions ready up to `watermark`, and confirms them as of that
    /// instant, for the table with this id. Only a caller that has just made the index right may
    /// call this.
    ///
    /// # Errors
    /// [`StoreError::unavailable`] when the index was lost meanwhile, its servers have changed
    /// since the beginning, or another rebuild began.
    async fn finish_rebuild(
        &self,
        rebuild: &Rebuild,
        table_id: &str,
        watermark: Timestamp,
    ) -> Result<(), StoreError> {
        let nonce = process::new_ulid();
        let mut is_mine = true;
        for step in FinishStep::all() {
            match step {
                FinishStep::LeaveNonce => {
                    is_mine &= self
                        .finish_step(rebuild, table_id, watermark, &nonce, false)
                        .await?;
                }
                FinishStep::AssertServers => {
                    if self.server_identity().await? != rebuild.servers {
                        return Err(StoreError::unavailable(Store::PageIndex, OTHER_SERVERS));
                    }
                }
                FinishStep::Mark => {
                    is_mine = is_mine
                        && self
                            .finish_step(rebuild, table_id, watermark, &nonce, true)
                            .await?;
                }
            }
        }
        if is_mine {
            Ok(())
        } else {
            Err(StoreError::unavailable(Store::PageIndex, OTHER_REBUILD))
        }
    }

    /// Leaves the nonce in every partition of the rebuild, or marks those that have it (`is_last`).
    /// Returns whether that was done in all of them.
    async fn finish_step(
        &self,
        rebuild: &Rebuild,
        table_id: &str,
        watermark: Timestamp,
        nonce: &str,
        is_last: bool,
    ) -> Result<bool, StoreError>;
}

#[async_trait]
pub trait Markers {
    /// The markers of partitions, in the order of the partitions.
    async fn markers(&self, partitions: &[IndexPartition]) -> Result<Vec<Marker>, StoreError>;

    /// # Errors
    /// [`StoreError::refused`] when a server lacks something that the index needs.
    async fn server_identity(&self) -> Result<ServerIdentity, StoreError>;

    /// Takes a step of an advance. Returns for each partition whether that was done. The first step
    /// leaves the nonce where the watermark is still the one in [`Advance::from`]. The second step
    /// has `to`, and advances the watermark to it where the nonce is.
    async fn advance_step(
        &self,
        advance: &Advance,
        to: Option<Timestamp>,
    ) -> Result<Vec<bool>, StoreError>;

    /// Leaves a token in the owner's markers whose tokens have not changed since they were read.
    /// Returns for each partition whether that was done. A partition that is being rebuilt is
    /// skipped.
    async fn leave_token(
        &self,
        owner: &str,
        read: &[(IndexPartition, String)],
        token: &str,
        time: ConfirmationTime,
    ) -> Result<Vec<bool>, StoreError>;

    /// Removes the markers of partitions, so that readers do not believe them until a rebuild. An
    /// index whose servers evict nothing has nothing to do.
    async fn remove_markers(&self, _partitions: &[IndexPartition]) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
pub trait Contents {
    /// The names that the index holds for each product, without checking whether they have members.
    /// Omits names that are not valid languages: the index scan finds those.
    async fn names(
        &self,
        products: &BTreeSet<&ProductId>,
    ) -> Result<BTreeMap<ProductId, Names>, StoreError>;

    /// The entries of each comment. An index may also return those of other creation times.
    async fn entries(&self, sought: &[Sought<'_>]) -> Result<Vec<Vec<RankEntry>>, StoreError>;

    async fn sizes(&self, sets: &[BaseSet]) -> Result<Vec<u64>, StoreError>;

    /// Whether a product's totals are not those of its parts. The index scan looks deeper.
    async fn is_miscounted(&self, _product: &ProductId) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn begin_index_scan(&self) -> Result<IndexScanPosition, StoreError>;

    async fn is_index_scan_valid(&self, position: &IndexScanPosition) -> Result<bool, StoreError>;

    /// The next step. `None` when the scan has returned everything that existed during the whole
    /// scan, unless the servers changed meanwhile ([`Contents::is_index_scan_valid`]). Something may
    /// come more than once. An entry that an edit has moved, with others of its product, may be
    /// missing: the next scan returns it.
    ///
    /// # Errors
    /// The position is then unchanged.
    async fn next_index_part(
        &self,
        position: &mut IndexScanPosition,
    ) -> Result<Option<IndexPart>, StoreError>;
}
