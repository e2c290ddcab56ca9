//! Writing to the page index.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::{BaseSet, ProductId, plan::IndexEdit};
use redis::Cmd;

use super::{
    IndexPartition, PageIndex,
    connection::{Routed, is_moving},
    keys::Keys,
};
use crate::error::StoreError;

/// How many edits go out together: enough to hide the round trip, few enough to stay far below the time-out.
const TOGETHER_MAX: usize = 256;

/// How many edits one transaction joins: it keeps the server from everything else for some 0.3 ms.
const TRANSACTION_EDITS_MAX: usize = 64;

impl PageIndex {
    /// Applies edits, each atomically, in any order: the edits of one comment must be one. Applying them again changes
    /// nothing.
    ///
    /// Most edits only put comments in. Those of a partition are joined into transactions of plain commands, which cost
    /// the server little more than half of what calls of the script do; the members of a set go into it together.
    ///
    /// # Errors
    /// The store's; some of the edits may have been applied then.
    pub async fn apply(&self, edits: &[IndexEdit]) -> Result<(), StoreError> {
        for together in edits.chunks(TOGETHER_MAX) {
            match self.ask_all::<redis::Value>(self.joined(together)).await {
                Err(error) if is_moving(&error) => {
                    self.ask_all::<()>(together.iter().map(|edit| self.command(edit))).await?;
                }
                applied => applied.map(|_| ())?,
            }
        }
        Ok(())
    }

    /// As few commands as do it: transactions for what only puts in, script calls for what takes out as well.
    fn joined(&self, edits: &[IndexEdit]) -> Vec<Routed<'_>> {
        let mut by_partition: BTreeMap<IndexPartition, Vec<&IndexEdit>> = BTreeMap::new();
        let mut joined = Vec::new();
        for edit in edits {
            if edit.remove.is_empty() && edit.created_at.is_some() {
                by_partition.entry(self.keys.partition_of(&edit.product)).or_default().push(edit);
            } else {
                joined.push(self.command(edit));
            }
        }
        for (partition, edits) in by_partition {
            joined.extend(edits.chunks(TRANSACTION_EDITS_MAX).map(|edits| self.transaction(partition, edits)));
        }
        joined
    }

    /// Puts comments in, and names their products and languages.
    fn transaction(&self, partition: IndexPartition, edits: &[&IndexEdit]) -> Routed<'_> {
        let mut commands: HashMap<String, Cmd> = HashMap::new();
        let add = |commands: &mut HashMap<String, Cmd>, name: &str, key: String, argument: &str| {
            let start = |key: &String| redis::cmd(name).arg(key).to_owned();
            let command = commands.entry(key).or_insert_with_key(start);
            command.arg(argument);
        };
        let products = self.keys.products(partition);
        for edit in edits {
            let score = edit.created_at.map_or(0, |created_at| created_at.epoch_ms());
            let stem = self.keys.stem(partition, &edit.product);
            for set in &edit.add {
                let key = Keys::base_set_at(&stem, set);
                if let Some(command) = commands.get_mut(&key) {
                    command.arg(score).arg(edit.id.as_str());
                    continue;
                }
                // The first of this set: whatever it is the whole of is named once.
                match whole_of(set) {
                    "" => {}
                    model::ANY => add(&mut commands, "SADD", products.clone(), &edit.product.escaped()),
                    language => add(&mut commands, "SADD", Keys::languages_at(&stem), language),
                }
                let mut command = redis::cmd("ZADD");
                command.arg(&key).arg(score).arg(edit.id.as_str());
                commands.insert(key, command);
            }
        }
        Routed::transaction(&products, commands.into_values())
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
