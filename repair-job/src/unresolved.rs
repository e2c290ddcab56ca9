//! Comments that need a person are remembered, so that every run of `recent` looks at them and counts them until they are
//! in order, and not only the run that came across them (`tests/repair/recent.rs`).

use std::collections::BTreeSet;

use model::{CommentId, Instant, plan::reconcile::Places};
use serde::{Deserialize, Serialize};

use crate::{
    counted::UNRESOLVED_MAX,
    error::RepairError,
    follow::Follow,
    job::Run,
    reconcile::{Scope, State},
};

/// The state of comments that need a person.
const UNRESOLVED: &str = "unresolved";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Remembered {
    since: Instant,
    what: String,
    /// Where it was looked for: what an id has left in the page index, the table may not tell any more.
    #[serde(default)]
    places: Places,
}

/// Looks at the comments again that needed a person, and forgets those that are in order.
pub(crate) async fn look_again(run: &Run<'_>, follow: &Follow) -> Result<(), RepairError> {
    let table = &run.job.table;
    let remembered: Vec<(String, Remembered)> = table.states(UNRESOLVED).await?;
    let comments =
        remembered.into_iter().filter_map(|(name, known)| Some((CommentId::parse(&name).ok()?, known.places)));
    let comments: Vec<(CommentId, Places)> = comments.collect();
    let scope = Scope { duplicates: true, index: follow.scope() };
    for (id, state) in run.reconcile_all(comments, &scope).await? {
        match state {
            // What was wrong in the page index may still be, if that was not looked at.
            State::Settled if follow.answers() => {
                if run.may_remember() {
                    table.delete_state(UNRESOLVED, id.as_str()).await?;
                }
            }
            // Counted already.
            State::Unresolved(_) => {}
            State::Settled | State::KeepsChanging | State::IndexAway(_) | State::LeftOut(_) => {
                run.add_unresolved(format!("comment {id} needed a person, and could not be looked at again"));
            }
        }
    }
    Ok(())
}

/// Remembers the comments that a run came across; of many, some.
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
