//! The verdict about an item under the key of a primary item, and the duplicates that a published one implies.

use serde_dynamo::{AttributeValue, Item};

use super::{Attributes, Fault, PRIMARY_ONLY, PlacedComment, attribute, comment_of, unpublished::Unpublished};
use crate::{
    blob,
    comment::{Comment, Placement},
    error::Malformed,
    filter::FilterKey,
    id::CommentId,
    revision::Revision,
    timestamp::Timestamp,
};

/// The reading of an item under the key of a primary item.
#[derive(Debug, Clone, PartialEq)]
pub enum PrimaryItem<'item> {
    Valid(Image<'item>),
    /// A valid primary item of a comment that readers do not see.
    Unpublished(Unpublished<'item>),
    /// Its revision or a key of the index `primaries` is missing or wrong. All else is right, so the repair job can
    /// supply them.
    Incomplete(PlacedComment, Malformed),
    /// The repair job cannot correct the item: a person has to look.
    Invalid(Malformed),
}

impl<'item> PrimaryItem<'item> {
    pub fn read(item: &'item Item) -> Self {
        let read = || {
            let attributes = Attributes::of(item)?;
            let placed = attributes.read()?;
            if !attributes.is_primary() {
                return Err(Fault::new(attribute::SK, "is not a primary item's"));
            }
            let text = blob::check(item.get(attribute::COMMENT_BLOB));
            text.map_err(|problem| Fault::new(attribute::COMMENT_BLOB, problem))?;
            Ok((attributes.revision_of(&placed), placed))
        };
        match read() {
            Ok((Ok(revision), comment)) if !comment.status.is_published() => {
                Self::Unpublished(Unpublished { comment, revision, item })
            }
            Ok((Ok(revision), PlacedComment { id, placement, created_at, .. })) => {
                Self::Valid(Image { id, placement, created_at, revision, item })
            }
            Ok((Err(fault), placed)) => Self::Incomplete(placed, fault.of_item(item)),
            Err(fault) => Self::Invalid(fault.of_item(item)),
        }
    }
}

/// The published comment of a primary item, or of an image of it in the stream, and the item.
///
/// Duplicates are made from the whole item, so that they equal it also in attributes that this version of the code does
/// not know. Only the keys of the sparse indexes are left out. The item is borrowed, and its text is checked but not
/// copied. A handler looks at two images a record, and copies of their texts would cost it more than all its other work.
#[derive(Debug, Clone, PartialEq)]
pub struct Image<'item> {
    pub id: CommentId,
    pub placement: Placement,
    pub created_at: Timestamp,
    pub revision: Revision,
    pub item: &'item Item,
}

impl<'item> Image<'item> {
    pub fn of_primary(item: &'item Item) -> Result<Self, Malformed> {
        match PrimaryItem::read(item) {
            PrimaryItem::Valid(image) => Ok(image),
            PrimaryItem::Unpublished(unpublished) => {
                let problem = format!("says that the comment is {}", unpublished.comment.status);
                Err(Fault::new(attribute::UNPUBLISHED, problem).of_item(item))
            }
            PrimaryItem::Incomplete(_, malformed) | PrimaryItem::Invalid(malformed) => Err(malformed),
        }
    }

    /// Never fails in practice: everything was checked when the image was read.
    pub fn comment(&self) -> Result<Comment, Malformed> {
        comment_of(self.item)
    }

    /// The attributes in which an item differs from its expected duplicate, ascending; the key is not compared.
    pub fn differences(&self, found: &Item) -> Vec<String> {
        let is_right = |name: &str| match name {
            attribute::SK => true,
            attribute::AUTO => found.get(name) == Some(&AttributeValue::Bool(true)),
            name if PRIMARY_ONLY.contains(&name) => !found.contains_key(name),
            _ => found.get(name) == self.item.get(name),
        };
        let names = self.item.keys().chain(found.keys()).map(String::as_str).chain([attribute::AUTO]);
        let mut wrong: Vec<String> = names.filter(|name| !is_right(name)).map(str::to_owned).collect();
        wrong.sort_unstable();
        wrong.dedup();
        wrong
    }

    /// The duplicate of the item under another key. It leaves out the attributes that key a sparse index.
    pub fn duplicate(&self, key: &FilterKey) -> Item {
        let mut duplicate = self.item.clone().into_inner();
        duplicate.retain(|name, _| !PRIMARY_ONLY.contains(&name.as_str()));
        duplicate.insert(attribute::SK.to_owned(), AttributeValue::S(key.to_string()));
        duplicate.insert(attribute::AUTO.to_owned(), AttributeValue::Bool(true));
        Item::from(duplicate)
    }
}
