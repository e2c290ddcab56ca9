//! The definition of the table. The deployment template repeats it; `tests/template` compares the two.
//!
//! The functions that build a part of it never fail in practice: everything is given.

use std::time::Duration;

use aws_sdk_dynamodb::{
    error::{BuildError, ProvideErrorMetadata},
    types::{
        AttributeDefinition, BillingMode, CreateGlobalSecondaryIndexAction, GlobalSecondaryIndex,
        GlobalSecondaryIndexUpdate, IndexStatus, KeySchemaElement, KeyType, Projection, ProjectionType,
        ScalarAttributeType, StreamSpecification, StreamViewType, TableStatus, TimeToLiveSpecification,
    },
};
use model::{
    item::{attribute, unpublished::UNPUBLISHED_KEYS},
    primaries::{PRIMARIES_KEYS, PRIMARIES_PROJECTED},
};
use process::{Backoff, Store, StoreError};
use tokio::time::Instant;

use super::Table;
use crate::error::{refused, store_error};

/// Name of the index. Its partition key is `sk`, its sort key is `cd`, and it projects every attribute.
pub const GSI: &str = "gsi";

/// Name of the sparse index of primary items. Its partition key is `shard`, its sort key is `pcd`, and it projects what
/// ranks need ([`model::primaries`]).
pub const PRIMARIES: &str = "primaries";

/// Name of the sparse index of authors. Its partition key is `author_id`, its sort key is `pk`, and it projects keys only.
/// The sort key is neither the creation time nor anything else that a primary item may lack.
pub const AUTHORS: &str = "authors";

/// Name of the sparse index of unpublished primary items. Its partition key is `unpublished`, the status, and its sort key
/// `unpublished_cd`. It projects every attribute, because moderators read the comments there
/// ([`model::item::unpublished`]).
pub const MODERATION: &str = "moderation";

/// The attributes of all keys.
pub fn attribute_definitions() -> Result<Vec<AttributeDefinition>, BuildError> {
    let text =
        |name: &str| AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S).build();
    let of_table_and_gsi = [attribute::PK, attribute::SK, attribute::CD];
    of_table_and_gsi
        .into_iter()
        .chain(PRIMARIES_KEYS)
        .chain([attribute::AUTHOR_ID])
        .chain(UNPUBLISHED_KEYS)
        .map(text)
        .collect()
}

/// The keys of the table or of an index.
pub fn key_schema(hash: &str, range: &str) -> Result<Vec<KeySchemaElement>, BuildError> {
    let key = |name: &str, kind: KeyType| KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
    Ok(vec![key(hash, KeyType::Hash)?, key(range, KeyType::Range)?])
}

/// The index [`GSI`].
pub fn gsi() -> Result<GlobalSecondaryIndex, BuildError> {
    GlobalSecondaryIndex::builder()
        .index_name(GSI)
        .set_key_schema(Some(key_schema(attribute::SK, attribute::CD)?))
        .projection(Projection::builder().projection_type(ProjectionType::All).build())
        .build()
}

/// The index [`PRIMARIES`].
pub fn primaries() -> Result<GlobalSecondaryIndex, BuildError> {
    let projection = Projection::builder()
        .projection_type(ProjectionType::Include)
        .set_non_key_attributes(Some(PRIMARIES_PROJECTED.map(str::to_owned).into()))
        .build();
    GlobalSecondaryIndex::builder()
        .index_name(PRIMARIES)
        .set_key_schema(Some(key_schema(attribute::SHARD, attribute::PCD)?))
        .projection(projection)
        .build()
}

/// The index [`AUTHORS`].
pub fn authors() -> Result<GlobalSecondaryIndex, BuildError> {
    GlobalSecondaryIndex::builder()
        .index_name(AUTHORS)
        .set_key_schema(Some(key_schema(attribute::AUTHOR_ID, attribute::PK)?))
        .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
        .build()
}

/// The index [`MODERATION`].
pub fn moderation() -> Result<GlobalSecondaryIndex, BuildError> {
    GlobalSecondaryIndex::builder()
        .index_name(MODERATION)
        .set_key_schema(Some(key_schema(attribute::UNPUBLISHED, attribute::UNPUBLISHED_CD)?))
        .projection(Projection::builder().projection_type(ProjectionType::All).build())
        .build()
}

/// The identity of a table, and its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDescription {
    /// The table's id from AWS: a restored or re-created table of the same name has another id. For an engine without
    /// ids: the name and the creation time.
    pub id: String,
    /// The stream of the table.
    pub stream_arn: Option<String>,
    /// Approximate number of items. AWS updates it every six hours.
    pub items: u64,
}

