//! Remembers unresolved comments. So every run of `recent` checks and counts them until they are
//! right, not only the run that found them (`tests/repair/recent.rs`).

use std::collections::{BTreeMap, BTreeSet};

use model::{CommentId, Timestamp, plan::reconcile::Places};
use process::StoreError;
use serde::{Deserialize, Serialize};
use table::Table;

use crate::run::ledger::UNRESOLVED_MAX;

const UNRESOLVED: &str = "unresolved";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Remembered {
    since: Timestamp,
    what: String,
    /// The places where the comment was looked for. The table may no longer show all places where
    /// its id has entries in the page index.
    #[serde(default)]
    places: Places,
}

/// The comments that the job could not repair, up to a maximum. Each comes with the places where
/// its traces are.
pub async fn remembered(table: &Table) -> Result<BTreeMap<CommentId, Places>, StoreError> {
    let remembered: Vec<(String, Remembered)> = table.states(UNRESOLVED).await?;
    let mut comments = BTreeMap::new();
    for (name, known) in remembered {
        if let Ok(id) = CommentId::parse(&name) {
            comments.insert(id, known.places.at_any_time());
        }
    }
    Ok(comments)
}

/// Remembers the unresolved comments of a run, with reasons and places, up to the maximum.
pub(crate) async fn remember(
    table: &Table,
    since: Timestamp,
    unresolved: Vec<(CommentId, String, Places)>,
) -> Result<(), StoreError> {
    if unresolved.is_empty() {
        return Ok(());
    }
    let known: Vec<(String, Remembered)> = table.states(UNRESOLVED).await?;
    let known: BTreeSet<String> = known.into_iter().map(|(name, _)| name).collect();
    let room = UNRESOLVED_MAX.saturating_sub(known.len());
    let new = unresolved
        .into_iter()
        .filter(|(id, ..)| !known.contains(id.as_str()));
    for (id, what, places) in new.take(room) {
        let comment = Remembered {
            since,
            what,
            places,
        };
        table.put_state(UNRESOLVED, id.as_str(), &comment).await?;
    }
    Ok(())
}

pub(crate) async fn forget(table: &Table, id: &CommentId) -> Result<(), StoreError> {
    table.delete_state(UNRESOLVED, id.as_str()).await
}
