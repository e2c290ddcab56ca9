//! The lease that keeps two runs of a command apart.

use std::{convert::Infallible, time::Duration};

use model::Timestamp;
use process::{Stop, StopReason, StoreError, new_ulid, now};
use table::{Lease, Table};
use tokio::time::Instant;

use crate::run::settings::ms;

/// Does some work while it holds the lease of a scope. Returns the other holder if there is one;
/// nothing is done then.
///
/// When the lease is lost, `stop` ends the work early.
pub(crate) async fn hold_lease(
    table: &Table,
    scope: &str,
    lasting: Duration,
    since: Timestamp,
    stop: &Stop,
    work: impl Future<Output = Result<(), StoreError>>,
) -> Result<Option<Lease>, StoreError> {
    let lasts = Instant::now() + lasting;
    let until_ms = since.epoch_ms() + ms(lasting);
    let lease = Lease {
        holder: new_ulid(),
        who: who(),
        since,
        until_ms,
    };
    if let Some(holder) = table.take_lease(scope, &lease, since).await? {
        return Ok(Some(holder));
    }
    let done = tokio::select! {
        biased;
        done = work => done,
        never = renew(table, scope, &lease.holder, lasting, lasts, stop) => match never {},
    };
    let released = table.release_lease(scope, &lease.holder).await;
    done.and(released).map(|()| None)
}

/// Renews a lease that lasts until `lasts`, for as long as possible.
async fn renew(
    table: &Table,
    scope: &str,
    holder: &str,
    lasting: Duration,
    mut lasts: Instant,
    stop: &Stop,
) -> Infallible {
    loop {
        let asked_at = lasts.min(Instant::now() + lasting / 3);
        tokio::time::sleep_until(asked_at).await;
        let renewed = table.renew_lease(scope, holder, now().epoch_ms() + ms(lasting));
        match tokio::time::timeout_at(lasts, renewed).await {
            Ok(Ok(true)) => {
                lasts = asked_at + lasting;
                continue;
            }
            Ok(Ok(false)) => {}
            // The next try may still succeed in time.
            Ok(Err(error)) if Instant::now() < lasts => {
                tracing::warn!(scope, %error, "the lease was not renewed");
                continue;
            }
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(scope, "the lease could not be renewed until its end")
            }
        }
        tracing::warn!(scope, "the lease is lost");
        stop.ask_because(StopReason::LeaseLost);
        return std::future::pending().await;
    }
}

pub(crate) fn describe(lease: &Lease) -> String {
    format!("{}, since {}", lease.who, lease.since)
}

fn who() -> String {
    let host = std::env::var("AWS_LAMBDA_LOG_STREAM_NAME")
        .or_else(|_| std::env::var("HOSTNAME"))
        .or_else(|_| std::fs::read_to_string("/etc/hostname").map(|name| name.trim().to_owned()))
        .unwrap_or_else(|_| "an unnamed host".to_owned());
    format!("process {} on {host}", std::process::id())
}
