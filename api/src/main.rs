//! The process of the HTTP service.

use std::{hint::black_box, process::ExitCode, time::Duration};

use api::{Application, Settings};
use process::{log::start_log, parse_settings};
use tokio::signal::unix::{SignalKind, signal};

/// Requests make and drop many small texts, on several threads. With the allocator of the C
/// library, a page took a tenth more processor time (docs/benchmarks-notes.md). The image is built
/// with musl, whose allocator has one lock for all threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// mimalloc returns freed memory to the system only during later calls for large blocks. An idle
/// service makes none, so it would keep the memory of its busiest moment. This is the interval of
/// such a call.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(5);

/// Large to mimalloc. The block is never written to, so it takes no memory.
const LARGE_BYTES: usize = 1024 * 1024;

#[tokio::main]
async fn main() -> ExitCode {
    let settings: Settings = parse_settings();
    match serve(settings).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line: the text of each error includes its causes.
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(settings: Settings) -> anyhow::Result<()> {
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .with_span_list(false);
    start_log("info", lines).map_err(anyhow::Error::msg)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let application = Application::build(settings).await?;
    tokio::spawn(give_memory_back());
    let operations = application
        .operations_address()
        .map(|address| address.to_string());
    tracing::info!(address = %application.address(), operations, "listening");
    let shutdown = async move {
        tokio::select! {
            // If Ctrl-C cannot be handled, SIGTERM still ends the process.
            Ok(()) = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        tracing::info!("stopping");
    };
    Ok(application.run_until(shutdown).await?)
}

async fn give_memory_back() {
    let mut ticks = tokio::time::interval(GIVE_BACK_EVERY);
    loop {
        ticks.tick().await;
        drop(black_box(Vec::<u8>::with_capacity(LARGE_BYTES)));
    }
}
