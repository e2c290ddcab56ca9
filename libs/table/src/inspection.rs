//! Reads for the repair job only: unfiltered item collections, primary items by key and by the index `primaries`, scans,
//! the journal in parts.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::{AttributeValue, ConsumedCapacity, KeysAndAttributes};
use model::{
    CommentId, Malformed, ProductId, Timestamp,
    item::{CommentItem, NoBlob, PlacedComment, attribute, comment_pk},
    journal::{JOURNAL_SHARDS, JournalEntry, JournalItem, journal_pk},
    primaries::primaries_shard,
};
use process::{Backoff, Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_dynamo::Item;
use tokio::time::Instant;

use super::{
    PRIMARIES, SdkItem, Table, from_sdk_item,
    guarded::deciding_names,
    item_key::{InvalidEntry, ItemKey, item_key, primary_key},
    page_answer::{QueryReader, StoredItem},
};
use crate::error::{refused, store_error};

/// Maximum number of calls to read a comment's items: 32 items of at most 400 KB in answers of 1 MB, and as many
/// items that should not exist.
const COLLECTION_CALLS_MAX: usize = 40;

/// Maximum number of keys in one call (AWS: `BatchGetItem`).
const BATCH_GET_MAX: usize = 100;

#[derive(Debug, Clone, PartialEq)]
pub struct Scanned {
    pub items: Vec<Item>,
    pub read: u64,
    pub next: Option<ItemKey>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, String>", from = "BTreeMap<String, String>")]
pub struct PrimariesPosition(pub(super) SdkItem);

impl From<PrimariesPosition> for BTreeMap<String, String> {
    fn from(position: PrimariesPosition) -> Self {
        let texts = position.0.into_iter().filter_map(|(name, value)| Some((name, value.as_s().ok()?.clone())));
        texts.collect()
    }
}

impl From<BTreeMap<String, String>> for PrimariesPosition {
    fn from(keys: BTreeMap<String, String>) -> Self {
        Self(keys.into_iter().map(|(name, text)| (name, AttributeValue::S(text))).collect())
    }
}

/// One answer about a shard of the index `primaries`.
#[derive(Debug, Clone, PartialEq)]
pub struct PrimariesPart {
    pub comments: Vec<Result<PlacedComment, InvalidEntry>>,
    pub read: u64,
    pub next: Option<PrimariesPosition>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct JournalPosition(SdkItem);

#[derive(Debug, Clone, PartialEq)]
pub struct JournalRow {
    /// The instant in its key; if the key holds none, the instant of the previous row.
    pub at: Timestamp,
    pub entry: Result<JournalEntry, Malformed>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct JournalPart {
    pub rows: Vec<JournalRow>,
    pub next: Option<JournalPosition>,
}

/// The error of a query of a sparse index. Such a query has no data that could be at fault: only its index can be
/// missing.
pub(super) fn without_index(index: &str, error: StoreError) -> StoreError {
    match error {
        StoreError::Rejected { detail, .. } => StoreError::refused(
            Store::Table,
            format!("the table has no index `{index}`, or DynamoDB is still filling it ({detail})"),
        ),
        error @ (StoreError::Unavailable { .. } | StoreError::Refused { .. } | StoreError::Malformed(_)) => error,
    }
}

impl Table {
    /// All items of a comment id, unchanged, in the order of their keys, strongly consistent.
    ///
    /// # Errors
    /// The store's; [`StoreError::Malformed`] when there are more than a comment can have.
    pub async fn items_of(&self, id: &CommentId) -> Result<Vec<Item>, StoreError> {
        Ok(self.items_and_instant_of(id).await?.0)
    }

    /// Like [`Table::items_of`], with an instant before the first item was read, but after the wait for a limit of
    /// units.
    pub async fn items_and_instant_of(&self, id: &CommentId) -> Result<(Vec<Item>, Instant), StoreError> {
        let too_many = || format!("comment {id} has more items than a comment can have");
        let read = self.items(comment_pk(id), COLLECTION_CALLS_MAX).await?;
        let (items, read_at) = read.ok_or_else(|| Malformed::new("item collection", too_many()))?;
        Ok((items.into_iter().map(Item::from).collect(), read_at))
    }

    /// The primary item of this id and product, strongly consistent.
    pub async fn primary_item_in(&self, id: &CommentId, product: &ProductId) -> Result<Option<Item>, StoreError> {
        Ok(self.item(primary_key(id, product)).await?.map(Item::from))
    }

    /// The keys of primary items, and the attributes that decide their validity, eventually consistent, in no order.
    /// Absent items are left out. No key may occur twice. No wait lasts beyond `deadline`.
    pub async fn primary_items_of(
        &self,
        comments: &[(CommentId, ProductId)],
        deadline: Instant,
    ) -> Result<Vec<Item>, StoreError> {
        let names = deciding_names();
        let projection =
            ["pk", "sk"].into_iter().chain(names.keys().map(String::as_str)).collect::<Vec<_>>().join(", ");
        let mut items = Vec::with_capacity(comments.len());
        for part in comments.chunks(BATCH_GET_MAX) {
            let mut keys: Vec<SdkItem> = part.iter().map(|(id, product)| primary_key(id, product)).collect();
            let mut backoff = Backoff::until(deadline);
            while !keys.is_empty() {
                self.admit_read().await;
                let wanted = KeysAndAttributes::builder()
                    .set_keys(Some(std::mem::take(&mut keys)))
                    .projection_expression(&projection)
                    .set_expression_attribute_names(Some(names.clone()));
                let wanted = wanted.build().map_err(refused)?;
                let get = self.client.batch_get_item().request_items(&self.name, wanted);
                let answer = get.set_return_consumed_capacity(self.wants_capacity()).send();
                let answer = answer.await.map_err(store_error)?;
                self.charge_read(answer.consumed_capacity());
                let found = answer.responses.unwrap_or_default().remove(&self.name).unwrap_or_default();
                items.extend(found.into_iter().map(Item::from));
                let left = answer.unprocessed_keys.unwrap_or_default().remove(&self.name);
                keys = left.map(|left| left.keys).unwrap_or_default();
                if !keys.is_empty() && !backoff.wait().await {
                    return Err(StoreError::unavailable(Store::Table, "it left keys of a batch unprocessed"));
                }
            }
        }
        Ok(items)
    }

    /// One answer of a scan of a segment, which reads at most `limit` items, eventually consistent. Callers look again
    /// before they conclude anything.
    pub async fn scan_segment(
        &self,
        from: Option<ItemKey>,
        segment: u32,
        segments: u32,
        limit: u32,
    ) -> Result<Scanned, StoreError> {
        let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        self.admit_read().await;
        let scan = self
            .client
            .scan()
            .table_name(&self.name)
            // One segment is sent as an ordinary scan: the embedded engine sorts the whole table for each answer of a
            // parallel scan.
            .set_segment((segments > 1).then(|| number(segment)))
            .set_total_segments((segments > 1).then(|| number(segments)))
            .limit(number(limit))
            .set_exclusive_start_key(from.map(|key| item_key(key.pk, key.sk)))
            .set_return_consumed_capacity(self.wants_capacity());
        let answer = scan.send().await.map_err(store_error)?;
        self.charge_read(&answer.consumed_capacity);
        Ok(Scanned {
            read: u64::try_from(answer.scanned_count).unwrap_or(0),
            items: answer.items.unwrap_or_default().into_iter().map(Item::from).collect(),
            next: answer.last_evaluated_key.as_ref().map(ItemKey::of),
        })
    }

    /// One answer about a shard of the index `primaries`, in the order of products and, within a product, oldest first.
    /// Eventually consistent. It reads at most `limit` entries, and at most a megabyte.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when the table does not have the index yet. Also the store's.
    pub async fn primaries_part(
        &self,
        shard: u32,
        from: Option<PrimariesPosition>,
        limit: u32,
    ) -> Result<PrimariesPart, StoreError> {
        self.admit_read().await;
        let reader = QueryReader::<CommentItem<NoBlob>>::default();
        self.client
            .query()
            .table_name(&self.name)
            .index_name(PRIMARIES)
            .key_condition_expression("#shard = :shard")
            .expression_attribute_names("#shard", attribute::SHARD)
            .expression_attribute_values(":shard", AttributeValue::S(primaries_shard(shard)))
            .limit(i32::try_from(limit).unwrap_or(i32::MAX))
            .set_exclusive_start_key(from.map(|position| position.0))
            .set_return_consumed_capacity(self.wants_capacity())
            .customize()
            .interceptor(reader.clone())
            .send()
            .await
            .map_err(|error| without_index(PRIMARIES, store_error(error)))?;
        let answer = reader.take_readable()?.into_items();
        let units = answer.consumed_capacity.map(|consumed| consumed.capacity_units);
        self.charge_read([&ConsumedCapacity::builder().set_capacity_units(units).build()]);
        // A foreign tool may have put other items into the index.
        let entries = answer.items.into_iter().filter(StoredItem::is_primary);
        Ok(PrimariesPart {
            comments: entries.map(StoredItem::placed).collect(),
            read: answer.scanned_count,
            next: answer.last_evaluated_key.map(|key| PrimariesPosition(key.into())),
        })
    }

    /// Some entries of one shard of the journal, of the hour that `from` is in, from `from` (inclusive) to `to`
    /// (exclusive), strongly consistent.
    pub async fn journal_part(
        &self,
        shard: u32,
        from: Timestamp,
        to: Timestamp,
        position: Option<JournalPosition>,
    ) -> Result<JournalPart, StoreError> {
        self.admit_read().await;
        // No entry's sort key equals a bare instant, so BETWEEN's inclusive end excludes the instant `to`.
        let answer = self
            .client
            .query()
            .table_name(&self.name)
            .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
            .expression_attribute_values(":pk", AttributeValue::S(journal_pk(from, shard % JOURNAL_SHARDS)))
            .expression_attribute_values(":from", AttributeValue::S(from.to_string()))
            .expression_attribute_values(":to", AttributeValue::S(to.to_string()))
            .consistent_read(true)
            .set_exclusive_start_key(position.map(|position| position.0))
            .set_return_consumed_capacity(self.wants_capacity())
            .send()
            .await
            .map_err(store_error)?;
        self.charge_read(&answer.consumed_capacity);
        let mut latest = from;
        let rows = answer.items.unwrap_or_default().into_iter().map(|item| {
            let ItemKey { sk, .. } = ItemKey::of(&item);
            let at = sk.split_once('#').and_then(|(at, _)| Timestamp::parse(at).ok());
            latest = at.filter(|at| *at > latest).unwrap_or(latest);
            let entry = match from_sdk_item::<JournalItem>(item) {
                Ok(item) => JournalEntry::try_from(item),
                Err(StoreError::Malformed(malformed)) => Err(malformed),
                Err(error) => return Err(error),
            };
            Ok(JournalRow { at: latest, entry })
        });
        Ok(JournalPart { rows: rows.collect::<Result<_, _>>()?, next: answer.last_evaluated_key.map(JournalPosition) })
    }
}
