//! The operations of the index. Each holds the lock of one partition at a time, and never while it
//! waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::{
        Arc, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use model::{
    BaseSet, Cd, Placement, ProductId, RankEntry, Timestamp,
    plan::{IndexEdit, reconcile::Names},
};
use page_index::{
    Advance, Backend, CommentPosition, ConfirmationTime, Contents, Edits, IndexPart,
    IndexPartition, IndexScanPosition, Marker, Markers, PositionQuery, RankedQuery, RawRanked,
    Reads, Rebuild, Rebuilds, ServerIdentity, Sought, owner,
};
use process::{Store, StoreError};

use crate::{codes::Languages, counted_tree::Code, partition::Partition, product::ProductComments};

const SCAN_STEP: usize = 500;

/// The page index inside this process. Clones are the same index.
#[derive(Debug, Clone)]
pub struct EmbeddedIndex {
    /// New in every process: what was in the memory of the last one is gone.
    identity: ServerIdentity,
    partitions: Arc<[RwLock<Partition>]>,
    edits: Arc<AtomicU64>,
}

impl EmbeddedIndex {
    /// An empty index, which is not ready.
    pub fn new(partitions: u16) -> Self {
        Self::of(
            IndexPartition::all(partitions)
                .map(|_| Partition::default())
                .collect(),
        )
    }

    pub(crate) fn of(partitions: Vec<Partition>) -> Self {
        let partitions = partitions.into_iter().map(RwLock::new).collect();
        Self {
            identity: ServerIdentity(process::new_ulid()),
            partitions,
            edits: Arc::default(),
        }
    }

    /// A copy, as a server has that was restored or that takes over.
    ///
    /// # Errors
    /// A panic ended an edit of the index.
    pub fn copy(&self) -> Result<Self, StoreError> {
        let partitions = self
            .all()
            .map(|partition| Ok(self.read(partition)?.clone()));
        Ok(Self::of(partitions.collect::<Result<_, StoreError>>()?))
    }

    /// How many edits were applied in this process, as a hint whether a snapshot would hold
    /// something new.
    pub fn edits(&self) -> u64 {
        self.edits.load(Ordering::Relaxed)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = IndexPartition> + use<> {
        IndexPartition::all(self.partition_count())
    }

    fn partition_of(&self, product: &ProductId) -> IndexPartition {
        IndexPartition::of(product, self.partition_count())
    }

    fn lock(&self, partition: IndexPartition) -> Result<&RwLock<Partition>, StoreError> {
        let number = partition.number();
        self.partitions.get(usize::from(number)).ok_or_else(|| {
            StoreError::refused(Store::PageIndex, format!("it has no partition {number}"))
        })
    }

    pub(crate) fn read(
        &self,
        partition: IndexPartition,
    ) -> Result<RwLockReadGuard<'_, Partition>, StoreError> {
        self.lock(partition)?.read().map_err(|_| poisoned())
    }

    fn write(
        &self,
        partition: IndexPartition,
    ) -> Result<RwLockWriteGuard<'_, Partition>, StoreError> {
        self.lock(partition)?.write().map_err(|_| poisoned())
    }

    /// Answers a reader from a product's partition. A product without comments is an empty one.
    fn answer<T>(
        &self,
        product: &ProductId,
        answer: impl FnOnce(&ProductComments, &Languages) -> T,
    ) -> Result<(Marker, T), StoreError> {
        let partition = self.read(self.partition_of(product))?;
        let empty = ProductComments::default();
        let product = partition.products.get(product).unwrap_or(&empty);
        Ok((
            partition.state.marker.clone(),
            answer(product, &partition.languages),
        ))
    }
}

/// A thread stopped in the middle of an edit. The state of its data is unknown, so readers are
/// refused.
fn poisoned() -> StoreError {
    StoreError::unavailable(
        Store::PageIndex,
        "an edit of this partition ended in a panic; start the program again",
    )
}

