//! Finds suspects by a scan of the page index: every comment of it, every name, and wrong counts.
//!
//! The scan of the table cannot see superfluous entries in the page index. ADR 21 says how this
//! scan does.
//!
//! While some batches are compared, the next ones are read.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{join, try_join_all};
use model::{
    CommentId, FilterKey, Language, ProductId, RankEntry,
    item::Image,
    plan::reconcile::{Names, Ranks, plan_ranks},
};
use page_index::{IndexPart, IndexPartition, IndexScanPosition, Name, PageIndex};
use process::{Remedy, Store, StoreError};
use tokio::time::{Duration, Instant};

use super::ITEMS_PER_COMMENT;
use crate::{
    repair::{
        index_snapshot::IndexSnapshot,
        pipeline::{Finder, Finding, Suspects},
    },
    run::Run,
};

const TOGETHER: usize = 500;

/// After this many steps without anything to compare, the position may be stored.
const STEPS_TOGETHER: usize = 200;

const TIME_MAX: Duration = Duration::from_secs(60);

/// About how long a comment takes, in the time that the table's scan takes for an item, as `bench`
/// measures it.
pub(crate) const STEPS_OF_A_COMMENT: u64 = ITEMS_PER_COMMENT / 2;

#[derive(Default)]
struct Batch {
    members: BTreeMap<ProductId, BTreeMap<CommentId, BTreeSet<RankEntry>>>,
    member_count: usize,
    names: BTreeSet<Name>,
    strays: BTreeSet<(IndexPartition, String)>,
    miscounted: BTreeSet<ProductId>,
    steps: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        let names = self.names.len() + self.strays.len() + self.miscounted.len();
        self.member_count >= TOGETHER || names >= TOGETHER || self.steps >= STEPS_TOGETHER
    }

    fn add_member(&mut self, id: CommentId, entry: RankEntry) {
        let product = entry.placement.product.clone();
        let comments = self.members.entry(product).or_default();
        let is_new = comments.entry(id).or_default().insert(entry);
        self.member_count += usize::from(is_new);
    }

    fn by_product(&self) -> BTreeMap<ProductId, Self> {
        let mut parts: BTreeMap<ProductId, Self> = BTreeMap::new();
        for (product, ids) in &self.members {
            parts
                .entry(product.clone())
                .or_default()
                .members
                .insert(product.clone(), ids.clone());
        }
        for name in &self.names {
            parts
                .entry(name.0.clone())
                .or_default()
                .names
                .insert(name.clone());
        }
        parts
    }

    fn comments(&self) -> impl Iterator<Item = (CommentId, ProductId)> {
        self.members
            .iter()
            .flat_map(|(product, ids)| ids.keys().map(|id| (id.clone(), product.clone())))
    }
}

/// What a scan reads of the page index.
enum IndexEntry {
    Member(CommentId, RankEntry),
    Name(Name),
    /// A name among a partition's products that is not of a product in it.
    Stray(IndexPartition, String),
    Miscounted(ProductId),
    /// Something that only a rebuild removes.
    Unreadable(String),
}

/// Reads the name of a product, which is escaped as in filter keys.
fn product_name(index: &PageIndex, partition: IndexPartition, name: String) -> IndexEntry {
    match FilterKey::parse(&format!("PRODUCT#{name}/~/~")) {
        Ok(key) if index.partition_of(&key.product) == partition => {
            IndexEntry::Name((key.product, None))
        }
        Ok(_) | Err(_) => IndexEntry::Stray(partition, name),
    }
}

/// Whether a product, or a language of it, has a name.
fn has_name(
    names: &BTreeMap<ProductId, Names>,
    product: &ProductId,
    language: Option<&Language>,
) -> bool {
    let Some(names) = names.get(product) else {
        return false;
    };
    match language {
        Some(language) => names.languages.contains(language),
        None => names.is_named,
    }
}

struct BatchesRead {
    batches: Vec<Batch>,
    position: IndexScanPosition,
    is_last: bool,
}

