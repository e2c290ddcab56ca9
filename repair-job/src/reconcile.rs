//! `reconcile`: the only code that repairs comments, however a difference was found.
//!
//! Callers say where to look, never what to conclude. It reads the comment's items strongly consistent, and the
//! comment's entries in the page index. It has `model` plan, and applies the plan.
//!
//! **Invariant:** it never undoes or overwrites a concurrent change of the comment, and never brings back what is being
//! deleted (`tests/repair/concurrent.rs`).
//!
//! - Duplicates are written on condition that the primary item is as it was read.
//! - Redis has no such condition. So the primary item is read again after an edit of the page index. If it has changed,
//!   everything starts over, because the page indexer may have applied the change before this edit.
//! - An edit is sent at most [`EDIT_WITHIN`] after the read. If the process dies before it reads again, `recent` has
//!   yet to reach the change's journal entry (see `SETTLE_DELAY`).
//!
//! **Invariant:** nothing is repaired in, or reported about, a page index that was lost or is being rebuilt. When a
//! difference is found there, the markers and the servers are checked once more (`tests/repair/lost.rs`).
//!
//! **Invariant:** an invalid primary item implies nothing. If it lacks only what the job can supply, the job takes it over.
//! Otherwise the derived data is removed, and a person has to look (`tests/repair/foreign.rs`).
//!
//! **Invariant:** a second run finds nothing. When the tests' fixture ends, it has an audit check everything.

use std::{sync::Arc, time::Duration};

use model::{
    CommentId, FilterKey,
    plan::reconcile::{Collection, Drift, Places, plan_ranks},
};
use page_index::PageIndex;
use process::{Backoff, Remedy, StoreError};
use table::{Guarded, Table};
use tokio::time::Instant;

use crate::{follow::Kept, job::index_is_away, stop::Stop};

/// Maximum number of attempts for a comment that keeps changing.
const ATTEMPTS_MAX: usize = 20;

/// Maximum time for a comment, including waits for a throttled table.
const TIME_MAX: Duration = Duration::from_secs(60);

/// How long a comment under way may still take after the run must stop.
const AFTER_STOP: Duration = Duration::from_secs(5);

/// How long after the read of a comment an edit of the page index may be sent.
const EDIT_WITHIN: Duration = Duration::from_secs(10);

/// Maximum number of tries for one comment while the page index does not answer.
const INDEX_TRIES: usize = 3;

/// The partitions of the page index to check.
#[derive(Debug, Clone)]
pub(crate) enum IndexScope {
    /// None.
    Nothing,
    /// All partitions, ready or not, of an index that is being filled.
    All,
    /// The partitions kept up to date. Missing entries in other partitions say nothing: a rebuild fills those from the
    /// table.
    Partitions(Arc<Kept>),
}

/// The derived data to check and repair.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    /// Whether duplicates are included.
    pub(crate) duplicates: bool,
    /// Which entries of the page index are included.
    pub(crate) index: IndexScope,
}

/// The outcome for a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// The comment was checked. After a run that repairs, it is right.
    Settled,
    /// A person has to look.
    Unresolved(String),
    /// The comment kept changing. Its last change is in the journal.
    KeepsChanging,
    /// The page index did not answer. The duplicates are settled.
    IndexAway(String),
    /// The comment is unfinished, because the run must stop or the comment took too long. It counts as unchecked.
    LeftOut(String),
}

/// The result for a comment.
#[derive(Debug)]
pub(crate) struct Reconciled {
    /// The outcome, or a store's failure that affects other comments too.
    pub(crate) state: Result<State, StoreError>,
    /// The comment's differences, including those repaired before a failure.
    pub(crate) found: Found,
}

/// The differences of a comment.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Repaired differences.
    pub(crate) mended: Vec<Drift>,
    /// Remaining differences.
    pub(crate) left: Vec<Drift>,
}

/// Repairs comments, or only reports what needs repair.
#[derive(Debug, Clone)]
pub(crate) struct Reconciler {
    pub(crate) table: Table,
    pub(crate) index: PageIndex,
    pub(crate) apply: bool,
    pub(crate) stop: Stop,
}

/// The result of one attempt.
enum Attempt {
    Settled,
    Changed,
    TooLate,
    Unresolved(String),
    IndexAway(StoreError),
}

impl Reconciler {
    /// Repairs all data that is derived from a comment, within the scope.
    pub(crate) async fn reconcile(&self, id: &CommentId, told: &Places, scope: &Scope) -> Reconciled {
        let mut found = Found::default();
        let state = self.settle(id, told, scope, &mut found).await;
        Reconciled { state, found }
    }

