//! Transactions: conditions, tokens, limits.

use aws_sdk_dynamodb::{
    operation::transact_write_items::TransactWriteItemsError,
    types::{ConditionCheck, TransactWriteItem},
};
use itertools::Itertools;
use tokio::task::JoinSet;

use super::{Item, Under, code, index_sort_key_too_long, indexed, invalid, key, s};

impl Under {
    async fn transact(
        &self,
        actions: Vec<TransactWriteItem>,
        token: Option<&str>,
    ) -> Result<(), String> {
        let call = self
            .client()
            .transact_write_items()
            .set_transact_items(Some(actions));
        code(
            call.set_client_request_token(token.map(str::to_owned))
                .send()
                .await,
        )
        .map(drop)
    }

    /// Puts the item `a` if it is not there.
    fn create(&self) -> Vec<TransactWriteItem> {
        vec![self.put_action(key("a", "1"), ABSENT)]
    }

    /// Puts the item `a` if it is there.
    fn replace(&self) -> Vec<TransactWriteItem> {
        vec![self.put_action(key("a", "1"), Some("attribute_exists(pk)"))]
    }

    fn puts(&self, count: usize) -> Vec<TransactWriteItem> {
        let pks = (0..count).map(|n| format!("a{n}"));
        pks.map(|pk| self.put_action(key(&pk, "1"), None)).collect()
    }

    /// Puts the item `a` and another one.
    fn with_item(&self, item: Item) -> Vec<TransactWriteItem> {
        vec![
            self.put_action(key("a", "1"), None),
            self.put_action(item, None),
        ]
    }

    fn check(&self, pk: &str) -> TransactWriteItem {
        let check = ConditionCheck::builder()
            .table_name(self.name())
            .set_key(Some(key(pk, "1")));
        let check = check
            .condition_expression("attribute_exists(pk)")
            .build()
            .unwrap();
        TransactWriteItem::builder().condition_check(check).build()
    }

    async fn is_there(&self, pk: &str) -> bool {
        let get = self
            .client()
            .get_item()
            .table_name(self.name())
            .set_key(Some(key(pk, "1")));
        get.consistent_read(true)
            .send()
            .await
            .unwrap()
            .item
            .is_some()
    }
}

const ABSENT: Option<&str> = Some("attribute_not_exists(pk)");

fn cancelled<T>() -> Result<T, String> {
    Err("TransactionCanceledException".to_owned())
}

#[tokio::test]
async fn the_reasons_of_a_cancellation_stand_in_the_order_of_the_actions() {
    let under = Under::start().await;
    under.put(key("there", "1")).await.unwrap();
    let actions = vec![
        under.put_action(key("new", "1"), ABSENT),
        under.put_action(key("there", "1"), ABSENT),
        under.check("nowhere"),
        under.put_action(key("other", "1"), None),
    ];
    let transaction = under
        .client()
        .transact_write_items()
        .set_transact_items(Some(actions));
    let error = transaction.send().await.unwrap_err().into_service_error();
    let TransactWriteItemsError::TransactionCanceledException(cancelled) = error else {
        panic!("{error:?}")
    };
    let codes = cancelled
        .cancellation_reasons()
        .iter()
        .map(|reason| reason.code().unwrap_or("None"))
        .collect_vec();
    assert_eq!(
        codes,
        [
            "None",
            "ConditionalCheckFailed",
            "ConditionalCheckFailed",
            "None"
        ]
    );
    assert!(!under.is_there("new").await && !under.is_there("other").await);
    under.finish().await;
}

#[tokio::test]
async fn a_token_makes_a_transaction_happen_once() {
    let under = Under::start().await;
    // A repeat after a lost answer does not conflict with the first attempt.
    for _ in 0..2 {
        assert_eq!(under.transact(under.create(), Some("first")).await, Ok(()));
    }
    // A repeat after the item was deleted does not restore the item.
    under.delete("a").await;
    assert_eq!(under.transact(under.create(), Some("first")).await, Ok(()));
    assert!(!under.is_there("a").await);
    let other = vec![under.put_action(key("b", "1"), ABSENT)];
    let mismatch = Err("IdempotentParameterMismatchException".to_owned());
    assert_eq!(under.transact(other, Some("first")).await, mismatch);
    // A cancelled transaction does not count as the first one.
    assert_eq!(
        under.transact(under.replace(), Some("second")).await,
        cancelled()
    );
    under.put(key("a", "1")).await.unwrap();
    assert_eq!(
        under.transact(under.replace(), Some("second")).await,
        Ok(())
    );
    under.finish().await;
}

/// Other engines have several winners (docs/engines.md).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_eight_transactions_that_create_an_item_wins() {
    let under = Under::start().await;
    for round in 0..25 {
        let pk = format!("a{round}");
        let mut attempts = JoinSet::new();
        for writer in 0..8 {
            let writer = format!("writer {writer}");
            let mut item = key(&pk, "1");
            item.insert("writer".to_owned(), s(&writer));
            let transaction = under
                .client()
                .transact_write_items()
                .transact_items(under.put_action(item, ABSENT))
                .transact_items(under.put_action(key(&pk, &writer), None));
            attempts.spawn(async move { (writer, code(transaction.send().await)) });
        }
        let mut winners = Vec::new();
        for (writer, answer) in attempts.join_all().await {
            match answer {
                Ok(_) => winners.push(writer),
                Err(code) => assert_eq!(code, "TransactionCanceledException"),
            }
        }
        assert_eq!(winners.len(), 1, "{winners:?} have created {pk}");
        // The others left nothing.
        let query = under
            .client()
            .query()
            .table_name(under.name())
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", s(&pk));
        let found = query.send().await.unwrap();
        let writers = found.items().iter().filter_map(|item| item.get("writer"));
        assert_eq!(writers.collect_vec(), [&s(&winners[0])]);
        assert_eq!(found.count, 2);
    }
    under.finish().await;
}

#[tokio::test]
async fn a_transaction_has_100_actions_at_most_and_no_two_of_one_item() {
    let under = Under::start().await;
    assert_eq!(under.transact(under.puts(100), None).await, Ok(()));
    assert_eq!(under.transact(under.puts(101), None).await, invalid());
    let twice = vec![under.check("a0"), under.put_action(key("a0", "1"), None)];
    assert_eq!(under.transact(twice, None).await, invalid());
    // That is refused before any condition is checked.
    let twice = vec![
        under.check("nowhere"),
        under.put_action(key("nowhere", "1"), None),
    ];
    assert_eq!(under.transact(twice, None).await, invalid());
    under.finish().await;
}

#[tokio::test]
async fn a_transaction_with_an_invalid_item_does_nothing() {
    let under = Under::start().await;
    assert_eq!(
        under.transact(under.with_item(key("b", "")), None).await,
        invalid()
    );
    let large = super::with_text(key("b", "1"), 400 * 1_024);
    assert_eq!(
        under.transact(under.with_item(large), None).await,
        invalid()
    );
    assert!(!under.is_there("a").await);
    let index_key_too_long = under.with_item(indexed("b", "1", &"c".repeat(1_025)));
    under.expect(
        under.transact(index_key_too_long, None).await,
        &index_sort_key_too_long(),
    );
    under.finish().await;
}
