//! `reconcile`: the one piece of code that mends, whoever found the difference.
//!
//! It is told where to look, never what to conclude: it reads the items of the comment strongly consistent and its
//! entries in the page index, has `model` plan, and applies the plan.
//!
//! **Invariant:** it never undoes or overwrites a change of the comment that happens meanwhile, and never brings back
//! what is being deleted (`tests/repair/concurrent.rs`). Duplicates are written on condition that the primary item is as
//! it was read. Redis knows no such condition: after an edit there the primary item is read again, and when it has
//! changed, everything starts over, because the page indexer may have been faster with the change than this with its
//! edit. An edit is not sent later than [`EDIT_WITHIN`] after the read: should the process die before it reads again,
//! the change's journal entry is then still to come for `recent` (see `SETTLE_DELAY`).
//!
//! **Invariant:** nothing is mended in, or reported of, a page index that was lost or is being rebuilt: whatever is found
//! wrong there, the markers and the servers are looked at once more after it was read (`tests/repair/lost.rs`).
//!
//! **Invariant:** an invalid primary item implies nothing. One that lacks only a revision gets one, and is reconciled. Of any
//! other, what is derived is removed, and a person has to look (`tests/repair/foreign.rs`).
//!
//! **Invariant:** running it again finds nothing (the tests' fixture, when it ends, has an audit look at everything).

use std::{sync::Arc, time::Duration};

use model::{
    CommentId, FilterKey,
    plan::reconcile::{Collection, Drift, Places, plan_ranks},
};
use stores::{Backoff, PageIndex, Remedy, StoreError, Table, table::Guarded};
use tokio::time::Instant;

use crate::{follow::Kept, job::index_is_away, stop::Stop};

/// How often a comment that keeps changing is tried.
const ATTEMPTS_MAX: usize = 20;

/// How long a comment may take, waiting for a throttled table included.
const TIME_MAX: Duration = Duration::from_secs(60);

/// How long after a run must stop a comment that is under way may still take.
const AFTER_STOP: Duration = Duration::from_secs(5);

/// How long after a comment was read an edit of the page index may be sent.
const EDIT_WITHIN: Duration = Duration::from_secs(10);

/// How often a page index that does not answer is asked for one comment.
const INDEX_TRIES: usize = 3;

/// Which partitions of the page index are looked at.
#[derive(Debug, Clone)]
pub(crate) enum IndexScope {
    /// None.
    Nothing,
    /// All, whether they are ready or not: of an index that is being filled.
    All,
    /// Those that are kept up to date. What the others lack says nothing: a rebuild fills them from the table.
    Partitions(Arc<Kept>),
}

/// What is looked at and mended.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    /// Whether duplicates are.
    pub(crate) duplicates: bool,
    /// Which entries of the page index are.
    pub(crate) index: IndexScope,
}

/// How a comment is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// It was looked at, and is right if differences were mended.
    Settled,
    /// A person has to look.
    Unresolved(String),
    /// It kept changing. Its last change is in the journal.
    KeepsChanging,
    /// The page index did not answer; duplicates are settled.
    IndexAway(String),
    /// It is not done with, because the run must stop, or it took too long: it counts as not looked at.
    LeftOut(String),
}

/// What was found of a comment.
#[derive(Debug)]
pub(crate) struct Reconciled {
    /// How it is left, or a store's failure that concerns other comments as well.
    pub(crate) state: Result<State, StoreError>,
    /// Its differences, those too that were mended before a failure.
    pub(crate) found: Found,
}

/// The differences of a comment.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Those that were mended.
    pub(crate) mended: Vec<Drift>,
    /// Those that are left.
    pub(crate) left: Vec<Drift>,
}

/// Mends comments, or only says what is to be mended.
#[derive(Debug, Clone)]
pub(crate) struct Reconciler {
    pub(crate) table: Table,
    pub(crate) index: PageIndex,
    pub(crate) apply: bool,
    pub(crate) stop: Stop,
}

/// What came of an attempt.
enum Attempt {
    Settled,
    Changed,
    TooLate,
    Unresolved(String),
    IndexAway(StoreError),
}

impl Reconciler {
    /// Makes everything right that is derived from a comment.
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
                    // What is refused is refused again.
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
        // A failure of the last attempt says nothing of the comment.
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
        // What an earlier attempt wrote, too, may be wrong by now.
        *places = collection.places(places);
        // What a person has to look at does not keep the rest from being right.
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
            // Whether the edits were done or not.
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

    /// Takes a comment over whose primary item lacks nothing but a revision. `None` when that is not so.
    async fn take_over(
        &self,
        collection: &Collection<'_>,
        found: &mut Found,
        deadline: Instant,
    ) -> Result<Option<Attempt>, StoreError> {
        let Some(invalid) = &collection.invalid else { return Ok(None) };
        let Some(comment) = &invalid.without_revision else { return Ok(None) };
        let drift = Drift::MissingRevision(FilterKey::primary(invalid.product.clone()));
        if !self.apply {
            // What follows from the item is told when it has a revision.
            found.left.push(drift);
            return Ok(Some(Attempt::Settled));
        }
        if self.table.take_over(comment, invalid.item, deadline).await? == Guarded::Done {
            tracing::info!(comment = %collection.id, problem = %invalid.malformed, "taken over: it has a revision now");
            found.mended.push(drift);
        }
        // Whether by this or by another, the item is another one now.
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
            // The others have been written, and the page index may be right all the same.
            Err(error) if error.remedy() == Remedy::Quarantine => {
                let left = self.left_of(id, plan.drift, found).await?;
                found.left.extend(left);
                return Ok(Duplicates::Rejected(error));
            }
            Err(error) => return Err(error),
        }
        Ok(Duplicates::Right)
    }

    /// Which differences of the duplicates are left after some of the writes were rejected; the others are mended.
    async fn left_of(&self, id: &CommentId, planned: Vec<Drift>, found: &mut Found) -> Result<Vec<Drift>, StoreError> {
        let items = self.table.items_of(id).await?;
        // What cannot be read any more has just changed, and is looked at again by whoever looks next.
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

    /// Whether the primary item is another than it was read, or there is one where there was none.
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

/// What came of the duplicates.
enum Duplicates {
    /// They are right, or only looked at.
    Right,
    /// The primary item has changed.
    Changed,
    /// Some cannot be written.
    Rejected(StoreError),
}

/// What came of looking at the page index.
enum IndexAttempt {
    Right,
    Edited,
    TooLate,
    /// It cannot be told whether what was read may be believed; nothing was done.
    NotKept(StoreError),
}
