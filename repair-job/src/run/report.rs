//! The report of a run: what it found and did.

use std::{collections::BTreeMap, fmt};

use model::{CommentId, Timestamp, journal::JournalEntry, plan::reconcile::DriftKind};
use process::StopReason;
use serde::{Deserialize, Serialize};

use crate::run::columns::in_columns;

/// Maximum number of texts of one kind in a report. Further ones are only counted.
pub(crate) const TEXTS_MAX: usize = 100;

/// The bits of exit codes; [`EXIT_CODES`](crate::EXIT_CODES) says what they mean.
pub mod exit {
    pub const FAILURE: u8 = 1;
    pub const USAGE: u8 = 2;
    pub const DRIFT_FOUND: u8 = 4;
    pub const DRIFT_LEFT: u8 = 8;
    pub const UNRESOLVED: u8 = 16;
    pub const SKIPPED: u8 = 32;
    pub const HELD: u8 = 64;
}

/// Where and why a run stopped early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stopped {
    pub reason: StopReason,
    pub resumes: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastRun {
    pub command: String,
    pub began: Timestamp,
    pub ended: Timestamp,
    pub exit_code: u8,
    pub checked: u64,
    pub repaired: u64,
    pub unresolved: u64,
}

/// What is there for one comment, and what should be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CheckedComment {
    pub id: String,
    pub primary_item: String,
    /// Whether the page index could be compared.
    pub page_index: String,
    /// The duplicates and the entries of the page index.
    pub entries: Vec<CheckedEntry>,
    /// The keys of items that cannot be read.
    pub unreadable_items: Vec<String>,
    /// What the journal has of it, oldest first.
    pub changes: Vec<CommentChange>,
}

/// A change of a comment, as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommentChange {
    pub at: Timestamp,
    /// `created`, `changed` or `deleted`.
    pub what: &'static str,
    /// The name of the token or of the command that made it; `None` in entries of earlier versions.
    pub by: Option<String>,
}

/// An item or an entry of the page index that was derived from a comment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedEntry {
    pub what: String,
    pub state: String,
    pub is: String,
    pub should_be: String,
    pub key: String,
}

impl CommentChange {
    pub(crate) fn of(entry: JournalEntry) -> Self {
        let what = match (&entry.before, &entry.after) {
            (None, _) if entry.follows.is_none() => "created",
            // A repair wrote the item again.
            (None, _) => "changed",
            (Some(_), Some(_)) => "changed",
            (Some(_), None) => "deleted",
        };
        Self {
            at: entry.revision.instant(),
            what,
            by: entry.by,
        }
    }
}

impl CheckedComment {
    pub(crate) fn of(id: &CommentId) -> Self {
        Self {
            id: id.to_string(),
            page_index: "not checked".to_owned(),
            ..Self::default()
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("comment {}", self.id),
            format!("primary item: {}", self.primary_item),
            format!("page index: {}", self.page_index),
        ];
        for key in &self.unreadable_items {
            lines.push(format!("item {key}"));
        }
        if !self.entries.is_empty() {
            let titles = ["", "state", "is", "should be", "key"];
            let mut rows = vec![titles.map(str::to_owned).to_vec()];
            for entry in &self.entries {
                let CheckedEntry {
                    what,
                    state,
                    is,
                    should_be,
                    key,
                } = entry;
                let cells = [what, state, is, should_be, key];
                rows.push(cells.map(String::clone).to_vec());
            }
            lines.extend(in_columns(&rows));
        }
        if !self.changes.is_empty() {
            let titles = ["changed at", "what", "by"];
            let mut rows = vec![titles.map(str::to_owned).to_vec()];
            for change in &self.changes {
                let by = change.by.as_deref().unwrap_or("unknown");
                let cells = [&change.at.to_string(), change.what, by];
                rows.push(cells.map(str::to_owned).to_vec());
            }
            lines.extend(in_columns(&rows));
        }
        lines
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    pub command: String,
    pub apply: bool,
    pub checked: u64,
    pub items: u64,
    pub members: u64,
    pub drifted_comments: u64,
    pub drifted: BTreeMap<DriftKind, u64>,
    pub repaired: u64,
    pub left: u64,
    pub unresolved_count: u64,
    pub unresolved: Vec<String>,
    pub skipped_count: u64,
    /// The first hundred pieces of skipped work, with reasons.
    pub skipped: Vec<String>,
    pub stopped: Option<Stopped>,
    pub held_by: Option<String>,
    pub failure: Option<String>,
    /// What `check` looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<CheckedComment>,
    /// Whether the failure lasts until a person changes something.
    #[serde(skip)]
    pub is_refused: bool,
    pub notes: Vec<String>,
    pub read_units: f64,
    pub write_units: f64,
    pub seconds: f64,
}

impl Report {
    /// Counts a difference. A run that repairs has repaired it.
    pub(crate) fn add_difference(&mut self) {
        if self.apply {
            self.repaired += 1;
        } else {
            self.left += 1;
        }
    }

