//! The items of the table, as `serde_dynamo` reads and writes them.
//!
//! These types are read from the SDK's attribute values (`table`) and from those of Lambda events (`record`).
//!
//! **Invariant:** a valid primary item has one definition (ADR 40). Its rules are in `Attributes` and `blob`. The
//! functions, the API and the repair job all read by them (`pages_and_functions_agree_on_what_is_valid` in `table`).

use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};
use serde_dynamo::{AttributeValue, Item};

use crate::{
    blob::{self, BlobFormat, CommentBlob},
    comment::{Cd, Comment, CommentText, Placement},
    error::Malformed,
    filter::FilterKey,
    id::CommentId,
    language::Language,
    rating::Rating,
    revision::Revision,
    site_data::{AuthorId, CommentAttributes, SiteData, check_object},
    strict_text::{strict_optional_text, strict_text},
    timestamp::Timestamp,
};

pub mod primaries;

use primaries::PrimariesKey;

/// The names of the attributes that code outside of serde needs.
pub mod attribute {
    /// The table's partition key.
    pub const PK: &str = "pk";
    /// The table's sort key, and the index's partition key.
    pub const SK: &str = "sk";
    /// The index's sort key.
    pub const CD: &str = "cd";
    /// The comment's language.
    pub const LANGUAGE: &str = "language";
    /// The comment's rating.
    pub const RATING: &str = "rating";
    /// The comment's revision.
    pub const REVISION: &str = "revision";
    /// The comment's text.
    pub const COMMENT_BLOB: &str = "comment_blob";
    /// True on duplicate items, absent on others.
    pub const AUTO: &str = "auto";
    /// The partition key of the index `primaries`; on primary items only.
    pub const SHARD: &str = "shard";
    /// The sort key of the index `primaries`, `<escaped product>#<cd>`; on primary items only.
    pub const PCD: &str = "pcd";
    /// The site's own attributes, as JSON text.
    pub const ATTRIBUTES: &str = "attributes";
    /// The author's id, and the partition key of the index `authors`; on primary items only.
    pub const AUTHOR_ID: &str = "author_id";
    /// When DynamoDB may remove an item, in seconds since 1970.
    pub const EXPIRES_AT: &str = "expires_at";
}

/// The attributes that only primary items have: they key the sparse indexes, which hold no duplicates.
pub const PRIMARY_ONLY: [&str; 3] = [attribute::SHARD, attribute::PCD, attribute::AUTHOR_ID];

/// The prefix of a comment's partition key.
pub const COMMENT_PREFIX: &str = "COMMENT#";

/// The partition key of a comment's items.
pub fn comment_pk(id: &CommentId) -> String {
    format!("{COMMENT_PREFIX}{id}")
}

/// The comment id in a partition key; `None` for a key of anything else.
pub fn comment_id_of_pk(pk: &str) -> Option<CommentId> {
    CommentId::parse(pk.strip_prefix(COMMENT_PREFIX)?).ok()
}

/// A primary or duplicate item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentItem<Blob = CommentBlob> {
    /// `COMMENT#<id>`.
    pub pk: String,
    /// The filter key.
    pub sk: String,
    /// See [`Cd`].
    pub cd: String,
    /// The comment's language.
    #[serde(deserialize_with = "strict_text")]
    pub language: String,
    /// The comment's rating.
    pub rating: u64,
    /// The comment's revision.
    #[serde(deserialize_with = "strict_text")]
    pub revision: String,
    /// The comment's text, in any format.
    pub comment_blob: Blob,
    /// True on duplicates, absent on the primary item. Read as true with any value: only its presence counts.
    #[serde(default, deserialize_with = "is_there", skip_serializing_if = "Option::is_none")]
    pub auto: Option<bool>,
    /// See [`PrimariesKey::shard`]; only on a primary item.
    #[serde(default, deserialize_with = "strict_optional_text", skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// See [`PrimariesKey::pcd`]; only on a primary item.
    #[serde(default, deserialize_with = "strict_optional_text", skip_serializing_if = "Option::is_none")]
    pub pcd: Option<String>,
    /// See [`CommentAttributes`].
    #[serde(default, deserialize_with = "strict_optional_text", skip_serializing_if = "Option::is_none")]
    pub attributes: Option<String>,
    /// See [`AuthorId`]; only on a primary item.
    #[serde(default, deserialize_with = "strict_optional_text", skip_serializing_if = "Option::is_none")]
    pub author_id: Option<String>,
}

