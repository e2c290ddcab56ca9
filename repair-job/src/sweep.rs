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
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{
    StreamExt, TryStreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
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
    audit::{AuditOptions, ITEMS_PER_COMMENT, Which, is_due},
    error::RepairError,
    follow::{Follow, Kept},
    job::{Run, index_is_away},
    reconcile::{Scope, State},
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
    /// How many comments it has looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) members: Option<u64>,
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

/// How much a sweep of so many comments is beside reading their items: the time of each, about, as measured by `bench`.
pub(crate) fn steps(comments: u64) -> u64 {
    comments.saturating_mul(ITEMS_PER_COMMENT / 2)
}

/// Sweeps the page index, going on where a run was interrupted, unless that one began before `since`.
pub(crate) async fn sweep(
    run: &Run<'_>,
    follow: &Follow,
    options: AuditOptions,
    since: Option<Instant>,
) -> Result<(), RepairError> {
    if follow.watermarks.is_empty() {
        // Said when the markers were read.
        return Ok(());
    }
    let swept = match Box::pin(sweep_all(run, follow, options, since)).await {
        Err(RepairError::Store(error)) if index_is_away(&error) => Err(RepairError::IndexAway(error.to_string())),
        swept => swept,
    };
    match swept {
        Err(RepairError::IndexAway(why)) => {
            run.add_skipped(format!("the rest of the sweep of the page index, because {why}"));
            Ok(())
        }
        swept => {
            if swept.is_err() {
                run.fail();
            }
            swept
        }
    }
}

async fn sweep_all(
    run: &Run<'_>,
    follow: &Follow,
    options: AuditOptions,
    since: Option<Instant>,
) -> Result<(), RepairError> {
    let (job, index) = (run.job, &run.job.index);
    let mut state: SweepState = match job.settings.apply {
        true => job.table.state(SWEEP, POSITION).await?.unwrap_or_default(),
        false => SweepState::default(),
    };
    if options.restart {
        (state.position, state.members, state.began) = (None, None, None);
    }
    if options.which == Which::Due && state.position.is_none() && !is_due(state.last_began.or(state.last_ended)) {
        return Ok(());
    }
    let is_of_this_pass = state.began.is_some_and(|began| since.is_none_or(|since| began >= since));
    let start = match state.position.take().filter(|_| is_of_this_pass) {
        Some(position) if index.is_sweep_valid(&position).await? => position,
        _ => {
            (state.began, state.members) = (None, None);
            index.sweep().await?
        }
    };
    if let Some(began) = state.began {
        run.add_note(format!("it goes on with the sweep of the page index that began at {began}"));
    }
    let began = *state.began.get_or_insert_with(now);
    if state.last_ended.is_none() {
        state.first_began.get_or_insert(began);
    }
    let mut members = state.members.unwrap_or(0);
    job.progress.advance(steps(members));
    let (kept, is_ending) = (follow.kept(), AtomicBool::new(false));
    let sweeper = Sweeper {
        run,
        follow,
        kept: kept.as_ref(),
        scope: Scope { duplicates: true, index: follow.scope() },
        refused: Mutex::default(),
    };
    let mut compared = compared(&sweeper, &is_ending, start.clone(), options.at_once);
    let (mut position, mut is_over, mut failure) = (start, false, None);
    let mut remembered = Clock::now();
    while let Some(outcome) = compared.next().await {
        match outcome {
            // What comes after something that was left out is looked at again.
            Ok(batch) if batch.is_whole && !is_ending.load(Ordering::Relaxed) => {
                members += batch.comments;
                job.progress.advance(steps(batch.comments));
                (position, is_over) = (batch.position, batch.is_last);
            }
            Ok(_) => is_ending.store(true, Ordering::Relaxed),
            Err(error) => {
                is_ending.store(true, Ordering::Relaxed);
                failure = failure.or(Some(error));
            }
        }
        if !is_over && remembered.elapsed() > REMEMBER_EVERY {
            remembered = Clock::now();
            (state.position, state.members) = (Some(position.clone()), Some(members));
            remember(run, &state).await?;
        }
    }
    if !is_over {
        run.must_stop(|| match job.settings.apply {
            true => "the next run goes on with the sweep of the page index".to_owned(),
            false => "a dry run remembers nothing: the sweep of the page index begins anew".to_owned(),
        });
        (state.position, state.members) = (Some(position), Some(members));
        remember(run, &state).await?;
        return failure.map_or(Ok(()), Err);
    }
    if !index.is_sweep_valid(&position).await? {
        run.add_skipped("part of the sweep, whose servers have changed: the next one begins anew".to_owned());
        return remember(run, &SweepState { position: None, began: None, members: None, ..state }).await;
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

/// What was read of the page index, and up to where.
struct Read {
    batch: Batch,
    position: SweepPosition,
    is_last: bool,
}

/// What was compared, up to where.
struct Compared {
    comments: u64,
    /// Whether no comment was left out.
    is_whole: bool,
    position: SweepPosition,
    is_last: bool,
}

/// Reads batches from a position on while others are compared, in order, until the run must stop or is ending.
fn compared<'sweep>(
    sweeper: &'sweep Sweeper<'sweep>,
    is_ending: &'sweep AtomicBool,
    start: SweepPosition,
    at_once: usize,
) -> BoxStream<'sweep, Result<Compared, RepairError>> {
    let batches = stream::unfold(Some(start), move |position| async move {
        let position = position?;
        let run = sweeper.run;
        if run.job.stop.reason().is_some() || run.has_failed() || is_ending.load(Ordering::Relaxed) {
            return None;
        }
        let read = sweeper.read(position).await;
        let next = read.as_ref().ok().filter(|read| !read.is_last).map(|read| read.position.clone());
        Some((read, next))
    });
    let compared = batches.map(move |read| {
        let comparing: BoxFuture<'sweep, _> = Box::pin(sweeper.compare_read(read));
        comparing
    });
    compared.buffered(at_once.max(1)).boxed()
}

struct Sweeper<'run> {
    run: &'run Run<'run>,
    follow: &'run Follow,
    kept: Option<&'run Kept>,
    scope: Scope,
    /// Products that have been reported because something else is in the place of one of their keys.
    refused: Mutex<BTreeSet<ProductId>>,
}

impl Sweeper<'_> {
    /// Reads what is compared together, from a position on.
    async fn read(&self, mut position: SweepPosition) -> Result<Read, RepairError> {
        let mut batch = Batch::default();
        while !batch.is_full() {
            match self.run.job.index.sweep_on(&mut position).await? {
                Some(swept) => self.add(&mut batch, swept),
                None => return Ok(Read { batch, position, is_last: true }),
            }
        }
        Ok(Read { batch, position, is_last: false })
    }

    async fn compare_read(&self, read: Result<Read, RepairError>) -> Result<Compared, RepairError> {
        let Read { batch, position, is_last } = read?;
        let comments = u64::try_from(batch.comments.len()).unwrap_or(u64::MAX);
        let is_whole = Box::pin(self.compare(batch)).await?;
        Ok(Compared { comments, is_whole, position, is_last })
    }

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
        let mut empty: Vec<_> =
            named.into_iter().zip(sizes).filter(|(_, size)| *size == 0).map(|(name, _)| name).collect();
        if !empty.is_empty() {
            // The last member takes its name with it, in one step: what was mended since the names were read has none any more.
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

/// Whether all comments were looked at, `false` when some were left out.
///
/// # Errors
/// The page index did not answer for some of them, or was lost.
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
