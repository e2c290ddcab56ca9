//! Upper bounds of the units that calls consume, from the sizes of items. No I/O.
//!
//! The plan and the budget use the same bounds. So a run in which no call is repeated consumes at most what was planned.

use anyhow::Context;
use four_index::{Index, SORT_KEY, comment_item};
use itertools::Itertools;
use model::{Comment, journal::JournalEntry, size};
use serde_dynamo::Item;
use table::definition;

use crate::{
    money::consistent_read_units,
    statistics::as_f64,
    workload::{items, primary_item},
};

/// The bounds of one table.
#[derive(Debug)]
pub(super) struct Bounds {
    /// The key attributes of each index. An index holds the items that have all of them.
    index_keys: Vec<Vec<String>>,
    item_bytes_max: usize,
}

impl Bounds {
    /// The bounds of Pagemark's table with these comments.
    pub(super) fn of_pagemark(comments: &[Comment]) -> anyhow::Result<Self> {
        let indexes = [definition::gsi()?, definition::primaries()?, definition::authors()?, definition::moderation()?];
        let keys = |keys: &[aws_sdk_dynamodb::types::KeySchemaElement]| {
            keys.iter().map(|key| key.attribute_name.clone()).collect_vec()
        };
        let index_keys = indexes.iter().map(|index| keys(index.key_schema())).collect();
        let items: Vec<Vec<Item>> = comments.iter().map(items).try_collect()?;
        Ok(Self { index_keys, item_bytes_max: largest(items.iter().flatten())? })
    }

    /// The bounds of the four-index design's table with these comments.
    pub(super) fn of_four_indexes(comments: &[Comment]) -> anyhow::Result<Self> {
        let keys = |index: &Index| vec![index.partition_attribute().to_owned(), SORT_KEY.to_owned()];
        let items = comments.iter().map(comment_item).collect_vec();
        Ok(Self { index_keys: Index::EVERY.iter().map(keys).collect(), item_bytes_max: largest(&items)? })
    }

    /// Write units of a put of a new item, in the table and in its indexes.
    pub(super) fn put(&self, item: &Item) -> f64 {
        let is_in = |keys: &&Vec<String>| keys.iter().all(|key| item.contains_key(key));
        let places = 1 + self.index_keys.iter().filter(is_in).count();
        as_f64((places * size::write_units(size::item_bytes(item))) as u64)
    }

    /// Write units of a put in a transaction. AWS does not document whether the share of an index counts twice too. As a
    /// bound it does.
    pub(super) fn put_in_transaction(&self, item: &Item) -> f64 {
        2.0 * self.put(item)
    }

    /// Read units of an eventually consistent query of at most `limit` items.
    pub(super) fn query(&self, limit: usize) -> f64 {
        consistent_read_units(as_f64((limit * self.item_bytes_max) as u64)).max(1.0) / 2.0
    }

    /// Write units of a comment in Pagemark's table: its transaction with the journal entry, and its duplicates.
    pub(super) fn pagemark_insert(&self, comment: &Comment) -> anyhow::Result<f64> {
        let Comment { id, revision, .. } = comment.clone();
        let entry = JournalEntry { id, revision, before: None, after: Some(comment.placement()) };
        let journal: Item = serde_dynamo::to_item(entry.to_item())?;
        let duplicates: f64 = items(comment)?.iter().skip(1).map(|item| self.put(item)).sum();
        Ok(self.put_in_transaction(&primary_item(comment)?) + self.put_in_transaction(&journal) + duplicates)
    }

    /// Write units of a comment in the four-index design's table, without counters.
    pub(super) fn four_indexes_insert(&self, comment: &Comment) -> f64 {
        self.put(&comment_item(comment))
    }
}

fn largest<'item>(items: impl IntoIterator<Item = &'item Item>) -> anyhow::Result<usize> {
    items.into_iter().map(size::item_bytes).max().context("there are no comments")
}
