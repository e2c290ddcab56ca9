//! Items and their keys, as the SDK has them.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use model::{
    Cd, CommentId, FilterKey, Malformed, ProductId, ProductRecord,
    item::{attribute, comment_id_of_pk, comment_pk},
    product::{ProductItem, record_key},
};
use process::StoreError;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_dynamo::Item;

pub(crate) type SdkItem = HashMap<String, AttributeValue>;

/// The key of an item. A scan continues from the key of the last item that is already done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemKey {
    pub pk: String,
    pub sk: String,
}

impl ItemKey {
    pub(crate) fn of(item: &SdkItem) -> Self {
        Self {
            pk: text_or_empty(item, attribute::PK),
            sk: text_or_empty(item, attribute::SK),
        }
    }
}

fn text_or_empty(item: &SdkItem, name: &str) -> String {
    match item.get(name) {
        Some(AttributeValue::S(text)) => text.clone(),
        _ => String::new(),
    }
}

/// An invalid item: of a comment, an entry of the index `primaries`, or one under the key of a
/// product's record.
#[derive(Debug, Clone, PartialEq)]
pub struct InvalidEntry {
    pub key: ItemKey,
    /// Its key in the order, as far as it is readable.
    pub cd: Option<Cd>,
    pub problem: Malformed,
}

pub(crate) fn item_key(pk: String, sk: String) -> SdkItem {
    [
        (attribute::PK.to_owned(), AttributeValue::S(pk)),
        (attribute::SK.to_owned(), AttributeValue::S(sk)),
    ]
    .into()
}

pub(crate) fn primary_key(id: &CommentId, product: &ProductId) -> SdkItem {
    item_key(
        comment_pk(id),
        FilterKey::primary(product.clone()).to_string(),
    )
}

pub(crate) fn start_key(key: &FilterKey, cd: &Cd) -> Item {
    let mut start = item_key(comment_pk(&cd.id), key.to_string());
    start.insert(attribute::CD.to_owned(), AttributeValue::S(cd.to_string()));
    start.into()
}

/// The comment and the product of a primary item with this key.
pub(crate) fn primary_of(key: &ItemKey) -> Option<(CommentId, ProductId)> {
    let id = comment_id_of_pk(&key.pk)?;
    let filter_key = FilterKey::parse(&key.sk).ok()?;
    filter_key.is_primary().then_some((id, filter_key.product))
}

pub(crate) fn record_key_of(product: &ProductId) -> SdkItem {
    let (pk, sk) = record_key(product);
    item_key(pk, sk)
}

pub(crate) fn record_of(item: SdkItem) -> Result<ProductRecord, StoreError> {
    Ok(ProductRecord::try_from(from_sdk_item::<ProductItem>(
        item,
    )?)?)
}

pub(crate) fn to_sdk_item<T: Serialize>(value: &T) -> Result<SdkItem, StoreError> {
    Ok(serde_dynamo::to_item(value).map_err(|error| Malformed::new("item", error.to_string()))?)
}

/// One of `model`'s types, or of the job's states, from an item. An error names the item and the
/// attribute, but never a value.
pub(crate) fn from_sdk_item<T: DeserializeOwned>(item: SdkItem) -> Result<T, StoreError> {
    let ItemKey { pk, sk } = ItemKey::of(&item);
    let attributes = serde_dynamo::AttributeValue::M(serde_dynamo::Item::from(item).into_inner());
    let item = serde_dynamo::Deserializer::from_attribute_value(attributes);
    Ok(serde_path_to_error::deserialize(item).map_err(|error| {
        let message = error.inner().to_string();
        let missing = message
            .strip_prefix("missing field `")
            .and_then(|name| name.strip_suffix('`'));
        match missing {
            Some(name) => Malformed::of_item(&pk, &sk, name, "is missing"),
            None => Malformed::of_item(
                &pk,
                &sk,
                &error.path().to_string(),
                "is of another type or form",
            ),
        }
    })?)
}

#[cfg(test)]
mod tests {
    use model::journal::JournalItem;

    use super::*;

    fn text(text: &str) -> AttributeValue {
        AttributeValue::S(text.to_owned())
    }

    fn said(name: &str, value: Option<AttributeValue>) -> String {
        let rating = AttributeValue::N("4".to_owned());
        let placement = [
            ("product", text("p")),
            ("language", text("en")),
            ("rating", rating),
        ];
        let placement = placement
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        let mut item: SdkItem = [
            ("pk", text("CHANGE#1")),
            ("sk", text("2024-02-29T12:00:00.123Z#c1")),
            ("revision", text("01HQTBRNKV0000000000000007")),
            ("after", AttributeValue::M(placement)),
            ("expires_at", AttributeValue::N("1".to_owned())),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        assert!(from_sdk_item::<JournalItem>(item.clone()).is_ok());
        item.remove(name);
        item.extend(value.map(|value| (name.to_owned(), value)));
        from_sdk_item::<JournalItem>(item).unwrap_err().to_string()
    }

    #[test]
    fn an_item_that_cannot_be_read_is_named_with_its_attribute_and_no_value() {
        let secret = Some(text("said in confidence"));
        let rating = ("rating".to_owned(), AttributeValue::N("6".to_owned()));
        for (name, value, says) in [
            ("expires_at", None, "expires_at: is missing"),
            (
                "expires_at",
                secret.clone(),
                "expires_at: is of another type or form",
            ),
            ("revision", secret, "revision: is of another type or form"),
            (
                "after",
                Some(AttributeValue::M([rating].into())),
                "after.rating: is of another type or form",
            ),
        ] {
            let key =
                "malformed item: pk \"CHANGE#1\", sk \"2024-02-29T12:00:00.123Z#c1\", attribute ";
            assert_eq!(said(name, value), format!("{key}{says}"));
        }
    }
}
