//! Writing to the page index.

use std::collections::BTreeSet;

use model::{BaseSet, ProductId, plan::IndexEdit};
use redis::{ErrorKind, ServerErrorKind};

use super::{IndexPartition, PageIndex, keys::Keys};
use crate::error::StoreError;

/// How many edits go into one pipeline: enough to hide the round trip, few enough to stay far below the time-out.
const PIPELINE_MAX: usize = 256;

/// How many keys one step of clearing a partition looks at.
const SCAN_COUNT: u32 = 1_000;

impl PageIndex {
    /// Applies edits, each atomically, in their order, pipelined. Applying one again changes nothing.
    ///
    /// # Errors
    /// The store's; some of the edits may have been applied then.
    pub async fn apply(&self, edits: &[IndexEdit]) -> Result<(), StoreError> {
        for chunk in edits.chunks(PIPELINE_MAX) {
            match self.apply_pipeline(chunk).await {
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    self.scripts.edit.load_async(&mut self.connection()).await?;
                    self.apply_pipeline(chunk).await?;
                }
                applied => applied?,
            }
        }
        Ok(())
    }

    async fn apply_pipeline(&self, edits: &[IndexEdit]) -> redis::RedisResult<()> {
        let mut pipeline = redis::pipe();
        for edit in edits {
            self.add_edit(&mut pipeline, edit);
        }
        tokio::time::timeout(self.timeout * 2, pipeline.query_async(&mut self.connection()))
            .await
            .map_err(|_| std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time"))?
    }

    fn add_edit(&self, pipeline: &mut redis::Pipeline, edit: &IndexEdit) {
        let command =
            pipeline.cmd("EVALSHA").arg(self.scripts.edit.get_hash()).arg(2 + edit.add.len() + edit.remove.len());
        command.arg(self.keys.products(self.keys.partition_of(&edit.product))).arg(self.keys.languages(&edit.product));
        for set in edit.add.iter().chain(&edit.remove) {
            command.arg(self.keys.base_set(set));
        }
        let language = edit.add.iter().find_map(|set| set.language.as_ref());
        command
            .arg(edit.id.as_str())
            .arg(edit.created_at.map_or(0, |created_at| created_at.epoch_ms()))
            .arg(edit.add.len())
            .arg(edit.product.escaped())
            .arg(language.map_or("", |language| language.as_str()));
        for set in &edit.remove {
            command.arg(whole_of(set));
        }
        command.ignore();
    }

    /// Removes everything, the markers included; only the tokens of rebuilds stay.
    ///
    /// # Errors
    /// The store's.
    pub async fn clear(&self) -> Result<(), StoreError> {
        let mut cursor = 0_u64;
        loop {
            let (next, mut keys) = self.scan_step(cursor).await?;
            keys.retain(|key| !Keys::is_rebuild_token(key));
            if !keys.is_empty() {
                // UNLINK frees the memory in the background; DEL of a large set would block the server.
                let mut unlink = redis::cmd("UNLINK");
                unlink.arg(keys);
                self.bounded(unlink.query_async::<()>(&mut self.connection())).await?;
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Every key of the index, ascending: for whoever compares the index with the table.
    ///
    /// # Errors
    /// The store's.
    pub async fn key_names(&self) -> Result<BTreeSet<String>, StoreError> {
        let mut names = BTreeSet::new();
        let mut cursor = 0_u64;
        loop {
            let (next, keys) = self.scan_step(cursor).await?;
            names.extend(keys);
            cursor = next;
            if cursor == 0 {
                return Ok(names);
            }
        }
    }

    pub(super) async fn scan_step(&self, cursor: u64) -> Result<(u64, Vec<String>), StoreError> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(self.keys.pattern()).arg("COUNT").arg(SCAN_COUNT);
        self.bounded(scan.query_async(&mut self.connection())).await
    }

    /// The partition of a product.
    pub fn partition_of(&self, product: &ProductId) -> IndexPartition {
        self.keys.partition_of(product)
    }

    /// The members and scores of a base set, oldest first: for whoever compares the index with the table.
    ///
    /// # Errors
    /// The store's.
    pub async fn members(&self, set: &BaseSet) -> Result<Vec<(String, f64)>, StoreError> {
        let mut range = redis::cmd("ZRANGE");
        range.arg(self.keys.base_set(set)).arg(0).arg(-1).arg("WITHSCORES");
        self.bounded(range.query_async(&mut self.connection())).await
    }

    /// The key of a base set.
    pub fn key_name(&self, set: &BaseSet) -> String {
        self.keys.base_set(set)
    }
}

/// What an empty set of this kind means: the product, or a language of it, has no comments.
fn whole_of(set: &BaseSet) -> &str {
    match (&set.rating, &set.language) {
        (Some(_), _) => "",
        (None, None) => model::ANY,
        (None, Some(language)) => language.as_str(),
    }
}