    async fn settle(
        &self,
        id: &CommentId,
        told: &Places,
        scope: &Scope,
        found: &mut Found,
    ) -> Result<State, StoreError> {
        let most = Instant::now() + TIME_MAX;
        let deadline = self.stop.deadline().map_or(most, |stop| most.min(stop + AFTER_STOP));
        let mut backoff = Backoff::until(deadline);
        let mut places = told.clone();
        let mut index_tries = 0;
        let mut last = Ok(State::KeepsChanging);
        for _ in 0..ATTEMPTS_MAX {
            if let Some(reason) = self.stop.reason() {
                return Ok(State::LeftOut(reason.to_string()));
            }
            found.left.clear();
            match self.attempt(id, &mut places, scope, found, deadline).await {
                Ok(Attempt::Settled) => return Ok(State::Settled),
                Ok(Attempt::Changed) => last = Ok(State::KeepsChanging),
                Ok(Attempt::TooLate) => {
                    last = Ok(State::LeftOut("its edits came too late after it was read".to_owned()))
                }
                Ok(Attempt::Unresolved(what)) => {
                    return Ok(State::Unresolved(format!("comment {id}: {what}")));
                }
                Ok(Attempt::IndexAway(error)) => {
                    let away = State::IndexAway(error.to_string());
                    index_tries += 1;
                    // A refused call would be refused again.
                    if !error.is_unavailable() || index_tries == INDEX_TRIES || !backoff.wait().await {
                        return Ok(away);
                    }
                    last = Ok(away);
                }
                Err(error) => match error.remedy() {
                    Remedy::Quarantine => return Ok(State::Unresolved(format!("comment {id}: {error}"))),
                    Remedy::TryAgain if backoff.wait().await => last = Err(error),
                    Remedy::TryAgain | Remedy::CallOperator => return Err(error),
                },
            }
        }
        // The last attempt's failure says nothing about the comment.
        last
    }

    async fn attempt(
        &self,
        id: &CommentId,
        places: &mut Places,
        scope: &Scope,
        found: &mut Found,
        deadline: Instant,
    ) -> Result<Attempt, StoreError> {
        let (items, read_at) = self.table.items_and_instant_of(id).await?;
        let collection = match Collection::read(id, &items) {
            Ok(collection) => collection,
            Err(unresolved) => return Ok(Attempt::Unresolved(unresolved.to_string())),
        };
        // Include what an earlier attempt wrote, because it may be wrong by now.
        *places = collection.places(places);
        // A part that needs a person does not prevent the repair of the rest.
        let mut unresolved = collection.invalid.as_ref().map(|invalid| invalid.malformed.to_string());
        if scope.duplicates {
            if let Some(attempt) = self.take_over(&collection, found, deadline).await? {
                return Ok(attempt);
            }
            match self.attempt_duplicates(&collection, found, deadline).await? {
                Duplicates::Right => {}
                Duplicates::Changed => return Ok(Attempt::Changed),
                Duplicates::Rejected(error) => unresolved = unresolved.or(Some(error.to_string())),
            }
        }
        let settled = || unresolved.map_or(Attempt::Settled, Attempt::Unresolved);
        let looked_at = self.places_in(scope, places);
        if looked_at.products().next().is_none() {
            return Ok(settled());
        }
        match self.attempt_index(&collection, &looked_at, scope, found, read_at).await {
            Ok(IndexAttempt::Right) => Ok(settled()),
            Ok(IndexAttempt::TooLate) => Ok(Attempt::TooLate),
            Ok(IndexAttempt::NotKept(error)) => Ok(Attempt::IndexAway(error)),
            // The edits may or may not have been applied.
            outcome @ (Ok(IndexAttempt::Edited) | Err(_)) => {
                let changed = self.has_changed(&collection, places).await?;
                match outcome {
                    Err(error) if index_is_away(&error) => Ok(Attempt::IndexAway(error)),
                    Err(error) => Err(error),
                    Ok(_) if changed => Ok(Attempt::Changed),
                    Ok(_) => Ok(settled()),
                }
            }
        }
    }

    /// Takes over a comment whose primary item is only incomplete. `None` for any other comment.
    async fn take_over(
        &self,
        collection: &Collection<'_>,
        found: &mut Found,
        deadline: Instant,
    ) -> Result<Option<Attempt>, StoreError> {
        let Some(invalid) = &collection.invalid else { return Ok(None) };
        let Some(comment) = &invalid.incomplete else { return Ok(None) };
        let drift = Drift::IncompleteItem(FilterKey::primary(invalid.product.clone()));
        if !self.apply {
            // What the item implies is reported once it is complete.
            found.left.push(drift);
            return Ok(Some(Attempt::Settled));
        }
        if self.table.take_over(comment, invalid.item, deadline).await? == Guarded::Done {
            tracing::info!(comment = %collection.id, problem = %invalid.malformed, "taken over: the item is complete now");
            found.mended.push(drift);
        }
        // The item has changed, by this call or by another writer.
        Ok(Some(Attempt::Changed))
    }

