//! The log of every binary, and the events that it omits.

use tracing::Metadata;
use tracing_subscriber::{
    Layer, Registry,
    filter::{FilterExt, LevelFilter, Targets, filter_fn},
    layer::{Filter, SubscriberExt},
    util::SubscriberInitExt,
};

/// Starts the log of the process: `lines` says in which form it is written. `PAGEMARK_LOG` filters
/// it by targets ([`Targets`]), such as `warn,table=debug`; `default` without it. It leaves out
/// events of third-party crates below `info`, even when the setting accepts them. The Lambda
/// runtime and the SDK then write out whole events and requests, and a log must never hold a
/// comment's text.
///
/// # Errors
/// `PAGEMARK_LOG` is not a list of targets, or the process has a log already.
pub fn start_log(default: &str, lines: impl Layer<Registry> + Send + Sync) -> Result<(), String> {
    let chosen = std::env::var("PAGEMARK_LOG").unwrap_or_else(|_| default.to_owned());
    let targets: Targets = chosen
        .parse()
        .map_err(|error| format!("PAGEMARK_LOG {chosen:?}: {error}"))?;
    let lines = lines.with_filter(without_payloads(targets));
    tracing_subscriber::registry()
        .with(lines)
        .try_init()
        .map_err(|error| error.to_string())
}

/// Says after each failed call that a connection of a client without a network cannot be closed. On
/// a full disk, that was twenty lines a second.
const ABOUT_CONNECTIONS: &str = "aws_smithy_runtime::client::http::connection_poisoning";

fn without_payloads<S>(targets: Targets) -> impl Filter<S> {
    targets.and(filter_fn(|metadata| {
        let is_payload = *metadata.level() > LevelFilter::INFO && !is_ours(metadata);
        !is_payload && metadata.target() != ABOUT_CONNECTIONS
    }))
}

fn is_ours(metadata: &Metadata<'_>) -> bool {
    const OURS: [&str; 13] = [
        "api",
        "embedded_index",
        "functions",
        "local_stack",
        "model",
        "page_index",
        "page_indexer",
        "pagemark",
        "process",
        "redis_index",
        "repair_job",
        "stream_writer",
        "table",
    ];
    OURS.contains(&metadata.target().split("::").next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Mutex, thread};

    use super::*;

    fn logged(level: LevelFilter, events: impl FnOnce()) -> Vec<String> {
        let (log, writer) = io::pipe().unwrap();
        // A pipe holds little. Writing blocks while the reader stands still.
        let reader = thread::spawn(|| io::read_to_string(log));
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(Mutex::new(writer))
            .without_time()
            .with_ansi(false);
        let log = lines.with_filter(without_payloads(Targets::new().with_default(level)));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(log), events);
        let text = reader.join().unwrap().unwrap();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn payloads_that_other_crates_write_out_are_left_out() {
        let lines = logged(LevelFilter::TRACE, || {
            tracing::debug!(target: "lambda_runtime::layers", "an event");
            tracing::trace!(target: "table::reader", "ours");
            tracing::info!(target: "lambda_runtime", "started");
            tracing::error!(target: ABOUT_CONNECTIONS, "no connection was found");
        });
        assert_eq!(
            lines,
            ["TRACE table::reader: ours", "INFO lambda_runtime: started"]
        );
    }
}
