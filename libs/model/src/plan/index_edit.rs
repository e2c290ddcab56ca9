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
    index_edits(&change.id, last, placements_to_leave(change))
}

/// A comment leaves the sets of every placement that the batch has seen, unless it ends there. That
/// holds for a deleted or hidden comment too.
fn placements_to_leave<'change>(change: &'change CommentChange<'_>) -> &'change [Placement] {
    if change.last.is_none() && planted::has(Bug::DeletedIsRanked) {
        return &[];
    }
    &change.seen
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
    let mut edits = Vec::new();
    for product in products {
        let here = last.filter(|(placement, _)| placement.product == *product);
        let mut add: Vec<BaseSet> = match here {
            Some((placement, _)) => placement.base_sets().into(),
            None => Vec::new(),
        };
        add.sort_unstable();
        let mut remove: Vec<BaseSet> = Vec::new();
        for placement in seen {
            let is_last = here.is_some_and(|(last, _)| last == placement);
            if placement.product == *product && !is_last {
                remove.extend(placement.base_sets());
            }
        }
        remove.retain(|set| !add.contains(set));
        remove.sort_unstable();
        remove.dedup();
        edits.push(IndexEdit {
            product: product.clone(),
            id: id.clone(),
            created_at: here.map(|(_, created_at)| created_at),
            add,
            remove,
        });
    }
    edits
}
