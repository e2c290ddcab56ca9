//! The conformance suite of engines: the behaviour that Pagemark relies on, and the differences
//! from DynamoDB. The embedded engine is also the simulator's.
//!
//! Every test runs on both engines, unless its module excuses it. A test with [`Under::expect`]
//! records a difference and fails when an engine changes. So docs/engines.md, which cites
//! DynamoDB's documentation for each difference, stays true.

mod indexes;
mod keys;
mod kills;
mod listing;
mod streams;
mod transactions;

use std::fmt::Debug;

use aws_sdk_dynamodb::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    operation::query::builders::QueryFluentBuilder,
    types::{AttributeValue, DeleteRequest, Put, PutRequest, TransactWriteItem, WriteRequest},
};
use table::Table;

use crate::fixture::{
    engine::{self, EngineKind, TestEngine},
    stores::Stream,
    unique_name,
};

const _: crate::Engines = crate::Engines::BothExcept(&[crate::Excused {
    test: "kills",
    why: "ministack keeps its tables in memory, so it loses everything at a kill",
}]);

type Item = std::collections::HashMap<String, AttributeValue>;

struct Under {
    engine: TestEngine,
    table: Table,
    stream: Stream,
}

/// What an engine does differently from the other, or from DynamoDB.
struct Difference<T> {
    /// What AWS documents, or `None` where it leaves that open.
    documented: Option<T>,
    embedded: T,
    ministack: T,
}

impl Under {
    async fn start() -> Self {
        let engine = TestEngine::start().await;
        let table = Table::connect(&engine.table_config(unique_name("engine"))).await;
        let stream_arn = table.create_if_missing().await.unwrap().stream_arn.unwrap();
        Self {
            stream: Stream::new(&engine.url(), stream_arn).await,
            engine,
            table,
        }
    }

    fn client(&self) -> &Client {
        self.table.client()
    }

    fn name(&self) -> &str {
        self.table.name()
    }

    fn expect<T: PartialEq + Debug>(&self, found: T, difference: &Difference<T>) {
        let Difference {
            documented,
            embedded,
            ministack,
        } = difference;
        let kind = engine::kind();
        let expected = match kind {
            EngineKind::Embedded => embedded,
            EngineKind::Ministack => ministack,
        };
        assert_eq!(
            found, *expected,
            "{kind:?} has changed: correct docs/engines.md. AWS documents {documented:?}"
        );
        assert!(
            embedded != ministack || documented.as_ref().is_some_and(|it| it != embedded),
            "no engine differs any more: assert that it is {documented:?}"
        );
    }

    async fn put(&self, item: Item) -> Result<(), String> {
        code(
            self.client()
                .put_item()
                .table_name(self.name())
                .set_item(Some(item))
                .send()
                .await,
        )
        .map(drop)
    }

    fn put_action(&self, item: Item, condition: Option<&str>) -> TransactWriteItem {
        let put = Put::builder().table_name(self.name()).set_item(Some(item));
        let put = put
            .set_condition_expression(condition.map(str::to_owned))
            .build()
            .unwrap();
        TransactWriteItem::builder().put(put).build()
    }

    async fn delete(&self, pk: &str) {
        let delete = self.client().delete_item().table_name(self.name());
        delete.set_key(Some(key(pk, "1"))).send().await.unwrap();
    }

    async fn write_batch(&self, writes: Vec<WriteRequest>) -> Result<(), String> {
        code(
            self.client()
                .batch_write_item()
                .request_items(self.name(), writes)
                .send()
                .await,
        )
        .map(drop)
    }

    fn query_index(&self, sk: &str) -> QueryFluentBuilder {
        let query = self
            .client()
            .query()
            .table_name(self.name())
            .index_name("gsi");
        query
            .key_condition_expression("sk = :sk")
            .expression_attribute_values(":sk", s(sk))
    }

    async fn finish(self) {
        self.engine.stop(&self.table).await;
    }
}

fn put_request(item: Item) -> WriteRequest {
    WriteRequest::builder()
        .put_request(PutRequest::builder().set_item(Some(item)).build().unwrap())
        .build()
}

fn delete_request(key: Item) -> WriteRequest {
    WriteRequest::builder()
        .delete_request(DeleteRequest::builder().set_key(Some(key)).build().unwrap())
        .build()
}

fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn key(pk: &str, sk: &str) -> Item {
    [("pk".to_owned(), s(pk)), ("sk".to_owned(), s(sk))].into()
}

fn indexed(pk: &str, sk: &str, cd: &str) -> Item {
    let mut item = key(pk, sk);
    item.insert("cd".to_owned(), s(cd));
    item
}

fn with_text(mut item: Item, bytes: usize) -> Item {
    item.insert("text".to_owned(), s(&"x".repeat(bytes)));
    item
}

fn code<T, E: ProvideErrorMetadata + Debug>(answer: Result<T, SdkError<E>>) -> Result<T, String> {
    answer.map_err(|error| {
        error
            .code()
            .unwrap_or_else(|| panic!("{error:?}"))
            .to_owned()
    })
}

/// A sort key of an index may have 1,024 bytes (developer guide, "Constraints").
fn index_sort_key_too_long() -> Difference<Result<(), String>> {
    Difference {
        documented: Some(invalid()),
        embedded: Ok(()),
        ministack: Ok(()),
    }
}

fn invalid<T>() -> Result<T, String> {
    Err("ValidationException".to_owned())
}
