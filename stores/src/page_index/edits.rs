//! Writing to the page index.

use std::collections::BTreeSet;

use model::{BaseSet, ProductId, plan::IndexEdit};

use super::{IndexPartition, PageIndex, connection::Routed};
use crate::error::StoreError;

/// How many edits go out together: enough to hide the round trip, few enough to stay far below the time-out.
const TOGETHER_MAX: usize = 256;

impl PageIndex {
    /// Applies edits, each atomically, in any order: the edits of one comment must be one. Applying them again changes
    /// nothing.
    ///
    /// # Errors
    /// The store's; some of the edits may have been applied then.
    pub async fn apply(&self, edits: &[IndexEdit]) -> Result<(), StoreError> {
        for together in edits.chunks(TOGETHER_MAX) {
            self.ask_all::<()>(together.iter().map(|edit| self.command(edit))).await?;
        }
        Ok(())
    }

    fn command(&self, edit: &IndexEdit) -> Routed<'_> {
        let mut keys =
            vec![self.keys.products(self.keys.partition_of(&edit.product)), self.keys.languages(&edit.product)];
        keys.extend(edit.add.iter().chain(&edit.remove).map(|set| self.keys.base_set(set)));
        let language = edit.add.iter().find_map(|set| set.language.as_ref());
        let mut command = Routed::call(&self.scripts.edit, &keys);
        command
            .arg(edit.id.as_str())
            .arg(edit.created_at.map_or(0, |created_at| created_at.epoch_ms()))
            .arg(edit.add.len())
            .arg(edit.product.escaped())
            .arg(language.map_or("", |language| language.as_str()));
        for set in &edit.remove {
            command.arg(whole_of(set));
        }
        command
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
        let mut range = Routed::new("ZRANGE", &self.keys.base_set(set));
        range.arg(0).arg(-1).arg("WITHSCORES");
        self.ask(range).await
    }

    /// The products that a partition names, escaped as in filter keys: for whoever compares the index with the table.
    ///
    /// # Errors
    /// The store's.
    pub async fn products(&self, partition: IndexPartition) -> Result<BTreeSet<String>, StoreError> {
        self.ask(Routed::new("SMEMBERS", &self.keys.products(partition))).await
    }

    /// The languages of a product: for whoever compares the index with the table.
    ///
    /// # Errors
    /// The store's.
    pub async fn languages(&self, product: &ProductId) -> Result<BTreeSet<String>, StoreError> {
        self.ask(Routed::new("SMEMBERS", &self.keys.languages(product))).await
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