pub(crate) struct IndexScan<'run> {
    run: &'run Run<'run>,
    snapshot: &'run IndexSnapshot,
    /// Where the first read begins.
    next: Option<IndexScanPosition>,
    ahead: Option<Result<BatchesRead, StoreError>>,
    at_once: usize,
    resumes: &'run str,
}

impl Finder for IndexScan<'_> {
    type ScanPosition = Option<IndexScanPosition>;

    async fn find(&mut self) -> Result<Option<Finding<Self::ScanPosition>>, StoreError> {
        if !self.snapshot.is_in_use() {
            return Err(StoreError::unavailable(
                Store::PageIndex,
                "the run does not use it any more",
            ));
        }
        let read = if let Some(ahead) = self.ahead.take() {
            ahead?
        } else if let Some(position) = self.next.take() {
            self.read(position).await?
        } else {
            return Ok(None);
        };
        let ahead = async {
            if read.is_last {
                None
            } else {
                Some(self.read(read.position.clone()).await)
            }
        };
        let compared = try_join_all(read.batches.iter().map(|batch| self.compare(batch)));
        let (compared, ahead) = Box::pin(join(compared, ahead)).await;
        self.ahead = ahead;
        let mut suspects = Suspects::default();
        for found in compared? {
            suspects.join(found);
        }
        let mut comments: u64 = 0;
        for batch in &read.batches {
            suspects.strays.extend(batch.strays.iter().cloned());
            suspects.miscounted.extend(batch.miscounted.iter().cloned());
            comments += u64::try_from(batch.comments().count()).unwrap_or(u64::MAX);
        }
        let steps = comments.saturating_mul(STEPS_OF_A_COMMENT);
        Ok(Some(Finding {
            suspects,
            checked: 0,
            steps,
            position: Some(read.position),
            is_last: read.is_last,
        }))
    }

    fn resumes(&self) -> String {
        self.resumes.to_owned()
    }
}

impl<'run> IndexScan<'run> {
    pub(crate) fn new(
        run: &'run Run<'run>,
        snapshot: &'run IndexSnapshot,
        next: Option<IndexScanPosition>,
        at_once: usize,
        resumes: &'run str,
    ) -> Self {
        Self {
            run,
            snapshot,
            next,
            ahead: None,
            at_once: at_once.max(1),
            resumes,
        }
    }

    /// Reads the next batches: fewer when the run must stop.
    async fn read(&self, mut position: IndexScanPosition) -> Result<BatchesRead, StoreError> {
        let mut batches = Vec::new();
        while batches.len() < self.at_once
            && (batches.is_empty() || self.run.stop_reason().is_none())
        {
            let mut batch = Batch::default();
            while !batch.is_full() {
                let Some(part) = self.run.job.index.next_index_part(&mut position).await? else {
                    batches.push(batch);
                    return Ok(BatchesRead {
                        batches,
                        position,
                        is_last: true,
                    });
                };
                self.add(&mut batch, part);
            }
            batches.push(batch);
        }
        Ok(BatchesRead {
            batches,
            position,
            is_last: false,
        })
    }

    /// Files what a part of the page index holds into a batch.
    fn add(&self, batch: &mut Batch, part: IndexPart) {
        batch.steps += 1;
        for entry in self.entries_of(part) {
            match entry {
                IndexEntry::Member(id, entry) => batch.add_member(id, entry),
                IndexEntry::Name(name) => {
                    batch.names.insert(name);
                }
                IndexEntry::Stray(partition, name) => {
                    batch.strays.insert((partition, name));
                }
                IndexEntry::Miscounted(product) => {
                    batch.miscounted.insert(product);
                }
                IndexEntry::Unreadable(what) => self
                    .run
                    .ledger
                    .add_unresolved(format!("{what}: repair-job rebuild --apply removes it")),
            }
        }
    }

