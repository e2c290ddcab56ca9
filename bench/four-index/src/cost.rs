//! The cost of calls as the engine reports it (`ReturnConsumedCapacity`), and the cost of writes by
//! DynamoDB's rules.
//!
//! The rules come from AWS's "DynamoDB read and write operations" and "Using Global Secondary
//! Indexes". A test (`the_engine_counts_the_units_of_the_cost_model`) compares them with the
//! embedded engine. AWS does not document whether an index's share of a transaction counts twice.
//! Here it counts once, as in that engine.

use aws_sdk_dynamodb::types::ConsumedCapacity;
use model::{Comment, size};
use serde_dynamo::Item;

use crate::{
    counters::{KeepCounters, counter_changes},
    item::{comment_item, projection},
    key::Index,
};

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReadCost {
    pub requests: u32,
    pub items_read: u32,
    pub items_discarded: u32,
    pub read_units: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WriteCost {
    pub table_units: f64,
    pub index_units: f64,
}

impl WriteCost {
    pub fn total(self) -> f64 {
        self.table_units + self.index_units
    }

    pub(crate) fn reported<'answer>(
        answers: impl IntoIterator<Item = &'answer ConsumedCapacity>,
    ) -> Self {
        let mut cost = Self::default();
        for consumed in answers {
            let indexes = consumed
                .global_secondary_indexes()
                .into_iter()
                .flat_map(|indexes| indexes.values());
            let of_indexes: f64 = indexes.filter_map(|index| index.capacity_units()).sum();
            cost.index_units += of_indexes;
            cost.table_units += consumed.capacity_units().unwrap_or(0.0) - of_indexes;
        }
        cost
    }
}

/// The cost of a change of a comment by the rules; `None` stands for an absent comment.
pub fn write_cost_by_rules(
    old: Option<&Comment>,
    new: Option<&Comment>,
    counters: KeepCounters,
) -> WriteCost {
    let old_item = old.map(comment_item);
    let new_item = new.map(comment_item);
    let counted = match counters {
        KeepCounters::InTransaction | KeepCounters::ByStream => counter_changes(old, new).len(),
        KeepCounters::No => 0,
    };
    let comment = units(old_item.as_ref()).max(units(new_item.as_ref()));
    // Each statistics item is far smaller than a unit. Here a batch of the stream has one record.
    let in_table = match counters {
        KeepCounters::InTransaction if counted > 0 => 2 * (comment + counted),
        KeepCounters::InTransaction | KeepCounters::ByStream | KeepCounters::No => {
            comment + 2 * counted
        }
    };
    let mut in_indexes = 0;
    for index in Index::EVERY {
        in_indexes += index_units(*index, old_item.as_ref(), new_item.as_ref());
    }
    WriteCost {
        table_units: as_float(in_table),
        index_units: as_float(in_indexes),
    }
}

/// The units that a change of an item takes in one index.
fn index_units(index: Index, old: Option<&Item>, new: Option<&Item>) -> usize {
    let before = old.map(|item| projection(item, index));
    let after = new.map(|item| projection(item, index));
    let key = index.partition_attribute();
    match (&before, &after) {
        (Some(before), Some(after)) if before == after => 0,
        // An entry that keeps its key costs the units of the larger version.
        (Some(before), Some(after)) if before.get(key) == after.get(key) => {
            units(Some(before)).max(units(Some(after)))
        }
        // An entry that moves is deleted under one key and put under another.
        _ => units(before.as_ref()) + units(after.as_ref()),
    }
}

fn units(item: Option<&Item>) -> usize {
    match item {
        Some(item) => size::write_units(size::item_bytes(item)),
        None => 0,
    }
}

fn as_float(units: usize) -> f64 {
    match u32::try_from(units) {
        Ok(units) => f64::from(units),
        Err(_) => f64::INFINITY,
    }
}
