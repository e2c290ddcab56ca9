//! What the job stores about a segment of the table: how far the current pass has come, and when the last one ended.

use std::collections::BTreeMap;

use model::Timestamp;
use process::StoreError;
use serde::{Deserialize, Serialize};
use table::{ItemKey, Table};

/// The kind of state that segments store.
pub(crate) const AUDIT: &str = "audit";

/// Progress of a segment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SegmentState {
    /// Where the current pass resumes.
    pub(crate) position: Option<ItemKey>,
    /// Number of items read up to that position.
    pub(crate) items: Option<u64>,
    /// The id of the table that was checked. After a restoration, the states belong to a different table.
    pub(crate) table: Option<String>,
    /// When the current pass began. For a pass over all segments: when that pass began.
    pub(crate) began: Option<Timestamp>,
    /// When the last completed pass began.
    pub(crate) last_began: Option<Timestamp>,
    /// When the last completed pass ended.
    pub(crate) last_ended: Option<Timestamp>,
}

impl SegmentState {
    /// The state at the start of a new pass.
    pub(crate) fn begun_anew(self) -> Self {
        Self { position: None, items: None, began: None, ..self }
    }
}

/// The state's name for a segment.
pub(crate) fn state_name(segment: u32, segments: u32) -> String {
    format!("{segments}/{segment:06}")
}

/// The name of the state with the start of a pass over all segments. The state is empty when no such pass is under way.
pub(crate) fn pass_name(segments: u32) -> String {
    format!("{segments}/pass")
}

/// The states of this table's segments. States of a table before its restoration say nothing about it, so they are left
/// out.
///
/// # Errors
/// The table's.
pub(crate) async fn segment_states(
    table: &Table,
    table_id: &str,
) -> Result<BTreeMap<String, SegmentState>, StoreError> {
    let states: Vec<(String, SegmentState)> = table.states(AUDIT).await?;
    Ok(states.into_iter().filter(|(_, state)| state.table.as_deref() == Some(table_id)).collect())
}
