//! Removes old stream records from the embedded engine.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::{engine::Engine, event_source_mapping::MappingState};

/// Interval between two removals of the stream records that both mappings have processed.
const TRIM_EVERY: Duration = Duration::from_millis(500);

/// Removes the stream records that both mappings have processed; the engine would keep them for ever.
pub(crate) async fn trim(engine: Arc<Engine>, table: String, mappings: [watch::Receiver<MappingState>; 2]) {
    let mut trimmed = None;
    loop {
        tokio::time::sleep(TRIM_EVERY).await;
        let processed: Option<Vec<String>> = mappings.iter().map(|state| state.borrow().processed.clone()).collect();
        // Sequence numbers have up to 40 digits; shorter ones are smaller.
        let lowest =
            processed.and_then(|numbers| numbers.into_iter().min_by_key(|number| (number.len(), number.clone())));
        let Some(lowest) = lowest.filter(|lowest| trimmed.as_ref() != Some(lowest)) else { continue };
        match engine.trim_stream(&table, &lowest).await {
            Ok(_) => trimmed = Some(lowest),
            Err(error) => tracing::warn!(%error, "the stream is not trimmed"),
        }
    }
}
