//! `page-indexer`: reads the stream records of primary items and updates the base sets of the page
//! index to match.
//!
//! **Invariant:** nothing is dropped silently. A record is applied, or reported for retry, or in
//! quarantine.

mod config;

use std::time::Duration;

use aws_lambda_events::dynamodb::Event;
use functions::{
    Quarantine,
    invocation::{Handled, Invocation},
    metrics::{InvocationMetrics, Metric},
};
use model::{
    plan::{IndexEdit, plan_index_edits},
    record::CommentChange,
};
use page_index::PageIndex;
use process::{Backoff, Remedy, Store, StoreError};
use tokio::time::Instant;

pub use config::PageIndexerConfig;

pub const FUNCTION: &str = "page-indexer";

/// No call starts later than this before the deadline. Redis is waited for as long.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// The handler and its connection. A process creates it once, and every invocation uses it.
#[derive(Debug, Clone)]
pub struct PageIndexer {
    index: PageIndex,
    quarantine: Quarantine,
}

/// Edits that are not known to be applied, and why.
struct FailedEdits {
    edits: Vec<IndexEdit>,
    error: StoreError,
}

impl PageIndexer {
    pub fn new(index: PageIndex, quarantine: Quarantine) -> Self {
        Self { index, quarantine }
    }

    /// Processes a batch. No call outlasts `deadline`, and none starts when less than the time of
    /// one answer remains.
    ///
    /// The answer names the records to retry, for `ReportBatchItemFailures`.
    pub async fn handle(&self, event: &Event, deadline: Instant) -> Handled {
        let mut invocation = Invocation::begin(FUNCTION, event, deadline);
        let edits = plan_edits(&invocation.batch.changes);
        let planned = edits.len();
        let failed = self.apply(edits, deadline, &mut invocation.metrics).await;
        let failed = failed.iter().flat_map(|FailedEdits { edits, error }| {
            edits
                .iter()
                .map(move |edit| (&edit.id, &edit.product, error))
        });
        invocation
            .end(&self.quarantine, planned, failed.collect())
            .await
    }

    /// Applies edits. Returns those that are not known to be applied.
    ///
    /// The page index applies what it can of a pipeline and returns one error for the rest. When it
    /// rejects an edit permanently, the edits are halved until the rejected one is alone. That
    /// takes at most twice as many calls as there are edits.
    async fn apply(
        &self,
        edits: Vec<IndexEdit>,
        deadline: Instant,
        metrics: &mut InvocationMetrics,
    ) -> Vec<FailedEdits> {
        let mut failed = Vec::new();
        let mut parts = vec![edits];
        while let Some(mut part) = parts.pop() {
            let Err(error) = self.apply_part(&part, deadline, metrics).await else {
                continue;
            };
            if error.remedy() == Remedy::Quarantine && part.len() > 1 {
                let second = part.split_off(part.len() / 2);
                parts.extend([second, part]);
            } else {
                failed.push(FailedEdits { edits: part, error });
            }
        }
        failed
    }

    /// Applies edits, and retries while the page index is unavailable and time remains.
    async fn apply_part(
        &self,
        edits: &[IndexEdit],
        deadline: Instant,
        metrics: &mut InvocationMetrics,
    ) -> Result<(), StoreError> {
        let last_start = deadline.checked_sub(ANSWER_WITHIN).unwrap_or(deadline);
        let mut backoff = Backoff::until(last_start);
        loop {
            if Instant::now() >= last_start {
                return Err(StoreError::past_deadline(Store::PageIndex));
            }
            let applied = tokio::time::timeout_at(deadline, self.index.apply(edits)).await;
            match applied.unwrap_or_else(|_| Err(StoreError::past_deadline(Store::PageIndex))) {
                Err(error) if error.is_unavailable() && backoff.wait().await => {
                    metrics.add(Metric::Retries, 1_u64)
                }
                applied => return applied,
            }
        }
    }
}

/// The edits that update the base sets of all changed comments.
///
/// **Invariant:** each primary item has one edit, because its changes in the batch are joined
/// first. So the edits may be sent in any order.
pub fn plan_edits(changes: &[CommentChange<'_>]) -> Vec<IndexEdit> {
    changes.iter().flat_map(plan_index_edits).collect()
}
