//! `repair`: the only code that repairs comments, however a difference was found.
//!
//! It reads the comment's items strongly consistent, and the comment's entries in the page index.
//! `model` plans the writes.
//!
//! **Invariant:** it leaves no concurrent change of the comment undone, also no deletion
//! (`tests/simulator`). Duplicates are written on condition that the primary item is as it was read.
//! An edit of the page index is sent at most [`EDIT_WITHIN`] after the read. Then the primary item
//! is read again. If it has changed, the repair takes the edit back. What it cannot take back in
//! the comment's time, the next `recent` repairs (ADR 20).
//!
//! **Invariant:** nothing is repaired in, or reported about, a page index that was lost or is being
//! rebuilt. When a difference is found there, the markers and the servers are checked once more
//! (`tests/repair/lost.rs`).
//!
//! **Invariant:** an invalid primary item implies nothing. If it lacks only what the job can
//! supply, the job takes it over. Otherwise the derived data is removed, and a person has to look
//! (`tests/repair/foreign.rs`).
//!
//! **Invariant:** a second run finds nothing. When the tests' fixture ends, it has an audit check
//! everything.

pub(crate) mod index_snapshot;
pub(crate) mod pipeline;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, stream};
use model::{
    CommentId, FilterKey, ProductId, RankEntry,
    item::{Image, PlacedComment},
    plan::reconcile::{Collection, Drift, DriftKind, InvalidPrimary, Places, plan_ranks},
    planted::{self, Bug},
};
use page_index::{Name, Sought};
use process::{Backoff, Remedy, StoreError, now};
use table::Transacted;
use tokio::time::Instant;

use crate::{
    repair::{
        index_snapshot::{IndexScope, RepairScope},
        pipeline::Suspects,
    },
    run::{
        IndexAnswer, Run, answer_of_index, index_is_away,
        outcome::{CommentOutcome, Differences, RepairOutcome},
        settings::{JobSettings, ms},
    },
};

/// Maximum number of changes during the repair of a comment. After them it is left to the next run.
const CONCURRENT_CHANGES_MAX: u32 = 20;

/// Maximum time for a comment, including waits for a throttled table.
const TIME_MAX: Duration = Duration::from_secs(60);

/// How long a comment under way may still take after the run must stop.
const AFTER_STOP: Duration = Duration::from_secs(5);

/// How long after the read of a comment an edit of the page index may be sent.
const EDIT_WITHIN: Duration = Duration::from_secs(10);

/// Maximum number of failures of the page index, after which a comment is left to the next run. While
/// an edit may have undone a change, only the comment's time limits them.
const INDEX_FAILURES_MAX: u32 = 3;

/// Where the next run resumes, for suspects that no finder found.
pub(crate) const RESUMES_WITH_UNFINISHED: &str = "the next run checks what was left out";

/// Repairs suspects in parallel. When the run must stop, the rest is skipped. The report then says
/// where the next run `resumes`; `None` if the caller's next step says it.
///
/// # Errors
/// A store's. Work that was under way has then completed and is reported. The rest is skipped.
pub(crate) async fn repair_all(
    run: &Run<'_>,
    suspects: Suspects,
    scope: &RepairScope<'_>,
    resumes: Option<&str>,
) -> Result<RepairOutcome, StoreError> {
    repair_counts(run, &suspects, scope).await?;
    // Before the comments: a comment's repair may use an empty name again.
    repair_names(run, suspects.names, scope).await?;
    for (partition, name) in suspects.strays {
        if run.job.settings.apply {
            run.job.index.forget_stray(partition, &name).await?;
        }
        run.ledger.add_drift(DriftKind::ExtraName);
    }
    // Boxed, so that the future types of all callers do not nest too deeply for the compiler.
    let mut comments = suspects.comments;
    search_products(run, &mut comments, scope).await?;
    let repairing = comments
        .into_iter()
        .map(|(id, places)| repair(run, id, places, scope).boxed());
    let concurrency = run.job.settings.concurrency.max(1);
    let repaired: Vec<_> = stream::iter(repairing)
        .buffer_unordered(concurrency)
        .collect()
        .await;
    let outcome = RepairOutcome {
        comments: repaired.into_iter().collect::<Result<_, _>>()?,
    };
    if let Some(resumes) = resumes
        && outcome.unfinished() > 0
    {
        run.must_stop(resumes);
    }
    Ok(outcome)
}

