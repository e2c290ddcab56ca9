//! The HTTP service as a process of its own.

use std::process::ExitCode;

use api::{Application, Settings};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> ExitCode {
    let settings = Settings::parse();
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
    let filter = stores::config::log_filter("info").map_err(anyhow::Error::msg)?;
    tracing_subscriber::fmt().json().with_env_filter(filter).init();
    let mut terminate = signal(SignalKind::terminate())?;
    let application = Application::build(settings).await?;
    tracing::info!(address = %application.address(), "listening");
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
