//! The log of every binary, and the events that are left out of it.

use std::fmt::Debug;

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer, Registry,
    filter::{FilterExt, LevelFilter, Targets, filter_fn},
    fmt::{self, FmtContext, FormatEvent, FormatFields, MakeWriter, format::Writer},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

/// Starts the log of the process: `lines` says in which form it is written. `PAGEMARK_LOG` filters it by
/// targets ([`Targets`]), such as `warn,table=debug`; `default` without it. It leaves two kinds of events out, even when
/// the setting accepts them:
///
/// - Events of third-party crates below `info`. The Lambda runtime and the SDK then write out whole events and
///   requests, and a log must never hold a comment's text.
/// - Their warnings and errors about a client's mistake (`is_client_mistake`). If some target is logged at `debug`, a person
///   is looking for them, and they are logged.
///
/// # Errors
/// `PAGEMARK_LOG` is no list of targets, or the process has a log already.
pub fn start_log<N, F, W>(default: &str, lines: fmt::Layer<Registry, N, F, W>) -> Result<(), String>
where
    N: for<'line> FormatFields<'line> + Send + Sync + 'static,
    F: FormatEvent<Registry, N> + Send + Sync + 'static,
    W: for<'line> MakeWriter<'line> + Send + Sync + 'static,
{
    let chosen = std::env::var("PAGEMARK_LOG").unwrap_or_else(|_| default.to_owned());
    let filter: Targets = chosen.parse().map_err(|error| format!("PAGEMARK_LOG {chosen:?}: {error}"))?;
    tracing_subscriber::registry().with(layer(filter, lines)).try_init().map_err(|error| error.to_string())
}

fn layer<S, N, F, W>(filter: Targets, lines: fmt::Layer<S, N, F, W>) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'line> FormatFields<'line> + 'static,
    F: FormatEvent<S, N> + 'static,
    W: for<'line> MakeWriter<'line> + 'static,
{
    let mut levels = filter.iter().map(|(_, level)| level).chain(filter.default_level());
    let are_wanted = levels.any(|level| level >= LevelFilter::DEBUG);
    let lines = lines.map_event_format(|format| WithoutClientMistakes { format, are_wanted });
    lines.with_filter(filter.and(filter_fn(|metadata| !may_be_payload(metadata))))
}

/// Writes no line for a client's mistake. A filter of the layer cannot look into events: tracing-subscriber 0.3 then keeps
/// a state of the event that it asserts not to have at the next one.
struct WithoutClientMistakes<F> {
    format: F,
    are_wanted: bool,
}

impl<S, N, F> FormatEvent<S, N> for WithoutClientMistakes<F>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'line> FormatFields<'line> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, writer: Writer<'_>, event: &Event<'_>) -> std::fmt::Result {
        match is_client_mistake(event) && !self.are_wanted {
            true => Ok(()),
            false => self.format.format_event(context, writer, event),
        }
    }
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

fn may_be_payload(metadata: &Metadata<'_>) -> bool {
    *metadata.level() > LevelFilter::INFO && !is_ours(metadata)
}

/// Whether third-party code reports a client's mistake as a problem of the server. actix-http logs such an error if it
/// cannot parse a request, if a request is too slow, or if its connection breaks (`actix_http::error::DispatchError`).
fn is_client_mistake(event: &Event<'_>) -> bool {
    const CLIENTS: [&str; 5] = [
        "request parse error",
        "I/O error",
        "request did not complete",
        "connection shutdown timeout",
        "handler dropped payload",
    ];
    let message = message(event);
    let error = message.strip_prefix("stream error: ");
    event.metadata().target() == "actix_http::h1::dispatcher"
        && error.is_some_and(|error| CLIENTS.iter().any(|mistake| error.starts_with(mistake)))
}

fn message(event: &Event<'_>) -> String {
    struct Message(String);
    impl Visit for Message {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            if field.name() == "message" {
                self.0 = format!("{value:?}");
            }
        }
    }
    let mut message = Message(String::new());
    event.record(&mut message);
    message.0
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Mutex, thread};

    use super::*;

    fn logged(level: LevelFilter, events: impl FnOnce()) -> Vec<String> {
        let (log, writer) = io::pipe().unwrap();
        // A pipe holds little. Writing blocks while nobody reads.
        let reader = thread::spawn(|| io::read_to_string(log));
        let lines = tracing_subscriber::fmt::layer().with_writer(Mutex::new(writer)).without_time().with_ansi(false);
        let log = layer(Targets::new().with_default(level), lines);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(log), events);
        let text = reader.join().unwrap().unwrap();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn only_what_is_a_client_s_mistake_is_left_out() {
        let lines = logged(LevelFilter::INFO, || {
            tracing::error!(target: "actix_http::h1::dispatcher", "stream error: {}", "request parse error: invalid Header");
            tracing::error!(target: "actix_http::h1::dispatcher", "stream error: {}", "internal error");
            tracing::error!(target: "actix_http::h1::dispatcher", "Response payload stream error: broken");
            tracing::warn!(target: "elsewhere", status = %"400 Bad Request", "stream error: ours");
        });
        assert_eq!(
            lines,
            [
                "ERROR actix_http::h1::dispatcher: stream error: internal error",
                "ERROR actix_http::h1::dispatcher: Response payload stream error: broken",
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