impl Backend for EmbeddedIndex {
    fn partition_count(&self) -> u16 {
        u16::try_from(self.partitions.len()).unwrap_or(u16::MAX)
    }

    fn with_own_connections(&self, _with_circuit_breakers: bool) -> Arc<dyn Backend> {
        Arc::new(self.clone())
    }
}

#[async_trait]
impl Reads for EmbeddedIndex {
    async fn ranked(
        &self,
        queries: &[RankedQuery<'_>],
    ) -> Result<Vec<(Marker, RawRanked)>, StoreError> {
        let mut answers = Vec::with_capacity(queries.len());
        for query in queries {
            answers.push(self.answer(query.product, |product, languages| {
                product.ranked(query, languages)
            })?);
        }
        Ok(answers)
    }

    async fn position(
        &self,
        query: &PositionQuery<'_>,
    ) -> Result<(Marker, CommentPosition), StoreError> {
        self.answer(query.product, |product, languages| {
            product.position(query, languages)
        })
    }

    async fn products(
        &self,
        partition: IndexPartition,
    ) -> Result<(Marker, Vec<ProductId>), StoreError> {
        let partition = self.read(partition)?;
        Ok((
            partition.state.marker.clone(),
            partition.products.keys().cloned().collect(),
        ))
    }
}

#[async_trait]
impl Edits for EmbeddedIndex {
    async fn apply(&self, edits: &[IndexEdit]) -> Result<(), StoreError> {
        for edit in edits {
            self.write(self.partition_of(&edit.product))?.apply(edit);
            self.edits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[async_trait]
impl Rebuilds for EmbeddedIndex {
    async fn clear(&self) -> Result<(), StoreError> {
        for partition in self.all() {
            self.write(partition)?.clear();
        }
        Ok(())
    }

    async fn begin_rebuild_of(
        &self,
        partitions: BTreeSet<IndexPartition>,
    ) -> Result<Rebuild, StoreError> {
        let rebuild = Rebuild {
            token: process::new_ulid(),
            servers: self.identity.clone(),
            partitions,
        };
        for partition in &rebuild.partitions {
            self.write(*partition)?.begin_rebuild(&rebuild.token);
        }
        Ok(rebuild)
    }

    async fn is_under_way(&self, rebuild: &Rebuild) -> Result<bool, StoreError> {
        let mut are_mine = rebuild.servers == self.identity;
        for partition in &rebuild.partitions {
            are_mine &= self.read(*partition)?.state.is_filled_by(&rebuild.token);
        }
        Ok(are_mine)
    }

    async fn finish_step(
        &self,
        rebuild: &Rebuild,
        table_id: &str,
        watermark: Timestamp,
        nonce: &str,
        is_last: bool,
    ) -> Result<bool, StoreError> {
        let token = &rebuild.token;
        let owner = owner(table_id, self.partition_count());
        let mut is_done = true;
        for partition in &rebuild.partitions {
            let state = &mut self.write(*partition)?.state;
            is_done &= state.finish_step(token, &owner, watermark, nonce, is_last);
        }
        Ok(is_done)
    }
}

#[async_trait]
impl Markers for EmbeddedIndex {
    async fn markers(&self, partitions: &[IndexPartition]) -> Result<Vec<Marker>, StoreError> {
        partitions
            .iter()
            .map(|partition| Ok(self.read(*partition)?.state.marker.clone()))
            .collect()
    }

    async fn server_identity(&self) -> Result<ServerIdentity, StoreError> {
        Ok(self.identity.clone())
    }

    async fn advance_step(
        &self,
        advance: &Advance,
        to: Option<Timestamp>,
    ) -> Result<Vec<bool>, StoreError> {
        let mut done = Vec::with_capacity(advance.from.len());
        for (partition, from) in &advance.from {
            let state = &mut self.write(*partition)?.state;
            done.push(state.advance_step(&advance.owner, &advance.nonce, *from, to));
        }
        Ok(done)
    }

    async fn leave_token(
        &self,
        owner: &str,
        read: &[(IndexPartition, String)],
        token: &str,
        time: ConfirmationTime,
    ) -> Result<Vec<bool>, StoreError> {
        let mut done = Vec::with_capacity(read.len());
        for (partition, read) in read {
            let mut partition = self.write(*partition)?;
            done.push(partition.state.leave_token(owner, read, token, time));
        }
        Ok(done)
    }
}

#[async_trait]
impl Contents for EmbeddedIndex {
    async fn names(
        &self,
        products: &BTreeSet<&ProductId>,
    ) -> Result<BTreeMap<ProductId, Names>, StoreError> {
        let mut all = BTreeMap::new();
        for id in products {
            let partition = self.read(self.partition_of(id))?;
            let mut names = Names::default();
            if let Some(product) = partition.products.get(*id) {
                names.is_named = true;
                names.languages = product.languages(&partition.languages).cloned().collect();
            }
            all.insert((*id).clone(), names);
        }
        Ok(all)
    }

    async fn entries(&self, sought: &[Sought<'_>]) -> Result<Vec<Vec<RankEntry>>, StoreError> {
        let mut found = Vec::with_capacity(sought.len());
        for Sought { product, id, .. } in sought {
            let partition = self.read(self.partition_of(product))?;
            let comments = partition.products.get(*product);
            let entry = comments.and_then(|comments| comments.entry(id));
            let entry = entry.and_then(|(cd, code)| partition.entry(product, &cd, code));
            found.push(entry.into_iter().collect());
        }
        Ok(found)
    }

    async fn sizes(&self, sets: &[BaseSet]) -> Result<Vec<u64>, StoreError> {
        sets.iter()
            .map(|set| Ok(self.read(self.partition_of(&set.product))?.size(set)))
            .collect()
    }

    async fn begin_index_scan(&self) -> Result<IndexScanPosition, StoreError> {
        Ok(IndexScanPosition {
            servers: self.identity.clone(),
            ..IndexScanPosition::default()
        })
    }

    async fn is_index_scan_valid(&self, position: &IndexScanPosition) -> Result<bool, StoreError> {
        Ok(position.servers == self.identity)
    }

    /// Returns the comments of a product. The position's cursor is the product that was read
    /// last, its key cursor the next comment of the following one.
    async fn next_index_part(
        &self,
        position: &mut IndexScanPosition,
    ) -> Result<Option<IndexPart>, StoreError> {
        let Some(number) = u16::try_from(position.part).ok() else {
            return Ok(None);
        };
        let Some(partition) = IndexPartition::numbered(number, self.partition_count()) else {
            return Ok(None);
        };
        let partition = self.read(partition)?;
        let after = ProductId::parse_stored(&position.cursor).ok();
        let start = match &after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Unbounded,
        };
        let Some((id, product)) = partition.products.range((start, Bound::Unbounded)).next() else {
            position.part += 1;
            position.cursor = String::new();
            return Ok(Some(IndexPart::Nothing));
        };
        let from = Cd::parse(&position.key_cursor).ok();
        let mut comments = product.comments_from(from.as_ref());
        let mut entries = Vec::new();
        for (cd, code) in comments.by_ref().take(SCAN_STEP) {
            if let Some(entry) = partition.entry(id, &cd, code) {
                entries.push((cd.id, entry));
            }
        }
        match comments.next() {
            Some((next, _)) => position.key_cursor = next.to_string(),
            None => {
                position.cursor = id.to_string();
                position.key_cursor = String::new();
            }
        }
        Ok(Some(IndexPart::Entries(entries)))
    }
}

impl Partition {
    /// The entry of a comment with this code.
    fn entry(&self, product: &ProductId, cd: &Cd, code: Code) -> Option<RankEntry> {
        let (language, rating) = self.languages.meaning(code)?;
        let placement = Placement {
            product: product.clone(),
            language: language.clone(),
            rating,
        };
        Some(RankEntry {
            placement,
            created_at: cd.created_at,
        })
    }
}
