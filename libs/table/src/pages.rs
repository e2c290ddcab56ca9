//! Pages of the index `gsi`: the comments of one filter key, in their order.

use aws_sdk_dynamodb::{operation::query::builders::QueryFluentBuilder, types::AttributeValue};
use model::{
    Cd, Comment, FilterKey, Order, ProductId,
    item::{CommentItem, attribute, text},
};
use process::StoreError;
use serde_dynamo::Item;

use crate::{
    Table,
    definition::GSI,
    direct::DirectQuery,
    item::{InvalidEntry, SdkItem, start_key},
    observer::AnsweredQuery,
    page_answer::{QueryAnswer, StoredItem},
    page_rows::PageRows,
    parts::{Page, PageQuery, Part, Position},
    queries::comments_of,
};

/// Maximum number of queries of a page. Nine answers of 1 MB hold 200 of the longest comments.
const PAGE_CALLS_MAX: usize = 9;

impl Table {
    /// Reads a page by one Query. Further queries are needed only beyond DynamoDB's 1 MB answer
    /// limit, or where invalid primary items were passed. A malformed duplicate counts as a row of
    /// the page, so that it does not shift the pages that follow.
    pub async fn page(&self, query: &PageQuery) -> Result<Page, StoreError> {
        self.read_page(query, PageRows::all(query)).await
    }

    /// Reads the rows with these ranks, which are in the query's order and follow its start. All
    /// other rows are only named. It reads at least as many rows as the query's limit, and
    /// continues until it has passed the last rank. It gives up when other rows come to a hundred
    /// more than the limit.
    pub async fn page_of_ranks(&self, query: &PageQuery, ranks: &[Cd]) -> Result<Page, StoreError> {
        self.read_page(query, PageRows::with(query, ranks)).await
    }

    async fn read_page(
        &self,
        query: &PageQuery,
        mut rows: PageRows<'_>,
    ) -> Result<Page, StoreError> {
        let mut start = query.start.as_ref().map(|cd| start_key(&query.key, cd));
        for _ in 0..PAGE_CALLS_MAX {
            let answer = self.page_part(query, rows.next_limit(), start).await?;
            rows.add(answer.items);
            start = answer.last_evaluated_key;
            if start.is_none() || rows.is_full() {
                break;
            }
        }
        Ok(rows.into_page(start.is_some()))
    }

    pub(crate) async fn page_part(
        &self,
        query: &PageQuery,
        limit: usize,
        start: Option<Item>,
    ) -> Result<QueryAnswer<StoredItem<CommentItem>>, StoreError> {
        let sk = query.key.to_string();
        let direct = DirectQuery {
            table: self.name(),
            index: GSI,
            sk: &sk,
            order: query.order,
            limit,
            start: start.as_ref(),
        };
        let answer = match self.read_without_sdk(&direct).await {
            Some(answer) => answer,
            None => self.read_directly(self.sdk_query(&direct)).await?,
        };
        if let Some(observer) = &self.observer {
            observer.page_query_answered(&AnsweredQuery {
                key: &query.key,
                order: query.order,
                limit,
                start: start.as_ref().and_then(cd_of),
                items: answer.items.len(),
                read_units: answer.read_units(),
            });
        }
        Ok(answer)
    }

    /// The same query for the SDK.
    fn sdk_query(&self, query: &DirectQuery<'_>) -> QueryFluentBuilder {
        self.query_index(query.index)
            .key_condition_expression("sk = :sk")
            .expression_attribute_values(":sk", AttributeValue::S(query.sk.to_owned()))
            .scan_index_forward(query.order == Order::Oldest)
            .limit(i32::try_from(query.limit).unwrap_or(i32::MAX))
            .set_exclusive_start_key(query.start.cloned().map(SdkItem::from))
    }

    /// At most `limit` comments of a product, and at most a megabyte.
    pub async fn comments_part(
        &self,
        product: &ProductId,
        from: Option<Position>,
        limit: u16,
    ) -> Result<Part<Result<Comment, InvalidEntry>>, StoreError> {
        let key = FilterKey::primary(product.clone());
        let query = PageQuery {
            key,
            order: Order::Oldest,
            limit,
            start: None,
        };
        Ok(comments_of(
            self.page_part(&query, limit.into(), from.map(|position| position.0.into()))
                .await?,
        ))
    }
}

/// The `cd` in a start key.
fn cd_of(key: &Item) -> Option<&str> {
    text(key, attribute::CD)
}