    /// Reads the entries of a part, without those of partitions that are not kept up to date.
    fn entries_of(&self, part: IndexPart) -> Vec<IndexEntry> {
        match part {
            IndexPart::Nothing => Vec::new(),
            IndexPart::Unreadable(key, why) => {
                vec![IndexEntry::Unreadable(format!("the key {key:?}: {why}"))]
            }
            IndexPart::Unknown(key) => vec![IndexEntry::Unreadable(format!(
                "the key {key:?} is not the page index's"
            ))],
            IndexPart::Entries(mut comments) => {
                comments.retain(|(_, entry)| self.is_current(&entry.placement.product));
                let count = u64::try_from(comments.len()).unwrap_or(u64::MAX);
                self.run.ledger.report().members += count;
                let members = comments.into_iter();
                members
                    .map(|(id, entry)| IndexEntry::Member(id, entry))
                    .collect()
            }
            IndexPart::Products(partition, names) => {
                if !self.snapshot.has(partition) {
                    return Vec::new();
                }
                let index = &self.run.job.index;
                names
                    .into_iter()
                    .map(|name| product_name(index, partition, name))
                    .collect()
            }
            IndexPart::Miscounted(product) => {
                if self.is_current(&product) {
                    vec![IndexEntry::Miscounted(product)]
                } else {
                    Vec::new()
                }
            }
        }
    }

    fn is_current(&self, product: &ProductId) -> bool {
        self.snapshot.has(self.run.job.index.partition_of(product))
    }

    async fn compare(&self, batch: &Batch) -> Result<Suspects, StoreError> {
        match self.compare_together(batch).await {
            Err(error) if error.remedy() == Remedy::Quarantine => {}
            compared => return compared,
        }
        // A key holds a value of the wrong type. Compare the other products without the affected
        // one.
        let mut suspects = Suspects::default();
        for (product, part) in batch.by_product() {
            match self.compare_together(&part).await {
                Err(error) if error.remedy() == Remedy::Quarantine => {
                    self.run.ledger.add_unreadable_product(&product, &error);
                }
                compared => suspects.join(compared?),
            }
        }
        Ok(suspects)
    }

    async fn compare_together(&self, batch: &Batch) -> Result<Suspects, StoreError> {
        let index = &self.run.job.index;
        let empty = index
            .without_members(batch.names.iter().cloned().collect())
            .await?;
        let mut products: BTreeSet<&ProductId> = batch.members.keys().collect();
        products.extend(empty.iter().map(|(product, _)| product));
        let names = index.names(&products).await?;
        let mut suspects = self.suspect_members(batch, &names).await?;
        // The last member and its name are removed in one step. So a name whose members were
        // repaired away before the names were read is gone.
        for (product, language) in empty {
            if has_name(&names, &product, language.as_ref()) {
                suspects.names.insert((product, language));
            }
        }
        Ok(suspects)
    }

    async fn suspect_members(
        &self,
        batch: &Batch,
        names: &BTreeMap<ProductId, Names>,
    ) -> Result<Suspects, StoreError> {
        let job = self.run.job;
        let keys: Vec<(CommentId, ProductId)> = batch.comments().collect();
        let items = job
            .table
            .primary_items_of(&keys, Instant::now() + TIME_MAX)
            .await?;
        // An unreadable item stays absent here, which makes the comment suspect.
        let images: Vec<Image<'_>> = items
            .iter()
            .filter_map(|item| Image::of_primary(item).ok())
            .collect();
        let of_table: BTreeMap<(&CommentId, &ProductId), &Image<'_>> = images
            .iter()
            .map(|image| ((&image.id, &image.placement.product), image))
            .collect();
        let no_names = Names::default();
        let mut suspects = Suspects::default();
        for (product, comments) in &batch.members {
            let names = names.get(product).unwrap_or(&no_names);
            for (id, entries) in comments {
                let last = of_table.get(&(id, product)).map(|image| image.entry());
                let ranks = Ranks::new(
                    [(product.clone(), names.clone())].into(),
                    entries.iter().cloned(),
                );
                // A language without a name also counts as a difference. So a comment without
                // differences was compared in all its sets.
                if last.is_none() || !plan_ranks(id, last.as_ref(), &ranks).drift.is_empty() {
                    let places = suspects.comments.entry(id.clone()).or_default();
                    for entry in entries {
                        places.add_entry(entry);
                    }
                }
            }
        }
        Ok(suspects)
    }
}
