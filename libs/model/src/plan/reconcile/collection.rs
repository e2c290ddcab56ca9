//! All items of one comment id.

use std::collections::BTreeMap;

use serde_dynamo::Item;
use thiserror::Error;

use super::Places;
use crate::{
    comment::{Cd, RankEntry},
    error::Malformed,
    filter::FilterKey,
    id::{CommentId, ProductId},
    item::{Image, PlacedComment, attribute, incomplete, text},
};

/// Why a comment cannot be reconciled; a person has to look.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unresolved {
    /// The rule that an id is used once was broken.
    #[error("it has several primary items: {}", .0.join(", "))]
    SeveralPrimaryItems(Vec<String>),
    #[error(transparent)]
    UnknownItem(Malformed),
}

/// An invalid item under the key of a primary item. It implies nothing: no duplicates, no entries
/// in the page index.
#[derive(Debug, Clone, PartialEq)]
pub struct InvalidPrimary<'items> {
    pub item: &'items Item,
    pub product: ProductId,
    pub malformed: Malformed,
    /// The comment's placement, when the item lacks only what the repair job can supply.
    pub incomplete: Option<PlacedComment>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Collection<'items> {
    pub id: CommentId,
    /// The valid primary item, published or not; `None` when the comment does not exist (any more),
    /// or its item is invalid.
    pub primary: Option<Image<'items>>,
    pub invalid: Option<InvalidPrimary<'items>>,
    /// The duplicates, by their keys. The key makes an item a duplicate: a duplicate that has lost
    /// its `auto` is stale.
    pub(super) duplicates: BTreeMap<FilterKey, &'items Item>,
}

impl<'items> Collection<'items> {
    pub fn read(id: &CommentId, items: &'items [Item]) -> Result<Self, Unresolved> {
        let mut primary: Vec<(FilterKey, &Item)> = Vec::new();
        let mut duplicates = BTreeMap::new();
        for item in items {
            let sk = text(item, attribute::SK).unwrap_or_default();
            let key = FilterKey::parse(sk).map_err(|_| {
                let pk = text(item, attribute::PK).unwrap_or_default();
                Unresolved::UnknownItem(Malformed::of_item(
                    pk,
                    sk,
                    attribute::SK,
                    "is no filter key",
                ))
            })?;
            if key.is_primary() {
                primary.push((key, item));
            } else {
                duplicates.insert(key, item);
            }
        }
        if primary.len() > 1 {
            return Err(Unresolved::SeveralPrimaryItems(
                primary.iter().map(|(key, _)| key.to_string()).collect(),
            ));
        }
        let mut collection = Self {
            id: id.clone(),
            primary: None,
            invalid: None,
            duplicates,
        };
        if let Some((FilterKey { product, .. }, item)) = primary.pop() {
            match Image::read(item) {
                Ok(image) => collection.primary = Some(image),
                Err(malformed) => {
                    collection.invalid = Some(InvalidPrimary {
                        item,
                        product,
                        malformed,
                        incomplete: incomplete(item),
                    });
                }
            }
        }
        Ok(collection)
    }

    /// The primary item of a published comment: only that implies duplicates and entries in the
    /// page index.
    pub fn published(&self) -> Option<&Image<'items>> {
        self.primary
            .as_ref()
            .filter(|image| image.status.is_published())
    }

    /// The comment's entry in the page index; `None` when it must have none.
    pub fn last(&self) -> Option<RankEntry> {
        self.published().map(Image::entry)
    }

    pub fn primary_item_in(&self, product: &ProductId) -> Option<&'items Item> {
        let (of, item) = match (&self.primary, &self.invalid) {
            (Some(image), _) => (&image.placement.product, image.item),
            (None, Some(invalid)) => (&invalid.product, invalid.item),
            (None, None) => return None,
        };
        (of == product).then_some(item)
    }

    pub fn places(&self, given: &Places) -> Places {
        let mut places = given.clone();
        if let Some(image) = &self.primary {
            places.add_entry(&image.entry());
        }
        if let Some(invalid) = &self.invalid {
            places.add(&invalid.product, None);
        }
        for (key, item) in &self.duplicates {
            places.add(&key.product, key.filter.language());
            if let Some(Ok(cd)) = text(item, attribute::CD).map(Cd::parse) {
                places.add_time(cd.created_at);
            }
        }
        places
    }

    /// The comment, when `items` together are exactly its correct items: if it is published, with
    /// the duplicates. [`Collection::read`] and a plan find the same at a much higher cost. The
    /// items must be in the order of their keys, as in the answer of a scan or a query; in another
    /// order they are not found right.
    pub fn whole(items: &'items [Item]) -> Option<Image<'items>> {
        // The primary item is the last.
        let (primary, duplicates) = items.split_last()?;
        let image = Image::read(primary).ok()?;
        let mut keys: Vec<String> = image.duplicate_keys().map(|key| key.to_string()).collect();
        if keys.len() != duplicates.len() {
            return None;
        }
        keys.sort_unstable();
        for (item, key) in duplicates.iter().zip(&keys) {
            if text(item, attribute::SK) != Some(key) || !image.differences(item).is_empty() {
                return None;
            }
        }
        Some(image)
    }
}
