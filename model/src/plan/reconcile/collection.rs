//! All items of one comment id.

use std::collections::BTreeMap;

use serde_dynamo::Item;
use thiserror::Error;

use super::Places;
use crate::{
    error::Malformed,
    filter::FilterKey,
    id::CommentId,
    item::{Image, attribute, text},
    revision::Revision,
};

/// Why nothing can be concluded from what there is; a person has to look.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unresolved {
    /// The rule that an id is used once was broken.
    #[error("it has several primary items: {}", .0.join(", "))]
    SeveralPrimaryItems(Vec<String>),
    /// The primary item cannot be read.
    #[error("its primary item {key} cannot be read: {problem}")]
    UnreadablePrimaryItem {
        /// The sort key.
        key: String,
        /// What is wrong.
        problem: Malformed,
    },
    /// An item that is neither a primary item nor a duplicate.
    #[error("the item {0:?} is under no filter key")]
    UnknownItem(String),
}

/// The items of a comment id.
#[derive(Debug, Clone, PartialEq)]
pub struct Collection<'items> {
    /// The comment.
    pub id: CommentId,
    /// The primary item and its revision, `None` when there is no such comment (any more).
    pub primary: Option<(Image<'items>, Revision)>,
    /// The others, by their keys. What tells a duplicate is its key: one that has lost its `auto` is stale.
    pub(super) duplicates: BTreeMap<FilterKey, &'items Item>,
}

impl<'items> Collection<'items> {
    /// Reads all items of an id.
    ///
    /// # Errors
    /// What a person has to look at.
    pub fn read(id: &CommentId, items: &'items [Item]) -> Result<Self, Unresolved> {
        let mut primary: Vec<(String, &Item)> = Vec::new();
        let mut duplicates = BTreeMap::new();
        for item in items {
            let sk = text(item, attribute::SK).unwrap_or_default();
            let key = FilterKey::parse(sk).map_err(|_| Unresolved::UnknownItem(sk.to_owned()))?;
            if key.is_primary() {
                primary.push((sk.to_owned(), item));
            } else {
                duplicates.insert(key, item);
            }
        }
        let primary = match primary.as_slice() {
            [] => None,
            [(key, item)] => Some(read_primary(key, item)?),
            several => {
                return Err(Unresolved::SeveralPrimaryItems(several.iter().map(|(key, _)| key.clone()).collect()));
            }
        };
        Ok(Self { id: id.clone(), primary, duplicates })
    }

    /// Where else this comment may have left something: where its items are, and what was told.
    pub fn places(&self, told: &Places) -> Places {
        let mut places = told.clone();
        if let Some((image, _)) = &self.primary {
            places.add(&image.placement.product, Some(&image.placement.language));
        }
        for key in self.duplicates.keys() {
            places.add(&key.product, key.filter.language());
        }
        places
    }

    /// The comment when all of `items` together are exactly what it must have, each equal to the primary item: what
    /// [`Collection::read`] and a plan find out as well, at a fraction of the cost. The items stand in the order of
    /// their keys, as a scan or a query gives them; in another order they are not found right.
    pub fn whole(items: &'items [Item]) -> Option<Image<'items>> {
        // The primary item is the last.
        let (primary, duplicates) = items.split_last()?;
        let image = Image::of_primary(primary).ok()?;
        revision_of(primary).ok()?;
        let mut keys: Vec<String> = image.placement.duplicate_keys().map(|key| key.to_string()).collect();
        if keys.len() != duplicates.len() {
            return None;
        }
        keys.sort_unstable();
        let is_right = |(item, key): (&Item, &String)| {
            text(item, attribute::SK) == Some(key) && image.differences(item).is_empty()
        };
        duplicates.iter().zip(&keys).all(is_right).then_some(image)
    }
}

fn revision_of(item: &Item) -> Result<Revision, Malformed> {
    let revision = text(item, attribute::REVISION)
        .ok_or_else(|| Malformed::new("image", "revision is missing or no text".to_owned()))?;
    Revision::parse(revision).map_err(|error| Malformed::new("image", error.to_string()))
}

fn read_primary<'items>(key: &str, item: &'items Item) -> Result<(Image<'items>, Revision), Unresolved> {
    let read = Image::of_primary(item).and_then(|image| Ok((image, revision_of(item)?)));
    read.map_err(|problem| Unresolved::UnreadablePrimaryItem { key: key.to_owned(), problem })
}
