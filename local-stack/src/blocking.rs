//! Blocking work beside the async threads.

use tokio::runtime::Handle;

/// Runs blocking work off the caller's async threads. A panic of the work continues in the caller.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    blocking_on(&Handle::current(), work).await
}

/// Like [`blocking`], on the threads of a runtime, which can wait for the work when it shuts down.
pub(crate) async fn blocking_on<T: Send + 'static>(
    runtime: &Handle,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    match runtime.spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, so no caller waits for the result.
            Err(_) => std::future::pending().await,
        },
    }
}
