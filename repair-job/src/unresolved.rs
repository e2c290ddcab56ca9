//! Remembers unresolved comments. So every run of `recent` checks and counts them until they are in order, not only the
//! run that found them (`tests/repair/recent.rs`).

use std::collections::BTreeSet;

use model::{CommentId, Timestamp, plan::reconcile::Places};
use serde::{Deserialize, Serialize};
use table::Table;

use crate::{
    counted::UNRESOLVED_MAX,
    error::RepairError,
    follow::Follow,
    job::Run,
    reconcile::{Scope, State},
};

/// The kind of state that unresolved comments store.
const UNRESOLVED: &str = "unresolved";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Remembered {
    since: Timestamp,
    what: String,
    /// The places where the comment was looked for. The table may no longer show all places where its id has entries in
    /// the page index.
    #[serde(default)]
    places: Places,
}

/// The remembered comments, and where each was looked for.
pub(crate) async fn remembered(table: &Table) -> Result<Vec<(CommentId, Places)>, RepairError> {
    let remembered: Vec<(String, Remembered)> = table.states(UNRESOLVED).await?;
    let comments =
        remembered.into_iter().filter_map(|(name, known)| Some((CommentId::parse(&name).ok()?, known.places)));
    Ok(comments.collect())
}

/// Checks the unresolved comments again, and forgets those that are in order.
pub(crate) async fn look_again(run: &Run<'_>, follow: &Follow) -> Result<(), RepairError> {
    let table = &run.job.table;
    let comments = remembered(table).await?;
    let scope = Scope { duplicates: true, index: follow.scope() };
    for (id, state) in run.reconcile_all(comments, &scope).await? {
        match state {
            // If the page index was not checked, its part may still be wrong.
            State::Settled if follow.answers() => {
                if run.may_remember() {
                    table.delete_state(UNRESOLVED, id.as_str()).await?;
                }
            }
            // Already counted.
            State::Unresolved(_) => {}
            State::Settled | State::KeepsChanging | State::IndexAway(_) | State::LeftOut(_) => {
                run.add_unresolved(format!("comment {id} needed a person, and could not be looked at again"));
            }
        }
    }
    Ok(())
}

/// Remembers the unresolved comments that this run found, up to the maximum.
pub(crate) async fn remember(run: &Run<'_>) -> Result<(), RepairError> {
    let found = run.unresolved_comments();
    if found.is_empty() {
        return Ok(());
    }
    let table = &run.job.table;
    let known: Vec<(String, Remembered)> = table.states(UNRESOLVED).await?;
    let known: BTreeSet<String> = known.into_iter().map(|(name, _)| name).collect();
    let room = UNRESOLVED_MAX.saturating_sub(known.len());
    for (id, what, places) in found.into_iter().filter(|(id, ..)| !known.contains(id.as_str())).take(room) {
        table.put_state(UNRESOLVED, id.as_str(), &Remembered { since: run.began, what, places }).await?;
    }
    Ok(())
}