/// In place of the text, which an entry of the index `primaries` lacks.
pub type NoBlob = Option<IgnoredAny>;

fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| Some(true))
}

impl CommentItem {
    /// The primary item of a comment, its text in this format.
    pub fn primary(comment: &Comment, format: BlobFormat) -> Self {
        let PrimariesKey { shard, pcd } = PrimariesKey::of(&comment.product, &comment.cd());
        Self {
            pk: comment_pk(&comment.id),
            sk: FilterKey::primary(comment.product.clone()).to_string(),
            cd: comment.cd().to_string(),
            language: comment.language.to_string(),
            rating: u64::from(comment.rating.get()),
            revision: comment.revision.to_string(),
            comment_blob: CommentBlob::new(&comment.text, format),
            auto: None,
            shard: Some(shard),
            pcd: Some(pcd),
            attributes: comment.site.attributes.as_ref().map(|attributes| attributes.as_json().to_owned()),
            author_id: comment.site.author_id.as_ref().map(ToString::to_string),
        }
    }

    /// The comment that the item, primary or duplicate, holds.
    ///
    /// # Errors
    /// Names the attribute that is wrong. Limits of texts are not checked: stored texts are shown, except titles and
    /// authors without a visible character.
    pub fn into_comment(self) -> Result<Comment, Malformed> {
        let (item, blob) = self.split();
        let text = || blob.into_text().map_err(|error| error.problem);
        item.attributes().comment(text).map_err(|fault| fault.of(&item.pk, &item.sk))
    }
}

impl CommentItem<NoBlob> {
    /// The comment of this entry of the index `primaries`.
    ///
    /// # Errors
    /// Names the attribute that is wrong.
    pub fn placed(&self) -> Result<PlacedComment, Malformed> {
        self.attributes().placed().map_err(|fault| fault.of(&self.pk, &self.sk))
    }
}

impl<Blob> CommentItem<Blob> {
    /// The other attributes, and the text.
    fn split(self) -> (CommentItem<()>, Blob) {
        let Self { pk, sk, cd, language, rating, revision, comment_blob, auto, shard, pcd, attributes, author_id } =
            self;
        let rest = CommentItem {
            pk,
            sk,
            cd,
            language,
            rating,
            revision,
            comment_blob: (),
            auto,
            shard,
            pcd,
            attributes,
            author_id,
        };
        (rest, comment_blob)
    }

    fn attributes(&self) -> Attributes<'_> {
        Attributes {
            pk: &self.pk,
            sk: &self.sk,
            cd: &self.cd,
            language: &self.language,
            rating: self.rating,
            has_auto: self.auto.is_some(),
            revision: Some(&self.revision),
            shard: self.shard.as_deref(),
            pcd: self.pcd.as_deref(),
            attributes: self.attributes.as_deref(),
            author_id: self.author_id.as_deref(),
        }
    }
}

/// The comment that an item, primary or duplicate, holds. Like [`CommentItem::into_comment`], but every error names the
/// attribute.
///
/// # Errors
/// Names the attribute that is missing or wrong.
pub fn comment_of(item: &Item) -> Result<Comment, Malformed> {
    let text = || blob::read(item.get(attribute::COMMENT_BLOB));
    Attributes::of(item).and_then(|attributes| attributes.comment(text)).map_err(|fault| fault.of_item(item))
}

/// The comment of an entry of the index `primaries`, given as an item.
///
/// # Errors
/// Names the attribute that is missing or wrong.
pub fn placed_of_entry(entry: &Item) -> Result<PlacedComment, Malformed> {
    Attributes::of(entry).and_then(|attributes| attributes.placed()).map_err(|fault| fault.of_item(entry))
}