    pub fn exit_code(&self) -> u8 {
        let bits = [
            (self.failure.is_some(), exit::FAILURE),
            (self.repaired + self.left > 0, exit::DRIFT_FOUND),
            (self.left > 0, exit::DRIFT_LEFT),
            (self.unresolved_count > 0, exit::UNRESOLVED),
            (
                self.skipped_count > 0 || self.stopped.is_some(),
                exit::SKIPPED,
            ),
            (self.held_by.is_some(), exit::HELD),
        ];
        let mut exit_code = 0;
        for (is_set, bit) in bits {
            if is_set {
                exit_code |= bit;
            }
        }
        exit_code
    }

    pub fn json(&self) -> serde_json::Value {
        let mut json = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = json.as_object_mut() {
            fields.insert("exit_code".to_owned(), self.exit_code().into());
        }
        json
    }
}

impl fmt::Display for Report {
    /// Formats the report for a person: several lines, without a line feed at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(holder) = &self.held_by {
            return write!(
                f,
                "{}: another run is in progress: {holder}; nothing was done",
                self.command
            );
        }
        let manner = if self.apply {
            ""
        } else {
            " (dry run: without --apply nothing is changed)"
        };
        write!(
            f,
            "{}{manner}: {} comments checked",
            self.command, self.checked
        )?;
        if self.items > 0 {
            write!(f, ", {} items read", self.items)?;
        }
        if self.members > 0 {
            write!(f, ", {} members of the page index looked at", self.members)?;
        }
        writeln!(f, " in {:.1} s", self.seconds)?;
        let Self {
            repaired,
            left,
            drifted_comments,
            ..
        } = self;
        let found = repaired + left;
        writeln!(
            f,
            "  differences: {found} of {drifted_comments} comments; {repaired} repaired, {left} left"
        )?;
        for (kind, count) in &self.drifted {
            writeln!(f, "    {:<18} {count} ({})", kind.name(), kind.breaks())?;
        }
        let title = "unresolved, needs a person";
        write_texts(f, title, self.unresolved_count, &self.unresolved)?;
        write_texts(f, "skipped", self.skipped_count, &self.skipped)?;
        if let Some(stopped) = &self.stopped {
            writeln!(f, "  stopped: {}; {}", stopped.reason, stopped.resumes)?;
        }
        for note in &self.notes {
            writeln!(f, "  {note}")?;
        }
        if let Some(comment) = &self.comment {
            for line in comment.lines() {
                writeln!(f, "  {line}")?;
            }
        }
        if let Some(failure) = &self.failure {
            writeln!(f, "  failed: {failure}")?;
        }
        write!(
            f,
            "  units: {:.1} read, {:.1} written",
            self.read_units, self.write_units
        )
    }
}

/// Writes how many texts there are, and those that the report has.
fn write_texts(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    count: u64,
    texts: &[String],
) -> fmt::Result {
    if count == 0 {
        return Ok(());
    }
    writeln!(f, "  {title}: {count}")?;
    for text in texts {
        writeln!(f, "    {text}")?;
    }
    let named = u64::try_from(texts.len()).unwrap_or(u64::MAX);
    if count > named {
        writeln!(f, "    and {} more", count - named)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_of_the_exit_code_has_its_own_cause() {
        assert_eq!(Report::default().exit_code(), 0);
        let mut report = Report {
            repaired: 2,
            ..Default::default()
        };
        assert_eq!(report.exit_code(), exit::DRIFT_FOUND);
        report.left = 1;
        assert_eq!(report.exit_code(), exit::DRIFT_FOUND | exit::DRIFT_LEFT);
        report.unresolved_count = 1;
        report.skipped_count = 1;
        report.failure = Some("z".to_owned());
        assert_eq!(report.exit_code(), 1 | 4 | 8 | 16 | 32);
        let held = Report {
            held_by: Some("somebody".to_owned()),
            ..Default::default()
        };
        assert_eq!(held.exit_code(), exit::HELD);
    }
}
