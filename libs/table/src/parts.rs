//! Answers in parts, and the positions from which reading continues. Pages are such answers too.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use model::{
    Cd, Comment, CommentId, FilterKey, Malformed, Order, ProductId, Timestamp, item::attribute,
    primaries::PrimariesKey,
};
use serde::{Deserialize, Serialize};

use crate::item::{SdkItem, primary_key};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageQuery {
    pub key: FilterKey,
    pub order: Order,
    pub limit: u16,
    pub start: Option<Cd>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    pub comments: Vec<Comment>,
    /// Where only the rows of some ranks are asked for: the `cd` of all others, in the query's
    /// order.
    pub others: Vec<Cd>,
    /// The malformed duplicates among them, in the same order; a page is shown without them. In a
    /// page that is cut short, the last may be an invalid primary item: the page was cut there.
    pub malformed: Vec<MalformedItem>,
    /// The invalid primary items that were passed. They have no rank, so they do not belong to a
    /// page.
    pub omitted: Vec<MalformedItem>,
    /// Whether the page is not full although more comments follow: its comments are too large to be
    /// read at once.
    pub cut_short: bool,
    /// Whether more items may follow those that were read.
    pub has_more: bool,
}

/// An item that a page omits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedItem {
    /// Its index among all items read.
    pub index: usize,
    /// Its key in the order, as far as it is readable.
    pub cd: Option<Cd>,
    pub problem: Malformed,
}

/// One answer about a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Part<Row, P = Position> {
    pub rows: Vec<Row>,
    /// Where reading continues; `None` at the end.
    pub next: Option<P>,
}

/// The key after which a list continues, of its index or of the table. Attributes of keys are
/// texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, String>", from = "BTreeMap<String, String>")]
pub struct Position(pub(super) SdkItem);

impl From<Position> for BTreeMap<String, String> {
    fn from(position: Position) -> Self {
        let texts = position
            .0
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_s().ok()?.clone())));
        texts.collect()
    }
}

impl From<BTreeMap<String, String>> for Position {
    fn from(keys: BTreeMap<String, String>) -> Self {
        Self(
            keys.into_iter()
                .map(|(name, text)| (name, AttributeValue::S(text)))
                .collect(),
        )
    }
}

impl Position {
    /// In a shard of the index `primaries`, after all entries of a product.
    pub(super) fn after_product(product: &ProductId) -> Self {
        let last = Cd {
            created_at: Timestamp::MAX,
            id: CommentId::greatest(),
        };
        let PrimariesKey { shard, pcd } = PrimariesKey::of(product, &last);
        let mut position = primary_key(&last.id, product);
        position.insert(attribute::SHARD.to_owned(), AttributeValue::S(shard));
        position.insert(attribute::PCD.to_owned(), AttributeValue::S(pcd));
        Self(position)
    }
}
