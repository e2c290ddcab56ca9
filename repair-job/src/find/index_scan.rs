//! Finds suspects by a scan of the page index: every member of every base set, and every name.
//!
//! The scan of the table cannot see superfluous entries in the page index. So this scan looks up each comment of a
//! product's whole set (any language, any rating) in the table, once. It compares the comment's scores in *all* sets of
//! the product with what the table implies. A member of any other set must be in the whole set, where it is checked.
//! The language of that set must be named, so that the check covers it. Anything that does not fit is suspect.
//!
//! The scan reads the table eventually consistent: half a read unit per comment. While some batches are compared, the
//! next ones are read.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{join, try_join_all};
use model::{
    BaseSet, CommentId, FilterKey, Language, Placement, ProductId, Timestamp,
    item::Image,
    plan::reconcile::{Names, Places, Ranks, base_sets_in, plan_ranks},
};
use page_index::{IndexPart, IndexScanPosition};
use process::{Remedy, StoreError};
use tokio::time::{Duration, Instant};

use crate::{
    index_snapshot::IndexSnapshot,
    pipeline::{Finder, Found},
    runner::Run,
    suspect::{Name, Suspects},
};

/// How many members are compared together.
const TOGETHER: usize = 500;

/// How many names are compared together.
const NAMES_TOGETHER: usize = 500;

/// After this many steps without anything to compare, the position may be stored.
const STEPS_TOGETHER: usize = 200;

/// How long to wait for a throttled table.
const TIME_MAX: Duration = Duration::from_secs(60);

/// A batch: what is compared together.
#[derive(Default)]
struct Batch {
    /// Members of whole sets.
    comments: BTreeSet<(CommentId, ProductId)>,
    /// Members of other sets.
    others: BTreeMap<BaseSet, BTreeSet<CommentId>>,
    other_count: usize,
    names: BTreeSet<Name>,
    steps: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.comments.len() + self.other_count >= TOGETHER
            || self.names.len() >= NAMES_TOGETHER
            || self.steps >= STEPS_TOGETHER
    }

    /// The batch of each product.
    fn by_product(&self) -> BTreeMap<ProductId, Self> {
        let mut parts: BTreeMap<ProductId, Self> = BTreeMap::new();
        for (id, product) in &self.comments {
            parts.entry(product.clone()).or_default().comments.insert((id.clone(), product.clone()));
        }
        for (set, ids) in &self.others {
            parts.entry(set.product.clone()).or_default().others.insert(set.clone(), ids.clone());
        }
        for name in &self.names {
            parts.entry(name.0.clone()).or_default().names.insert(name.clone());
        }
        parts
    }
}

/// Batches that were read, and the position after them.
struct BatchesRead {
    batches: Vec<Batch>,
    position: IndexScanPosition,
    is_last: bool,
}

/// How far the page index was scanned.
pub(crate) struct IndexPosition {
    pub(crate) sweep: IndexScanPosition,
    /// Number of comments since the position before.
    pub(crate) comments: u64,
}

/// Scans the page index.
pub(crate) struct IndexScan<'run> {
    run: &'run Run<'run>,
    snapshot: &'run IndexSnapshot,
    /// Where to read on; `None` at the end.
    next: Option<IndexScanPosition>,
    /// Batches that were read ahead.
    ahead: Option<Result<BatchesRead, StoreError>>,
    /// How many batches are compared in parallel.
    at_once: usize,
}

impl Finder for IndexScan<'_> {
    type Position = IndexPosition;

    async fn find(&mut self) -> Result<Option<Found<IndexPosition>>, StoreError> {
        let read = match (self.ahead.take(), self.next.take()) {
            (Some(read), _) => read?,
            (None, Some(position)) => self.read(position).await?,
            (None, None) => return Ok(None),
        };
        let ahead = async { if read.is_last { None } else { Some(self.read(read.position.clone()).await) } };
        let compared = try_join_all(read.batches.iter().map(|batch| self.compare(batch)));
        let (compared, ahead) = Box::pin(join(compared, ahead)).await;
        self.ahead = ahead;
        let mut suspects = Suspects::default();
        compared?.into_iter().for_each(|found| suspects.join(found));
        let comments = read.batches.iter().map(|batch| batch.comments.len()).sum::<usize>();
        let comments = u64::try_from(comments).unwrap_or(u64::MAX);
        let position = IndexPosition { sweep: read.position, comments };
        Ok(Some(Found { suspects, checked: 0, position, is_last: read.is_last }))
    }

    fn resumes(&self) -> String {
        match self.run.job.settings.apply {
            true => "the next run resumes with the sweep of the page index".to_owned(),
            false => "a dry run remembers nothing: the sweep of the page index starts anew".to_owned(),
        }
    }
}

