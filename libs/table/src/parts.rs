//! Answers in parts, and the positions from which reading continues. Pages are such answers too.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use model::{
    Cd, Comment, CommentId, FilterKey, Malformed, Order, ProductId, ProductRecord, Timestamp,
    item::{PlacedComment, attribute},
    journal::JournalEntry,
    primaries::PrimariesKey,
};
use serde::{Deserialize, Serialize};
use serde_dynamo::Item;

use crate::{
    item::{InvalidEntry, ItemKey, SdkItem, primary_key, start_key},
    page_answer::MalformedItem,
};

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
    /// Where only the rows of some ranks are asked for: the places of all others, in the query's order.
    pub others: Vec<Cd>,
    /// The malformed duplicates among them, in the same order; a page is shown without them. In a page that is cut
    /// short, the last may be an invalid primary item: the place where the page was cut.
    pub malformed: Vec<MalformedItem>,
    /// The invalid primary items that were passed. They have no rank, so they take no place in a page.
    pub left_out: Vec<MalformedItem>,
    /// Whether the page is not full although more comments follow: its comments are too large to be read at once.
    pub cut_short: bool,
    /// Whether more items may follow those that were read.
    pub has_more: bool,
    pub read_units: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Scanned {
    pub items: Vec<Item>,
    pub read: u64,
    pub next: Option<ItemKey>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, String>", from = "BTreeMap<String, String>")]
pub struct PrimariesPosition(pub(super) SdkItem);

impl From<PrimariesPosition> for BTreeMap<String, String> {
    fn from(position: PrimariesPosition) -> Self {
        let texts = position.0.into_iter().filter_map(|(name, value)| Some((name, value.as_s().ok()?.clone())));
        texts.collect()
    }
}

impl From<BTreeMap<String, String>> for PrimariesPosition {
    fn from(keys: BTreeMap<String, String>) -> Self {
        Self(keys.into_iter().map(|(name, text)| (name, AttributeValue::S(text))).collect())
    }
}

/// One answer about a shard of the index `primaries`.
#[derive(Debug, Clone, PartialEq)]
pub struct PrimariesPart {
    pub comments: Vec<Result<PlacedComment, InvalidEntry>>,
    pub read: u64,
    pub next: Option<PrimariesPosition>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct JournalRow {
    /// The instant in its key; if the key holds none, the instant of the previous row.
    pub at: Timestamp,
    pub entry: Result<JournalEntry, Malformed>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct JournalPart {
    pub rows: Vec<JournalRow>,
    /// Whether no rows follow.
    pub is_last: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ProductsPart {
    pub products: Vec<ProductId>,
    pub invalid: Vec<InvalidEntry>,
    pub next: Option<PrimariesPosition>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CommentsPosition(pub(super) SdkItem);

#[derive(Debug, Clone, PartialEq)]
pub struct CommentsPart {
    pub comments: Vec<Result<Comment, MalformedItem>>,
    pub next: Option<CommentsPosition>,
}

impl PrimariesPosition {
    pub fn after(product: &ProductId) -> Self {
        let last = Cd { created_at: Timestamp::MAX, id: CommentId::greatest() };
        let PrimariesKey { shard, pcd } = PrimariesKey::of(product, &last);
        let mut position = primary_key(&last.id, product);
        position.insert(attribute::SHARD.to_owned(), AttributeValue::S(shard));
        position.insert(attribute::PCD.to_owned(), AttributeValue::S(pcd));
        Self(position)
    }
}

impl CommentsPosition {
    pub fn after(product: &ProductId, cd: &Cd) -> Self {
        Self(start_key(&FilterKey::primary(product.clone()), cd))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ModerationPart {
    pub comments: Vec<Result<Comment, InvalidEntry>>,
    pub next: Option<ModerationPosition>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ModerationPosition {
    After(Cd),
    Answer(SdkKey),
}

/// A key of the index, as DynamoDB gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct SdkKey(pub(super) SdkItem);

#[derive(Debug, Clone, PartialEq)]
pub struct AuthorPart {
    pub comments: Vec<Result<Comment, Malformed>>,
    /// The comment after which reading continues; `None` at the end.
    pub next: Option<CommentId>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RecordsPart {
    /// The records in the order of their keys, or the invalid items in their places.
    pub records: Vec<Result<ProductRecord, InvalidEntry>>,
    pub next: Option<RecordsPosition>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RecordsPosition(pub(super) SdkItem);
