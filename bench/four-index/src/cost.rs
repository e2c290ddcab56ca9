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
    let (old_item, new_item) = (old.map(comment_item), new.map(comment_item));
    let counted = match counters {
        KeepCounters::Yes => counter_changes(old, new).len(),
        KeepCounters::No => 0,
    };
    // Each statistics item is far smaller than a unit.
    let once = units(old_item.as_ref()).max(units(new_item.as_ref())) + counted;
    let of_index = |index: Index| {
        let projected = |item: &Option<Item>| item.as_ref().map(|item| projection(item, index));
        let (before, after) = (projected(&old_item), projected(&new_item));
        let key = index.partition_attribute();
        match (&before, &after) {
            (Some(before), Some(after)) if before == after => 0,
            // An entry rewritten in place costs the units of the larger version.
            (Some(before), Some(after)) if before.get(key) == after.get(key) => {
                units(Some(before)).max(units(Some(after)))
            }
            // An entry that moves is deleted in one place and put in another.
            _ => units(before.as_ref()) + units(after.as_ref()),
        }
    };
    let float = |units: usize| u32::try_from(units).map_or(f64::INFINITY, f64::from);
    WriteCost {
        table_units: float(if counted > 0 { 2 * once } else { once }),
        index_units: float(Index::EVERY.iter().copied().map(of_index).sum()),
    }
}

fn units(item: Option<&Item>) -> usize {
    item.map_or(0, |item| size::write_units(size::item_bytes(item)))
}
