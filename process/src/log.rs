//! The log of every binary, and the events that are left out of it.

use std::fmt::{Debug, Write};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::{LevelFilter, filter_fn},
    layer::Context,
};

/// The filter of the log: `PAGEMARK_LOG` in the syntax of `tracing-subscriber`; `default` without it.
///
/// # Errors
/// The problem with the variable.
pub fn log_filter(default: &str) -> Result<EnvFilter, String> {
    let chosen = std::env::var("PAGEMARK_LOG").unwrap_or_else(|_| default.to_owned());
    chosen.parse().map_err(|error| format!("PAGEMARK_LOG {chosen:?}: {error}"))
}

/// Rules that keep two kinds of events out of the log, even when [`log_filter`] accepts them:
///
/// - Events of third-party crates below `info`. The Lambda runtime and the SDK then write out whole events and
///   requests, and a log must never hold a comment's text.
/// - Their warnings and errors about a client's mistake, or about a failure that is expected (`is_client_mistake`).
pub fn log_rules<S: Subscriber>() -> impl Layer<S> {
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
    let without_payloads = filter_fn(|metadata| {
        let krate = metadata.target().split("::").next().unwrap_or_default();
        *metadata.level() <= LevelFilter::INFO || OURS.contains(&krate)
    });
    without_payloads.and_then(WithoutClientMistakes)
}

/// Leaves out the mistakes of clients, unless some target is logged at `debug`: then a person is looking for them.
struct WithoutClientMistakes;

impl<S: Subscriber> Layer<S> for WithoutClientMistakes {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        !is_client_mistake(event) || LevelFilter::current() >= LevelFilter::DEBUG
    }
}

/// Whether third-party code reports a client's mistake as a problem of the server:
///
/// - actix-http logs an error for every request that it cannot parse, that is too slow, or whose connection breaks
///   (`actix_http::error::DispatchError`).
/// - The local stack's engine logs a warning for every answer of status 400, including failed conditions. Leases and
///   watermarks rely on conditions that may fail.
fn is_client_mistake(event: &Event<'_>) -> bool {
    const CLIENTS: [&str; 5] = [
        "request parse error",
        "I/O error",
        "request did not complete",
        "connection shutdown timeout",
        "handler dropped payload",
    ];
    match event.metadata().target() {
        "actix_http::h1::dispatcher" => {
            let message = text_of(event, "message");
            message.strip_prefix("stream error: ").is_some_and(|error| CLIENTS.iter().any(|it| error.starts_with(it)))
        }
        "dynoxide::server" => text_of(event, "status").starts_with('4'),
        _ => false,
    }
}

/// A field of an event as text; empty without the field.
fn text_of(event: &Event<'_>, name: &'static str) -> String {
    struct Text {
        name: &'static str,
        found: String,
    }
    impl Visit for Text {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            if field.name() == self.name {
                // Writing to a text cannot fail.
                write!(self.found, "{value:?}").ok();
            }
        }
    }
    let mut text = Text { name, found: String::new() };
    event.record(&mut text);
    text.found
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Mutex, PoisonError},
        thread,
    };

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// The lines that events leave in a log which accepts everything from a level on. One log at a time: the rules ask
    /// for the lowest level of the whole process.
    fn logged(level: LevelFilter, events: impl FnOnce()) -> Vec<String> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let (log, writer) = io::pipe().unwrap();
        // A pipe holds little. Writing blocks while nobody reads.
        let reader = thread::spawn(|| io::read_to_string(log));
        let lines = tracing_subscriber::fmt().with_writer(Mutex::new(writer)).with_max_level(level);
        tracing::subscriber::with_default(lines.without_time().with_ansi(false).finish().with(log_rules()), events);
        let text = reader.join().unwrap().unwrap();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn only_what_is_a_client_s_mistake_is_left_out() {
        let lines = logged(LevelFilter::INFO, || {
            tracing::error!(target: "actix_http::h1::dispatcher", "stream error: {}", "request parse error: invalid Header");
            tracing::error!(target: "actix_http::h1::dispatcher", "stream error: {}", "internal error");
            tracing::error!(target: "actix_http::h1::dispatcher", "Response payload stream error: broken");
            tracing::warn!(target: "dynoxide::server", operation = "PutItem", status = %"400 Bad Request", "error response");
            tracing::warn!(target: "dynoxide::server", operation = "Scan", status = %"500 Internal Server Error", "error response");
            tracing::warn!(target: "elsewhere", status = %"400 Bad Request", "stream error: ours");
        });
        assert_eq!(
            lines,
            [
                "ERROR actix_http::h1::dispatcher: stream error: internal error",
                "ERROR actix_http::h1::dispatcher: Response payload stream error: broken",
                "WARN dynoxide::server: error response operation=\"Scan\" status=500 Internal Server Error",
                "WARN elsewhere: stream error: ours status=400 Bad Request",
            ]
        );
    }

    #[test]
    fn payloads_that_other_crates_write_out_are_left_out() {
        let lines = logged(LevelFilter::TRACE, || {
            tracing::debug!(target: "lambda_runtime::layers", "an event");
            tracing::trace!(target: "table::reader", "ours");
            tracing::info!(target: "lambda_runtime", "started");
        });
        assert_eq!(lines, ["TRACE table::reader: ours", "INFO lambda_runtime: started"]);
    }
}
