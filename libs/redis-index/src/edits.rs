//! Writes to the page index.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use model::{BaseSet, Filter, Language, ProductId, Timestamp, plan::IndexEdit};
use page_index::{Edits, IndexPartition};
use process::StoreError;
use redis::Cmd;

use crate::{
    RedisIndex, TOGETHER_MAX,
    connection::{Routed, is_moving},
    keys::Keys,
};

/// How many edits one transaction joins. It blocks the server for about 0.3 ms.
const TRANSACTION_EDITS_MAX: usize = 64;

const COMMANDS_OF_AN_EDIT: usize = 3;

/// Capacity for a score and a member, so that a command need not grow. Usually they have 13 digits
/// and 26 characters.
const SCORE_AND_MEMBER_BYTES: usize = 48;

#[async_trait]
impl Edits for RedisIndex {
    async fn apply(&self, edits: &[IndexEdit]) -> Result<(), StoreError> {
        for together in edits.chunks(TOGETHER_MAX) {
            match self.ask_all::<redis::Value>(self.joined(together)).await {
                Err(error) if is_moving(&error) => {
                    self.ask_all::<()>(together.iter().map(|edit| self.command(edit)))
                        .await?;
                }
                applied => applied.map(|_| ())?,
            }
        }
        Ok(())
    }

    async fn forget_if_empty(
        &self,
        product: &ProductId,
        language: Option<&Language>,
    ) -> Result<(), StoreError> {
        let keys = self.keys_of_edit(product, &[], &[], &[language]);
        let call = Routed::call(&self.scripts.edit, &keys)
            .arg("")
            .arg(0)
            .arg(0)
            .arg(0)
            .arg(product.escaped())
            .arg("");
        self.ask(call.arg(name(language))).await
    }

    async fn forget_stray(&self, partition: IndexPartition, name: &str) -> Result<(), StoreError> {
        self.ask(Routed::new("SREM", &self.keys.products(partition)).arg(name))
            .await
    }
}

impl RedisIndex {
    /// The fewest commands for these edits: transactions for edits that only add, script calls for
    /// edits that also remove.
    fn joined(&self, edits: &[IndexEdit]) -> Vec<Routed<'_>> {
        let mut by_partition: BTreeMap<IndexPartition, Vec<&IndexEdit>> = BTreeMap::new();
        let mut joined = Vec::new();
        for edit in edits {
            if edit.remove.is_empty() && edit.created_at.is_some() {
                by_partition
                    .entry(self.keys.partition_of(&edit.product))
                    .or_default()
                    .push(edit);
            } else {
                joined.push(self.command(edit));
            }
        }
        for (partition, mut edits) in by_partition {
            edits.sort_by(|a, b| a.product.cmp(&b.product));
            joined.extend(
                edits
                    .chunks(TRANSACTION_EDITS_MAX)
                    .map(|edits| self.transaction(partition, edits)),
            );
        }
        joined
    }

    /// Adds comments and the names of their products and languages. The edits are ordered by
    /// product.
    fn transaction(&self, partition: IndexPartition, edits: &[&IndexEdit]) -> Routed<'_> {
        let products = self.keys.products(partition);
        let mut names_products = redis::cmd("SADD");
        names_products.arg(&products);
        let mut commands = Vec::with_capacity(1 + edits.len() * COMMANDS_OF_AN_EDIT);
        for of_product in edits.chunk_by(|a, b| a.product == b.product) {
            let Some(product) = of_product.first().map(|edit| &edit.product) else {
                continue;
            };
            let escaped = product.escaped();
            let stem = self.keys.stem(partition, &escaped);
            names_products.arg(&escaped);
            commands.extend(commands_of_product(&stem, of_product));
        }
        commands.push(names_products);
        Routed::transaction(&products, commands)
    }

    fn command(&self, edit: &IndexEdit) -> Routed<'_> {
        let IndexEdit {
            product,
            id,
            created_at,
            add,
            remove,
        } = edit;
        let left: BTreeSet<Option<&Language>> =
            remove.iter().map(|set| set.language.as_ref()).collect();
        let has_member = |language| add.iter().any(|set| set.language.as_ref() == language);
        let left: Vec<Option<&Language>> = left
            .into_iter()
            .filter(|language| !has_member(*language))
            .collect();
        let language = add.iter().find_map(|set| set.language.as_ref());
        Routed::call(
            &self.scripts.edit,
            &self.keys_of_edit(product, add, remove, &left),
        )
        .arg(id.as_str())
        .arg(score_or_zero(*created_at))
        .arg(add.len())
        .arg(remove.len())
        .arg(product.escaped())
        .arg(language.map(Language::as_str).unwrap_or_default())
        .arg(left.into_iter().map(name).collect::<Vec<_>>())
    }

    /// The keys of the script of edits. `left` are the languages (`None` for any) whose five sets
    /// may all be empty then.
    fn keys_of_edit(
        &self,
        product: &ProductId,
        add: &[BaseSet],
        remove: &[BaseSet],
        left: &[Option<&Language>],
    ) -> Vec<String> {
        let partition = self.keys.partition_of(product);
        let stem = self.keys.stem(partition, &product.escaped());
        let mut keys = vec![self.keys.products(partition), Keys::languages_at(&stem)];
        keys.extend(
            add.iter()
                .chain(remove)
                .map(|set| Keys::base_set_at(&stem, set)),
        );
        let of_left = left
            .iter()
            .flat_map(|language| Filter::new(language.cloned(), None).base_sets(product));
        keys.extend(of_left.map(|set| Keys::base_set_at(&stem, &set)));
        keys
    }
}

/// The commands that add comments of one product and the names of their languages. One command adds
/// all members of a set.
fn commands_of_product(stem: &str, edits: &[&IndexEdit]) -> impl Iterator<Item = Cmd> {
    let mut sets: Vec<(&BaseSet, Cmd)> = Vec::with_capacity(COMMANDS_OF_AN_EDIT);
    let mut languages: Option<Cmd> = None;
    for edit in edits {
        let score = score_or_zero(edit.created_at);
        for set in &edit.add {
            if let Some((_, command)) = sets.iter_mut().find(|(present, _)| *present == set) {
                command.arg(score).arg(edit.id.as_str());
                continue;
            }
            let key = Keys::base_set_at(stem, set);
            let mut command =
                Cmd::with_capacity(4, "ZADD".len() + key.len() + SCORE_AND_MEMBER_BYTES);
            command
                .arg("ZADD")
                .arg(key)
                .arg(score)
                .arg(edit.id.as_str());
            sets.push((set, command));
            if let Some(language) = &set.language {
                let start = || redis::cmd("SADD").arg(Keys::languages_at(stem)).to_owned();
                languages.get_or_insert_with(start).arg(language.as_str());
            }
        }
    }
    sets.into_iter()
        .map(|(_, command)| command)
        .chain(languages)
}

/// What the script of edits calls the product (`None`), or one of its languages.
fn name(language: Option<&Language>) -> &str {
    match language {
        Some(language) => language.as_str(),
        None => model::ANY,
    }
}

/// The score of a comment; 0 for one that no set must contain.
fn score_or_zero(created_at: Option<Timestamp>) -> i64 {
    match created_at {
        Some(created_at) => created_at.epoch_ms(),
        None => 0,
    }
}