impl Table {
    /// Creates the table if it is missing, or the indexes [`AUTHORS`] and [`MODERATION`] that a table of an earlier version
    /// lacks, and waits until it is active. Only for the local stack and tests: deployments create it from the template.
    ///
    /// # Errors
    /// The store's, or when the table is not active within 30 s.
    pub async fn create_if_missing(&self) -> Result<TableDescription, StoreError> {
        let stream = StreamSpecification::builder()
            .stream_enabled(true)
            .stream_view_type(StreamViewType::NewAndOldImages)
            .build()
            .map_err(refused)?;
        let created = self
            .client
            .create_table()
            .table_name(&self.name)
            .set_attribute_definitions(Some(attribute_definitions().map_err(refused)?))
            .set_key_schema(Some(key_schema(attribute::PK, attribute::SK).map_err(refused)?))
            .global_secondary_indexes(gsi().map_err(refused)?)
            .global_secondary_indexes(primaries().map_err(refused)?)
            .global_secondary_indexes(authors().map_err(refused)?)
            .global_secondary_indexes(moderation().map_err(refused)?)
            .billing_mode(BillingMode::PayPerRequest)
            .stream_specification(stream)
            .send()
            .await;
        match created {
            Ok(_) => {}
            Err(error) if error.code() == Some("ResourceInUseException") => {
                self.wait_until_active().await?;
                self.add_missing_indexes().await?;
                return self.wait_until_active().await;
            }
            Err(error) => return Err(store_error(error)),
        }
        let description = self.wait_until_active().await?;
        let time_to_live = TimeToLiveSpecification::builder()
            .enabled(true)
            .attribute_name(attribute::EXPIRES_AT)
            .build()
            .map_err(refused)?;
        self.client
            .update_time_to_live()
            .table_name(&self.name)
            .time_to_live_specification(time_to_live)
            .send()
            .await
            .map_err(store_error)?;
        Ok(description)
    }

    /// Adds the indexes that a table of an earlier version lacks, and that its items need no new attributes for.
    async fn add_missing_indexes(&self) -> Result<(), StoreError> {
        for index in [authors(), moderation()] {
            let index = index.map_err(refused)?;
            let answer = self.client.describe_table().table_name(&self.name).send().await.map_err(store_error)?;
            let (mut attributes, present) = answer.table.map_or_else(Default::default, |table| {
                (table.attribute_definitions.unwrap_or_default(), table.global_secondary_indexes.unwrap_or_default())
            });
            if present.iter().any(|present| present.index_name.as_ref() == Some(&index.index_name)) {
                continue;
            }
            // DynamoDB refuses a definition of an attribute that is in no key.
            let is_new = |named: &AttributeDefinition| {
                index.key_schema.iter().any(|key| key.attribute_name == named.attribute_name)
                    && !attributes.contains(named)
            };
            let new: Vec<_> = attribute_definitions().map_err(refused)?.into_iter().filter(is_new).collect();
            attributes.extend(new);
            let create = CreateGlobalSecondaryIndexAction::builder()
                .index_name(index.index_name)
                .set_key_schema(Some(index.key_schema))
                .set_projection(index.projection)
                .build()
                .map_err(refused)?;
            self.client
                .update_table()
                .table_name(&self.name)
                .set_attribute_definitions(Some(attributes))
                .global_secondary_index_updates(GlobalSecondaryIndexUpdate::builder().create(create).build())
                .send()
                .await
                .map_err(store_error)?;
            self.wait_until_active().await?;
        }
        Ok(())
    }

    async fn wait_until_active(&self) -> Result<TableDescription, StoreError> {
        let mut backoff = Backoff::until(Instant::now() + Duration::from_secs(30));
        loop {
            let (description, active) = self.describe_with_status().await?;
            if active {
                return Ok(description);
            }
            if !backoff.wait().await {
                return Err(StoreError::unavailable(Store::Table, "it is not active after 30 s"));
            }
        }
    }

    /// The table's id and stream.
    ///
    /// # Errors
    /// The store's; a missing table is [`StoreError::Refused`].
    pub async fn describe(&self) -> Result<TableDescription, StoreError> {
        Ok(self.describe_with_status().await?.0)
    }

    async fn describe_with_status(&self) -> Result<(TableDescription, bool), StoreError> {
        let answer = self.client.describe_table().table_name(&self.name).send().await.map_err(store_error)?;
        let table = answer.table.ok_or_else(|| StoreError::unavailable(Store::Table, "it described no table"))?;
        let indexes = table.global_secondary_indexes();
        let active = table.table_status == Some(TableStatus::Active)
            && indexes.iter().all(|index| index.index_status == Some(IndexStatus::Active));
        // DynamoDB Local gives no TableId (docs/engines.md). AWS always does (API reference, TableDescription).
        let created = table.creation_date_time.as_ref().and_then(|created| created.to_millis().ok());
        let id = table.table_id.or_else(|| Some(format!("{}-{}", self.name, created?)));
        let id =
            id.ok_or_else(|| StoreError::refused(Store::Table, "the table has neither id nor date of creation"))?;
        let items = table.item_count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
        Ok((TableDescription { id, stream_arn: table.latest_stream_arn, items }, active))
    }
}
