//! Turns the change of one comment into writes of duplicates.

use std::collections::BTreeSet;

use serde_dynamo::Item;

use crate::{
    filter::FilterKey,
    id::CommentId,
    invariant::Invariant,
    item::Image,
    planted::{self, Bug},
    record::CommentChange,
};

/// Number of duplicates of a published comment.
const DUPLICATES: usize = 31;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DuplicateKey {
    pub id: CommentId,
    pub filter_key: FilterKey,
}

#[derive(Debug, Clone, PartialEq)]
pub enum DuplicateWrite {
    Put { key: DuplicateKey, item: Item },
    Delete { key: DuplicateKey },
}

impl DuplicateKey {
    pub(crate) fn of(id: &CommentId, filter_key: &FilterKey) -> Self {
        Self {
            id: id.clone(),
            filter_key: filter_key.clone(),
        }
    }
}

impl DuplicateWrite {
    pub fn key(&self) -> &DuplicateKey {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

/// The writes that make a comment's duplicates match the batch's last image: 31 puts unless the
/// comment was deleted, and a delete for every other key that the batch's images imply. No key
/// occurs twice.
pub fn plan_fan_out(change: &CommentChange<'_>) -> Vec<DuplicateWrite> {
    let kept: BTreeSet<FilterKey> = change.last.iter().flat_map(Image::duplicate_keys).collect();
    let mut writes = Vec::new();
    if let Some(image) = &change.last {
        debug_assert_eq!(kept.len(), DUPLICATES, "{}", Invariant::DuplicatesAreExact);
        writes.extend(kept.iter().map(|filter_key| DuplicateWrite::Put {
            key: DuplicateKey::of(&change.id, filter_key),
            item: image.duplicate(filter_key),
        }));
    }
    for filter_key in implied_keys(change).difference(&kept) {
        writes.push(DuplicateWrite::Delete {
            key: DuplicateKey::of(&change.id, filter_key),
        });
    }
    writes
}

/// The keys that any image of the batch implies, also when the comment was deleted or hidden.
fn implied_keys(change: &CommentChange<'_>) -> BTreeSet<FilterKey> {
    if change.last.is_none() && planted::has(Bug::DeletedStays) {
        return BTreeSet::new();
    }
    let seen = change.seen.iter();
    seen.flat_map(|entry| entry.placement.duplicate_keys())
        .collect()
}
