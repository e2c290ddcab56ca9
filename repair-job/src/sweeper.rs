//! Reads batches of the page index for a sweep, and compares them with the table.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use futures_util::{TryStreamExt, stream};
use model::{
    BaseSet, CommentId, Language, Placement, ProductId, Timestamp,
    item::Image,
    plan::reconcile::{Drift, Names, Places, Ranks, base_sets_in, plan_ranks},
};
use page_index::{SweepPosition, Swept};
use process::{Remedy, StoreError};
use tokio::time::{Duration, Instant as Clock};

use crate::{
    error::RepairError,
    follow::{Follow, Kept},
    job::Run,
    reconcile::{Scope, State},
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
    comments: BTreeMap<(CommentId, ProductId), ()>,
    /// Members of other sets.
    others: BTreeMap<BaseSet, BTreeSet<CommentId>>,
    other_count: usize,
    products: Vec<ProductId>,
    languages: Vec<(ProductId, Language)>,
    steps: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.comments.len() + self.other_count >= TOGETHER
            || self.products.len() + self.languages.len() >= NAMES_TOGETHER
            || self.steps >= STEPS_TOGETHER
    }

    /// Splits the batch by product.
    fn by_product(self) -> BTreeMap<ProductId, Self> {
        let mut parts: BTreeMap<ProductId, Self> = BTreeMap::new();
        for ((id, product), ()) in self.comments {
            parts.entry(product.clone()).or_default().comments.insert((id, product), ());
        }
        for (set, ids) in self.others {
            parts.entry(set.product.clone()).or_default().others.insert(set, ids);
        }
        for product in self.products {
            parts.entry(product.clone()).or_default().products.push(product);
        }
        for (product, language) in self.languages {
            parts.entry(product.clone()).or_default().languages.push((product, language));
        }
        parts
    }
}

/// A batch that was read, and the position after it.
pub(crate) struct Read {
    batch: Batch,
    pub(crate) position: SweepPosition,
    pub(crate) is_last: bool,
}

/// The result of comparing a batch, and the position after it.
pub(crate) struct Compared {
    pub(crate) comments: u64,
    /// Whether every comment was checked.
    pub(crate) is_whole: bool,
    pub(crate) position: SweepPosition,
    pub(crate) is_last: bool,
}
/// Compares the page index with the table for a run.
pub(crate) struct Sweeper<'run> {
    pub(crate) run: &'run Run<'run>,
    pub(crate) follow: &'run Follow,
    pub(crate) kept: Option<&'run Kept>,
    pub(crate) scope: Scope,
    /// Products that have been reported because one of their keys holds a value of the wrong type.
    pub(crate) refused: Mutex<BTreeSet<ProductId>>,
}

