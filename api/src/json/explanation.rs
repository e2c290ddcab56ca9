//! How a listing was found: the part of its answer that `explain=true` adds.

use model::Order;
use serde::Serialize;
use utoipa::ToSchema;

use crate::ops::cost::{Cost, QueryCost};

/// What the answer asked of the stores.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "queries": [{
        "key": "PRODUCT#espresso-machine/en/4.5", "order": "newest", "limit": 21,
        "start_key": "2024-11-14T09:30:00.000Z#01JCP3D7W0K2V6H9QF1T8MZ4XB", "items": 21, "read_units": 2.5
    }],
    "table_calls": 1, "page_index_calls": 1
}))]
pub(crate) struct Explanation {
    /// The queries of the table's index of filters.
    queries: Vec<ExplainedQuery>,
    /// Number of calls of the table.
    table_calls: u32,
    /// Number of calls of the page index.
    page_index_calls: u32,
}

/// A query.
#[derive(Debug, Serialize, ToSchema)]
struct ExplainedQuery {
    /// The filter key: every filter is one key.
    key: String,
    #[schema(value_type = String, pattern = "^(newest|oldest)$")]
    order: Order,
    /// The most items that it reads, one more than the page shows.
    limit: u16,
    /// The place just before the first item: the creation time and the id of a comment. Null at the beginning.
    #[schema(required)]
    start_key: Option<String>,
    /// Number of items read.
    items: usize,
    /// The read units that it consumed.
    read_units: f64,
}

impl From<Cost> for Explanation {
    fn from(cost: Cost) -> Self {
        Self {
            table_calls: cost.calls_of("table"),
            page_index_calls: cost.calls_of("page_index"),
            queries: cost.queries.into_iter().map(ExplainedQuery::from).collect(),
        }
    }
}

impl From<QueryCost> for ExplainedQuery {
    fn from(cost: QueryCost) -> Self {
        let start_key = cost.start_key();
        let QueryCost { query, items, read_units } = cost;
        Self { key: query.key.to_string(), order: query.order, limit: query.limit, start_key, items, read_units }
    }
}