/// The primary item of a comment after an edit. Unknown attributes stay, and so do unknown keys inside the map
/// `comment_blob`: another version or tool wrote them. A map with such keys stays a map in every format.
///
/// # Errors
/// The item cannot be written, which is a bug.
pub fn edited(item: Item, comment: &Comment, format: BlobFormat) -> Result<Item, Malformed> {
    let written: Item = serde_dynamo::to_item(CommentItem::primary(comment, format))
        .map_err(|error| Malformed::new("item", error.to_string()))?;
    let mut attributes = item.into_inner();
    attributes.retain(|name, _| ![attribute::ATTRIBUTES, attribute::AUTHOR_ID].contains(&name.as_str()));
    let blob = attributes.get(attribute::COMMENT_BLOB).and_then(|blob| blob::with_unknown_keys_of(blob, &comment.text));
    attributes.extend(written.into_inner());
    attributes.extend(blob.map(|blob| (attribute::COMMENT_BLOB.to_owned(), blob)));
    Ok(Item::from(attributes))
}

/// A wrong attribute of an item, and the problem.
struct Fault {
    attribute: &'static str,
    problem: String,
}

impl Fault {
    fn new(attribute: &'static str, problem: impl Into<String>) -> Self {
        Self { attribute, problem: problem.into() }
    }

    fn of(self, pk: &str, sk: &str) -> Malformed {
        Malformed::of_item(pk, sk, self.attribute, self.problem)
    }

    fn of_item(self, item: &Item) -> Malformed {
        let key = |name| text(item, name).unwrap_or_default();
        self.of(key(attribute::PK), key(attribute::SK))
    }
}

/// The attributes of an item that describe its comment, besides the text.
struct Attributes<'item> {
    pk: &'item str,
    sk: &'item str,
    cd: &'item str,
    language: &'item str,
    rating: u64,
    has_auto: bool,
    revision: Option<&'item str>,
    shard: Option<&'item str>,
    pcd: Option<&'item str>,
    attributes: Option<&'item str>,
    author_id: Option<&'item str>,
}

impl<'item> Attributes<'item> {
    fn of(item: &'item Item) -> Result<Self, Fault> {
        let required = |name| text(item, name).ok_or_else(|| Fault::new(name, "is missing or no text"));
        let optional = |name| match item.get(name) {
            None | Some(AttributeValue::Null(_)) => Ok(None),
            Some(_) => text(item, name).map(Some).ok_or_else(|| Fault::new(name, "is no text")),
        };
        let rating = match item.get(attribute::RATING) {
            Some(AttributeValue::N(number)) => number.parse().ok(),
            _ => None,
        };
        Ok(Self {
            pk: required(attribute::PK)?,
            sk: required(attribute::SK)?,
            cd: required(attribute::CD)?,
            language: required(attribute::LANGUAGE)?,
            rating: rating.ok_or_else(|| Fault::new(attribute::RATING, "is missing or no whole number"))?,
            has_auto: item.contains_key(attribute::AUTO),
            revision: text(item, attribute::REVISION),
            shard: text(item, attribute::SHARD),
            pcd: text(item, attribute::PCD),
            attributes: optional(attribute::ATTRIBUTES)?,
            author_id: optional(attribute::AUTHOR_ID)?,
        })
    }

    fn is_primary(&self) -> bool {
        self.sk.ends_with(FilterKey::PRIMARY_SUFFIX)
    }

    /// Reads everything that the repair job cannot supply.
    fn read(&self) -> Result<PlacedComment, Fault> {
        let id = comment_id_of_pk(self.pk).ok_or_else(|| Fault::new(attribute::PK, "is not a comment's"))?;
        let key = FilterKey::parse(self.sk).map_err(|error| Fault::new(attribute::SK, error.problem))?;
        if key.is_primary() && self.has_auto {
            return Err(Fault::new(attribute::AUTO, "is there, but a primary item has none"));
        }
        let cd = Cd::parse(self.cd).map_err(|error| Fault::new(attribute::CD, error.problem))?;
        if cd.id != id {
            return Err(Fault::new(attribute::CD, format!("{cd} is of another comment")));
        }
        // The value may be anything, so it is not repeated.
        let language =
            Language::parse(self.language).map_err(|_| Fault::new(attribute::LANGUAGE, "is no language tag"))?;
        let rating = Rating::new(self.rating).map_err(|error| Fault::new(attribute::RATING, error.problem))?;
        if let Some(attributes) = self.attributes {
            check_object(attributes).map_err(|problem| Fault::new(attribute::ATTRIBUTES, problem))?;
        }
        let placement = Placement { product: key.product, language, rating };
        Ok(PlacedComment { id, placement, created_at: cd.created_at })
    }