impl<'run> IndexScan<'run> {
    /// A scan that begins at a position.
    pub(crate) fn new(
        run: &'run Run<'run>,
        snapshot: &'run IndexSnapshot,
        from: IndexScanPosition,
        at_once: usize,
    ) -> Self {
        Self { run, snapshot, next: Some(from), ahead: None, at_once: at_once.max(1) }
    }

    /// Reads the next batches: fewer when the run must stop.
    async fn read(&self, mut position: IndexScanPosition) -> Result<BatchesRead, StoreError> {
        let mut batches = Vec::new();
        let must_stop = || self.run.job.stop.reason().is_some() || self.run.has_failed();
        while batches.len() < self.at_once && (batches.is_empty() || !must_stop()) {
            let mut batch = Batch::default();
            while !batch.is_full() {
                let Some(swept) = self.run.job.index.next_index_part(&mut position).await? else {
                    batches.push(batch);
                    return Ok(BatchesRead { batches, position, is_last: true });
                };
                self.add(&mut batch, swept);
            }
            batches.push(batch);
        }
        Ok(BatchesRead { batches, position, is_last: false })
    }

    /// Adds the result of a step to the batch.
    fn add(&self, batch: &mut Batch, swept: IndexPart) {
        batch.steps += 1;
        let index = &self.run.job.index;
        let is_kept = |product: &ProductId| self.snapshot.has(index.partition_of(product));
        let unreadable =
            |what: String| self.run.ledger.add_unresolved(format!("{what}: repair-job rebuild --apply removes it"));
        match swept {
            IndexPart::Nothing => {}
            IndexPart::Unreadable(key, why) => unreadable(format!("the key {key:?}: {why}")),
            IndexPart::Unknown(key) => unreadable(format!("the key {key:?} is not the page index's")),
            IndexPart::Members(set, members) => {
                if !is_kept(&set.product) {
                    return;
                }
                self.run.ledger.report().members += u64::try_from(members.len()).unwrap_or(u64::MAX);
                for (member, _) in members {
                    let Ok(id) = CommentId::parse(&member) else {
                        unreadable(format!("the member {member:?} of {set} is not a comment's id"));
                        continue;
                    };
                    if set.language.is_none() && set.rating.is_none() {
                        batch.comments.insert((id, set.product.clone()));
                    } else if batch.others.entry(set.clone()).or_default().insert(id) {
                        batch.other_count += 1;
                    }
                }
            }
            IndexPart::Products(partition, names) => {
                if !self.snapshot.has(partition) {
                    return;
                }
                for name in names {
                    let parsed = FilterKey::parse(&format!("PRODUCT#{name}/~/~"));
                    match parsed.ok().map(|key| key.product).filter(|name| index.partition_of(name) == partition) {
                        Some(product) => {
                            batch.names.insert((product, None));
                        }
                        None => unreadable(format!("the name {name:?} is not a product of its partition")),
                    }
                }
            }
            IndexPart::Languages(product, names) => {
                if !is_kept(&product) {
                    return;
                }
                for name in names {
                    match Language::parse(&name).ok().filter(|language| language.as_str() == name) {
                        Some(language) => {
                            batch.names.insert((product.clone(), Some(language)));
                        }
                        None => unreadable(format!("the name {name:?} is not a language, of {product}")),
                    }
                }
            }
        }
    }

    /// Compares a batch.
    async fn compare(&self, batch: &Batch) -> Result<Suspects, StoreError> {
        match self.compare_together(batch).await {
            Err(error) if error.remedy() == Remedy::Quarantine => {}
            compared => return compared,
        }
        // A key holds a value of the wrong type. Compare the other products without the affected one.
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
        let names_of: BTreeSet<&ProductId> = batch
            .comments
            .iter()
            .map(|(_, product)| product)
            .chain(batch.others.keys().map(|set| &set.product))
            .collect();
        let empty = self.empty_names(batch).await?;
        let names = self.run.job.index.names(names_of).await?;
        let mut comments: BTreeMap<CommentId, Places> = BTreeMap::new();
        self.compare_comments(batch, &names, &mut comments).await?;
        self.compare_others(batch, &names, &mut comments).await?;
        Ok(Suspects { comments, names: empty })
    }

