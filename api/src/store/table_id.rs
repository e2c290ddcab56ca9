//! The id of the table, which markers of the page index must carry.

use std::{sync::Arc, time::Duration};

use parking_lot::RwLock;
use table::Table;
use tokio::{sync::Mutex, time::Instant};

/// Age at which the id is requested again. A table that was restored or re-created under its name has another id.
const MAX_AGE: Duration = Duration::from_secs(60);
/// Pause after a failure, during which no request asks for the id. Otherwise requests would queue up and fail one after
/// another.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Caches the id. The first use requests it, so the service can start while DynamoDB is down.
#[derive(Debug)]
pub(crate) struct TableId {
    table: Table,
    known: RwLock<Known>,
    asking: Arc<Mutex<()>>,
}

#[derive(Debug, Clone, Default)]
struct Known {
    id: Option<String>,
    asked: Option<Instant>,
}

impl TableId {
    pub(crate) fn of(table: Table) -> Arc<Self> {
        Arc::new(Self { table, known: RwLock::default(), asking: Arc::default() })
    }

    /// The id; `None` while it is unknown. An old id is refreshed in the background.
    pub(crate) async fn get(self: &Arc<Self>) -> Option<String> {
        let known = self.known.read().clone();
        if known.id.is_some() {
            if known.is_older_than(MAX_AGE)
                && let Ok(guard) = Arc::clone(&self.asking).try_lock_owned()
            {
                let this = Arc::clone(self);
                tokio::spawn(async move {
                    this.ask().await;
                    drop(guard);
                });
            }
            return known.id;
        }
        if known.is_older_than(RETRY_AFTER) {
            let _guard = self.asking.lock().await;
            // Another task may have asked meanwhile.
            if self.known.read().is_older_than(RETRY_AFTER) {
                self.ask().await;
            }
        }
        self.known.read().id.clone()
    }

    async fn ask(&self) {
        let described = self.table.describe().await;
        let mut known = self.known.write();
        known.asked = Some(Instant::now());
        match described {
            Ok(description) => known.id = Some(description.id),
            // A known id stays, because page numbers must not depend on this call.
            Err(error) => tracing::warn!(%error, "the table's id is unknown"),
        }
    }
}

impl Known {
    fn is_older_than(&self, age: Duration) -> bool {
        self.asked.is_none_or(|asked| asked.elapsed() > age)
    }
}
