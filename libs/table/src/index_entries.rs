//! Whether the table's indexes hold an item.
//!
//! DynamoDB promises that an index becomes complete. Other engines have lost entries when they were
//! killed (docs/engines.md). Listings, rebuilds, erasures and exports read indexes only, so they
//! would lack the comment.

use aws_sdk_dynamodb::types::{AttributeValue, Select};
use model::item::text;
use process::StoreError;
use serde_dynamo::Item;

use crate::{
    Table,
    definition::INDEX_KEYS,
    error::{store_error, without_index},
};

impl Table {
    /// The names of the indexes that lack an item, although it has their keys. Eventually
    /// consistent: a write reaches the indexes a moment later. Half a read unit for each index.
    pub async fn indexes_without(&self, item: &Item) -> Result<Vec<&'static str>, StoreError> {
        let mut without = Vec::new();
        for (index, names) in INDEX_KEYS {
            let [Some(hash), Some(range)] = names.map(|name| text(item, name)) else {
                continue;
            };
            if !self.has_entry(index, names, [hash, range]).await? {
                without.push(index);
            }
        }
        Ok(without)
    }

    async fn has_entry(
        &self,
        index: &str,
        [hash_name, range_name]: [&str; 2],
        [hash, range]: [&str; 2],
    ) -> Result<bool, StoreError> {
        self.meter.read.admit().await;
        let answer = self
            .query_index(index)
            .key_condition_expression("#hash = :hash AND #range = :range")
            .expression_attribute_names("#hash", hash_name)
            .expression_attribute_names("#range", range_name)
            .expression_attribute_values(":hash", AttributeValue::S(hash.to_owned()))
            .expression_attribute_values(":range", AttributeValue::S(range.to_owned()))
            .select(Select::Count)
            .set_return_consumed_capacity(self.meter.report())
            .send()
            .await
            .map_err(|error| without_index(index, store_error(error)))?;
        self.meter.read.charge(&answer.consumed_capacity);
        Ok(answer.count > 0)
    }
}