    /// The revision, when everything is right that the repair job can supply: the revision, and on a primary item the
    /// keys of the index `primaries`.
    fn revision_of(&self, placed: &PlacedComment) -> Result<Revision, Fault> {
        let revision = self.revision.ok_or_else(|| Fault::new(attribute::REVISION, "is missing or no text"))?;
        let revision = Revision::parse(revision).map_err(|error| Fault::new(attribute::REVISION, error.problem))?;
        if self.is_primary() {
            let PrimariesKey { shard, pcd } = placed.primaries_key();
            for (name, found, right) in [(attribute::SHARD, self.shard, shard), (attribute::PCD, self.pcd, pcd)] {
                if found != Some(&right) {
                    return Err(Fault::new(name, format!("is missing or not {right:?}")));
                }
            }
        }
        Ok(revision)
    }

    /// The comment with its text.
    fn comment(&self, text: impl FnOnce() -> Result<CommentText, String>) -> Result<Comment, Fault> {
        let placed = self.read()?;
        let text = text().map_err(|problem| Fault::new(attribute::COMMENT_BLOB, problem))?.shown();
        let revision = self.revision_of(&placed)?;
        let site = SiteData {
            attributes: self.attributes.map(CommentAttributes::stored),
            author_id: self.author_id.map(AuthorId::stored),
        };
        let PlacedComment { id, placement: Placement { product, language, rating }, created_at } = placed;
        Ok(Comment { id, product, language, rating, created_at, revision, text, site })
    }

    /// The comment of an entry of the index `primaries`.
    fn placed(&self) -> Result<PlacedComment, Fault> {
        let placed = self.read()?;
        self.revision_of(&placed)?;
        Ok(placed)
    }
}

/// A primary item's comment, and where it belongs: the data for its entries in the page index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedComment {
    /// The comment's id.
    pub id: CommentId,
    /// The placement: it decides the comment's keys.
    pub placement: Placement,
    /// When the comment was made.
    pub created_at: Timestamp,
}

impl PlacedComment {
    /// The key of the comment's primary item in the index `primaries`.
    pub fn primaries_key(&self) -> PrimariesKey {
        PrimariesKey::of(&self.placement.product, &Cd { created_at: self.created_at, id: self.id.clone() })
    }
}

/// The text in an attribute; `None` when the attribute is missing or has another type.
pub fn text<'item>(item: &'item Item, name: &str) -> Option<&'item str> {
    match item.get(name) {
        Some(AttributeValue::S(text)) => Some(text),
        _ => None,
    }
}

/// The reading of an item under the key of a primary item.
#[derive(Debug, Clone, PartialEq)]
pub enum PrimaryItem<'item> {
    /// A valid primary item.
    Valid(Image<'item>),
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
            Ok((Ok(revision), PlacedComment { id, placement, created_at })) => {
                Self::Valid(Image { id, placement, created_at, revision, item })
            }
            Ok((Err(fault), placed)) => Self::Incomplete(placed, fault.of_item(item)),
            Err(fault) => Self::Invalid(fault.of_item(item)),
        }
    }
}

/// The comment of a primary item, or of an image of it in the stream, and the item.
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
    /// Reads a primary item.
    ///
    /// # Errors
    /// Names the item and the attribute, when it is not a valid primary item.
    pub fn of_primary(item: &'item Item) -> Result<Self, Malformed> {
        match PrimaryItem::read(item) {
            PrimaryItem::Valid(image) => Ok(image),
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

#[cfg(test)]
pub(crate) mod tests;
