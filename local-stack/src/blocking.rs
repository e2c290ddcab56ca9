//! Blocking work beside the async threads.

/// Runs blocking work off the caller's async threads. A panic of the work continues in the caller.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime and this task are shutting down, so no caller waits for the result.
            Err(_) => std::future::pending().await,
        },
    }
}
