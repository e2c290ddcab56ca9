//! Finds suspects by a scan of the page index: every member of every base set, and every name.
//!
//! The scan of the table cannot see superfluous entries in the page index. ADR 21 says how this
//! scan does. It checks a comment's scores only in the languages that had names then. So the
//! language of a set must have a name, and a member must be in no other language with that rating.
//!
//! While some batches are compared, the next ones are read.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{join, try_join, try_join_all};
use model::{
    BaseSet, CommentId, FilterKey, Language, ProductId,
    item::Image,
    plan::reconcile::{Names, Ranks, base_sets_in, plan_ranks},
};
use page_index::{IndexPart, IndexPartition, IndexScanPosition, Name, PageIndex};
use process::{Remedy, Store, StoreError};
use tokio::time::{Duration, Instant};

use super::{ITEMS_PER_COMMENT, scores_of};
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
    in_any_language: BTreeMap<ProductId, BTreeSet<CommentId>>,
    in_a_language: BTreeMap<BaseSet, BTreeSet<CommentId>>,
    member_count: usize,
    names: BTreeSet<Name>,
    strays: BTreeSet<(IndexPartition, String)>,
    steps: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        let names = self.names.len() + self.strays.len();
        self.member_count >= TOGETHER || names >= TOGETHER || self.steps >= STEPS_TOGETHER
    }

    fn add_member(&mut self, set: BaseSet, id: CommentId) {
        let ids = if set.language.is_some() {
            self.in_a_language.entry(set).or_default()
        } else {
            self.in_any_language.entry(set.product).or_default()
        };
        self.member_count += usize::from(ids.insert(id));
    }

    fn by_product(&self) -> BTreeMap<ProductId, Self> {
        let mut parts: BTreeMap<ProductId, Self> = BTreeMap::new();
        for (product, ids) in &self.in_any_language {
            parts
                .entry(product.clone())
                .or_default()
                .in_any_language
                .insert(product.clone(), ids.clone());
        }
        for (set, ids) in &self.in_a_language {
            parts
                .entry(set.product.clone())
                .or_default()
                .in_a_language
                .insert(set.clone(), ids.clone());
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
        self.in_any_language
            .iter()
            .flat_map(|(product, ids)| ids.iter().map(|id| (id.clone(), product.clone())))
    }
}

/// What a scan reads of the page index.
enum IndexEntry {
    Member(BaseSet, CommentId),
    Name(Name),
    /// A name among a partition's products that is not of a product in it.
    Stray(IndexPartition, String),
    /// Something that only a rebuild removes.
    Unreadable(String),
}

