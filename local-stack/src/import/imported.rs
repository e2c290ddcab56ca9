//! What became of a row.

use super::RowOutcome;

#[derive(Debug)]
pub(super) struct ImportedRow {
    pub(super) outcome: RowOutcome,
    /// In a dry run, what an import would have stored, as a line of an export.
    pub(super) stored: Option<String>,
}

impl From<RowOutcome> for ImportedRow {
    fn from(outcome: RowOutcome) -> Self {
        Self {
            outcome,
            stored: None,
        }
    }
}
