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
    pub pk: String,
    pub sk: String,
}

impl ItemKey {
    pub(crate) fn of(item: &SdkItem) -> Self {
        let text = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).cloned().unwrap_or_default();
        Self { pk: text(attribute::PK), sk: text(attribute::SK) }
    }
}

/// An invalid item: an entry of the index `primaries`, or one in the place of a product's record.
#[derive(Debug, Clone, PartialEq)]
pub struct InvalidEntry {
    pub key: ItemKey,
    pub problem: Malformed,
}

pub(crate) fn item_key(pk: String, sk: String) -> SdkItem {
    [(attribute::PK.to_owned(), AttributeValue::S(pk)), (attribute::SK.to_owned(), AttributeValue::S(sk))].into()
}

pub(crate) fn primary_key(id: &CommentId, product: &ProductId) -> SdkItem {
    item_key(comment_pk(id), FilterKey::primary(product.clone()).to_string())
}
