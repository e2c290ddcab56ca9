//! The reads that several subjects share: by one key, by one partition key, and of an index.

use std::{fmt::Debug, time::Duration};

use aws_sdk_dynamodb::{
    operation::query::builders::QueryFluentBuilder,
    types::{AttributeValue, ConsumedCapacity, ReturnConsumedCapacity},
};
use model::{Comment, item::CommentItem};
use process::StoreError;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::{
    Table,
    direct::DirectQuery,
    error::store_error,
    item::{InvalidEntry, SdkItem},
    observer::EndedCall,
    page_answer::{self, QueryAnswer, QueryReader, StoredItem},
    parts::{Part, Position},
};

impl Table {
    /// The item with this key, strongly consistent.
    pub(crate) async fn item(&self, key: SdkItem) -> Result<Option<SdkItem>, StoreError> {
        self.meter.read.admit().await;
        let get = self
            .client
            .get_item()
            .table_name(self.name())
            .set_key(Some(key))
            .consistent_read(true);
        let answer = get
            .set_return_consumed_capacity(self.meter.report())
            .send()
            .await
            .map_err(store_error)?;
        self.meter.read.charge(&answer.consumed_capacity);
        Ok(answer.item)
    }

    /// All items with this partition key in the order of their sort keys, strongly consistent. With
    /// them, an instant before the first was read, but after the wait for a limit of units. `None`
    /// when `calls_max` calls do not read all.
    pub(crate) async fn items(
        &self,
        pk: String,
        calls_max: usize,
    ) -> Result<Option<(Vec<SdkItem>, Instant)>, StoreError> {
        let query = self
            .query_of(pk)
            .set_return_consumed_capacity(self.meter.report());
        let mut items = Vec::new();
        let mut start = None;
        let mut read_at = None;
        for _ in 0..calls_max {
            self.meter.read.admit().await;
            let read_at = *read_at.get_or_insert_with(Instant::now);
            let answer = query
                .clone()
                .set_exclusive_start_key(start)
                .send()
                .await
                .map_err(store_error)?;
            self.meter.read.charge(&answer.consumed_capacity);
            items.extend(answer.items.unwrap_or_default());
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok(Some((items, read_at)));
            }
        }
        Ok(None)
    }

    /// A strongly consistent query for the items with this partition key.
    pub(crate) fn query_of(&self, pk: String) -> QueryFluentBuilder {
        self.client
            .query()
            .table_name(self.name())
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S(pk))
            .consistent_read(true)
    }

    pub(crate) fn query_index(&self, index: &str) -> QueryFluentBuilder {
        self.client
            .query()
            .table_name(self.name())
            .index_name(index)
    }

    /// Sends a query of an index, whose answer is read directly from its JSON.
    pub(crate) async fn read_directly<T>(
        &self,
        query: QueryFluentBuilder,
    ) -> Result<QueryAnswer<StoredItem<T>>, StoreError>
    where
        T: DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.meter.read.admit().await;
        let reader = QueryReader::<T>::default();
        // A report costs no units. Answers that explain themselves repeat it.
        let query = query.return_consumed_capacity(ReturnConsumedCapacity::Total);
        let learner = self.direct.learner();
        let mut query = query.customize().interceptor(reader.clone());
        if let Some(learner) = &learner {
            query = query.interceptor(learner.clone());
        }
        query.send().await.map_err(store_error)?;
        let answer = reader.take()?;
        if let Some(learner) = learner {
            learner.keep(&self.direct);
        }
        self.charge_units(answer.read_units());
        Ok(answer)
    }

    fn charge_units(&self, units: f64) {
        let consumed = ConsumedCapacity::builder().capacity_units(units).build();
        self.meter.read.charge([&consumed]);
    }

    /// Sends a query without the SDK. `None`: the SDK must ask.
    pub(crate) async fn read_without_sdk<T: DeserializeOwned>(
        &self,
        query: &DirectQuery<'_>,
    ) -> Option<QueryAnswer<StoredItem<T>>> {
        self.meter.read.admit().await;
        let began = std::time::Instant::now();
        let answer = self.direct.ask(query).await?;
        let body = answer.body().bytes().unwrap_or_default();
        let problem = match page_answer::read(body) {
            Ok(Ok(answer)) => {
                self.directly_answered(&answer, began.elapsed());
                return Some(answer);
            }
            Ok(Err(problem)) => problem.to_string(),
            Err(problem) => problem.to_string(),
        };
        self.direct.failed(&problem);
        None
    }

    fn directly_answered<I>(&self, answer: &QueryAnswer<I>, took: Duration) {
        self.charge_units(answer.read_units());
        if let Some(observer) = &self.observer {
            observer.call_ended(&EndedCall {
                operation: "Query",
                took,
                is_ok: true,
            });
        }
    }
}

/// The comments of an answer, and where the next one begins.
pub(crate) fn comments_of(
    answer: QueryAnswer<StoredItem<CommentItem>>,
) -> Part<Result<Comment, InvalidEntry>> {
    let next = answer.last_evaluated_key.map(|key| Position(key.into()));
    Part {
        rows: answer
            .items
            .into_iter()
            .map(StoredItem::into_comment)
            .collect(),
        next,
    }
}