fn member(set: &BaseSet, id: &str) -> IndexEntry {
    match CommentId::parse(id) {
        Ok(id) => IndexEntry::Member(set.clone(), id),
        Err(_) => {
            IndexEntry::Unreadable(format!("the member {id:?} of {set} is not a comment's id"))
        }
    }
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

fn language_name(product: &ProductId, name: &str) -> IndexEntry {
    match Language::parse(name) {
        Ok(language) if language.as_str() == name => {
            IndexEntry::Name((product.clone(), Some(language)))
        }
        Ok(_) | Err(_) => {
            IndexEntry::Unreadable(format!("the name {name:?} is not a language, of {product}"))
        }
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

/// The set of the same rating and any language.
fn of_any_language(set: &BaseSet) -> BaseSet {
    BaseSet {
        language: None,
        ..set.clone()
    }
}

/// The sets of the same rating and the product's other languages. A member of a language's set is
/// in none of them.
fn of_other_languages(set: &BaseSet, names: &BTreeMap<ProductId, Names>) -> Vec<BaseSet> {
    let Some(names) = names.get(&set.product) else {
        return Vec::new();
    };
    let mut others = Vec::new();
    for language in &names.languages {
        if set.language.as_ref() != Some(language) {
            others.push(BaseSet {
                language: Some(language.clone()),
                ..set.clone()
            });
        }
    }
    others
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
                IndexEntry::Member(set, id) => batch.add_member(set, id),
                IndexEntry::Name(name) => {
                    batch.names.insert(name);
                }
                IndexEntry::Stray(partition, name) => {
                    batch.strays.insert((partition, name));
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
            IndexPart::Members(sets) => {
                let mut entries = Vec::new();
                for (set, members) in sets {
                    if self.is_current(&set.product) {
                        let count = u64::try_from(members.len()).unwrap_or(u64::MAX);
                        self.run.ledger.report().members += count;
                        entries.extend(members.iter().map(|(id, _)| member(&set, id)));
                    }
                }
                entries
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
            IndexPart::Languages(product, names) => {
                if !self.is_current(&product) {
                    return Vec::new();
                }
                names
                    .iter()
                    .map(|name| language_name(&product, name))
                    .collect()
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
        let mut products: BTreeSet<&ProductId> = batch.in_any_language.keys().collect();
        products.extend(batch.in_a_language.keys().map(|set| &set.product));
        products.extend(empty.iter().map(|(product, _)| product));
        let names = index.names(&products).await?;
        let (mut suspects, in_a_language) = try_join(
            self.suspects_in_any_language(batch, &names),
            self.suspects_in_a_language(batch, &names),
        )
        .await?;
        suspects.join(in_a_language);
        // The last member and its name are removed in one step. So a name whose members were
        // repaired away before the names were read is gone.
        for (product, language) in empty {
            if has_name(&names, &product, language.as_ref()) {
                suspects.names.insert((product, language));
            }
        }
        Ok(suspects)
    }

    async fn suspects_in_any_language(
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
        let mut wanted: BTreeMap<BaseSet, BTreeSet<&CommentId>> = BTreeMap::new();
        for (product, ids) in &batch.in_any_language {
            let names = names.get(product).unwrap_or(&no_names);
            for set in base_sets_in(product, &names.languages) {
                wanted.insert(set, ids.iter().collect());
            }
        }
        let mut scores: BTreeMap<(&CommentId, &ProductId), BTreeMap<BaseSet, f64>> =
            BTreeMap::new();
        for ((set, id), score) in scores_of(&job.index, &wanted).await? {
            scores
                .entry((id, &set.product))
                .or_default()
                .insert(set.clone(), score);
        }
        let mut suspects = Suspects::default();
        for (id, product) in &keys {
            let last = of_table
                .get(&(id, product))
                .map(|image| (&image.placement, image.created_at));
            let names = names.get(product).unwrap_or(&no_names);
            let ranks = Ranks {
                names: [(product.clone(), names.clone())].into(),
                scores: scores.remove(&(id, product)).unwrap_or_default(),
            };
            // A language without a name also counts as a difference. So a comment without
            // differences was compared in all its sets.
            if last.is_none() || !plan_ranks(id, last, &ranks).drift.is_empty() {
                suspects
                    .comments
                    .entry(id.clone())
                    .or_default()
                    .add(product, None);
            }
        }
        Ok(suspects)
    }

    /// Finds the members of languages' sets that do not fit. Such a member is missing from the set
    /// of any language, or is in two languages. Or the language of its set is not named.
    async fn suspects_in_a_language(
        &self,
        batch: &Batch,
        names: &BTreeMap<ProductId, Names>,
    ) -> Result<Suspects, StoreError> {
        let mut wanted: BTreeMap<BaseSet, BTreeSet<&CommentId>> = BTreeMap::new();
        for (set, ids) in &batch.in_a_language {
            for other in of_other_languages(set, names) {
                wanted.entry(other).or_default().extend(ids);
            }
            wanted.entry(of_any_language(set)).or_default().extend(ids);
        }
        let scores = scores_of(&self.run.job.index, &wanted).await?;
        let mut suspects = Suspects::default();
        for (set, ids) in &batch.in_a_language {
            let language = set.language.as_ref();
            let is_named = has_name(names, &set.product, language);
            let of_any = of_any_language(set);
            let others = of_other_languages(set, names);
            for id in ids {
                let is_right = is_named
                    && scores.contains_key(&(&of_any, id))
                    && !others.iter().any(|other| scores.contains_key(&(other, id)));
                if !is_right {
                    let places = suspects.comments.entry(id.clone()).or_default();
                    places.add(&set.product, language);
                }
            }
        }
        Ok(suspects)
    }
}
