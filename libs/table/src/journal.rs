//! The change journal: its entries are written with changes, reports are entries alone, and the
//! repair job reads it in parts.
//!
//! A report names a comment to `recent` because a reader missed something of it.

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use model::{
    CommentId, Malformed, RankEntry, Revision, Timestamp,
    journal::{JOURNAL_SHARDS, JournalEntry, JournalItem, journal_pk, journal_shard, journal_sk},
};
use process::{StoreError, now, random};
use tokio::time::Instant;

use crate::{
    Table,
    error::store_error,
    item::{ItemKey, from_sdk_item, item_key},
    parts::{Part, Position},
};

#[derive(Debug, Clone, PartialEq)]
pub struct JournalRow {
    /// The instant in its key; if the key holds none, the instant of the previous row.
    pub at: Timestamp,
    pub entry: Result<JournalEntry, Malformed>,
}

impl Table {
    /// The entry of the change from the revision `follows` to `revision`.
    pub(crate) fn put_journal(
        &self,
        id: &CommentId,
        follows: Option<Revision>,
        revision: Revision,
        before: Option<RankEntry>,
        after: Option<RankEntry>,
    ) -> Result<TransactWriteItem, StoreError> {
        // An entry is never replaced, because a placement that it names could be lost.
        let entry = JournalEntry {
            by: self.writer.as_deref().map(str::to_owned),
            follows,
            ..JournalEntry::change(id.clone(), revision, before, after)
        };
        self.put_new(&entry.to_item())
    }

    /// Names a comment to the next `recent`, which compares all that is derived from it.
    /// `looked_for` is where a reader missed something. Of its product, the ranks in every language
    /// are compared.
    pub async fn report(&self, id: &CommentId, looked_for: &RankEntry) -> Result<(), StoreError> {
        let entry = JournalEntry::report(id.clone(), looked_for.clone(), now(), random());
        let deadline = Instant::now() + self.config.started_within;
        // If the key is taken, a change or another report of this millisecond names the comment
        // already.
        self.transact_until(deadline, vec![self.put_new(&entry.to_item())?])
            .await
            .map(drop)
    }

    /// The entry of the change that gave a comment this revision, strongly consistent. `None` if it
    /// has expired.
    pub async fn journal_entry(
        &self,
        id: &CommentId,
        revision: Revision,
    ) -> Result<Option<JournalEntry>, StoreError> {
        let instant = revision.instant();
        let pk = journal_pk(instant, journal_shard(id));
        let Some(item) = self.item(item_key(pk, journal_sk(instant, id))).await? else {
            return Ok(None);
        };
        let item = from_sdk_item::<JournalItem>(item)?;
        let entry = JournalEntry::try_from(item).map_err(StoreError::Malformed)?;
        // A report of the same millisecond has its own revision.
        Ok(Some(entry).filter(|entry| entry.revision == revision))
    }

    /// The first entries of one shard of the journal, of the hour that `from` is in, from `from`
    /// (inclusive) to `to` (exclusive), strongly consistent. Returns `limit` of them, or more until
    /// some are later than `from`.
    pub async fn journal_part(
        &self,
        shard: u32,
        from: Timestamp,
        to: Timestamp,
        limit: i32,
    ) -> Result<Part<JournalRow>, StoreError> {
        let mut rows = Vec::new();
        let mut latest = from;
        let mut position = None;
        loop {
            self.meter.read.admit().await;
            // No entry's sort key equals a bare instant, so BETWEEN's inclusive end excludes the
            // instant `to`.
            let answer = self
                .query_of(journal_pk(from, shard % JOURNAL_SHARDS))
                .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
                .expression_attribute_values(":from", AttributeValue::S(from.to_string()))
                .expression_attribute_values(":to", AttributeValue::S(to.to_string()))
                .limit(limit)
                .set_exclusive_start_key(position)
                .set_return_consumed_capacity(self.meter.report())
                .send()
                .await
                .map_err(store_error)?;
            self.meter.read.charge(&answer.consumed_capacity);
            for item in answer.items.unwrap_or_default() {
                if let Some(at) = instant_in(&ItemKey::of(&item).sk) {
                    latest = latest.max(at);
                }
                let entry = match from_sdk_item::<JournalItem>(item) {
                    Ok(item) => JournalEntry::try_from(item),
                    Err(StoreError::Malformed(malformed)) => Err(malformed),
                    Err(error) => return Err(error),
                };
                rows.push(JournalRow { at: latest, entry });
            }
            position = answer.last_evaluated_key;
            if position.is_none() || latest > from {
                return Ok(Part {
                    rows,
                    next: position.map(Position),
                });
            }
        }
    }
}

/// The instant in the sort key of an entry. An instant in a form that sorts elsewhere, as a foreign
/// tool may have written, does not count.
fn instant_in(sk: &str) -> Option<Timestamp> {
    let (text, _) = sk.split_once('#')?;
    let instant = Timestamp::parse(text).ok()?;
    (instant.to_string() == text).then_some(instant)
}
