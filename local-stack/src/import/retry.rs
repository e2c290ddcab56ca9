//! Further attempts while a table is unavailable.

use std::time::Duration;

use process::StoreError;

/// Maximum number of further attempts. The SDK retries within each.
const RETRIES_MAX: usize = 5;
/// Pause before each of them.
const PAUSE: Duration = Duration::from_millis(500);

/// Attempts something until it succeeds, or fails with an error that does not pass, or the attempts are used up. `what`
/// names it in the log. Dropping the future ends a pause.
pub(crate) async fn retried<T, F>(what: &str, mut attempt: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    for _ in 0..RETRIES_MAX {
        match attempt().await {
            Err(error) if error.is_unavailable() => tracing::warn!(%error, what, "trying again"),
            done => return done,
        }
        tokio::time::sleep(PAUSE).await;
    }
    attempt().await
}
