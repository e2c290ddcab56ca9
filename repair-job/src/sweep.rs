//! The sweep: every member of every base set, and every name, against the table.
//!
//! What the audit of the table cannot see are entries that should not be there. So each comment that a product's whole
//! set (any language, any rating) names is looked up in the table, once, and its scores in *all* sets of the product are
//! compared with what it implies. A member of another set must be in the whole set, where it is looked at, and its language must
//! be named, so that its set is among those. Whatever does not fit is suspect and goes to `reconcile`.
//!
//! It reads the table eventually consistent: half a read unit a comment.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use futures_util::{TryStreamExt, stream};
use model::{
    BaseSet, CommentId, Instant, Language, Placement, ProductId,
    item::Image,
    plan::reconcile::{Drift, Names, Places, Ranks, base_sets_in, plan_ranks},
};
use serde::{Deserialize, Serialize};
use stores::{
    Remedy, StoreError, now,
    page_index::{SweepPosition, Swept},
};
use tokio::time::{Duration, Instant as Clock};

use crate::{
    audit::{AuditOptions, EVERY, Which, were_looked_at},
    error::RepairError,
    follow::Follow,
    job::{Run, index_is_away},
    reconcile::Scope,
};

/// The state of the sweep.
pub(crate) const SWEEP: &str = "sweep";
/// Its name.
pub(crate) const POSITION: &str = "position";

/// How many members are compared together.
const TOGETHER: usize = 500;

/// How many names are compared together.
const NAMES_TOGETHER: usize = 500;

/// How many steps may pass without anything to compare before the position may be remembered.
const STEPS_TOGETHER: usize = 200;

/// How often the position is remembered.
const REMEMBER_EVERY: Duration = Duration::from_secs(10);

/// How long a throttled table is waited for.
const TIME_MAX: Duration = Duration::from_secs(60);

/// How far the sweep is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SweepState {
    /// Where the sweep goes on that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) position: Option<SweepPosition>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) began: Option<Instant>,
    /// When the first was begun, until one has come to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_began: Option<Instant>,
    /// When the last one began that came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_began: Option<Instant>,
    /// When the last one ended that came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_ended: Option<Instant>,
}

/// What is compared together.
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

    /// The same, each product by itself.
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

/// Sweeps the page index, going on where a run was interrupted.
pub(crate) async fn sweep(run: &Run<'_>, follow: &Follow, options: AuditOptions) -> Result<(), RepairError> {
    if follow.watermarks.is_empty() {
        // Said when the markers were read.
        return Ok(());
    }
    match Box::pin(sweep_all(run, follow, options)).await {
        Err(RepairError::Store(error)) if index_is_away(&error) => Err(RepairError::IndexAway(error.to_string())),
        swept => swept,
    }
}

async fn sweep_all(run: &Run<'_>, follow: &Follow, options: AuditOptions) -> Result<(), RepairError> {
    let (job, index) = (run.job, &run.job.index);
    let mut state: SweepState = match job.settings.apply && !options.restart {
        true => job.table.state(SWEEP, POSITION).await?.unwrap_or_default(),
        false => SweepState::default(),
    };
    let age = i64::try_from((EVERY / 7 * 6).as_millis()).unwrap_or(i64::MAX);
    let is_due = state.last_ended.is_none_or(|ended| ended < now().plus_ms(-age));
    if options.which == Which::Due && state.position.is_none() && !is_due {
        return Ok(());
    }
    let mut position = match state.position.take() {
        Some(position) if index.is_sweep_valid(&position).await? => position,
        _ => {
            state.began = None;
            index.sweep().await?
        }
    };
    let began = *state.began.get_or_insert_with(now);
    if state.last_ended.is_none() {
        state.first_began.get_or_insert(began);
    }
    let sweeper =
        Sweeper { run, follow, scope: Scope { duplicates: true, index: follow.scope() }, refused: Mutex::default() };
    let mut remembered = Clock::now();
    loop {
        let goes_on = || match job.settings.apply {
            true => "the next run goes on with the sweep of the page index".to_owned(),
            false => "a dry run remembers nothing: the sweep of the page index begins anew".to_owned(),
        };
        // Here everything up to the position has been compared.
        if run.must_stop(goes_on) {
            state.position = Some(position);
            return remember(run, &state).await;
        }
        if remembered.elapsed() > REMEMBER_EVERY {
            remembered = Clock::now();
            state.position = Some(position.clone());
            remember(run, &state).await?;
        }
        let before = position.clone();
        let mut batch = Batch::default();
        let mut is_over = false;
        while !batch.is_full() && !is_over {
            match index.sweep_on(&mut position).await? {
                Some(swept) => sweeper.add(&mut batch, swept),
                None => is_over = true,
            }
        }
        if !Box::pin(sweeper.compare(batch)).await? {
            run.must_stop(goes_on);
            state.position = Some(before);
            return remember(run, &state).await;
        }
        if is_over {
            break;
        }
    }
    if !index.is_sweep_valid(&position).await? {
        run.add_skipped("part of the sweep, whose servers have changed: the next one begins anew".to_owned());
        return remember(run, &SweepState { position: None, began: None, ..state }).await;
    }
    let done = SweepState { last_began: Some(began), last_ended: Some(now()), ..SweepState::default() };
    remember(run, &done).await
}

async fn remember(run: &Run<'_>, state: &SweepState) -> Result<(), RepairError> {
    if run.may_remember() {
        run.job.table.put_state(SWEEP, POSITION, state).await?;
    }
    Ok(())
}

struct Sweeper<'run> {
    run: &'run Run<'run>,
    follow: &'run Follow,
    scope: Scope,
    /// Products that have been reported because something else is in the place of one of their keys.
    refused: Mutex<BTreeSet<ProductId>>,
}

impl Sweeper<'_> {
    /// Adds what a step gave to what is compared.
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

    /// Compares; `false` when some comments were left out.
    async fn compare(&self, batch: Batch) -> Result<bool, RepairError> {
        match Box::pin(self.compare_together(&batch)).await {
            Err(RepairError::Store(error)) if error.remedy() == Remedy::Quarantine => {}
            compared => return compared,
        }
        // Something else is in the place of a key: the others are compared without the product that this concerns.
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

    /// Compares; nothing has been changed if that fails because the page index rejects what it is asked.
    async fn compare_together(&self, batch: &Batch) -> Result<bool, RepairError> {
        let empty = self.empty_names(batch).await?;
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
        let mut found: BTreeMap<(CommentId, ProductId), (Placement, Instant)> = BTreeMap::new();
        for item in &items {
            // One that cannot be read is missing here, and so suspect.
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
                // A language that is not named is a difference too, so no set was left out of a comment that is right.
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

    /// Names of what has no comments.
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
        Ok(named.into_iter().zip(sizes).filter(|(_, size)| *size == 0).map(|(name, _)| name).collect())
    }

    /// Takes names away.
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
