//! Creates and reads the table.
//!
//! **Invariant:** a page comes from all of its partitions or not at all. The first error of a query
//! ends the other queries and becomes the page's error.

use std::{cmp::Reverse, collections::HashMap, iter::zip};

use ::table::store_error;
use aws_sdk_dynamodb::{
    Client,
    error::BuildError,
    types::{
        AttributeDefinition, AttributeValue, BillingMode, GlobalSecondaryIndex, KeysAndAttributes,
        Projection, ProjectionType, ReturnConsumedCapacity, ScalarAttributeType,
    },
};
use futures_util::future::try_join_all;
use model::{Cd, Comment, Language, Malformed, PageSize, ProductId};
use process::{Store, StoreError};
use serde_dynamo::Item;
use table::{QueryReader, StoredItem, definition::key_schema};

use crate::{
    cost::ReadCost,
    counters::{RatingCounters, StatisticsKey},
    cursor::MergedCursor,
    item::{IndexEntry, PROJECTED, item_key, start_key},
    key::{Index, MergedQuery, PK, Plan, QueriedPartition, SK, SORT_KEY},
    merge::{Merged, PartitionAnswer, PartitionPosition, merge},
};

#[derive(Debug, Clone)]
pub struct FourIndexTable {
    pub(crate) client: Client,
    pub(crate) name: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct MergedPage {
    pub comments: Vec<Comment>,
    /// The start of the next page. It also exists when the comments end with a full page, because a
    /// full answer of DynamoDB does not show that it is the last. That next page is empty and has
    /// no next page.
    pub next: Option<MergedCursor>,
    pub cost: ReadCost,
}

impl FourIndexTable {
    pub fn new(client: Client, name: impl Into<String>) -> Self {
        Self {
            client,
            name: name.into(),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates the table. The table is not active yet.
    pub async fn create(&self) -> Result<(), StoreError> {
        let mut create = self
            .client
            .create_table()
            .table_name(&self.name)
            .set_key_schema(Some(key_schema(PK, SK).map_err(refused)?))
            .billing_mode(BillingMode::PayPerRequest);
        let index_keys = Index::EVERY.iter().map(|index| index.partition_attribute());
        for name in [PK, SK, SORT_KEY].into_iter().chain(index_keys) {
            let definition = AttributeDefinition::builder()
                .attribute_name(name)
                .attribute_type(ScalarAttributeType::S);
            create = create.attribute_definitions(definition.build().map_err(refused)?);
        }
        for index in Index::EVERY {
            let projection = Projection::builder()
                .projection_type(ProjectionType::Include)
                .set_non_key_attributes(Some(PROJECTED.map(str::to_owned).to_vec()));
            let definition = GlobalSecondaryIndex::builder()
                .index_name(index.name())
                .set_key_schema(Some(
                    key_schema(index.partition_attribute(), SORT_KEY).map_err(refused)?,
                ))
                .projection(projection.build());
            create = create.global_secondary_indexes(definition.build().map_err(refused)?);
        }
        create.send().await.map_err(store_error)?;
        Ok(())
    }

    pub async fn page(
        &self,
        query: &MergedQuery,
        cursor: Option<&MergedCursor>,
    ) -> Result<MergedPage, StoreError> {
        let plan = Plan::of(&query.product, &query.filter);
        let positions = match cursor {
            Some(cursor) => cursor.0.clone(),
            None => vec![PartitionPosition::Beginning; plan.partitions.len()],
        };
        let (merged, cost) = self.read(&plan, query, positions, None).await?;
        Ok(MergedPage {
            comments: comments(merged.visible, query)?,
            next: MergedCursor::after(merged.positions),
            cost,
        })
    }

    /// The comments from `newest` to `oldest`, the first and the last one of a page that a page
    /// index names. Each partition's query reads only what the page shows of it, at any depth. No
    /// cursor follows.
    pub async fn page_between(
        &self,
        query: &MergedQuery,
        newest: &Cd,
        oldest: &Cd,
    ) -> Result<MergedPage, StoreError> {
        let plan = Plan::of(&query.product, &query.filter);
        let positions = vec![PartitionPosition::Beginning; plan.partitions.len()];
        let (merged, cost) = self
            .read(&plan, query, positions, Some([oldest, newest]))
            .await?;
        Ok(MergedPage {
            comments: comments(merged.visible, query)?,
            next: None,
            cost,
        })
    }

    /// The comments that a page index names, by one BatchGetItem from the table itself.
    ///
    /// # Errors
    /// Also if the table leaves a key unread.
    pub async fn page_of(
        &self,
        query: &MergedQuery,
        named: &[Cd],
    ) -> Result<MergedPage, StoreError> {
        let keys = named.iter().map(|cd| item_key(&cd.id).into()).collect();
        let keys = KeysAndAttributes::builder()
            .set_keys(Some(keys))
            .build()
            .map_err(refused)?;
        let get = self
            .client
            .batch_get_item()
            .request_items(&self.name, keys)
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let answer = get.send().await.map_err(store_error)?;
        let read_units = answer
            .consumed_capacity()
            .iter()
            .filter_map(|consumed| consumed.capacity_units())
            .sum();
        let items = answer
            .responses
            .unwrap_or_default()
            .remove(&self.name)
            .unwrap_or_default();
        if items.len() < named.len() {
            return Err(StoreError::unavailable(
                Store::Table,
                "a page's comments were not all read",
            ));
        }
        let items_read = u32::try_from(items.len()).unwrap_or(u32::MAX);
        let mut entries = Vec::new();
        for item in items {
            entries.push(serde_dynamo::from_item(Item::from(item)).map_err(malformed)?);
        }
        let mut comments = comments(entries, query)?;
        comments.sort_by_key(|comment| Reverse(comment.cd()));
        Ok(MergedPage {
            comments,
            next: None,
            cost: ReadCost {
                requests: 1,
                items_read,
                read_units,
                items_discarded: 0,
            },
        })
    }

    /// Reads all partitions in parallel, from their positions on or between two comments, and
    /// merges what they hold.
    async fn read(
        &self,
        plan: &Plan,
        query: &MergedQuery,
        positions: Vec<PartitionPosition>,
        between: Option<[&Cd; 2]>,
    ) -> Result<(Merged<IndexEntry>, ReadCost), StoreError> {
        let reads = zip(&plan.partitions, positions).map(|(partition, from)| {
            self.read_partition(plan.index, partition, from, between, query.page_size)
        });
        let mut answers = Vec::with_capacity(plan.partitions.len());
        let mut cost = ReadCost::default();
        for (answer, read) in try_join_all(reads).await? {
            answers.push(answer);
            cost.requests += read.requests;
            cost.items_read += read.items_read;
            cost.read_units += read.read_units;
        }
        let merged = merge(answers, usize::from(query.page_size.get()));
        cost.items_discarded = u32::try_from(merged.discarded.len()).unwrap_or(u32::MAX);
        Ok((merged, cost))
    }

    async fn read_partition(
        &self,
        index: Index,
        partition: &QueriedPartition,
        from: PartitionPosition,
        between: Option<[&Cd; 2]>,
        page_size: PageSize,
    ) -> Result<(PartitionAnswer<IndexEntry>, ReadCost), StoreError> {
        let start: Option<Item> = match &from {
            PartitionPosition::Beginning => None,
            PartitionPosition::After(cd) => Some(start_key(index, &partition.key, cd)),
            PartitionPosition::End => return Ok((PartitionAnswer::ended(), ReadCost::default())),
        };
        let mut condition = "#partition = :partition".to_owned();
        let mut values = HashMap::from([(
            ":partition".to_owned(),
            AttributeValue::S(partition.key.clone()),
        )]);
        if let Some([oldest, newest]) = between {
            condition.push_str(&format!(" AND {SORT_KEY} BETWEEN :oldest AND :newest"));
            values.insert(":oldest".to_owned(), AttributeValue::S(oldest.to_string()));
            values.insert(":newest".to_owned(), AttributeValue::S(newest.to_string()));
        }
        let limit = usize::from(page_size.get());
        let reader = QueryReader::<IndexEntry>::default();
        self.client
            .query()
            .table_name(&self.name)
            .index_name(index.name())
            .key_condition_expression(&condition)
            .expression_attribute_names("#partition", index.partition_attribute())
            .set_expression_attribute_values(Some(values))
            .scan_index_forward(false)
            .limit(page_size.get().into())
            .set_exclusive_start_key(start.map(HashMap::from))
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .customize()
            .interceptor(reader.clone())
            .send()
            .await
            .map_err(store_error)?;
        let answer = reader.take()?;
        let read_units = answer.read_units();
        let mut entries = Vec::new();
        for item in answer.items {
            let StoredItem::Read(entry) = item else {
                return Err(Malformed::new("item", "an item cannot be read").into());
            };
            entries.push((entry.cd()?, entry));
        }
        let more = answer.last_evaluated_key.is_some();
        if more && entries.len() < limit {
            return Err(StoreError::refused(
                Store::Table,
                "a page's comments are too large to be read at once",
            ));
        }
        let items_read = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        Ok((
            PartitionAnswer {
                from,
                entries,
                more,
            },
            ReadCost {
                requests: 1,
                items_read,
                read_units,
                items_discarded: 0,
            },
        ))
    }

    pub async fn counters(
        &self,
        product: &ProductId,
        language: Option<&Language>,
    ) -> Result<RatingCounters, StoreError> {
        let key = StatisticsKey {
            product: product.clone(),
            language: language.cloned(),
        };
        let get = self
            .client
            .get_item()
            .table_name(&self.name)
            .set_key(Some(key.item().into()));
        let answer = get
            .consistent_read(true)
            .send()
            .await
            .map_err(store_error)?;
        match answer.item {
            Some(item) => Ok(RatingCounters::of_item(&item.into())?),
            None => Ok(RatingCounters::default()),
        }
    }
}

fn comments(entries: Vec<IndexEntry>, query: &MergedQuery) -> Result<Vec<Comment>, StoreError> {
    let mut comments = Vec::new();
    for entry in entries {
        comments.push(entry.into_comment(&query.product)?);
    }
    Ok(comments)
}

fn malformed(error: serde_dynamo::Error) -> StoreError {
    Malformed::new("item", error.to_string()).into()
}

pub(crate) fn refused(error: BuildError) -> StoreError {
    StoreError::refused(Store::Table, error.to_string())
}
