//! The verdict about an item under the key of a primary item.

use serde_dynamo::Item;

use super::{Attributes, Fault, Image, PlacedComment, attribute, unpublished::Unpublished};
use crate::{blob, error::Malformed};

/// The reading of an item under the key of a primary item.
#[derive(Debug, Clone, PartialEq)]
pub enum PrimaryItem<'item> {
    /// A valid primary item of a published comment.
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
    /// Reads an item by the one definition of a valid primary item.
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
