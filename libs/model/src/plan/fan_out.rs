//! Turns the change of one comment into writes of duplicates.

use std::collections::BTreeSet;

use serde_dynamo::Item;

use crate::{
    filter::FilterKey,
    id::CommentId,
    item::Image,
    planted::{self, Bug},
    record::CommentChange,
};

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
    let key = |filter_key| DuplicateKey {
        id: change.id.clone(),
        filter_key,
    };
    let kept: BTreeSet<FilterKey> = change.last.iter().flat_map(Image::duplicate_keys).collect();
    let mut seen: BTreeSet<FilterKey> = change
        .seen
        .iter()
        .flat_map(|placement| placement.duplicate_keys())
        .collect();
    if change.last.is_none() && planted::has(Bug::DeletedStays) {
        seen.clear();
    }
    let deletes = seen
        .difference(&kept)
        .map(|filter_key| DuplicateWrite::Delete {
            key: key(filter_key.clone()),
        });
    let puts = change.last.iter().flat_map(|image| {
        kept.iter().map(|filter_key| DuplicateWrite::Put {
            key: key(filter_key.clone()),
            item: image.duplicate(filter_key),
        })
    });
    puts.chain(deletes).collect()
}
