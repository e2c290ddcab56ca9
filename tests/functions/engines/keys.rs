//! Keys, values and limits.

use aws_sdk_dynamodb::types::AttributeValue;
use itertools::Itertools;

use super::{Under, index_sort_key_too_long, indexed, invalid, key, s, with_text};

#[tokio::test]
async fn keys_are_not_empty_and_have_limits() {
    let under = Under::start().await;
    for (pk, sk, expected) in [
        ("", "1", invalid()),
        ("a", "", invalid()),
        (&*"p".repeat(1_024), &*"s".repeat(1_024), Ok(())),
        (&*"p".repeat(2_049), "1", invalid()),
        ("a", &*"s".repeat(1_025), invalid()),
    ] {
        assert_eq!(
            under.put(key(pk, sk)).await,
            expected,
            "{} and {} bytes",
            pk.len(),
            sk.len()
        );
    }
    // In the index `authors`, `pk` is the sort key.
    let as_sort_key = under.put(key(&"p".repeat(2_048), "1")).await;
    under.expect(as_sort_key, &index_sort_key_too_long());
    // The keys of an index have the same limits.
    assert_eq!(under.put(indexed("a", "1", "")).await, invalid());
    assert_eq!(
        under.put(indexed("a", "1", &"c".repeat(1_024))).await,
        Ok(())
    );
    let too_long = under.put(indexed("a", "1", &"c".repeat(1_025))).await;
    under.expect(too_long, &index_sort_key_too_long());
    let mut number = key("a", "1");
    number.insert("cd".to_owned(), AttributeValue::N("1".to_owned()));
    assert_eq!(under.put(number).await, invalid());
    under.finish().await;
}

#[tokio::test]
async fn an_item_has_400_kb_at_most_with_its_names() {
    let under = Under::start().await;
    let names_and_keys = "pk".len() + "a".len() + "sk".len() + "1".len() + "text".len();
    let largest = 400 * 1_024 - names_and_keys;
    assert_eq!(under.put(with_text(key("a", "1"), largest)).await, Ok(()));
    assert_eq!(
        under.put(with_text(key("a", "1"), largest + 1)).await,
        invalid()
    );
    under.finish().await;
}

#[tokio::test]
async fn sort_keys_are_ordered_by_bytes_and_numbers_are_normalised() {
    let under = Under::start().await;
    let in_order = ["0", "B", "Z", "a", "~", "é", "\u{ffff}", "😀"];
    for sk in in_order.iter().rev() {
        under.put(key("a", sk)).await.unwrap();
    }
    let query = under
        .client()
        .query()
        .table_name(under.name())
        .key_condition_expression("pk = :pk");
    let found = query
        .expression_attribute_values(":pk", s("a"))
        .send()
        .await
        .unwrap()
        .items
        .unwrap();
    assert_eq!(
        found
            .iter()
            .map(|item| item["sk"].as_s().unwrap())
            .collect_vec(),
        in_order
    );

    let digits = "123456789012345678901234567890";
    for (number, normalised) in [
        ("1.50", "1.5"),
        ("0010", "10"),
        ("1E3", "1000"),
        ("-0", "0"),
        (digits, digits),
        ("1e-7", "0.0000001"),
    ] {
        let mut item = key("number", "1");
        item.insert("number".to_owned(), AttributeValue::N(number.to_owned()));
        under.put(item).await.unwrap();
        let get = under
            .client()
            .get_item()
            .table_name(under.name())
            .set_key(Some(key("number", "1")));
        let kept = get
            .consistent_read(true)
            .send()
            .await
            .unwrap()
            .item
            .unwrap();
        assert_eq!(kept["number"].as_n().unwrap(), normalised);
    }
    under.finish().await;
}

#[tokio::test]
async fn a_table_has_an_id_that_no_other_of_its_name_has() {
    let under = Under::start().await;
    let describe = under.client().describe_table().table_name(under.name());
    let table_id = describe.send().await.unwrap().table.unwrap().table_id;
    assert!(table_id.is_some());

    // The id that the product derives distinguishes a re-created table.
    let before = under.table.describe().await.unwrap();
    under
        .client()
        .delete_table()
        .table_name(under.name())
        .send()
        .await
        .unwrap();
    let after = under.table.create_if_missing().await.unwrap();
    assert_ne!(after.id, before.id);
    assert_ne!(after.stream_arn, before.stream_arn);
    under.finish().await;
}
