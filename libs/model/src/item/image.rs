//! The reading of an item under the key of a primary item, and the duplicates that a published one
//! implies.

use serde_dynamo::{AttributeValue, Item};

use super::{CommentItem, NoBlob, PRIMARY_ONLY, PlacedComment, attribute, malformed};
use crate::{
    blob,
    comment::{Placement, RankEntry},
    error::Malformed,
    filter::FilterKey,
    id::CommentId,
    revision::Revision,
    status::Status,
    timestamp::Timestamp,
};

/// Reads everything that the repair job cannot supply.
fn primary_of(item: &Item) -> Result<(CommentItem<NoBlob, &str>, PlacedComment), Malformed> {
    let attributes = CommentItem::of(item)?;
    let placed = attributes.read()?;
    if !attributes.is_primary() {
        return Err(attributes.malformed(attribute::SK, "is not a primary item's"));
    }
    let text = blob::check(item.get(attribute::COMMENT_BLOB));
    text.map_err(|problem| attributes.malformed(attribute::COMMENT_BLOB, problem))?;
    Ok((attributes, placed))
}

/// The comment of an invalid primary item whose revision or key of the index `primaries` is missing
/// or wrong. All else is right, so the repair job can supply them. `None` when a person has to
/// look. (A valid item's comment too.)
pub fn incomplete(item: &Item) -> Option<PlacedComment> {
    primary_of(item).ok().map(|(_, placed)| placed)
}

/// The comment of a valid primary item, or of an image of it in the stream, and the item. Only a
/// published one implies duplicates and ranks.
///
/// Duplicates are made from the whole item, so that they equal it also in attributes that this
/// version of the code does not know. Only the keys of the sparse indexes are omitted. The item is
/// borrowed, and its text is checked but not copied. A handler looks at two images a record, and
/// copies of their texts would cost it more than all its other work.
#[derive(Debug, Clone, PartialEq)]
pub struct Image<'item> {
    pub id: CommentId,
    pub placement: Placement,
    pub created_at: Timestamp,
    pub status: Status,
    pub revision: Revision,
    pub item: &'item Item,
}

impl<'item> Image<'item> {
    pub fn read(item: &'item Item) -> Result<Self, Malformed> {
        let (attributes, placed) = primary_of(item)?;
        let revision = attributes.revision_of(&placed)?;
        let PlacedComment {
            id,
            placement,
            created_at,
            status,
        } = placed;
        Ok(Self {
            id,
            placement,
            created_at,
            status,
            revision,
            item,
        })
    }

    /// The entry in the page index that it implies if it is published.
    pub fn entry(&self) -> RankEntry {
        RankEntry {
            placement: self.placement.clone(),
            created_at: self.created_at,
        }
    }

    /// The image of a published comment.
    pub fn of_primary(item: &'item Item) -> Result<Self, Malformed> {
        let image = Self::read(item)?;
        if image.status.is_published() {
            return Ok(image);
        }
        Err(malformed(
            item,
            attribute::UNPUBLISHED,
            &format!("says that the comment is {}", image.status),
        ))
    }

    /// The comment without its item.
    pub fn placed(&self) -> PlacedComment {
        PlacedComment {
            id: self.id.clone(),
            placement: self.placement.clone(),
            created_at: self.created_at,
            status: self.status,
        }
    }

    /// The keys of its duplicates; none when it is not published.
    pub fn duplicate_keys(&self) -> impl Iterator<Item = FilterKey> {
        let placement = if self.status.is_published() {
            Some(&self.placement)
        } else {
            None
        };
        placement.into_iter().flat_map(Placement::duplicate_keys)
    }

    /// The attributes in which an item differs from its expected duplicate, ascending; the key is
    /// not compared.
    pub fn differences(&self, found: &Item) -> Vec<String> {
        let names = self.item.keys().chain(found.keys()).map(String::as_str);
        let mut wrong = Vec::new();
        for name in names.chain([attribute::AUTO]) {
            if !self.is_right_in(found, name) {
                wrong.push(name.to_owned());
            }
        }
        wrong.sort_unstable();
        wrong.dedup();
        wrong
    }

    /// Whether an attribute of a duplicate is as this item implies.
    fn is_right_in(&self, duplicate: &Item, name: &str) -> bool {
        match name {
            attribute::SK => true,
            attribute::AUTO => duplicate.get(name) == Some(&AttributeValue::Bool(true)),
            name if PRIMARY_ONLY.contains(&name) => !duplicate.contains_key(name),
            _ => duplicate.get(name) == self.item.get(name),
        }
    }

    /// The duplicate of the item under another key. It leaves out the attributes that key a sparse
    /// index.
    pub fn duplicate(&self, key: &FilterKey) -> Item {
        let mut duplicate = self.item.clone().into_inner();
        duplicate.retain(|name, _| !PRIMARY_ONLY.contains(&name.as_str()));
        duplicate.insert(attribute::SK.to_owned(), AttributeValue::S(key.to_string()));
        duplicate.insert(attribute::AUTO.to_owned(), AttributeValue::Bool(true));
        Item::from(duplicate)
    }
}
