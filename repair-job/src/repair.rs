//! `repair`: the only code that repairs comments, however a difference was found.
//!
//! Finders say where to look, never what is wrong. The repair reads the comment's items strongly consistent, and the
//! comment's entries in the page index. `model` plans the writes.
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

use std::time::Duration;

use model::{
    CommentId, FilterKey,
    plan::reconcile::{Collection, Drift, Places, plan_ranks},
};
use page_index::PageIndex;
use process::{Backoff, Remedy, StoreError};
use table::{Guarded, Table};
use tokio::time::Instant;

use crate::{
    error::index_is_away,
    index_snapshot::{IndexScope, Scope},
    outcome::{Differences, Repaired, State},
    stop::Stop,
};

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

/// Repairs comments. Without `apply`, it only reports what needs repair.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repairer<'job> {
    pub(crate) table: &'job Table,
    pub(crate) index: &'job PageIndex,
    pub(crate) apply: bool,
    pub(crate) stop: &'job Stop,
}

/// The result of one attempt, or of a step of it.
enum Attempt {
    Settled,
    /// The primary item has changed since it was read.
    Changed,
    /// The edits of the page index would come too late after the read.
    TooLate,
    Unresolved(String),
    IndexAway(StoreError),
}

impl Repairer<'_> {
    /// Repairs all data that is derived from a comment, within the scope. `places` are where traces of it were found.
    pub(crate) async fn repair(&self, id: &CommentId, places: &Places, scope: &Scope<'_>) -> Repaired {
        let mut differences = Differences::default();
        let state = self.settle(id, places, scope, &mut differences).await;
        Repaired { state, differences }
    }

    /// Attempts the repair until it succeeds, or the comment's time is up.
    async fn settle(
        &self,
        id: &CommentId,
        places: &Places,
        scope: &Scope<'_>,
        found: &mut Differences,
    ) -> Result<State, StoreError> {
        let most = Instant::now() + TIME_MAX;
        let deadline = self.stop.deadline().map_or(most, |stop| most.min(stop + AFTER_STOP));
        let mut backoff = Backoff::until(deadline);
        let mut places = places.clone();
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
                    last = Ok(State::LeftOut("its edits came too late after it was read".to_owned()));
                }
                Ok(Attempt::Unresolved(what)) => return Ok(State::Unresolved(format!("comment {id}: {what}"))),
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

    /// Reads the comment, repairs its duplicates, then its entries in the page index.
    async fn attempt(
        &self,
        id: &CommentId,
        places: &mut Places,
        scope: &Scope<'_>,
        found: &mut Differences,
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
            match self.repair_duplicates(&collection, found, deadline).await? {
                Attempt::Settled => {}
                Attempt::Unresolved(rejected) => unresolved = unresolved.or(Some(rejected)),
                other @ (Attempt::Changed | Attempt::TooLate | Attempt::IndexAway(_)) => return Ok(other),
            }
        }
        match self.repair_ranks(&collection, places, scope, found, read_at).await? {
            Attempt::Settled => Ok(unresolved.map_or(Attempt::Settled, Attempt::Unresolved)),
            other @ (Attempt::Changed | Attempt::TooLate | Attempt::Unresolved(_) | Attempt::IndexAway(_)) => Ok(other),
        }
    }

    /// Takes over a comment whose primary item is only incomplete. `None` for any other comment.
    async fn take_over(
        &self,
        collection: &Collection<'_>,
        found: &mut Differences,
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
            found.repaired.push(drift);
        }
        // The item has changed, by this call or by another writer.
        Ok(Some(Attempt::Changed))
    }

    /// Repairs the duplicates. [`Attempt::Unresolved`] when the table rejects some of them; the others are repaired.
    async fn repair_duplicates(
        &self,
        collection: &Collection<'_>,
        found: &mut Differences,
        deadline: Instant,
    ) -> Result<Attempt, StoreError> {
        let (id, plan) = (&collection.id, collection.plan_duplicates());
        if !self.apply {
            found.left.extend(plan.drift);
            return Ok(Attempt::Settled);
        }
        if plan.writes.is_empty() {
            return Ok(Attempt::Settled);
        }
        match self.table.write_guarded(id, &plan.guards, plan.writes, deadline).await {
            Ok(Guarded::Done) => {
                found.repaired.extend(plan.drift);
                Ok(Attempt::Settled)
            }
            Ok(Guarded::Changed) => Ok(Attempt::Changed),
            Err(error) if error.remedy() == Remedy::Quarantine => {
                let items = self.table.items_of(id).await?;
                // An unreadable collection has just changed. The next check finds what is wrong with it.
                let left = Collection::read(id, &items).map_or(Vec::new(), |read| read.plan_duplicates().drift);
                found.repaired.extend(plan.drift.into_iter().filter(|drift| !left.contains(drift)));
                found.left.extend(left);
                Ok(Attempt::Unresolved(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    /// The places that are in the scope.
    fn places_in(&self, scope: &Scope<'_>, places: &Places) -> Places {
        match scope.index {
            IndexScope::Nothing => Places::default(),
            IndexScope::All => places.clone(),
            IndexScope::Snapshot(snapshot) => {
                let mut within = Places::default();
                let kept = places.iter().filter(|(product, _)| snapshot.has(self.index.partition_of(product)));
                for (product, languages) in kept {
                    within.add(product, None);
                    languages.iter().for_each(|language| within.add(product, Some(language)));
                }
                within
            }
        }
    }

    /// Repairs the entries in the page index that are in the scope, then reads the primary item once more.
    async fn repair_ranks(
        &self,
        collection: &Collection<'_>,
        places: &Places,
        scope: &Scope<'_>,
        found: &mut Differences,
        read_at: Instant,
    ) -> Result<Attempt, StoreError> {
        let within = self.places_in(scope, places);
        if within.products().next().is_none() {
            return Ok(Attempt::Settled);
        }
        let edited = self.edit_ranks(collection, &within, scope, found, read_at).await;
        match edited {
            Ok(Edited::NoNeed) => return Ok(Attempt::Settled),
            Ok(Edited::TooLate) => return Ok(Attempt::TooLate),
            Ok(Edited::NotCurrent(error)) => return Ok(Attempt::IndexAway(error)),
            // A failed edit may have been applied as well.
            Ok(Edited::Done) | Err(_) => {}
        }
        let has_changed = self.has_changed(collection, places).await?;
        match edited {
            Err(error) if index_is_away(&error) => Ok(Attempt::IndexAway(error)),
            Err(error) => Err(error),
            Ok(_) if has_changed => Ok(Attempt::Changed),
            Ok(_) => Ok(Attempt::Settled),
        }
    }

    async fn edit_ranks(
        &self,
        collection: &Collection<'_>,
        places: &Places,
        scope: &Scope<'_>,
        found: &mut Differences,
        read_at: Instant,
    ) -> Result<Edited, StoreError> {
        let ranks = self.index.ranks(&collection.id, places).await?;
        let plan = plan_ranks(&collection.id, collection.last(), &ranks);
        if plan.edits.is_empty() {
            return Ok(Edited::NoNeed);
        }
        if let IndexScope::Snapshot(snapshot) = scope.index {
            match snapshot.assert_current(self.index, plan.edits.iter().map(|edit| &edit.product)).await {
                Err(error) if index_is_away(&error) => return Ok(Edited::NotCurrent(error)),
                current => current?,
            }
        }
        if !self.apply {
            found.left.extend(plan.drift);
            return Ok(Edited::Done);
        }
        if read_at.elapsed() > EDIT_WITHIN {
            return Ok(Edited::TooLate);
        }
        match self.index.apply(&plan.edits).await {
            Ok(()) => found.repaired.extend(plan.drift),
            Err(error) => {
                if error.remedy() == Remedy::Quarantine {
                    found.left.extend(plan.drift);
                }
                return Err(error);
            }
        }
        Ok(Edited::Done)
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

/// The result of an edit of the page index.
enum Edited {
    /// Nothing is wrong.
    NoNeed,
    Done,
    TooLate,
    /// The index is not kept up to date any more, so what was read proves nothing. Nothing was done.
    NotCurrent(StoreError),
}
