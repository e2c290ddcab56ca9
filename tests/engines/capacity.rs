//! The cost of calls. Cost figures in this project come from the rules, not from an engine.

use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};
use itertools::Itertools;

use super::{Item, Under, indexed, key, put_request, with_text};

fn units(consumed: Option<&ConsumedCapacity>) -> (f64, f64) {
    let consumed = consumed.expect("the engine says what a call consumed");
    let of_index = consumed.global_secondary_indexes().and_then(|indexes| indexes.get("gsi"));
    let of_index = of_index.and_then(|capacity| capacity.capacity_units()).unwrap_or(0.0);
    (consumed.table().and_then(|capacity| capacity.capacity_units()).unwrap_or(0.0), of_index)
}

async fn put_units(under: &Under, item: Item) -> (f64, f64) {
    let put = under.client().put_item().table_name(under.name()).set_item(Some(item));
    let answer = put.return_consumed_capacity(ReturnConsumedCapacity::Indexes).send().await.unwrap();
    units(answer.consumed_capacity())
}

#[tokio::test]
async fn a_write_costs_a_unit_for_each_kilobyte_in_the_table_and_in_the_index() {
    let under = Under::start().await;
    let item = |cd| with_text(indexed("a", "1", cd), 1_500);
    assert_eq!(put_units(&under, item("1")).await, (2.0, 2.0));
    // The index does not change.
    assert_eq!(put_units(&under, item("1")).await, (2.0, 0.0));
    // The index deletes an entry and puts one.
    assert_eq!(put_units(&under, item("2")).await, (2.0, 4.0));
    assert_eq!(put_units(&under, with_text(key("b", "1"), 10)).await, (1.0, 0.0));

    let put = |number: usize| put_request(with_text(indexed(&format!("c{number}"), "1", "1"), 1_500));
    let batch = under.client().batch_write_item().request_items(under.name(), (0..3).map(put).collect_vec());
    let answer = batch.return_consumed_capacity(ReturnConsumedCapacity::Indexes).send().await.unwrap();
    assert_eq!(units(answer.consumed_capacity().first()), (6.0, 6.0));
    under.finish().await;
}

#[tokio::test]
async fn a_transaction_costs_twice_for_each_of_its_items() {
    let under = Under::start().await;
    let units_of = async |prefix: &str, count: usize| {
        let item = |number: usize| with_text(indexed(&format!("{prefix}{number}"), "1", "1"), 1_500);
        let actions = (0..count).map(|number| under.put_action(item(number), None)).collect_vec();
        let call = under.client().transact_write_items().set_transact_items(Some(actions));
        let answer = call.return_consumed_capacity(ReturnConsumedCapacity::Indexes).send().await.unwrap();
        units(answer.consumed_capacity().first())
    };
    under.expect(units_of("one", 1).await, (4.0, 2.0), (4.0, 4.0));
    under.expect(units_of("ten", 10).await, (40.0, 20.0), (4.0, 4.0));
    under.finish().await;
}
