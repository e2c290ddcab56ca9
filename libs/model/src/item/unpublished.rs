//! The form of a primary item that readers do not see, and the sparse index `moderation` that holds such items alone.
//!
//! The unfiltered listing of a product is made of its primary items themselves. So an unpublished one has no `cd`, and
//! no query of a reader can return it. It has no key of the index `primaries` either, so a rebuild never ranks it
//! (ADR 71). The two attributes of [`UNPUBLISHED_KEYS`] say its status and its creation time instead, and key the index
//! `moderation`.
//!
//! **Invariant:** a primary item has one form or the other. An item with attributes of both is invalid, and implies
//! nothing.

use serde_dynamo::Item;

use super::{PlacedComment, attribute};
use crate::{comment::Cd, revision::Revision, status::Status};

/// The attributes that key the index `moderation`. Only unpublished primary items have them.
pub const UNPUBLISHED_KEYS: [&str; 2] = [attribute::UNPUBLISHED, attribute::UNPUBLISHED_CD];

/// The attributes that only a published primary item has.
pub(super) const PUBLISHED_KEYS: [&str; 3] = [attribute::CD, attribute::SHARD, attribute::PCD];

/// The comment of a valid primary item that readers do not see. It implies no duplicates and no ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct Unpublished<'item> {
    pub comment: PlacedComment,
    pub revision: Revision,
    pub item: &'item Item,
}

/// The key of a comment in the index `moderation`: its status, and its creation time with its id. `None` for a published
/// comment.
pub(super) fn key_of(status: Status, cd: &Cd) -> Option<(String, String)> {
    (!status.is_published()).then(|| (status.to_string(), cd.to_string()))
}
