//! Reading: comments by id, and pages.

use aws_sdk_dynamodb::{
    operation::query::builders::QueryFluentBuilder,
    types::{AttributeValue, ReturnConsumedCapacity},
};
use model::{
    Cd, Comment, CommentId, FilterKey, Order,
    item::{CommentItem, attribute, comment_of_primary, comment_pk},
};
use process::StoreError;
use serde_dynamo::Item;
use tokio::time::Instant;

use super::{
    GSI, SdkItem, Table,
    item_key::item_key,
    page_answer::{MalformedItem, QueryAnswer, QueryReader, StoredItem},
};
use crate::error::store_error;

/// How often a page's query continues after DynamoDB's 1 MB answer limit.
const PAGE_CALLS_MAX: usize = 9;

/// How many additional items are read after invalid primary items, so that a run of them is passed quickly.
const BEYOND_INVALID: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageQuery {
    pub key: FilterKey,
    pub order: Order,
    pub limit: u16,
    pub start: Option<Cd>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    pub comments: Vec<Comment>,
    /// The malformed duplicates among them, in the same order; a page is shown without them. In a page that is cut
    /// short, the last may be an invalid primary item: the place where the page was cut.
    pub malformed: Vec<MalformedItem>,
    /// The invalid primary items that were passed. They have no rank, so they take no place in a page.
    pub left_out: Vec<MalformedItem>,
    /// Whether the page is not full although more comments follow: its comments are too large to be read at once.
    pub cut_short: bool,
    pub read_units: f64,
}

impl Table {
    /// The comment of this id, published or not, strongly consistent.
    pub async fn comment(&self, id: &CommentId) -> Result<Option<Comment>, StoreError> {
        match self.primary_item(id).await? {
            Some(item) => Ok(Some(comment_of_primary(&item)?)),
            None => Ok(None),
        }
    }

    /// The primary item of this id as it is in the table, strongly consistent and unparsed: the last of the item
    /// collection. An `auto` there means that the comment was deleted, and that its duplicates are still to be removed.
    pub async fn primary_item(&self, id: &CommentId) -> Result<Option<Item>, StoreError> {
        let query = self.query_of(comment_pk(id)).scan_index_forward(false).limit(1);
        let answer = query.send().await.map_err(store_error)?;
        let last = answer.items.unwrap_or_default().pop();
        Ok(last.filter(|item| !item.contains_key(attribute::AUTO)).map(Item::from))
    }

    /// The item with this key, strongly consistent.
    pub(super) async fn item(&self, key: SdkItem) -> Result<Option<SdkItem>, StoreError> {
        self.admit_read().await;
        let get = self.client.get_item().table_name(&self.name).set_key(Some(key)).consistent_read(true);
        let answer = get.set_return_consumed_capacity(self.wants_capacity()).send().await.map_err(store_error)?;
        self.charge_read(&answer.consumed_capacity);
        Ok(answer.item)
    }

    /// All items with this partition key in the order of their sort keys, strongly consistent. With them, an instant
    /// before the first was read, but after the wait for a limit of units. `None` when `calls_max` calls do not read
    /// all.
    pub(super) async fn items(
        &self,
        pk: String,
        calls_max: usize,
    ) -> Result<Option<(Vec<SdkItem>, Instant)>, StoreError> {
        let query = self.query_of(pk).set_return_consumed_capacity(self.wants_capacity());
        let (mut items, mut start, mut read_at) = (Vec::new(), None, None);
        for _ in 0..calls_max {
            self.admit_read().await;
            let read_at = *read_at.get_or_insert_with(Instant::now);
            let answer = query.clone().set_exclusive_start_key(start).send().await.map_err(store_error)?;
            self.charge_read(&answer.consumed_capacity);
            items.extend(answer.items.unwrap_or_default());
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok(Some((items, read_at)));
            }
        }
        Ok(None)
    }

    /// A strongly consistent query for the items with this partition key.
    fn query_of(&self, pk: String) -> QueryFluentBuilder {
        self.client
            .query()
            .table_name(&self.name)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S(pk))
            .consistent_read(true)
    }

    /// Reads a page by one Query. Further queries are needed only beyond DynamoDB's 1 MB answer limit, or to fill the
    /// places of invalid primary items. A malformed duplicate takes a place of the page, so that it does not shift the
    /// pages that follow.
    pub async fn page(&self, query: &PageQuery) -> Result<Page, StoreError> {
        let limit = usize::from(query.limit);
        let mut page = Page { comments: Vec::with_capacity(limit), ..Page::default() };
        let mut read = 0;
        let mut cut_at = None;
        let mut start = query.start.as_ref().map(|cd| start_key(&query.key, cd));
        for _ in 0..PAGE_CALLS_MAX {
            let beyond = if page.left_out.is_empty() { 0 } else { BEYOND_INVALID };
            let answer = self.page_part(query, limit - read + beyond, start).await?;
            page.read_units += answer.consumed_capacity.map_or(0.0, |consumed| consumed.capacity_units);
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

    pub(super) async fn page_part(
        &self,
        query: &PageQuery,
        limit: usize,
        start: Option<SdkItem>,
    ) -> Result<QueryAnswer<StoredItem>, StoreError> {
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
            // A report costs no units. Answers that explain themselves repeat it.
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .customize()
            .interceptor(reader.clone())
            .send()
            .await
            .map_err(store_error)?;
        Ok(reader.take_readable()?.into_items())
    }
}

pub(super) fn start_key(key: &FilterKey, cd: &Cd) -> SdkItem {
    let mut start = item_key(comment_pk(&cd.id), key.to_string());
    start.insert(attribute::CD.to_owned(), AttributeValue::S(cd.to_string()));
    start
}