/// Searches products for the comments whose creation times no finder knows. A page index may have to
/// read the whole product, so this searches once for all of its comments. A product that cannot be
/// read is left to the repair of each comment, which reports it.
async fn search_products(
    run: &Run<'_>,
    comments: &mut BTreeMap<CommentId, Places>,
    scope: &RepairScope<'_>,
) -> Result<(), StoreError> {
    let mut sought: BTreeMap<ProductId, Vec<CommentId>> = BTreeMap::new();
    for (id, places) in &*comments {
        for product in places.products() {
            let is_in_scope = scope.index.has(run.job.index.partition_of(product));
            if is_in_scope && places.times_in(product).is_none() {
                sought.entry(product.clone()).or_default().push(id.clone());
            }
        }
    }
    let mut searches = Vec::new();
    for (product, ids) in sought {
        searches.push(search_product(run, product, ids).boxed());
    }
    let mut searches = stream::iter(searches).buffer_unordered(run.job.settings.concurrency.max(1));
    while let Some(found) = searches.next().await {
        for (product, id, entries) in found? {
            if let Some(places) = comments.get_mut(&id) {
                places.add_all_entries(&product, &entries);
            }
        }
    }
    Ok(())
}

async fn search_product(
    run: &Run<'_>,
    product: ProductId,
    ids: Vec<CommentId>,
) -> Result<Vec<(ProductId, CommentId, Vec<RankEntry>)>, StoreError> {
    let mut sought = Vec::with_capacity(ids.len());
    for id in &ids {
        sought.push(Sought {
            product: &product,
            id,
            times: None,
        });
    }
    let entries = match run.job.index.entries(&sought).await {
        Err(error) if index_is_away(&error) || error.remedy() == Remedy::Quarantine => {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    let mut found = Vec::with_capacity(ids.len());
    for (id, entries) in ids.iter().zip(entries) {
        found.push((product.clone(), id.clone(), entries));
    }
    Ok(found)
}

async fn repair(
    run: &Run<'_>,
    id: CommentId,
    places: Places,
    scope: &RepairScope<'_>,
) -> Result<(CommentId, CommentOutcome), StoreError> {
    if let Some(reason) = run.stop_reason() {
        return Ok((id, CommentOutcome::Unfinished(reason.to_string())));
    }
    let mut deadline = Instant::now() + TIME_MAX;
    if let Some(stop) = run.job.stop.deadline() {
        deadline = deadline.min(stop + AFTER_STOP);
    }
    let mut repair = Repair {
        run,
        id: &id,
        scope,
        deadline,
        places: places.clone(),
        found: Differences::default(),
        may_have_undone: false,
    };
    let mut outcome = repair.attempt_until_done().await;
    match &outcome {
        // The stop cut the comment's time short.
        Err(error) if error.is_unavailable() && run.interruption().is_some() => {
            outcome = Ok(CommentOutcome::Unfinished(error.to_string()));
        }
        Err(_) => run.fail(),
        Ok(_) => {}
    }
    run.ledger.add_comment(
        &id,
        &places,
        &repair.found,
        outcome.as_ref().ok(),
        run.interruption().is_some(),
    );
    outcome.map(|outcome| (id, outcome))
}

/// Repairs the counts of the products that a finder names, and of those of its comments. An edit of
/// a miscounted product would fail.
async fn repair_counts(
    run: &Run<'_>,
    suspects: &Suspects,
    scope: &RepairScope<'_>,
) -> Result<(), StoreError> {
    let mut touched: BTreeSet<&ProductId> = suspects.miscounted.iter().collect();
    for product in suspects.comments.values().flat_map(Places::products) {
        if scope.index.has(run.job.index.partition_of(product)) {
            touched.insert(product);
        }
    }
    let mut checks = Vec::new();
    for product in touched {
        let is_suspect = suspects.miscounted.contains(product);
        checks.push(repair_counts_of(run, product, is_suspect).boxed());
    }
    let mut checked = stream::iter(checks).buffer_unordered(run.job.settings.concurrency.max(1));
    while let Some(repaired) = checked.next().await {
        // The repair of the comments reports an index that is away.
        match answer_of_index(repaired)? {
            IndexAnswer::Answered(()) | IndexAnswer::Away(_) => {}
        }
    }
    Ok(())
}

async fn repair_counts_of(
    run: &Run<'_>,
    product: &ProductId,
    is_suspect: bool,
) -> Result<(), StoreError> {
    match recount_if_wrong(run, product, is_suspect).await {
        Err(error) if error.remedy() == Remedy::Quarantine => {
            run.ledger.add_unreadable_product(product, &error);
            Ok(())
        }
        repaired => repaired,
    }
}

async fn recount_if_wrong(
    run: &Run<'_>,
    product: &ProductId,
    is_suspect: bool,
) -> Result<(), StoreError> {
    let index = &run.job.index;
    if !is_suspect && !index.is_miscounted(product).await? {
        return Ok(());
    }
    if run.job.settings.apply && !planted::has(Bug::WrongCountsStay) {
        index.recount(product).await?;
    }
    run.ledger.add_wrong_counts(product);
    Ok(())
}

async fn repair_names(
    run: &Run<'_>,
    names: BTreeSet<Name>,
    scope: &RepairScope<'_>,
) -> Result<(), StoreError> {
    let index = &run.job.index;
    let IndexScope::Snapshot(snapshot) = scope.index else {
        debug_assert!(
            names.is_empty(),
            "only a scan of the page index finds names"
        );
        return Ok(());
    };
    if names.is_empty() {
        return Ok(());
    }
    snapshot
        .assert_current(index, names.iter().map(|(product, _)| product))
        .await?;
    for (product, language) in names {
        if run.job.settings.apply {
            match index.forget_if_empty(&product, language.as_ref()).await {
                Err(error) if error.remedy() == Remedy::Quarantine => {
                    run.ledger.add_unreadable_product(&product, &error);
                    continue;
                }
                forgotten => forgotten?,
            }
        }
        run.ledger.add_drift(DriftKind::ExtraName);
    }
    Ok(())
}

struct Repair<'run> {
    run: &'run Run<'run>,
    id: &'run CommentId,
    scope: &'run RepairScope<'run>,
    deadline: Instant,
    places: Places,
    found: Differences,
    /// Whether an edit of the page index may have undone what a later change of the comment did.
    may_have_undone: bool,
}

/// Whether an item was written long enough ago that every index must hold it.
pub(crate) fn is_in_indexes(image: &Image<'_>, settings: &JobSettings) -> bool {
    image.revision.instant() <= now().plus_ms(-ms(settings.min_age))
}

/// What keeps an attempt from repairing a comment.
enum Obstacle {
    /// The comment has changed since it was read.
    Changed,
    /// The edits of the page index would come too late after the read.
    TooLate,
    Unresolved(String),
    IndexAway(StoreError),
    Failed(StoreError),
}

impl From<StoreError> for Obstacle {
    fn from(error: StoreError) -> Self {
        if index_is_away(&error) {
            Self::IndexAway(error)
        } else {
            Self::Failed(error)
        }
    }
}

impl Repair<'_> {
    /// Attempts the repair until it succeeds, or the comment's time is up.
    async fn attempt_until_done(&mut self) -> Result<CommentOutcome, StoreError> {
        let mut backoff = Backoff::until(self.deadline);
        let mut changes = 0;
        let mut index_failures = 0;
        loop {
            if let Some(reason) = self.run.interruption() {
                return Ok(CommentOutcome::Unfinished(reason.to_string()));
            }
            self.found.remaining.clear();
            let Err(obstacle) = self.attempt().await else {
                return Ok(CommentOutcome::Repaired);
            };
            match obstacle {
                Obstacle::Changed => {
                    changes += 1;
                    if changes == CONCURRENT_CHANGES_MAX {
                        return Ok(CommentOutcome::KeepsChanging);
                    }
                }
                Obstacle::TooLate => {
                    if !backoff.wait().await {
                        return Ok(CommentOutcome::Unfinished(
                            "its edits came too late after it was read".to_owned(),
                        ));
                    }
                }
                Obstacle::Unresolved(what) => return Ok(self.unresolved(&what)),
                Obstacle::IndexAway(error) => {
                    index_failures += 1;
                    let has_failed_enough =
                        index_failures >= INDEX_FAILURES_MAX && !self.must_go_on();
                    // A refused call would be refused again.
                    if !error.is_unavailable() || has_failed_enough || !backoff.wait().await {
                        return Ok(CommentOutcome::IndexAway(error.to_string()));
                    }
                }
                Obstacle::Failed(error) => match error.remedy() {
                    Remedy::Quarantine => return Ok(self.unresolved(&error)),
                    Remedy::TryAgain if backoff.wait().await => {}
                    Remedy::TryAgain | Remedy::CallOperator => return Err(error),
                },
            }
        }
    }

    fn unresolved(&self, what: &dyn Display) -> CommentOutcome {
        CommentOutcome::Unresolved(format!("comment {}: {what}", self.id))
    }

    /// Whether failures of the page index do not end the repair before its time is up.
    fn must_go_on(&self) -> bool {
        self.may_have_undone && !planted::has(Bug::EditIsLeft)
    }

    async fn attempt(&mut self) -> Result<(), Obstacle> {
        let (items, read_at) = self.run.job.table.items_and_instant_of(self.id).await?;
        let collection = Collection::read(self.id, &items)
            .map_err(|unresolved| Obstacle::Unresolved(unresolved.to_string()))?;
        // Include what an earlier attempt wrote, because it may be wrong by now.
        self.places = collection.places(&self.places);
        // A part that needs a person does not prevent the repair of the rest.
        let mut unresolved = collection
            .invalid
            .as_ref()
            .map(|invalid| invalid.malformed.to_string());
        if self.scope.duplicates {
            if let Some(
                invalid @ InvalidPrimary {
                    incomplete: Some(comment),
                    ..
                },
            ) = &collection.invalid
            {
                return self.take_over(invalid, comment).await;
            }
            let rejected = self.repair_duplicates(&collection).await?;
            unresolved = unresolved.or(rejected);
        }
        self.repair_entries(&collection).await?;
        self.repair_ranks(&collection, read_at).await?;
        match unresolved {
            Some(what) => Err(Obstacle::Unresolved(what)),
            None => Ok(()),
        }
    }

    /// Writes a comment's item again where an index of the table lacks it. The new revision makes
    /// the engine write the entries.
    async fn repair_entries(&mut self, collection: &Collection<'_>) -> Result<(), Obstacle> {
        let Some(image) = &collection.primary else {
            return Ok(());
        };
        if !self.scope.entries || !is_in_indexes(image, &self.run.job.settings) {
            return Ok(());
        }
        let table = &self.run.job.table;
        let key = FilterKey::primary(image.placement.product.clone());
        let mut drift = Vec::new();
        for index in table.indexes_without(image.item).await? {
            drift.push(Drift::MissingEntry(index, key.clone()));
        }
        if drift.is_empty() {
            return Ok(());
        }
        if !self.run.job.settings.apply {
            if self.has_changed(collection).await? {
                return Err(Obstacle::Changed);
            }
            self.found.remaining.extend(drift);
            return Ok(());
        }
        let written = table
            .take_over(&image.placed(), image.item, self.deadline)
            .await?;
        if written == Transacted::Done {
            self.found.repaired.extend(drift);
        }
        // The item has changed, by this call or by another writer.
        Err(Obstacle::Changed)
    }

    async fn take_over(
        &mut self,
        invalid: &InvalidPrimary<'_>,
        comment: &PlacedComment,
    ) -> Result<(), Obstacle> {
        let drift = Drift::IncompleteItem(FilterKey::primary(invalid.product.clone()));
        if !self.run.job.settings.apply {
            // What the item implies is reported once it is complete.
            self.found.remaining.push(drift);
            return Ok(());
        }
        let table = &self.run.job.table;
        let taken_over = table
            .take_over(comment, invalid.item, self.deadline)
            .await?;
        if taken_over == Transacted::Done {
            tracing::info!(comment = %self.id, problem = %invalid.malformed, "taken over: the item is complete now");
            self.found.repaired.push(drift);
        }
        // The item has changed, by this call or by another writer.
        Err(Obstacle::Changed)
    }

    /// Repairs the duplicates. When the table rejects some of them, the others are repaired, and
    /// the answer says why.
    async fn repair_duplicates(
        &mut self,
        collection: &Collection<'_>,
    ) -> Result<Option<String>, Obstacle> {
        let table = &self.run.job.table;
        let plan = collection.plan_duplicates();
        if !self.run.job.settings.apply {
            self.found.remaining.extend(plan.drift);
            return Ok(None);
        }
        if plan.writes.is_empty() {
            return Ok(None);
        }
        let written = table
            .write_guarded(self.id, &plan.guards, plan.writes, self.deadline)
            .await;
        match written {
            Ok(Transacted::Done) => {
                self.found.repaired.extend(plan.drift);
                Ok(None)
            }
            Ok(Transacted::ConditionsFailed(_)) => Err(Obstacle::Changed),
            Err(error) if error.remedy() == Remedy::Quarantine => {
                let items = table.items_of(self.id).await?;
                let remaining = match Collection::read(self.id, &items) {
                    Ok(collection) => collection.plan_duplicates().drift,
                    // It has just changed. The next check finds what is wrong with it.
                    Err(_) => Vec::new(),
                };
                for drift in plan.drift {
                    if !remaining.contains(&drift) {
                        self.found.repaired.push(drift);
                    }
                }
                self.found.remaining.extend(remaining);
                Ok(Some(error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn places_in_scope(&self) -> Places {
        let index = &self.run.job.index;
        self.places
            .within(|product| self.scope.index.has(index.partition_of(product)))
    }

    /// Repairs the entries in the page index that are in the scope, then reads the primary item
    /// once more.
    async fn repair_ranks(
        &mut self,
        collection: &Collection<'_>,
        read_at: Instant,
    ) -> Result<(), Obstacle> {
        let index = &self.run.job.index;
        let places = self.places_in_scope();
        if places.products().next().is_none() {
            return Ok(());
        }
        let ranks = index.ranks(self.id, &places).await?;
        let plan = plan_ranks(self.id, collection.last().as_ref(), &ranks);
        if plan.edits.is_empty() {
            return Ok(());
        }
        if let IndexScope::Snapshot(snapshot) = self.scope.index {
            snapshot
                .assert_current(index, plan.edits.iter().map(|edit| &edit.product))
                .await?;
        }
        if !self.run.job.settings.apply {
            self.found.remaining.extend(plan.drift);
            if self.has_changed(collection).await? {
                return Err(Obstacle::Changed);
            }
            return Ok(());
        }
        if read_at.elapsed() > EDIT_WITHIN {
            return Err(Obstacle::TooLate);
        }
        let had_undone = self.may_have_undone;
        self.may_have_undone = true;
        let edited = index.apply(&plan.edits).await;
        match &edited {
            Ok(()) => self.found.repaired.extend(plan.drift),
            Err(error) if error.remedy() == Remedy::Quarantine => {
                self.found.remaining.extend(plan.drift)
            }
            Err(_) => {}
        }
        // A failed edit may have been applied as well.
        if self.second_look(collection).await? {
            return Err(Obstacle::Changed);
        }
        self.may_have_undone = had_undone && edited.is_err();
        Ok(edited?)
    }

    /// After an edit of the page index: whether the comment has changed since it was read.
    async fn second_look(&self, collection: &Collection<'_>) -> Result<bool, StoreError> {
        if planted::has(Bug::NoSecondLook) {
            return Ok(false);
        }
        self.has_changed(collection).await
    }

    async fn has_changed(&self, collection: &Collection<'_>) -> Result<bool, StoreError> {
        for product in self.places.products() {
            let present = self.run.job.table.primary_item_in(self.id, product).await?;
            if present.as_ref() != collection.primary_item_in(product) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