impl Sweeper<'_> {
    /// Reads the next batch from a position on.
    pub(crate) async fn read(&self, mut position: SweepPosition) -> Result<Read, RepairError> {
        let mut batch = Batch::default();
        while !batch.is_full() {
            match self.run.job.index.sweep_on(&mut position).await? {
                Some(swept) => self.add(&mut batch, swept),
                None => return Ok(Read { batch, position, is_last: true }),
            }
        }
        Ok(Read { batch, position, is_last: false })
    }

    pub(crate) async fn compare_read(&self, read: Result<Read, RepairError>) -> Result<Compared, RepairError> {
        let Read { batch, position, is_last } = read?;
        let comments = u64::try_from(batch.comments.len()).unwrap_or(u64::MAX);
        let is_whole = Box::pin(self.compare(batch)).await?;
        Ok(Compared { comments, is_whole, position, is_last })
    }

    /// Adds the result of a step to the batch.
    fn add(&self, batch: &mut Batch, swept: Swept) {
        batch.steps += 1;
        let index = &self.run.job.index;
        let is_kept = |product: &ProductId| self.follow.watermarks.contains_key(&index.partition_of(product));
        let unreadable = |what: String| self.run.add_unresolved(format!("{what}: repair-job rebuild removes it"));
        match swept {
            Swept::Nothing => {}
            Swept::Unreadable(key, why) => unreadable(format!("the key {key:?}: {why}")),
            Swept::Unknown(key) => unreadable(format!("the key {key:?} is not the page index's")),
            Swept::Members(set, members) => {
                if !is_kept(&set.product) {
                    return;
                }
                self.run.report().members += u64::try_from(members.len()).unwrap_or(u64::MAX);
                for (member, _) in members {
                    let Ok(id) = CommentId::parse(&member) else {
                        unreadable(format!("the member {member:?} of {set} is no comment's id"));
                        continue;
                    };
                    if set.language.is_none() && set.rating.is_none() {
                        batch.comments.insert((id, set.product.clone()), ());
                    } else if batch.others.entry(set.clone()).or_default().insert(id) {
                        batch.other_count += 1;
                    }
                }
            }
            Swept::Products(partition, names) => {
                if !self.follow.watermarks.contains_key(&partition) {
                    return;
                }
                for name in names {
                    let parsed = model::FilterKey::parse(&format!("PRODUCT#{name}/~/~"));
                    match parsed.ok().map(|key| key.product).filter(|name| index.partition_of(name) == partition) {
                        Some(product) => batch.products.push(product),
                        None => unreadable(format!("the name {name:?} is no product's of its partition")),
                    }
                }
            }
            Swept::Languages(product, names) => {
                if !is_kept(&product) {
                    return;
                }
                for name in names {
                    match Language::parse(&name).ok().filter(|language| language.as_str() == name) {
                        Some(language) => batch.languages.push((product.clone(), language)),
                        None => unreadable(format!("the name {name:?} is no language's, of {product}")),
                    }
                }
            }
        }
    }

    /// Compares a batch. Returns `false` when some comments were skipped.
    async fn compare(&self, batch: Batch) -> Result<bool, RepairError> {
        match Box::pin(self.compare_together(&batch)).await {
            Err(RepairError::Store(error)) if error.remedy() == Remedy::Quarantine => {}
            compared => return compared,
        }
        // A key holds a value of the wrong type. Compare the other products without the affected one.
        let mut is_whole = true;
        for (product, part) in batch.by_product() {
            match Box::pin(self.compare_together(&part)).await {
                Err(RepairError::Store(error)) if error.remedy() == Remedy::Quarantine => self.refuse(product, &error),
                compared => is_whole &= compared?,
            }
        }
        Ok(is_whole)
    }

    fn refuse(&self, product: ProductId, error: &StoreError) {
        let what = format!("product {product} in the page index: {error}: repair-job rebuild removes what is wrong");
        if self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(product) {
            self.run.add_unresolved(what);
        }
    }

    /// Compares a batch. When this fails because the page index rejects a request, nothing has been changed.
    async fn compare_together(&self, batch: &Batch) -> Result<bool, RepairError> {
        let empty = self.empty_names(batch).await?;
        if let (Some(kept), false) = (self.kept, empty.is_empty()) {
            kept.assert_still(&self.run.job.index, empty.iter().map(|(product, _)| *product)).await?;
        }
        let products: BTreeSet<&ProductId> = batch
            .comments
            .keys()
            .map(|(_, product)| product)
            .chain(batch.others.keys().map(|set| &set.product))
            .collect();
        let names = self.run.job.index.names(products).await?;
        let mut suspects: BTreeMap<CommentId, Places> = BTreeMap::new();
        self.compare_comments(batch, &names, &mut suspects).await?;
        self.compare_others(batch, &names, &mut suspects).await?;
        self.forget_names(empty).await?;
        let states = self.run.reconcile_all(suspects, &self.scope).await?;
        were_looked_at(&states)
    }

    /// Compares the members of whole sets with the table, and with all sets of their products.
    async fn compare_comments(
        &self,
        batch: &Batch,
        names: &BTreeMap<ProductId, Names>,
        suspects: &mut BTreeMap<CommentId, Places>,
    ) -> Result<(), RepairError> {
        let job = self.run.job;
        let keys: Vec<(CommentId, ProductId)> = batch.comments.keys().cloned().collect();
        let items = job.table.primary_items_of(&keys, Clock::now() + TIME_MAX).await?;
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
    ) -> Result<(), RepairError> {
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

    /// Names of products and languages without comments.
    async fn empty_names<'batch>(
        &self,
        batch: &'batch Batch,
    ) -> Result<Vec<(&'batch ProductId, Option<&'batch Language>)>, RepairError> {
        let named: Vec<(&ProductId, Option<&Language>)> = batch
            .products
            .iter()
            .map(|product| (product, None))
            .chain(batch.languages.iter().map(|(product, language)| (product, Some(language))))
            .collect();
        let whole = |(product, language): &(&ProductId, Option<&Language>)| BaseSet {
            product: (*product).clone(),
            language: language.cloned(),
            rating: None,
        };
        let index = &self.run.job.index;
        let sizes = index.sizes(&named.iter().map(whole).collect::<Vec<_>>()).await?;
        let mut empty: Vec<_> =
            named.into_iter().zip(sizes).filter(|(_, size)| *size == 0).map(|(name, _)| name).collect();
        if !empty.is_empty() {
            // The last member and its name are removed in one step. So a name whose members were repaired away since
            // the names were read is gone.
            let products: BTreeSet<&ProductId> = empty.iter().map(|(product, _)| *product).collect();
            let names = index.names(products).await?;
            empty.retain(|(product, language)| {
                names.get(*product).is_some_and(|names| match language {
                    None => names.is_named,
                    Some(language) => names.languages.contains(*language),
                })
            });
        }
        Ok(empty)
    }

    /// Removes names.
    async fn forget_names(&self, empty: Vec<(&ProductId, Option<&Language>)>) -> Result<(), RepairError> {
        let index = &self.run.job.index;
        stream::iter(empty.into_iter().map(Ok::<_, RepairError>))
            .try_for_each(async |(product, language)| {
                if self.run.job.settings.apply {
                    match index.forget_if_empty(product, language).await {
                        Err(error) if error.remedy() == Remedy::Quarantine => {
                            self.refuse(product.clone(), &error);
                            return Ok(());
                        }
                        forgotten => forgotten?,
                    }
                }
                self.run.add_drift(&Drift::ExtraName(product.clone(), language.cloned()));
                Ok(())
            })
            .await
    }
}

/// Whether all comments were checked; `false` when some were skipped.
///
/// # Errors
/// The page index did not answer for some comments, or was lost.
fn were_looked_at(states: &[(CommentId, State)]) -> Result<bool, RepairError> {
    let mut is_whole = true;
    for (_, state) in states {
        match state {
            State::IndexAway(error) => return Err(RepairError::IndexAway(error.clone())),
            State::LeftOut(_) => is_whole = false,
            State::Settled | State::Unresolved(_) | State::KeepsChanging => {}
        }
    }
    Ok(is_whole)
}
