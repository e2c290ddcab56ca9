//! A published primary item, and the duplicates that it implies.

use serde_dynamo::{AttributeValue, Item};

use super::{Fault, PRIMARY_ONLY, PrimaryItem, attribute, comment_of};
use crate::{
    comment::{Comment, Placement},
    error::Malformed,
    filter::FilterKey,
    id::CommentId,
    revision::Revision,
    timestamp::Timestamp,
};

/// The published comment of a primary item, or of an image of it in the stream, and the item.
///
/// Duplicates are made from the whole item, so that they equal it also in attributes that this version of the code does
/// not know. Only the keys of the sparse indexes are left out. The item is borrowed, and its text is checked but not
/// copied. A handler looks at two images a record, and copies of their texts would cost it more than all its other work.
#[derive(Debug, Clone, PartialEq)]
pub struct Image<'item> {
    /// The comment's id.
    pub id: CommentId,
    /// The placement: it decides the comment's keys.
    pub placement: Placement,
    /// When the comment was made.
    pub created_at: Timestamp,
    /// The version of the item.
    pub revision: Revision,
    /// The primary item, every attribute of it.
    pub item: &'item Item,
}

impl<'item> Image<'item> {
    /// Reads the primary item of a published comment.
    ///
    /// # Errors
    /// Names the item and the attribute, when it is not a valid primary item, or its comment is not published.
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

    /// The comment, its text included.
    ///
    /// # Errors
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
