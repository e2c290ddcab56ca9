//! What indexes hold, and what writes cost. The sparse index `primaries` holds the items that have
//! both of its keys. Cost figures in this project come from the rules, not from an engine.

use aws_sdk_dynamodb::{
    operation::update_item::builders::UpdateItemFluentBuilder,
    types::{AttributeValue, ConsumedCapacity, ReturnConsumedCapacity},
};
use itertools::Itertools;
use table::PRIMARIES;

use super::{Item, Under, indexed, invalid, key, put_request, s, with_text};
use crate::fixture::invariants::{entries, text};

fn listed(pk: &str, shard: Option<&str>, pcd: Option<&str>) -> Item {
    let mut item = with_text(indexed(pk, "1", "1"), 1_500);
    item.extend(shard.map(|shard| ("shard".to_owned(), s(shard))));
    item.extend(pcd.map(|pcd| ("pcd".to_owned(), s(pcd))));
    item
}

async fn held(under: &Under) -> Vec<String> {
    entries(&under.table, PRIMARIES)
        .await
        .iter()
        .map(|entry| text(entry, "pk"))
        .sorted()
        .collect()
}

/// An update of the item `without-shard`.
fn update_shard(under: &Under, expression: &str) -> UpdateItemFluentBuilder {
    under
        .client()
        .update_item()
        .table_name(under.name())
        .set_key(Some(key("without-shard", "1")))
        .update_expression(expression)
        .expression_attribute_names("#shard", "shard")
}

#[tokio::test]
async fn a_sparse_index_holds_what_has_both_keys_after_any_kind_of_write() {
    let under = Under::start().await;
    under
        .put(listed("put", Some("07"), Some("p#1")))
        .await
        .unwrap();
    under
        .put(listed("without-shard", None, Some("p#1")))
        .await
        .unwrap();
    under
        .put(listed("without-pcd", Some("07"), None))
        .await
        .unwrap();
    let batch = ["batch-1", "batch-2"].map(|pk| put_request(listed(pk, Some("07"), Some("p#1"))));
    under.write_batch(batch.into()).await.unwrap();
    let actions = ["transaction-1", "transaction-2"].map(|pk| {
        let item = listed(pk, Some("08"), Some("p#1"));
        under.put_action(item, Some("attribute_not_exists(pk)"))
    });
    under
        .client()
        .transact_write_items()
        .set_transact_items(Some(actions.into()))
        .send()
        .await
        .unwrap();
    assert_eq!(
        held(&under).await,
        [
            "batch-1",
            "batch-2",
            "put",
            "transaction-1",
            "transaction-2"
        ]
    );
    // An update adds an item, and another one removes it.
    update_shard(&under, "SET #shard = :s")
        .expression_attribute_values(":s", s("09"))
        .send()
        .await
        .unwrap();
    assert!(held(&under).await.contains(&"without-shard".to_owned()));
    update_shard(&under, "REMOVE #shard").send().await.unwrap();
    under.delete("put").await;
    assert_eq!(
        held(&under).await,
        ["batch-1", "batch-2", "transaction-1", "transaction-2"]
    );
    // A key of the index is a text that is not empty.
    let mut number = listed("number", None, Some("p#1"));
    number.insert("shard".to_owned(), AttributeValue::N("7".to_owned()));
    assert_eq!(under.put(number).await, invalid());
    assert_eq!(
        under.put(listed("empty", Some(""), Some("p#1"))).await,
        invalid()
    );
    under.finish().await;
}

/// The units that a call consumed of the table, and of an index.
fn units(consumed: Option<&ConsumedCapacity>, index: &str) -> (f64, f64) {
    let consumed = consumed.expect("the engine says what a call consumed");
    let of_index = consumed
        .global_secondary_indexes()
        .and_then(|indexes| indexes.get(index));
    let of_index = of_index
        .and_then(|capacity| capacity.capacity_units())
        .unwrap_or(0.0);
    (
        consumed
            .table()
            .and_then(|capacity| capacity.capacity_units())
            .unwrap_or(0.0),
        of_index,
    )
}

/// An item of two units, with the keys of the index `gsi`.
fn large(pk: &str, cd: &str) -> Item {
    with_text(indexed(pk, "1", cd), 1_500)
}

async fn put_units(under: &Under, item: Item, index: &str) -> (f64, f64) {
    let put = under
        .client()
        .put_item()
        .table_name(under.name())
        .set_item(Some(item));
    let answer = put
        .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
        .send()
        .await
        .unwrap();
    units(answer.consumed_capacity(), index)
}

#[tokio::test]
async fn a_write_costs_a_unit_for_each_kilobyte_in_the_table_and_in_the_index() {
    let under = Under::start().await;
    assert_eq!(put_units(&under, large("a", "1"), "gsi").await, (2.0, 2.0));
    // The index does not change.
    assert_eq!(put_units(&under, large("a", "1"), "gsi").await, (2.0, 0.0));
    // The index deletes an entry and puts one.
    assert_eq!(put_units(&under, large("a", "2"), "gsi").await, (2.0, 4.0));
    assert_eq!(
        put_units(&under, with_text(key("b", "1"), 10), "gsi").await,
        (1.0, 0.0)
    );

    let puts = ["c0", "c1", "c2"].map(|pk| put_request(large(pk, "1")));
    let batch = under
        .client()
        .batch_write_item()
        .request_items(under.name(), puts.into());
    let answer = batch
        .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
        .send()
        .await
        .unwrap();
    assert_eq!(units(answer.consumed_capacity().first(), "gsi"), (6.0, 6.0));
    under.finish().await;
}
