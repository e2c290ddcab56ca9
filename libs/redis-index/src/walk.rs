//! Walks over all keys of the page index.

use process::{Store, StoreError};

use crate::{
    RedisIndex,
    connection::{Layout, Node},
};

const SCAN_COUNT: u32 = 1_000;

/// How often a walk restarts because slots moved meanwhile.
const WALKS_MAX: u32 = 3;

/// A walk over all keys on every master. A key may come more than once.
pub(super) struct Walk {
    layout: Layout,
    master: usize,
    cursor: u64,
    begun: u32,
}

impl RedisIndex {
    pub(super) async fn walk(&self) -> Result<Walk, StoreError> {
        Ok(Walk { layout: self.layout().await?, master: 0, cursor: 0, begun: 1 })
    }

    /// Some keys, perhaps none. `None` when the walk has returned every key that existed during the whole walk.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when slots keep moving; also the store's errors.
    pub(super) async fn next_keys(&self, walk: &mut Walk) -> Result<Option<Vec<String>>, StoreError> {
        let Some(master) = walk.layout.masters.get(walk.master) else {
            // The walk misses a key that moved from a master not yet visited to a visited one.
            let after = self.layout().await?;
            if after.serving() == walk.layout.serving() {
                return Ok(None);
            }
            if walk.begun == WALKS_MAX {
                return Err(moving());
            }
            *walk = Walk { layout: after, master: 0, cursor: 0, begun: walk.begun + 1 };
            return Ok(Some(Vec::new()));
        };
        let (next, keys) = self.scan_keys(master, walk.cursor, SCAN_COUNT).await?;
        walk.cursor = next;
        if next == 0 {
            walk.master += 1;
        }
        Ok(Some(keys))
    }

    /// Some keys of the index on one server, and the cursor that follows; 0 at the end.
    pub(super) async fn scan_keys(
        &self,
        server: &Node,
        cursor: u64,
        count: u32,
    ) -> Result<(u64, Vec<String>), StoreError> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(self.keys.pattern()).arg("COUNT").arg(count);
        self.bounded(server.query(&scan)).await
    }

    /// Which server holds which keys.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] while slots are moving; also the store's errors.
    pub(super) async fn layout(&self) -> Result<Layout, StoreError> {
        let layout = self.bounded(self.connection.layout()).await?;
        if layout.is_at_rest { Ok(layout) } else { Err(moving()) }
    }
}

fn moving() -> StoreError {
    StoreError::unavailable(Store::PageIndex, "slots of the cluster are being moved; try again when that is done")
}
