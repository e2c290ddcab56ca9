//! Turns the change of one comment into edits of the page index.

use itertools::Itertools;

use crate::{
    comment::Placement,
    filter::BaseSet,
    id::{CommentId, ProductId},
    instant::Instant,
    record::CommentChange,
};

/// One edit: where a comment is a member of its product's base sets, and where it is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEdit {
    /// The product; all sets of an edit are its.
    pub product: ProductId,
    /// The comment, the member.
    pub id: CommentId,
    /// When it was made, the score; `None` when it is to be nowhere.
    pub created_at: Option<Instant>,
    /// The sets it must be in.
    pub add: Vec<BaseSet>,
    /// The sets it must not be in.
    pub remove: Vec<BaseSet>,
}

/// The edits that bring the base sets in line with the batch's last image of a comment.
pub fn plan_index_edits(change: &CommentChange<'_>) -> Vec<IndexEdit> {
    let last = change.last.as_ref().map(|image| (&image.placement, image.created_at));
    index_edits(&change.id, last, &change.seen)
}

/// The edits that make a comment a member of the sets of `last` and of no other set of `seen`: one a product, which is
/// one unless somebody broke the rule that a comment never changes its product.
pub fn index_edits(id: &CommentId, last: Option<(&Placement, Instant)>, seen: &[Placement]) -> Vec<IndexEdit> {
    let placements = seen.iter().chain(last.map(|(placement, _)| placement));
    let products = placements.map(|placement| &placement.product).sorted().dedup();
    products
        .map(|product| {
            let last = last.filter(|(placement, _)| placement.product == *product);
            index_edit(product, id, last, seen.iter().filter(|placement| placement.product == *product))
        })
        .collect()
}

fn index_edit<'seen>(
    product: &ProductId,
    id: &CommentId,
    last: Option<(&Placement, Instant)>,
    seen: impl IntoIterator<Item = &'seen Placement>,
) -> IndexEdit {
    let add: Vec<BaseSet> = last.iter().flat_map(|(placement, _)| placement.base_sets()).sorted().collect();
    let left = seen.into_iter().filter(|placement| last.is_none_or(|(last, _)| last != *placement));
    let remove = left.flat_map(Placement::base_sets).filter(|set| !add.contains(set)).sorted().dedup().collect();
    IndexEdit {
        product: product.clone(),
        id: id.clone(),
        created_at: last.map(|(_, created_at)| created_at),
        add,
        remove,
    }
}