    /// Compares the members of whole sets with the table, and with all sets of their products.
    async fn compare_comments(
        &self,
        batch: &Batch,
        names: &BTreeMap<ProductId, Names>,
        suspects: &mut BTreeMap<CommentId, Places>,
    ) -> Result<(), StoreError> {
        let job = self.run.job;
        let keys: Vec<(CommentId, ProductId)> = batch.comments.iter().cloned().collect();
        let items = job.table.primary_items_of(&keys, Instant::now() + TIME_MAX).await?;
        let mut found: BTreeMap<(CommentId, ProductId), (Placement, Timestamp)> = BTreeMap::new();
        for item in &items {
            // An unreadable item stays absent here, which makes the comment suspect.
            if let Ok(image) = Image::of_primary(item) {
                let key = (image.id.clone(), image.placement.product.clone());
                found.insert(key, (image.placement, image.created_at));
            }
        }
        let mut by_product: BTreeMap<&ProductId, Vec<&CommentId>> = BTreeMap::new();
        for (id, product) in &keys {
            by_product.entry(product).or_default().push(id);
        }
        let none = Names::default();
        for (product, ids) in by_product {
            let names = names.get(product).unwrap_or(&none);
            let sets = base_sets_in(product, &names.languages);
            let members: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
            let asked: Vec<(&BaseSet, Vec<&str>)> = sets.iter().map(|set| (set, members.clone())).collect();
            let scores = job.index.scores(&asked).await?;
            for (place, id) in ids.into_iter().enumerate() {
                let scores = sets
                    .iter()
                    .zip(&scores)
                    .filter_map(|(set, scores)| Some((set.clone(), scores.get(place).copied().flatten()?)));
                let ranks = Ranks { names: [(product.clone(), names.clone())].into(), scores: scores.collect() };
                let found = found.get(&(id.clone(), product.clone()));
                let last = found.map(|(placement, created_at)| (placement, *created_at));
                // A language without a name also counts as a difference. So a comment without differences was compared
                // in all its sets.
                if last.is_none() || !plan_ranks(id, last, &ranks).drift.is_empty() {
                    suspects.entry(id.clone()).or_default().add(product, None);
                }
            }
        }
        Ok(())
    }

    /// Compares the members of other sets with the whole sets of their products, and their languages with the names.
    async fn compare_others(
        &self,
        batch: &Batch,
        names: &BTreeMap<ProductId, Names>,
        suspects: &mut BTreeMap<CommentId, Places>,
    ) -> Result<(), StoreError> {
        let whole = |set: &BaseSet| BaseSet { product: set.product.clone(), language: None, rating: None };
        let wholes: Vec<BaseSet> = batch.others.keys().map(whole).collect();
        let asked: Vec<(&BaseSet, Vec<&str>)> = wholes
            .iter()
            .zip(batch.others.values())
            .map(|(whole, ids)| (whole, ids.iter().map(CommentId::as_str).collect()))
            .collect();
        let scores = self.run.job.index.scores(&asked).await?;
        for ((set, ids), scores) in batch.others.iter().zip(scores) {
            let is_named = set
                .language
                .as_ref()
                .is_none_or(|language| names.get(&set.product).is_some_and(|names| names.languages.contains(language)));
            for (id, score) in ids.iter().zip(scores) {
                if score.is_none() || !is_named {
                    suspects.entry(id.clone()).or_default().add(&set.product, set.language.as_ref());
                }
            }
        }
        Ok(())
    }

    /// The names of products and languages without comments.
    async fn empty_names(&self, batch: &Batch) -> Result<BTreeSet<Name>, StoreError> {
        let whole =
            |(product, language): &Name| BaseSet { product: product.clone(), language: language.clone(), rating: None };
        let index = &self.run.job.index;
        let sizes = index.sizes(&batch.names.iter().map(whole).collect::<Vec<_>>()).await?;
        let empty = batch.names.iter().zip(sizes).filter(|(_, size)| *size == 0);
        let mut empty: BTreeSet<Name> = empty.map(|(name, _)| name.clone()).collect();
        if !empty.is_empty() {
            // The last member and its name are removed in one step. So a name whose members were repaired away since
            // the names were read is gone.
            let products: BTreeSet<&ProductId> = empty.iter().map(|(product, _)| product).collect();
            let names = index.names(products).await?;
            empty.retain(|(product, language)| {
                names.get(product).is_some_and(|names| match language {
                    None => names.is_named,
                    Some(language) => names.languages.contains(language),
                })
            });
        }
        Ok(empty)
    }
}
