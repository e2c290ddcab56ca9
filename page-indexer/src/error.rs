//! What a failed call means for the records of a batch.

use std::time::Duration;

use stores::StoreError;
use tokio::time::Instant;

/// How long to wait before trying again within the invocation.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Whether the edits are worth another try before `deadline`: the page index may be back by then.
pub(crate) fn worth_another_try(error: &StoreError, deadline: Instant) -> bool {
    error.is_unavailable() && Instant::now() + RETRY_PAUSE < deadline
}
