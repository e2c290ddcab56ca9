//! The HTTP service as a process of its own.

use std::process::ExitCode;

use api::{Application, Settings};
use stores::config::{log_filter, parse_settings, without_payloads};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

/// Requests make and drop many small texts, on several threads. The allocator of the C library took a tenth more of the
/// processor for a page (docs/benchmarks-notes.md), and that of musl, which the image is built with, has one lock for all threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let settings: Settings = parse_settings();
    match serve(settings).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line: each error's own text says all that its causes say.
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(settings: Settings) -> anyhow::Result<()> {
    let filter = log_filter("info").map_err(anyhow::Error::msg)?;
    tracing_subscriber::fmt()
        .json()
        .with_span_list(false)
        .with_env_filter(filter)
        .finish()
        .with(without_payloads())
        .init();
    let mut terminate = signal(SignalKind::terminate())?;
    let application = Application::build(settings).await?;
    let operations = application.operations_address().map(|address| address.to_string());
    tracing::info!(address = %application.address(), operations, "listening");
    let shutdown = async move {
        tokio::select! {
            // Without a way to hear Ctrl-C, SIGTERM still ends the process.
            Ok(()) = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        tracing::info!("stopping");
    };
    Ok(application.run_until(shutdown).await?)
}
