//! The units and bytes that DynamoDB bills for items (AWS: "DynamoDB item sizes and formats", "DynamoDB read and write
//! operations").

/// Bytes of one strongly consistent read unit.
pub(super) const READ_UNIT_BYTES: f64 = 4096.0;
/// Bytes billed for storing an item besides its size, in the table and in each index.
pub(crate) const STORAGE_OVERHEAD_BYTES: usize = 100;

/// Read units of a strongly consistent read of this many bytes.
pub(crate) fn consistent_read_units(bytes: f64) -> f64 {
    (bytes / READ_UNIT_BYTES).ceil()
}

/// The units of one Query of an index, which is eventually consistent: half a unit for each 4 KB of all its items
/// together.
pub(crate) fn query_units(items_bytes: f64) -> f64 {
    consistent_read_units(items_bytes) / 2.0
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashMap,
        sync::atomic::{AtomicU32, Ordering},
    };

    use aws_sdk_dynamodb::types::{AttributeValue as SdkValue, ReturnConsumedCapacity};
    use local_stack::engine::Engine;
    use model::{
        BlobFormat, CommentId, CommentText,
        item::{CommentItem, Image},
        size::{item_bytes, write_units},
    };
    use serde_dynamo::Item;
    use table::{GSI, Table, TableConfig};

    use super::*;
    use crate::{
        statistics::as_f64,
        workload::{Comments, folder},
    };

    /// A new comment's 32 items with a body of `body_bytes` bytes. The comment is new because replacing an item costs
    /// as much as the larger version.
    fn items(body_bytes: usize, format: BlobFormat) -> Vec<Item> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let mut comment = Comments::new(1).unwrap().draw().unwrap();
        comment.id = CommentId::parse(&format!("{:026}", COUNTER.fetch_add(1, Ordering::Relaxed))).unwrap();
        comment.text = CommentText { body: "x".repeat(body_bytes), ..comment.text };
        let primary = serde_dynamo::to_item(CommentItem::primary(&comment, format)).unwrap();
        let image = Image::of_primary(&primary).unwrap();
        let placement = comment.placement();
        let keys = placement.duplicate_keys();
        std::iter::once(image.item.clone()).chain(keys.map(|key| image.duplicate(&key))).collect()
    }

    #[tokio::test]
    async fn the_engine_counts_the_same_units() {
        let folder = folder().unwrap();
        let engine = Engine::start(&folder.path().join("table"), ([127, 0, 0, 1], 0).into()).await.unwrap();
        let table = Table::connect(&TableConfig::new("sizes", Some(engine.endpoint_url()))).await;
        table.create_if_missing().await.unwrap();
        let of_empty_body = item_bytes(&items(0, BlobFormat::Map)[0]);
        // One byte around a whole number of units distinguishes a wrong size from the right one.
        for target in [1024, 2048, 3072, 9 * 1024] {
            for item_size in [target - 1, target, target + 1] {
                let item = items(item_size - of_empty_body, BlobFormat::Map).swap_remove(0);
                assert_eq!(item_bytes(&item), item_size);
                check_put(&table, item).await;
            }
        }
        for format in [BlobFormat::Map, BlobFormat::Zstd] {
            for body_bytes in [1, 400, 700, 1_500] {
                let all = items(body_bytes, format);
                // Also the sum over a page. Each item has a separate filter key, so copies make up the page.
                let item = all.last().unwrap().clone();
                for item in all {
                    check_put(&table, item).await;
                }
                check_page(&table, item).await;
            }
        }
        engine.stop().await;
    }

    async fn check_put(table: &Table, item: Item) {
        let units = as_f64(write_units(item_bytes(&item)) as u64);
        let put = table.client().put_item().table_name(table.name()).set_item(Some(item.into()));
        let put = put.return_consumed_capacity(ReturnConsumedCapacity::Indexes).send().await.unwrap();
        let consumed = put.consumed_capacity.unwrap();
        assert_eq!(consumed.table.unwrap().capacity_units, Some(units));
        assert_eq!(consumed.global_secondary_indexes.unwrap()[GSI].capacity_units, Some(units));
    }

    async fn check_page(table: &Table, item: Item) {
        let mut item: HashMap<String, SdkValue> = item.into();
        let sk = SdkValue::S(format!("PRODUCT#page/{}/~", item.len()));
        let mut bytes = 0;
        for number in 0..20 {
            item.insert("pk".to_owned(), SdkValue::S(format!("COMMENT#{number:02}")));
            item.insert("sk".to_owned(), sk.clone());
            bytes += item_bytes(&item.clone().into());
            table.client().put_item().table_name(table.name()).set_item(Some(item.clone())).send().await.unwrap();
        }
        let query = table.client().query().table_name(table.name()).index_name(GSI);
        let query = query.key_condition_expression("sk = :sk").expression_attribute_values(":sk", sk);
        let page = query.return_consumed_capacity(ReturnConsumedCapacity::Total).send().await.unwrap();
        assert_eq!(page.count, 20);
        assert_eq!(page.consumed_capacity.unwrap().capacity_units, Some(query_units(as_f64(bytes as u64))));
    }
}