    async fn attempt_duplicates(
        &self,
        collection: &Collection<'_>,
        found: &mut Found,
        deadline: Instant,
    ) -> Result<Duplicates, StoreError> {
        let (id, plan) = (&collection.id, collection.plan_duplicates());
        if !self.apply {
            found.left.extend(plan.drift);
            return Ok(Duplicates::Right);
        }
        if plan.writes.is_empty() {
            return Ok(Duplicates::Right);
        }
        match self.table.write_guarded(id, &plan.guards, plan.writes, deadline).await {
            Ok(Guarded::Done) => found.mended.extend(plan.drift),
            Ok(Guarded::Changed) => return Ok(Duplicates::Changed),
            // The other writes have been done. The page index may still be right.
            Err(error) if error.remedy() == Remedy::Quarantine => {
                let left = self.left_of(id, plan.drift, found).await?;
                found.left.extend(left);
                return Ok(Duplicates::Rejected(error));
            }
            Err(error) => return Err(error),
        }
        Ok(Duplicates::Right)
    }

    /// The differences that remain after some writes of duplicates were rejected. The others are repaired.
    async fn left_of(&self, id: &CommentId, planned: Vec<Drift>, found: &mut Found) -> Result<Vec<Drift>, StoreError> {
        let items = self.table.items_of(id).await?;
        // An unreadable collection has just changed. The next check finds what is wrong with it.
        let left = Collection::read(id, &items).map_or(Vec::new(), |collection| collection.plan_duplicates().drift);
        found.mended.extend(planned.into_iter().filter(|drift| !left.contains(drift)));
        Ok(left)
    }

    fn places_in(&self, scope: &Scope, places: &Places) -> Places {
        match &scope.index {
            IndexScope::Nothing => Places::default(),
            IndexScope::All => places.clone(),
            IndexScope::Partitions(partitions) => {
                let mut looked_at = Places::default();
                let kept = places.iter().filter(|(product, _)| partitions.has(&self.index, product));
                for (product, languages) in kept {
                    looked_at.add(product, None);
                    languages.iter().for_each(|language| looked_at.add(product, Some(language)));
                }
                looked_at
            }
        }
    }

    async fn attempt_index(
        &self,
        collection: &Collection<'_>,
        places: &Places,
        scope: &Scope,
        found: &mut Found,
        read_at: Instant,
    ) -> Result<IndexAttempt, StoreError> {
        let ranks = self.index.ranks(&collection.id, places).await?;
        let plan = plan_ranks(&collection.id, collection.last(), &ranks);
        if plan.edits.is_empty() {
            return Ok(IndexAttempt::Right);
        }
        if let IndexScope::Partitions(kept) = &scope.index {
            let concerned = plan.edits.iter().map(|edit| &edit.product);
            match kept.assert_still(&self.index, concerned).await {
                Err(error) if index_is_away(&error) => return Ok(IndexAttempt::NotKept(error)),
                still => still?,
            }
        }
        if self.apply {
            if read_at.elapsed() > EDIT_WITHIN {
                return Ok(IndexAttempt::TooLate);
            }
            match self.index.apply(&plan.edits).await {
                Ok(()) => found.mended.extend(plan.drift),
                Err(error) => {
                    if error.remedy() == Remedy::Quarantine {
                        found.left.extend(plan.drift);
                    }
                    return Err(error);
                }
            }
        } else {
            found.left.extend(plan.drift);
        }
        Ok(IndexAttempt::Edited)
    }

    /// Whether the primary item differs from what was read, or exists although none was read.
    async fn has_changed(&self, collection: &Collection<'_>, places: &Places) -> Result<bool, StoreError> {
        for product in places.products() {
            let present = self.table.primary_item_in(&collection.id, product).await?;
            if present.as_ref() != collection.primary_item_in(product) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The result for the duplicates.
enum Duplicates {
    /// They are right, or the run only looks.
    Right,
    /// The primary item has changed.
    Changed,
    /// Some could not be written.
    Rejected(StoreError),
}

/// The result for the page index.
enum IndexAttempt {
    Right,
    Edited,
    TooLate,
    /// The index is not kept up to date any more, so what was read proves nothing. Nothing was done.
    NotKept(StoreError),
}
