//! The table itself: it is created, and described.

use std::time::Duration;

use aws_sdk_dynamodb::{
    error::ProvideErrorMetadata,
    types::{
        BillingMode, IndexStatus, StreamSpecification, StreamViewType, TableStatus,
        TimeToLiveSpecification,
    },
};
use model::item::attribute;
use process::{Backoff, Store, StoreError};
use tokio::time::Instant;

use crate::{
    Table,
    definition::{TableDescription, attribute_definitions, indexes, key_schema},
    error::{refused, store_error},
};

impl Table {
    /// Creates the table if it is missing, and waits until it is active. Only for the local stack
    /// and tests: deployments create it from the template.
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
            .table_name(self.name())
            .set_attribute_definitions(Some(attribute_definitions().map_err(refused)?))
            .set_key_schema(Some(
                key_schema(attribute::PK, attribute::SK).map_err(refused)?,
            ))
            .set_global_secondary_indexes(Some(indexes().map_err(refused)?))
            .billing_mode(BillingMode::PayPerRequest)
            .stream_specification(stream)
            .send()
            .await;
        match created {
            Ok(_) => {}
            Err(error) if error.code() == Some("ResourceInUseException") => {
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
            .table_name(self.name())
            .time_to_live_specification(time_to_live)
            .send()
            .await
            .map_err(store_error)?;
        Ok(description)
    }

    async fn wait_until_active(&self) -> Result<TableDescription, StoreError> {
        let mut backoff = Backoff::until(Instant::now() + Duration::from_secs(30));
        loop {
            let description = self.describe().await?;
            if description.is_active {
                return Ok(description);
            }
            if !backoff.wait().await {
                return Err(StoreError::unavailable(
                    Store::Table,
                    "it is not active after 30 s",
                ));
            }
        }
    }

    pub async fn describe(&self) -> Result<TableDescription, StoreError> {
        let answer = self
            .client
            .describe_table()
            .table_name(self.name())
            .send()
            .await
            .map_err(store_error)?;
        let table = answer
            .table
            .ok_or_else(|| StoreError::unavailable(Store::Table, "it described no table"))?;
        let indexes = table.global_secondary_indexes();
        let is_active = table.table_status == Some(TableStatus::Active)
            && indexes
                .iter()
                .all(|index| index.index_status == Some(IndexStatus::Active));
        // Some engines give no TableId. AWS always does (API reference, TableDescription).
        let created = table
            .creation_date_time
            .as_ref()
            .and_then(|created| created.to_millis().ok());
        let id = table
            .table_id
            .or_else(|| Some(format!("{}-{}", self.name(), created?)));
        let id = id.ok_or_else(|| {
            StoreError::refused(
                Store::Table,
                "the table has neither id nor date of creation",
            )
        })?;
        let items = table
            .item_count
            .and_then(|count| u64::try_from(count).ok())
            .unwrap_or(0);
        Ok(TableDescription {
            id,
            stream_arn: table.latest_stream_arn,
            items,
            is_active,
        })
    }
}
