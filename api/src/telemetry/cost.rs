//! What a request asked of the stores, for the header `Server-Timing` and for answers with
//! `explain=true`.
//!
//! A request is one task, so what it asks for is kept with the task. Calls outside a request are
//! not kept.

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use actix_web::{
    Error,
    body::BoxBody,
    dev::{ServiceRequest, ServiceResponse},
    http::header::{HeaderName, HeaderValue},
    middleware::Next,
};
use model::Order;
use serde::Serialize;
use table::AnsweredQuery;
use utoipa::ToSchema;

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

tokio::task_local! {
    static COST: RefCell<Cost>;
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Cost {
    calls: BTreeMap<&'static str, StoreCalls>,
    /// The queries for pages, in the order in which they were answered.
    pub(crate) queries: Vec<QueryCost>,
}

#[derive(Debug, Clone, Copy, Default)]
struct StoreCalls {
    count: u32,
    /// The sum of their times. Calls may run in parallel.
    took: Duration,
}

impl StoreCalls {
    fn counted(&self) -> String {
        format!(
            "{} {}",
            self.count,
            if self.count == 1 { "call" } else { "calls" }
        )
    }
}

/// A query.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ExplainedQuery)]
pub(crate) struct QueryCost {
    /// The filter key: every filter is one key.
    key: String,
    #[schema(value_type = String, pattern = "^(newest|oldest)$")]
    order: Order,
    /// The most items that it reads. The first query of a page reads one more than the page shows.
    limit: usize,
    /// The place just before the first item: the creation time and the id of a comment. Null at the
    /// beginning.
    #[schema(required)]
    start_key: Option<String>,
    /// Number of items read.
    items: usize,
    /// The read units that it consumed.
    read_units: f64,
}

impl Cost {
    pub(crate) fn calls_of(&self, store: &str) -> u32 {
        match self.calls.get(store) {
            Some(calls) => calls.count,
            None => 0,
        }
    }

    /// One line: the queries, with the keys that they asked for, and the calls with their times.
    pub(crate) fn line(&self) -> String {
        let mut parts = Vec::new();
        for query in &self.queries {
            let QueryCost {
                key,
                items,
                read_units,
                ..
            } = query;
            let noun = if *items == 1 { "item" } else { "items" };
            parts.push(format!(
                "Query {key}: {items} {noun}, {read_units} read units"
            ));
        }
        for (store, calls) in &self.calls {
            let store = store.replace('_', " ");
            let took_ms = calls.took.as_secs_f64() * 1e3;
            parts.push(format!("{store}: {}, {took_ms:.2} ms", calls.counted()));
        }
        parts.join(" · ")
    }

    /// The value of `Server-Timing` (W3C Server Timing), in milliseconds; `None` without calls.
    fn server_timing(&self) -> Option<HeaderValue> {
        let parts = self.calls.iter().map(|(store, calls)| {
            format!(
                "{store};dur={:.2};desc=\"{}\"",
                calls.took.as_secs_f64() * 1e3,
                calls.counted()
            )
        });
        let text = parts.collect::<Vec<_>>().join(", ");
        HeaderValue::from_str(&text)
            .ok()
            .filter(|value| !value.is_empty())
    }
}

/// Follows a request, and adds to its answer how long the stores took.
pub(crate) async fn follow(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let answered = async {
        let answer = next.call(request).await;
        (answer, so_far())
    };
    let (mut answer, cost) = COST.scope(RefCell::default(), answered).await;
    if let (Ok(answer), Some(value)) = (&mut answer, cost.server_timing()) {
        answer.headers_mut().insert(SERVER_TIMING, value);
    }
    answer
}

pub(crate) fn so_far() -> Cost {
    COST.try_with(|cost| cost.borrow().clone())
        .unwrap_or_default()
}

pub(crate) fn note_call(store: &'static str, took: Duration) {
    note(|cost| {
        let calls = cost.calls.entry(store).or_default();
        calls.count += 1;
        calls.took += took;
    });
}

pub(crate) fn note_query(query: &AnsweredQuery<'_>) {
    note(|cost| {
        cost.queries.push(QueryCost {
            key: query.key.to_string(),
            order: query.order,
            limit: query.limit,
            start_key: query.start.map(str::to_owned),
            items: query.items,
            read_units: query.read_units,
        });
    });
}

fn note(change: impl FnOnce(&mut Cost)) {
    // Outside a request there is nothing to keep it with.
    COST.try_with(|cost| change(&mut cost.borrow_mut()))
        .unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a request that makes so many calls.
    async fn request(calls: u32) -> Option<String> {
        let calling = async {
            for _ in 0..calls {
                note_call("table", Duration::from_micros(1_500));
                tokio::task::yield_now().await;
            }
            so_far().server_timing()
        };
        let timing = COST.scope(RefCell::default(), calling).await?;
        Some(timing.to_str().unwrap().to_owned())
    }

    #[tokio::test]
    async fn each_request_has_its_own_cost_and_names_its_stores() {
        let (none, one, two) = tokio::join!(request(0), request(1), request(2));
        assert_eq!(none, None);
        assert_eq!(one.as_deref(), Some("table;dur=1.50;desc=\"1 call\""));
        assert_eq!(two.as_deref(), Some("table;dur=3.00;desc=\"2 calls\""));
        note_call("table", Duration::ZERO);
        assert_eq!(so_far().calls_of("table"), 0, "no request is under way");
    }
}
