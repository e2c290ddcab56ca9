//! Reading: comments by id, pages, the sparse indexes, and the records of products.

use std::{collections::HashMap, fmt::Debug, time::Duration};

use aws_sdk_dynamodb::{
    operation::query::builders::QueryFluentBuilder,
    types::{
        AttributeValue, ConsumedCapacity, KeysAndAttributes, ReturnConsumedCapacity,
        builders::KeysAndAttributesBuilder,
    },
};
use futures_util::{StreamExt, TryStreamExt, stream};
use model::{
    AuthorId, Cd, Comment, CommentId, FilterKey, Malformed, Order, ProductId, ProductRecord,
    Status,
    item::{
        COMMENT_PREFIX, CommentItem, PlacedComment, attribute, comment_id_of_pk,
        comment_of_primary, comment_pk, text,
    },
    planted::{self, Bug},
    primaries::primaries_shard,
    product::record_pk,
};
use process::{Backoff, Store, StoreError};
use serde::de::DeserializeOwned;
use serde_dynamo::Item;
use tokio::time::Instant;

use crate::{
    Table,
    definition::{AUTHORS, GSI, MODERATION, PRIMARIES},
    error::{refused, store_error, without_index},
    item::{
        InvalidEntry, ItemKey, SdkItem, primary_key, primary_of, record_key_of, record_of,
        start_key,
    },
    page_answer::{QueryAnswer, QueryReader, StoredItem},
    page_rows::PageRows,
    parts::{Page, PageQuery, Part, Position},
    transaction::DECIDING,
};

/// Maximum number of queries of a page. Nine answers of 1 MB hold 200 of the longest comments.
const PAGE_CALLS_MAX: usize = 9;

/// Maximum number of calls to read a comment's items: 32 items of at most 400 KB in answers of 1
/// MB, and as many items that should not exist.
const COLLECTION_CALLS_MAX: usize = 40;

/// Maximum number of keys in one call (AWS: `BatchGetItem`).
const BATCH_GET_MAX: usize = 100;

/// How long to ask again for keys of a page that DynamoDB left unprocessed: as long as a call with
/// its retries may take.
const LEFT_KEYS_WITHIN: Duration = Duration::from_secs(8);

/// Maximum number of entries of `primaries` in one answer. An answer also ends after a megabyte.
const ENTRIES_MAX: u32 = 4_000;

/// Number of primary items that are read at the same time.
const READS_AT_ONCE: usize = 10;

/// The text that follows every key that begins with [`COMMENT_PREFIX`].
const AFTER_COMMENTS: &str = "COMMENT$";

impl Table {
    /// The comment of this id, published or not, strongly consistent.
    pub async fn comment(&self, id: &CommentId) -> Result<Option<Comment>, StoreError> {
        Ok(self
            .primary_item(id)
            .await?
            .map(|item| comment_of_primary(&item))
            .transpose()?)
    }

    /// The primary item of this id as it is in the table, strongly consistent and unparsed: the
    /// last of the item collection. An `auto` there means that the comment was deleted, and that
    /// its duplicates are still to be removed.
    pub async fn primary_item(&self, id: &CommentId) -> Result<Option<Item>, StoreError> {
        let query = self
            .query_of(comment_pk(id))
            .scan_index_forward(false)
            .limit(1);
        let answer = query.send().await.map_err(store_error)?;
        let last = answer.items.unwrap_or_default().pop();
        Ok(last
            .filter(|item| !item.contains_key(attribute::AUTO))
            .map(Item::from))
    }

    /// The item with this key, strongly consistent.
    pub(crate) async fn item(&self, key: SdkItem) -> Result<Option<SdkItem>, StoreError> {
        self.meter.read.admit().await;
        let get = self
            .client
            .get_item()
            .table_name(self.name())
            .set_key(Some(key))
            .consistent_read(true);
        let answer = get
            .set_return_consumed_capacity(self.meter.report())
            .send()
            .await
            .map_err(store_error)?;
        self.meter.read.charge(&answer.consumed_capacity);
        Ok(answer.item)
    }

