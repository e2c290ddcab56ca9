//! Turns the change of one comment into edits of the page index.

use std::collections::BTreeSet;

use itertools::Itertools;

use crate::{
    comment::RankEntry,
    filter::BaseSet,
    id::{CommentId, ProductId},
    item::Image,
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
    /// The creation times at which the index may have entries of the comment that must go.
    pub remove_at: BTreeSet<Timestamp>,
}

pub fn plan_index_edits(change: &CommentChange<'_>) -> Vec<IndexEdit> {
    let last = change.last.as_ref().map(Image::entry);
    index_edits(&change.id, last.as_ref(), entries_to_leave(change))
}

/// A comment leaves the sets of every entry that the batch has seen, unless it ends there. That
/// holds for a deleted or hidden comment too.
fn entries_to_leave<'change>(change: &'change CommentChange<'_>) -> &'change [RankEntry] {
    if change.last.is_none() && planted::has(Bug::DeletedIsRanked) {
        return &[];
    }
    &change.seen
}

/// The edits that give a comment the entry `last` and remove all other entries of `seen`. One edit per product. Several products occur only if something broke the rule that a
/// comment never changes its product.
pub fn index_edits(id: &CommentId, last: Option<&RankEntry>, seen: &[RankEntry]) -> Vec<IndexEdit> {
    let products = seen
        .iter()
        .chain(last)
        .map(|entry| &entry.placement.product)
        .sorted()
        .dedup();
    let mut edits = Vec::new();
    for product in products {
        let here = last.filter(|entry| entry.placement.product == *product);
        let mut add: Vec<BaseSet> = match here {
            Some(entry) => entry.placement.base_sets().into(),
            None => Vec::new(),
        };
        add.sort_unstable();
        let mut remove: Vec<BaseSet> = Vec::new();
        let mut remove_at = BTreeSet::new();
        for entry in seen {
            if entry.placement.product == *product && here != Some(entry) {
                remove.extend(entry.placement.base_sets());
                remove_at.insert(entry.created_at);
            }
        }
        remove.retain(|set| !add.contains(set));
        remove.sort_unstable();
        remove.dedup();
        edits.push(IndexEdit {
            product: product.clone(),
            id: id.clone(),
            created_at: here.map(|entry| entry.created_at),
            add,
            remove,
            remove_at,
        });
    }
    edits
}
