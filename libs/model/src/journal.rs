//! The change journal: which comments changed when.
//!
//! Every write of a primary item carries its entry in the same transaction, so the repair job finds
//! each change, deletions included, without a scan. A **report** is an entry without a change,
//! about a comment of which a reader missed something. The repair job checks it like a changed one.

use std::{collections::BTreeSet, ops::Not};

use serde::{Deserialize, Serialize};

use crate::{
    comment::{Placement, RankEntry},
    error::Malformed,
    id::CommentId,
    revision::Revision,
    timestamp::Timestamp,
};

/// Number of partition keys over which an hour's entries are spread. DynamoDB writes 1,000 units a
/// second to one key (AWS: "Best practices for designing and using partition keys effectively"). A
/// transactional put costs two, so eight keys allow some 4,000 changes a second.
pub const JOURNAL_SHARDS: u32 = 8;

/// How long entries are kept before DynamoDB's TTL removes them: longer than a round of the weekly
/// audit.
pub const JOURNAL_RETENTION_DAYS: i64 = 14;

const PREFIX: &str = "CHANGE#";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    pub id: CommentId,
    /// The revision that the change made; its instant is the entry's. A deletion has one too. In a
    /// report it belongs to no item: only its instant counts.
    pub revision: Revision,
    /// The comment's placement before; `None` when the change created it.
    pub before: Option<Placement>,
    /// The comment's placement after; `None` when the change deleted it.
    pub after: Option<Placement>,
    /// Its creation times before and after. Empty in entries of versions before 0.3, which do not
    /// name them.
    pub created_at: BTreeSet<Timestamp>,
    /// Whether nothing changed. Both placements then say where a reader looked for the comment.
    pub is_report: bool,
    /// Who made the change: the name of a token, or of a command. `None` in a report, and in the
    /// entries of earlier versions.
    pub by: Option<String>,
    /// The revision before the change, which leads to the entry before. `None` if it created the
    /// comment, and in the entries of earlier versions.
    pub follows: Option<Revision>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalItem {
    /// `CHANGE#<hour>#<shard>`.
    pub pk: String,
    /// `<instant>#<id>`.
    pub sk: String,
    pub revision: Revision,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Placement>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Placement>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub created_at: BTreeSet<Timestamp>,
    #[serde(default, skip_serializing_if = "Not::not")]
    pub is_report: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Revision>,
    /// When DynamoDB may remove the entry, in seconds since 1970.
    pub expires_at: i64,
}

/// The shard of a comment's entries.
pub fn journal_shard(id: &CommentId) -> u32 {
    crc32fast::hash(id.as_str().as_bytes()) % JOURNAL_SHARDS
}

/// The sort key of the entry that a comment has at an instant.
pub fn journal_sk(instant: Timestamp, id: &CommentId) -> String {
    format!("{instant}#{id}")
}

pub fn journal_pk(hour_of: Timestamp, shard: u32) -> String {
    format!("{PREFIX}{}#{shard}", hour_of.hour())
}

impl JournalEntry {
    pub fn change(
        id: CommentId,
        revision: Revision,
        before: Option<RankEntry>,
        after: Option<RankEntry>,
    ) -> Self {
        let entries = before.iter().chain(&after);
        Self {
            id,
            revision,
            created_at: entries.map(|entry| entry.created_at).collect(),
            before: before.map(|entry| entry.placement),
            after: after.map(|entry| entry.placement),
            is_report: false,
            by: None,
            follows: None,
        }
    }

    /// A report of a comment. Its key is that of a change at `now`: a writer that finds it taken
    /// takes a later one.
    pub fn report(id: CommentId, looked_for: RankEntry, now: Timestamp, random: u128) -> Self {
        let revision = Revision::after(None, now, random);
        Self {
            is_report: true,
            ..Self::change(id, revision, Some(looked_for.clone()), Some(looked_for))
        }
    }

    pub fn to_item(&self) -> JournalItem {
        let instant = self.revision.instant();
        JournalItem {
            pk: journal_pk(instant, journal_shard(&self.id)),
            sk: journal_sk(instant, &self.id),
            revision: self.revision,
            before: self.before.clone(),
            after: self.after.clone(),
            created_at: self.created_at.clone(),
            is_report: self.is_report,
            by: self.by.clone(),
            follows: self.follows,
            expires_at: instant.epoch_seconds() + JOURNAL_RETENTION_DAYS * 24 * 3600,
        }
    }

    pub fn placements(&self) -> impl Iterator<Item = &Placement> {
        self.before.iter().chain(&self.after)
    }
}

impl TryFrom<JournalItem> for JournalEntry {
    type Error = Malformed;

    fn try_from(item: JournalItem) -> Result<Self, Malformed> {
        let id = item
            .sk
            .split_once('#')
            .and_then(|(_, id)| CommentId::parse(id).ok())
            .ok_or_else(|| {
                Malformed::of_item(&item.pk, &item.sk, "sk", "is not <instant>#<comment id>")
            })?;
        let JournalItem {
            revision,
            before,
            after,
            created_at,
            is_report,
            by,
            follows,
            ..
        } = item;
        Ok(Self {
            id,
            revision,
            before,
            after,
            created_at,
            is_report,
            by,
            follows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::tests::comment;

    #[test]
    fn an_entry_reads_back_from_its_item() {
        let comment = comment("c1", "a/b", "en", 4);
        let now = comment.revision.instant();
        let report = JournalEntry::report(comment.id.clone(), comment.entry(), now, 1);
        let revision = comment.revision;
        let entry = comment.entry();
        let change = JournalEntry::change(comment.id, revision, None, Some(entry));
        let old = JournalEntry {
            created_at: BTreeSet::new(),
            ..change.clone()
        };
        let by_a_token = JournalEntry {
            by: Some("shop".to_owned()),
            follows: Some(revision),
            ..change.clone()
        };
        for entry in [change, report, old, by_a_token] {
            let item = entry.to_item();
            assert!(item.pk.starts_with("CHANGE#2024-02-29T12#"), "{}", item.pk);
            assert_eq!(item.sk, "2024-02-29T12:00:00.123Z#c1");
            let stored: serde_dynamo::Item = serde_dynamo::to_item(&item).unwrap();
            assert_eq!(stored.contains_key("is_report"), entry.is_report);
            // Earlier versions wrote entries of this form without creation times.
            assert_eq!(
                stored.contains_key("created_at"),
                !entry.created_at.is_empty()
            );
            assert_eq!(stored.contains_key("by"), entry.by.is_some());
            let read: JournalItem = serde_dynamo::from_item(stored).unwrap();
            assert_eq!(JournalEntry::try_from(read).unwrap(), entry);
        }
    }
}
