//! Removes old stream records from the embedded engine, and returns the room that they took.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{backlog::MappingProgress, engine::Engine};

/// Interval between two removals of the stream records that both mappings have processed.
const TRIM_EVERY: Duration = Duration::from_millis(500);
/// Additional pause after a failure. After a kill, what was not trimmed is delivered again.
const ERROR_PAUSE: Duration = Duration::from_secs(5);

/// Removes the stream records that both mappings have processed; the engine would keep them for
/// ever. When both have caught up, it gives the room back to the file system.
pub(crate) async fn trim(engine: Arc<Engine>, table: String, mappings: MappingProgress) {
    let mut trimmed = None;
    // An earlier run may not have given its room back.
    let mut has_room = true;
    let mut trimmed_at = Instant::now();
    loop {
        tokio::time::sleep(TRIM_EVERY).await;
        if let Some(lowest) = mappings
            .last_processed()
            .filter(|lowest| trimmed.as_ref() != Some(lowest))
        {
            match engine.trim_stream(&table, &lowest).await {
                Ok(_) => {
                    trimmed = Some(lowest);
                    has_room = true;
                    trimmed_at = Instant::now();
                }
                Err(error) => {
                    if !mappings.disk_is_full() {
                        tracing::warn!(%error, "the stream is not trimmed");
                    }
                    tokio::time::sleep(ERROR_PAUSE).await;
                }
            }
        } else if has_room
            && mappings
                .states()
                .iter()
                .all(|state| state.caught_up_at.is_some_and(|at| at > trimmed_at))
        {
            match engine.release_free_pages().await {
                Ok(()) => has_room = false,
                Err(error) => tracing::warn!(%error, "the data file is not made shorter"),
            }
        }
    }
}

/// Removes the stream records that both mappings have processed, at an orderly stop. The next start
/// would deliver them again.
pub(crate) async fn trim_processed(engine: &Engine, table: &str, mappings: &MappingProgress) {
    if let Some(lowest) = mappings.last_processed()
        && let Err(error) = engine.trim_stream(table, &lowest).await
    {
        tracing::warn!(%error, "the stream is not trimmed");
    }
}