    /// All items with this partition key in the order of their sort keys, strongly consistent. With
    /// them, an instant before the first was read, but after the wait for a limit of units. `None`
    /// when `calls_max` calls do not read all.
    pub(crate) async fn items(
        &self,
        pk: String,
        calls_max: usize,
    ) -> Result<Option<(Vec<SdkItem>, Instant)>, StoreError> {
        let query = self
            .query_of(pk)
            .set_return_consumed_capacity(self.meter.report());
        let (mut items, mut start, mut read_at) = (Vec::new(), None, None);
        for _ in 0..calls_max {
            self.meter.read.admit().await;
            let read_at = *read_at.get_or_insert_with(Instant::now);
            let answer = query
                .clone()
                .set_exclusive_start_key(start)
                .send()
                .await
                .map_err(store_error)?;
            self.meter.read.charge(&answer.consumed_capacity);
            items.extend(answer.items.unwrap_or_default());
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok(Some((items, read_at)));
            }
        }
        Ok(None)
    }

    /// A strongly consistent query for the items with this partition key.
    pub(crate) fn query_of(&self, pk: String) -> QueryFluentBuilder {
        self.client
            .query()
            .table_name(self.name())
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S(pk))
            .consistent_read(true)
    }

    fn query_index(&self, index: &str) -> QueryFluentBuilder {
        self.client
            .query()
            .table_name(self.name())
            .index_name(index)
    }

    /// Reads a page by one Query. Further queries are needed only beyond DynamoDB's 1 MB answer
    /// limit, or to fill the places of invalid primary items. A malformed duplicate takes a place
    /// of the page, so that it does not shift the pages that follow.
    pub async fn page(&self, query: &PageQuery) -> Result<Page, StoreError> {
        self.read_page(query, PageRows::all(query)).await
    }

    /// Reads the rows with these ranks, which are in the query's order and follow its start. All
    /// other rows are only named. It reads at least as many rows as the query's limit, and goes on
    /// until it has passed the place of the last rank. It gives up when other rows come to a
    /// hundred more than the limit.
    pub async fn page_of_ranks(&self, query: &PageQuery, ranks: &[Cd]) -> Result<Page, StoreError> {
        self.read_page(query, PageRows::with(query, ranks)).await
    }

    async fn read_page(
        &self,
        query: &PageQuery,
        mut rows: PageRows<'_>,
    ) -> Result<Page, StoreError> {
        let mut start = query.start.as_ref().map(|cd| start_key(&query.key, cd));
        for _ in 0..PAGE_CALLS_MAX {
            let answer = self.page_part(query, rows.next_limit(), start).await?;
            let read_units = answer.read_units();
            rows.add(answer.items, read_units);
            start = answer.last_evaluated_key.map(SdkItem::from);
            if start.is_none() || rows.is_full() {
                break;
            }
        }
        Ok(rows.into_page(start.is_some()))
    }

    async fn page_part(
        &self,
        query: &PageQuery,
        limit: usize,
        start: Option<SdkItem>,
    ) -> Result<QueryAnswer<StoredItem<CommentItem>>, StoreError> {
        let query = self
            .query_index(GSI)
            .key_condition_expression("sk = :sk")
            .expression_attribute_values(":sk", AttributeValue::S(query.key.to_string()))
            .scan_index_forward(query.order == Order::Oldest)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX))
            .set_exclusive_start_key(start);
        self.read_directly(query).await
    }

    /// Sends a query of an index, whose answer is read directly from its JSON.
    async fn read_directly<T>(
        &self,
        query: QueryFluentBuilder,
    ) -> Result<QueryAnswer<StoredItem<T>>, StoreError>
    where
        T: DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.meter.read.admit().await;
        let reader = QueryReader::<T>::default();
        // A report costs no units. Answers that explain themselves repeat it.
        let query = query.return_consumed_capacity(ReturnConsumedCapacity::Total);
        query
            .customize()
            .interceptor(reader.clone())
            .send()
            .await
            .map_err(store_error)?;
        let answer = reader.take()?;
        self.meter.read.charge([&ConsumedCapacity::builder()
            .capacity_units(answer.read_units())
            .build()]);
        Ok(answer)
    }

    /// All items of a comment id, unchanged, in the order of their keys, strongly consistent.
    ///
    /// # Errors
    /// The store's; [`StoreError::Malformed`] when there are more than a comment can have.
    pub async fn items_of(&self, id: &CommentId) -> Result<Vec<Item>, StoreError> {
        Ok(self.items_and_instant_of(id).await?.0)
    }

    /// Like [`Table::items_of`], with an instant before the first item was read, but after the wait
    /// for a limit of units.
    pub async fn items_and_instant_of(
        &self,
        id: &CommentId,
    ) -> Result<(Vec<Item>, Instant), StoreError> {
        let too_many = || format!("comment {id} has more items than a comment can have");
        let read = self.items(comment_pk(id), COLLECTION_CALLS_MAX).await?;
        let (items, read_at) = read.ok_or_else(|| Malformed::new("item collection", too_many()))?;
        Ok((items.into_iter().map(Item::from).collect(), read_at))
    }

    /// The primary item of this id and product, strongly consistent.
    pub async fn primary_item_in(
        &self,
        id: &CommentId,
        product: &ProductId,
    ) -> Result<Option<Item>, StoreError> {
        Ok(self.item(primary_key(id, product)).await?.map(Item::from))
    }

    /// The comments with these ids in a product, published or not, strongly consistent. The answers
    /// are in the order of the ids: `None` for an absent comment, an error for an invalid primary
    /// item. No id may occur twice.
    pub async fn comments_in(
        &self,
        product: &ProductId,
        ids: &[CommentId],
    ) -> Result<Vec<Option<Result<Comment, Malformed>>>, StoreError> {
        let keys: Vec<SdkItem> = ids.iter().map(|id| primary_key(id, product)).collect();
        let wanted = KeysAndAttributes::builder().consistent_read(true);
        let items = self
            .items_with(&keys, &wanted, Instant::now() + LEFT_KEYS_WITHIN)
            .await?;
        let by_key = items
            .into_iter()
            .filter_map(|item| Some((text(&item, attribute::PK)?.to_owned(), item)));
        let mut by_key: HashMap<String, Item> = by_key.collect();
        Ok(ids
            .iter()
            .map(|id| {
                by_key
                    .remove(&comment_pk(id))
                    .map(|item| comment_of_primary(&item))
            })
            .collect())
    }

    /// The keys of primary items, and the attributes that decide their validity, eventually
    /// consistent, in no order. Absent items are left out. No key may occur twice. No wait lasts
    /// beyond `deadline`.
    pub async fn primary_items_of(
        &self,
        comments: &[(CommentId, ProductId)],
        deadline: Instant,
    ) -> Result<Vec<Item>, StoreError> {
        let placeholders = DECIDING.map(|name| format!("#{name}"));
        let projection = ["pk", "sk"]
            .into_iter()
            .chain(placeholders.iter().map(String::as_str));
        let projection = projection.collect::<Vec<_>>().join(", ");
        let names = placeholders
            .into_iter()
            .zip(DECIDING.map(str::to_owned))
            .collect();
        let keys: Vec<SdkItem> = comments
            .iter()
            .map(|(id, product)| primary_key(id, product))
            .collect();
        let wanted = KeysAndAttributes::builder()
            .projection_expression(projection)
            .set_expression_attribute_names(Some(names));
        self.items_with(&keys, &wanted, deadline).await
    }

    /// The attributes that are `wanted` of the items with these keys, in no order. Asks again for
    /// keys that DynamoDB leaves unprocessed, as it does with those beyond the 16 MB of an answer.
    async fn items_with(
        &self,
        keys: &[SdkItem],
        wanted: &KeysAndAttributesBuilder,
        deadline: Instant,
    ) -> Result<Vec<Item>, StoreError> {
        let mut items = Vec::with_capacity(keys.len());
        for part in keys.chunks(BATCH_GET_MAX) {
            let mut keys = part.to_vec();
            let mut backoff = Backoff::until(deadline);
            while !keys.is_empty() {
                self.meter.read.admit().await;
                let wanted = wanted
                    .clone()
                    .set_keys(Some(std::mem::take(&mut keys)))
                    .build()
                    .map_err(refused)?;
                let get = self
                    .client
                    .batch_get_item()
                    .request_items(self.name(), wanted);
                let answer = get.set_return_consumed_capacity(self.meter.report()).send();
                let answer = answer.await.map_err(store_error)?;
                self.meter.read.charge(answer.consumed_capacity());
                let found = answer
                    .responses
                    .unwrap_or_default()
                    .remove(self.name())
                    .unwrap_or_default();
                items.extend(found.into_iter().map(Item::from));
                let left = answer
                    .unprocessed_keys
                    .unwrap_or_default()
                    .remove(self.name());
                keys = left
                    .filter(|_| !planted::has(Bug::UnreadIsAbsent))
                    .map(|left| left.keys)
                    .unwrap_or_default();
                if !keys.is_empty() && !backoff.wait().await {
                    return Err(StoreError::unavailable(
                        Store::Table,
                        "it left keys of a batch unprocessed",
                    ));
                }
            }
        }
        Ok(items)
    }

    /// One answer about a shard of the index `primaries`, in the order of products and, within a
    /// product, oldest first. Eventually consistent. It reads at most `limit` entries, and at most
    /// a megabyte.
    pub async fn primaries_part(
        &self,
        shard: u32,
        from: Option<Position>,
        limit: u32,
    ) -> Result<Part<Result<PlacedComment, InvalidEntry>>, StoreError> {
        let query = self
            .query_index(PRIMARIES)
            .key_condition_expression("#shard = :shard")
            .expression_attribute_names("#shard", attribute::SHARD)
            .expression_attribute_values(":shard", AttributeValue::S(primaries_shard(shard)))
            .limit(i32::try_from(limit).unwrap_or(i32::MAX))
            .set_exclusive_start_key(from.map(|position| position.0));
        let answer = self
            .read_directly(query)
            .await
            .map_err(|error| without_index(PRIMARIES, error))?;
        // A foreign tool may have put other items into the index.
        let entries = answer.items.into_iter().filter(StoredItem::is_primary);
        Ok(Part {
            rows: entries.map(StoredItem::into_placed).collect(),
            next: answer.last_evaluated_key.map(|key| Position(key.into())),
        })
    }

    /// Some products of a shard of `primaries`. A product with many comments costs one answer: the
    /// rest of its entries is passed over.
    pub async fn products_part(
        &self,
        shard: u32,
        from: Option<Position>,
    ) -> Result<Part<Result<ProductId, InvalidEntry>>, StoreError> {
        let Part { rows, next } = self.primaries_part(shard, from, ENTRIES_MAX).await?;
        let mut rows: Vec<_> = rows
            .into_iter()
            .map(|row| row.map(|comment| comment.placement.product))
            .collect();
        rows.dedup();
        // The place of an invalid entry says nothing about other entries, so nothing after it is
        // passed over.
        let next = next.map(|next| match rows.last() {
            Some(Ok(product)) => Position::after_product(product),
            _ => next,
        });
        Ok(Part { rows, next })
    }

    /// At most `limit` comments of a product, and at most a megabyte.
    pub async fn comments_part(
        &self,
        product: &ProductId,
        from: Option<Position>,
        limit: u16,
    ) -> Result<Part<Result<Comment, InvalidEntry>>, StoreError> {
        let key = FilterKey::primary(product.clone());
        let query = PageQuery {
            key,
            order: Order::Oldest,
            limit,
            start: None,
        };
        Ok(comments(
            self.page_part(&query, limit.into(), from.map(|position| position.0))
                .await?,
        ))
    }

    /// At most `limit` comments of an unpublished status, oldest first, and at most a megabyte:
    /// those `after` a place, if given. Eventually consistent.
    pub async fn moderation_part(
        &self,
        status: Status,
        after: Option<&Cd>,
        from: Option<Position>,
        limit: u16,
    ) -> Result<Part<Result<Comment, InvalidEntry>>, StoreError> {
        let query = self
            .query_index(MODERATION)
            .expression_attribute_names("#status", attribute::UNPUBLISHED)
            .expression_attribute_values(":status", AttributeValue::S(status.to_string()))
            .limit(limit.into())
            .set_exclusive_start_key(from.map(|position| position.0));
        let query = match after {
            None => query.key_condition_expression("#status = :status"),
            Some(cd) => query
                .key_condition_expression("#status = :status AND #cd > :cd")
                .expression_attribute_names("#cd", attribute::UNPUBLISHED_CD)
                .expression_attribute_values(":cd", AttributeValue::S(cd.to_string())),
        };
        Ok(comments(
            self.read_directly(query)
                .await
                .map_err(|error| without_index(MODERATION, error))?,
        ))
    }

    /// Comments of an author, after the one of this id. At most `limit`, and fewer where the index
    /// is behind: it is eventually consistent, but each comment is read from its primary item,
    /// strongly consistent.
    pub async fn comments_of_author(
        &self,
        author: &AuthorId,
        after: Option<&CommentId>,
        limit: u16,
    ) -> Result<Part<Result<Comment, Malformed>, CommentId>, StoreError> {
        self.meter.read.admit().await;
        // No id has a character below `-`, so this is less than every longer id.
        let from = after.map_or_else(|| COMMENT_PREFIX.to_owned(), |id| comment_pk(id) + "!");
        let answer = self
            .query_index(AUTHORS)
            .key_condition_expression("author_id = :author AND pk BETWEEN :from AND :to")
            .expression_attribute_values(":author", AttributeValue::S(author.to_string()))
            .expression_attribute_values(":from", AttributeValue::S(from))
            .expression_attribute_values(":to", AttributeValue::S(AFTER_COMMENTS.to_owned()))
            .limit(limit.into())
            .set_return_consumed_capacity(self.meter.report())
            .send()
            .await
            .map_err(|error| without_index(AUTHORS, store_error(error)))?;
        self.meter.read.charge(&answer.consumed_capacity);
        let keys = answer
            .items
            .unwrap_or_default()
            .into_iter()
            .map(|item| ItemKey::of(&item));
        let entries: Vec<_> = keys.filter_map(|key| primary_of(&key)).collect();
        let next = match answer.last_evaluated_key.map(|key| ItemKey::of(&key)) {
            None => None,
            Some(ItemKey { pk, sk }) => Some(comment_id_of_pk(&pk).ok_or_else(|| {
                Malformed::of_item(
                    &pk,
                    &sk,
                    attribute::PK,
                    "is not a comment's, but the item has an author_id",
                )
            })?),
        };
        let read =
            stream::iter(entries).map(|(id, product)| self.comment_of_author(author, id, product));
        let comments: Vec<_> = read.buffered(READS_AT_ONCE).try_collect().await?;
        Ok(Part {
            rows: comments.into_iter().flatten().collect(),
            next,
        })
    }

    /// The comment of an entry; `None` when it was deleted, or is no longer this author's.
    async fn comment_of_author(
        &self,
        author: &AuthorId,
        id: CommentId,
        product: ProductId,
    ) -> Result<Option<Result<Comment, Malformed>>, StoreError> {
        let item = self.primary_item_in(&id, &product).await?;
        let comment = item.map(|item| comment_of_primary(&item));
        let is_of_another = |comment: &Comment| comment.site.author_id.as_ref() != Some(author);
        Ok(comment.filter(|comment| !comment.as_ref().is_ok_and(is_of_another)))
    }

    /// Strongly consistent.
    pub async fn product(&self, product: &ProductId) -> Result<Option<ProductRecord>, StoreError> {
        self.item(record_key_of(product))
            .await?
            .map(record_of)
            .transpose()
    }

    /// Eventually consistent: at half the price.
    pub async fn product_to_show(
        &self,
        product: &ProductId,
    ) -> Result<Option<ProductRecord>, StoreError> {
        let get = self
            .client
            .get_item()
            .table_name(self.name())
            .set_key(Some(record_key_of(product)));
        get.send()
            .await
            .map_err(store_error)?
            .item
            .map(record_of)
            .transpose()
    }

    /// Some records of a shard, strongly consistent: at most a megabyte.
    pub async fn records_part(
        &self,
        shard: u32,
        from: Option<Position>,
    ) -> Result<Part<Result<ProductRecord, InvalidEntry>>, StoreError> {
        let query = self
            .query_of(record_pk(shard))
            .set_exclusive_start_key(from.map(|position| position.0));
        let answer = query.send().await.map_err(store_error)?;
        let records = answer.items.unwrap_or_default().into_iter().map(|item| {
            let key = ItemKey::of(&item);
            match record_of(item) {
                Err(StoreError::Malformed(problem)) => Ok(Err(InvalidEntry {
                    key,
                    cd: None,
                    problem,
                })),
                read => read.map(Ok),
            }
        });
        Ok(Part {
            rows: records.collect::<Result<_, _>>()?,
            next: answer.last_evaluated_key.map(Position),
        })
    }
}

/// The comments of an answer, and where the next one begins.
fn comments(answer: QueryAnswer<StoredItem<CommentItem>>) -> Part<Result<Comment, InvalidEntry>> {
    let next = answer.last_evaluated_key.map(|key| Position(key.into()));
    Part {
        rows: answer
            .items
            .into_iter()
            .map(StoredItem::into_comment)
            .collect(),
        next,
    }
}
