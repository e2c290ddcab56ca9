//! How a listing was found: the part of its answer that `explain=true` adds.

use serde::Serialize;
use utoipa::ToSchema;

use crate::telemetry::cost::{Cost, QueryCost};

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
    /// The queries of the table's index of filters. A page is one, or more if its comments have
    /// above a megabyte.
    queries: Vec<QueryCost>,
    /// Number of requests to the table. Repeated attempts of one are not counted.
    table_calls: u32,
    /// Number of calls of the page index.
    page_index_calls: u32,
}

impl From<Cost> for Explanation {
    fn from(cost: Cost) -> Self {
        Self {
            table_calls: cost.calls_of("table"),
            page_index_calls: cost.calls_of("page_index"),
            queries: cost.queries,
        }
    }
}
