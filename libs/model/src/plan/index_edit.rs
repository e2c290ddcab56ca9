//! Turns the change of one comment into edits of the page index.

use itertools::Itertools;

use crate::{
    comment::Placement,
    filter::BaseSet,
    id::{CommentId, ProductId},
    planted::{self, Bug},
    record::CommentChange,
    timestamp::Timestamp,
};

/// One edit: the base sets of its product that must contain a comment, and those that must not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEdit {
    pub product: ProductId,
    pub id: CommentId,
    /// Its creation time, which is the score; `None` when no set must contain it.
    pub created_at: Option<Timestamp>,
    pub add: Vec<BaseSet>,
    pub remove: Vec<BaseSet>,
}

pub fn plan_index_edits(change: &CommentChange<'_>) -> Vec<IndexEdit> {
    let last = change
        .last
        .as_ref()
        .map(|image| (&image.placement, image.created_at));
    let seen = if last.is_none() && planted::has(Bug::DeletedIsRanked) {
        &[]
    } else {
        &*change.seen
    };
    index_edits(&change.id, last, seen)
}

/// The edits that put a comment into the sets of `last` and remove it from all other sets of
/// `seen`. One edit per product. Several products occur only if something broke the rule that a
/// comment never changes its product.
pub fn index_edits(
    id: &CommentId,
    last: Option<(&Placement, Timestamp)>,
    seen: &[Placement],
) -> Vec<IndexEdit> {
    let placements = seen.iter().chain(last.map(|(placement, _)| placement));
    let products = placements
        .map(|placement| &placement.product)
        .sorted()
        .dedup();
    let edits = products.map(|product| {
        let last = last.filter(|(placement, _)| placement.product == *product);
        let add: Vec<BaseSet> = last
            .iter()
            .flat_map(|(placement, _)| placement.base_sets())
            .sorted()
            .collect();
        let left = seen
            .iter()
            .filter(|placement| placement.product == *product);
        let left = left.filter(|placement| last.is_none_or(|(last, _)| last != *placement));
        let remove = left
            .flat_map(Placement::base_sets)
            .filter(|set| !add.contains(set))
            .sorted()
            .dedup()
            .collect();
        let created_at = last.map(|(_, created_at)| created_at);
        IndexEdit {
            product: product.clone(),
            id: id.clone(),
            created_at,
            add,
            remove,
        }
    });
    edits.collect()
}
