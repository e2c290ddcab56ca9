//! Reading: comments by id, item collections, pages, scans, the journal.

use aws_sdk_dynamodb::{operation::query::builders::QueryFluentBuilder, types::AttributeValue};
use model::{
    Cd, Comment, CommentId, FilterKey, Order, Timestamp,
    item::{CommentItem, Image, attribute, comment_pk},
    journal::{JOURNAL_SHARDS, JournalEntry, JournalItem, journal_pk},
};
use process::{Store, StoreError};
use serde_dynamo::Item;

use super::{
    GSI, SdkItem, Table, from_sdk_item,
    page_answer::{MalformedItem, QueryAnswer, QueryReader, StoredComment},
};
use crate::error::store_error;

/// How often a page's query continues after DynamoDB's 1 MB answer limit.
const PAGE_CALLS_MAX: usize = 9;

/// How many additional items are read after invalid primary items, so that a run of them is passed quickly.
const BEYOND_INVALID: usize = 100;

/// Maximum number of calls to read a comment's items: 32 items of at most 400 KB in answers of 1 MB.
const COLLECTION_CALLS_MAX: usize = 40;

/// Maximum number of calls to read one hour of one shard of the journal, at some 4,000 entries an answer.
const JOURNAL_CALLS_MAX: usize = 10_000;

/// A page to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageQuery {
    /// The filter and product of the comments.
    pub key: FilterKey,
    /// The order of the comments.
    pub order: Order,
    /// Maximum number of comments.
    pub limit: u16,
    /// Just before the first comment; `None` starts at the beginning.
    pub start: Option<Cd>,
}

/// A page as read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The comments, in the requested order.
    pub comments: Vec<Comment>,
    /// The malformed duplicates among them, in the same order; a page is shown without them. In a page that is cut
    /// short, the last may be an invalid primary item: the place where the page was cut.
    pub malformed: Vec<MalformedItem>,
    /// The invalid primary items that were passed. They have no rank, so they take no place in a page.
    pub left_out: Vec<MalformedItem>,
    /// Whether the page is not full although more comments follow: its comments are too large to be read at once.
    pub cut_short: bool,
}

/// All items of one comment id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ItemCollection {
    /// The primary items: none, one, or more when the rule that an id is used once was broken.
    pub primary: Vec<Item>,
    /// The duplicates.
    pub duplicates: Vec<Item>,
}

/// The position from which a scan continues.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanPosition(SdkItem);

/// One answer of a scan.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanPart {
    /// The items.
    pub items: Vec<Item>,
    /// The position to continue from; `None` at the end.
    pub next: Option<ScanPosition>,
}

impl Table {
    /// The comment of this id, strongly consistent.
    ///
    /// # Errors
    /// The store's, or that the primary item is invalid.
    pub async fn comment(&self, id: &CommentId) -> Result<Option<Comment>, StoreError> {
        match self.primary_item(id).await? {
            Some(item) => Ok(Some(Image::of_primary(&item.into())?.comment()?)),
            None => Ok(None),
        }
    }

    /// The primary item of this id as it is in the table, strongly consistent and unparsed.
    ///
    /// # Errors
    /// The store's.
    pub async fn raw_primary_item(&self, id: &CommentId) -> Result<Option<Item>, StoreError> {
        Ok(self.primary_item(id).await?.map(Item::from))
    }

    /// The primary item of this id: the last of the item collection. An `auto` there means that the comment was
    /// deleted, and that its duplicates are still to be removed.
    pub(crate) async fn primary_item(&self, id: &CommentId) -> Result<Option<SdkItem>, StoreError> {
        let query = self.collection_query(id).scan_index_forward(false).limit(1);
        let answer = query.send().await.map_err(store_error)?;
        let last = answer.items.unwrap_or_default().pop();
        Ok(last.filter(|item| !item.contains_key(attribute::AUTO)))
    }

