//! The key of an item.

use aws_sdk_dynamodb::types::AttributeValue;
use model::{
    CommentId, FilterKey, Malformed, ProductId,
    item::{attribute, comment_pk},
};
use serde::{Deserialize, Serialize};

use crate::SdkItem;

/// The key of an item. A scan continues from the key of the last item that is already done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemKey {
    /// The partition key.
    pub pk: String,
    /// The sort key.
    pub sk: String,
}

impl ItemKey {
    /// The key of an item, as far as it is readable.
    pub(crate) fn of(item: &SdkItem) -> Self {
        let text = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).cloned().unwrap_or_default();
        Self { pk: text(attribute::PK), sk: text(attribute::SK) }
    }
}

/// An invalid item: an entry of the index `primaries`, or one in the place of a product's record.
#[derive(Debug, Clone, PartialEq)]
pub struct InvalidEntry {
    /// The key of the item.
    pub key: ItemKey,
    /// The problem.
    pub problem: Malformed,
}

/// A key in the SDK's types.
pub(crate) fn item_key(pk: String, sk: String) -> SdkItem {
    [(attribute::PK.to_owned(), AttributeValue::S(pk)), (attribute::SK.to_owned(), AttributeValue::S(sk))].into()
}

/// The key of the primary item of a comment.
pub(crate) fn primary_key(id: &CommentId, product: &ProductId) -> SdkItem {
    item_key(comment_pk(id), FilterKey::primary(product.clone()).to_string())
}
