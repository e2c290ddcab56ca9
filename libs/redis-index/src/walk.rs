//! Walks over all keys of the page index.

use std::collections::{BTreeMap, BTreeSet};

use page_index::{IndexPartition, Rebuild};
use process::{Store, StoreError};

use crate::{
    RedisIndex,
    connection::{Layout, Node, Routed},
    keys::{Keys, part_of_product},
};

const SCAN_COUNT: u32 = 1_000;

/// How often a walk starts, when slots move meanwhile.
const WALKS_MAX: u32 = 3;

impl RedisIndex {
    /// Removes all keys, or those of a rebuild's partitions. Tokens of rebuilds stay. Fails when
    /// slots keep moving.
    pub(super) async fn remove_keys(&self, rebuild: Option<&Rebuild>) -> Result<(), StoreError> {
        for _ in 0..WALKS_MAX {
            let layout = self.layout().await?;
            for master in &layout.masters {
                let mut cursor = 0;
                loop {
                    let (next, keys) = self.scan_keys(master, cursor, SCAN_COUNT).await?;
                    self.remove(keys, rebuild).await?;
                    if next == 0 {
                        break;
                    }
                    cursor = next;
                }
            }
            // The walk misses a key that moved from a master not yet visited to a visited one.
            if self.layout().await?.serving == layout.serving {
                return Ok(());
            }
        }
        Err(moving())
    }

    pub(super) async fn remove(
        &self,
        keys: Vec<String>,
        rebuild: Option<&Rebuild>,
    ) -> Result<(), StoreError> {
        let mut anyway = Vec::new();
        let mut by_partition: BTreeMap<IndexPartition, BTreeSet<String>> = BTreeMap::new();
        for key in keys.into_iter().filter(|key| !Keys::is_rebuild_token(key)) {
            match (rebuild, self.keys.split(&key)) {
                (Some(rebuild), Some((partition, name)))
                    if rebuild.partitions.contains(&partition) =>
                {
                    let together = by_partition.entry(partition).or_default();
                    // An edit may put the product's first comment into the index meanwhile. Its
                    // totals and lists go together with any of its keys, so that they never imply a
                    // removed key, and no list keeps a block.
                    if let Some((product, _)) = part_of_product(name) {
                        together.insert(self.keys.totals(&product));
                        for part in ["open", "groups", "counts"] {
                            together.insert(self.keys.of_product(&product, part));
                        }
                    }
                    together.insert(key);
                }
                (Some(_), Some(_)) => {}
                // A rebuild never fills partitions that do not exist, for example after their
                // number changed. UNLINK frees the memory in the background; DEL of a large set
                // would block the server.
                (None, _) | (_, None) => anyway.push(Routed::new("UNLINK", &key)),
            }
        }
        self.ask_all::<()>(anyway).await?;
        let token = match rebuild {
            Some(rebuild) => rebuild.token.as_str(),
            None => "",
        };
        let mut calls = Vec::with_capacity(by_partition.len());
        for (partition, together) in by_partition {
            let mut keys = vec![self.keys.rebuild_token(partition)];
            keys.extend(together);
            calls.push(Routed::call(&self.scripts.empty, &keys).arg(token));
        }
        self.ask_all::<()>(calls).await?;
        Ok(())
    }

    /// Some keys of the index on one server, and the cursor that follows; 0 at the end.
    pub(super) async fn scan_keys(
        &self,
        server: &Node,
        cursor: u64,
        count: u32,
    ) -> Result<(u64, Vec<String>), StoreError> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor)
            .arg("MATCH")
            .arg(self.keys.pattern())
            .arg("COUNT")
            .arg(count);
        self.bounded(server.query(&scan)).await
    }

    /// The layout, unless slots are moving.
    pub(super) async fn layout(&self) -> Result<Layout, StoreError> {
        let layout = self.bounded(self.connection.layout()).await?;
        if layout.is_moving {
            Err(moving())
        } else {
            Ok(layout)
        }
    }
}

fn moving() -> StoreError {
    StoreError::unavailable(
        Store::PageIndex,
        "slots of the cluster are being moved; try again when that is done",
    )
}