    /// A strongly consistent query for the items of this id.
    pub(super) fn collection_query(&self, id: &CommentId) -> QueryFluentBuilder {
        self.client
            .query()
            .table_name(&self.name)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S(comment_pk(id)))
            .consistent_read(true)
    }

    /// Every item of this id, strongly consistent.
    ///
    /// # Errors
    /// The store's.
    pub async fn item_collection(&self, id: &CommentId) -> Result<ItemCollection, StoreError> {
        let mut collection = ItemCollection::default();
        let mut start = None;
        for _ in 0..COLLECTION_CALLS_MAX {
            let query = self.collection_query(id).set_exclusive_start_key(start);
            let answer = query.send().await.map_err(store_error)?;
            for item in answer.items.unwrap_or_default() {
                match item.contains_key(attribute::AUTO) {
                    true => collection.duplicates.push(item.into()),
                    false => collection.primary.push(item.into()),
                }
            }
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok(collection);
            }
        }
        Err(StoreError::refused(Store::Table, format!("comment {id} has more items than a comment can have")))
    }

    /// Reads a page by one Query. Further queries are needed only beyond DynamoDB's 1 MB answer limit, or to fill the
    /// places of invalid primary items. A malformed duplicate takes a place of the page, so that it does not shift the
    /// pages that follow.
    ///
    /// # Errors
    /// The store's.
    pub async fn page(&self, query: &PageQuery) -> Result<Page, StoreError> {
        let limit = usize::from(query.limit);
        let mut page = Page { comments: Vec::with_capacity(limit), ..Page::default() };
        let mut read = 0;
        let mut cut_at = None;
        let mut start = query.start.as_ref().map(|cd| start_key(&query.key, cd));
        for _ in 0..PAGE_CALLS_MAX {
            let beyond = if page.left_out.is_empty() { 0 } else { BEYOND_INVALID };
            let answer = self.page_part(query, limit - read + beyond, start).await?;
            for item in answer.items {
                if read == limit {
                    break;
                }
                cut_at = None;
                match item.into_comment(read) {
                    Ok(comment) => page.comments.push(comment),
                    Err(item) if query.key.is_primary() => {
                        cut_at = Some(item.clone());
                        page.left_out.push(item);
                        continue;
                    }
                    Err(item) => page.malformed.push(item),
                }
                read += 1;
            }
            start = answer.last_evaluated_key.map(SdkItem::from);
            if start.is_none() || read >= limit {
                break;
            }
        }
        page.cut_short = start.is_some() && read < limit;
        if page.cut_short {
            page.malformed.extend(cut_at);
        }
        Ok(page)
    }

    async fn page_part(
        &self,
        query: &PageQuery,
        limit: usize,
        start: Option<SdkItem>,
    ) -> Result<QueryAnswer<StoredComment>, StoreError> {
        let reader = QueryReader::<CommentItem>::default();
        self.client
            .query()
            .table_name(&self.name)
            .index_name(GSI)
            .key_condition_expression("sk = :sk")
            .expression_attribute_values(":sk", AttributeValue::S(query.key.to_string()))
            .scan_index_forward(query.order == Order::Oldest)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX))
            .set_exclusive_start_key(start)
            .customize()
            .interceptor(reader.clone())
            .send()
            .await
            .map_err(store_error)?;
        Ok(reader.take_readable()?.into_comments())
    }

    /// One answer of a scan of the whole table, strongly consistent, with items of every kind.
    ///
    /// # Errors
    /// The store's.
    pub async fn scan(
        &self,
        from: Option<ScanPosition>,
        segment: u32,
        segments: u32,
        limit: u32,
    ) -> Result<ScanPart, StoreError> {
        let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        let answer = self
            .client
            .scan()
            .table_name(&self.name)
            // One segment is sent as an ordinary scan: the embedded engine sorts the whole table for each answer of a
            // parallel scan.
            .set_segment((segments > 1).then(|| number(segment)))
            .set_total_segments((segments > 1).then(|| number(segments)))
            .consistent_read(true)
            .limit(number(limit))
            .set_exclusive_start_key(from.map(|position| position.0))
            .send()
            .await
            .map_err(store_error)?;
        Ok(ScanPart {
            items: answer.items.unwrap_or_default().into_iter().map(Item::from).collect(),
            next: answer.last_evaluated_key.map(ScanPosition),
        })
    }

    /// The journal's entries from `from` (inclusive) to `to` (exclusive), strongly consistent, in no order.
    ///
    /// # Errors
    /// The store's, or that an entry is malformed.
    pub async fn journal(&self, from: Timestamp, to: Timestamp) -> Result<Vec<JournalEntry>, StoreError> {
        const HOUR_MS: i64 = 3_600_000;
        let mut entries = Vec::new();
        let mut hour = from;
        while hour < to {
            for shard in 0..JOURNAL_SHARDS {
                self.read_journal_shard(&journal_pk(hour, shard), from, to, &mut entries).await?;
            }
            hour = hour.plus_ms(HOUR_MS - hour.epoch_ms().rem_euclid(HOUR_MS));
        }
        Ok(entries)
    }

    async fn read_journal_shard(
        &self,
        pk: &str,
        from: Timestamp,
        to: Timestamp,
        entries: &mut Vec<JournalEntry>,
    ) -> Result<(), StoreError> {
        let mut start = None;
        for _ in 0..JOURNAL_CALLS_MAX {
            // No entry's sort key equals a bare instant, so BETWEEN's inclusive end excludes the instant `to`.
            let answer = self
                .client
                .query()
                .table_name(&self.name)
                .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
                .expression_attribute_values(":pk", AttributeValue::S(pk.to_owned()))
                .expression_attribute_values(":from", AttributeValue::S(from.to_string()))
                .expression_attribute_values(":to", AttributeValue::S(to.to_string()))
                .consistent_read(true)
                .set_exclusive_start_key(start)
                .send()
                .await
                .map_err(store_error)?;
            for item in answer.items.unwrap_or_default() {
                entries.push(JournalEntry::try_from(from_sdk_item::<JournalItem>(item)?)?);
            }
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok(());
            }
        }
        Err(StoreError::refused(Store::Table, format!("journal partition {pk} has too many entries to read")))
    }
}

/// The `ExclusiveStartKey` at a comment: the keys of the index and of the table.
fn start_key(key: &FilterKey, cd: &Cd) -> SdkItem {
    [
        (attribute::PK.to_owned(), AttributeValue::S(comment_pk(&cd.id))),
        (attribute::SK.to_owned(), AttributeValue::S(key.to_string())),
        (attribute::CD.to_owned(), AttributeValue::S(cd.to_string())),
    ]
    .into()
}
