//! Answers to `DescribeTable` that are given again.
//!
//! For each such answer the engine counts and measures the items of the table and of every index. With three million
//! items that takes a second or more, and the engine does nothing else meanwhile. DynamoDB itself
//! updates the counts "approximately every six hours" (API `TableDescription`). So a slow answer is given again, until a
//! table may have changed or a hundred times its duration has passed.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use http_body_util::Full;
use hyper::{HeaderMap, Response, StatusCode, body::Bytes};
use serde_json::Value;

/// Faster answers are not kept: their counts are always those of now.
const KEPT_FROM: Duration = Duration::from_millis(250);
/// How many times as long as it took an answer is given again. So descriptions take a hundredth of the engine's time.
const KEPT_TIMES: u32 = 100;
const KEPT_MAX: Duration = Duration::from_secs(6 * 3600);

/// The answers by request.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    state: Mutex<State>,
    /// Held while an answer is made. A request that comes meanwhile gets the same answer.
    pub(super) one_at_a_time: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    changes: u64,
    answers: HashMap<Bytes, (Answer, Instant)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let Self { status, headers, body } = self;
        let mut response = Response::new(Full::from(body));
        (*response.status_mut(), *response.headers_mut()) = (status, headers);
        response
    }

    /// Whether the table and its indexes are there, and nothing about them is under way.
    fn is_settled(&self) -> bool {
        let Ok(body) = serde_json::from_slice::<Value>(&self.body) else { return false };
        let indexes = body.pointer("/Table/GlobalSecondaryIndexes").and_then(Value::as_array);
        let mut statuses = indexes.into_iter().flatten().map(|index| index.get("IndexStatus"));
        self.status == StatusCode::OK
            && body.pointer("/Table/TableStatus") == Some(&"ACTIVE".into())
            && statuses.all(|status| status == Some(&"ACTIVE".into()))
    }
}

impl Descriptions {
    pub(super) fn get(&self, request: &Bytes, now: Instant) -> Option<Answer> {
        let state = self.state();
        let (answer, until) = state.answers.get(request)?;
        (now < *until).then(|| answer.clone())
    }

    /// Keeps an answer that was made between two instants, if it was slow and no table has changed since `changes`.
    pub(super) fn keep(&self, request: Bytes, answer: &Answer, changes: u64, [began, ended]: [Instant; 2]) {
        let took = ended - began;
        let mut state = self.state();
        if took >= KEPT_FROM && state.changes == changes && answer.is_settled() {
            state.answers.insert(request, (answer.clone(), ended + (took * KEPT_TIMES).min(KEPT_MAX)));
        }
    }

    pub(super) fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Forgets all answers, because a table may have changed.
    pub(super) fn forget(&self) {
        let mut state = self.state();
        state.changes += 1;
        state.answers.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_secs(5);

    fn answer(table: &str, index: &str) -> Answer {
        let body = format!(
            r#"{{"Table": {{"TableStatus": "{table}", "GlobalSecondaryIndexes": [{{"IndexStatus": "{index}"}}]}}}}"#
        );
        Answer { status: StatusCode::OK, headers: HeaderMap::new(), body: body.into() }
    }

    /// The answer that is given again this long after one that took so long.
    fn again(answer: &Answer, took: Duration, later: Duration) -> Option<Answer> {
        let (descriptions, began) = (Descriptions::default(), Instant::now());
        let ended = began + took;
        descriptions.keep("request".into(), answer, descriptions.changes(), [began, ended]);
        assert_eq!(descriptions.get(&"other".into(), ended), None);
        descriptions.get(&"request".into(), ended + later)
    }

    #[test]
    fn a_slow_answer_is_given_again_for_a_hundred_times_as_long() {
        let active = answer("ACTIVE", "ACTIVE");
        let second = Duration::from_secs(1);
        assert_eq!(again(&active, SLOW, 499 * second), Some(active.clone()));
        assert_eq!(again(&active, SLOW, 500 * second), None);
        assert_eq!(again(&active, Duration::from_millis(249), Duration::ZERO), None);
        assert_eq!(again(&active, Duration::from_secs(3600), KEPT_MAX - second), Some(active.clone()));
        assert_eq!(again(&active, Duration::from_secs(3600), KEPT_MAX), None);
    }

    #[test]
    fn what_is_under_way_is_not_kept() {
        for (table, index) in [("UPDATING", "ACTIVE"), ("ACTIVE", "CREATING"), ("ACTIVE", "")] {
            assert_eq!(again(&answer(table, index), SLOW, Duration::ZERO), None, "{table} {index}");
        }
        let refused = Answer { status: StatusCode::BAD_REQUEST, ..answer("ACTIVE", "ACTIVE") };
        assert_eq!(again(&refused, SLOW, Duration::ZERO), None);
    }

    #[test]
    fn a_change_of_a_table_makes_earlier_answers_invalid_also_those_being_made() {
        let (descriptions, began, active) = (Descriptions::default(), Instant::now(), answer("ACTIVE", "ACTIVE"));
        let times = [began, began + SLOW];
        let changes = descriptions.changes();
        descriptions.keep("request".into(), &active, changes, times);
        descriptions.forget();
        assert_eq!(descriptions.get(&"request".into(), times[1]), None);
        descriptions.keep("request".into(), &active, changes, times);
        assert_eq!(descriptions.get(&"request".into(), times[1]), None);
    }
}
