//! The items of the table, as `serde_dynamo` reads and writes them.
//!
//! These types are read from the SDK's attribute values (`table`) and from those of Lambda events
//! (`record`).
//!
//! **Invariant:** a valid primary item has one definition (ADR 40). Its rules are in
//! [`CommentItem`] and `blob`. The functions, the API and the repair job all read by them
//! (`pages_and_functions_agree_on_what_is_valid` in `table`).

use std::{fmt, mem, ops::Deref};

use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};
use serde_dynamo::{AttributeValue, Item};

use crate::{
    blob::{self, BlobFormat, CommentBlob},
    comment::{Cd, Comment, CommentText, Placement, RankEntry},
    error::Malformed,
    filter::FilterKey,
    id::CommentId,
    language::Language,
    rating::Rating,
    revision::Revision,
    site_data::{AuthorId, CommentAttributes, SiteData, check_object},
    status::Status,
    strict_text::{strict_optional_text, strict_text},
    timestamp::Timestamp,
};

mod image;
pub mod primaries;

pub use image::{Image, incomplete};
use primaries::{PRIMARIES_KEYS, PrimariesKey, primaries_shard};

pub mod attribute {
    pub const PK: &str = "pk";
    pub const SK: &str = "sk";
    /// The index's sort key. An unpublished primary item has none.
    pub const CD: &str = "cd";
    pub const LANGUAGE: &str = "language";
    pub const RATING: &str = "rating";
    pub const REVISION: &str = "revision";
    pub const COMMENT_BLOB: &str = "comment_blob";
    /// True on duplicate items, absent on others.
    pub const AUTO: &str = "auto";
    /// The partition key of the index `primaries`; on primary items only.
    pub const SHARD: &str = "shard";
    /// The sort key of the index `primaries`, `<escaped product>#<cd>`; on primary items only.
    pub const PCD: &str = "pcd";
    pub const ATTRIBUTES: &str = "attributes";
    /// The author's id, and the partition key of the index `authors`; on primary items only.
    pub const AUTHOR_ID: &str = "author_id";
    /// The status of an unpublished primary item, and the partition key of the index `moderation`;
    /// absent on others.
    pub const UNPUBLISHED: &str = "unpublished";
    /// Instead of `cd` on an unpublished primary item, and the sort key of the index `moderation`.
    pub const UNPUBLISHED_CD: &str = "unpublished_cd";
    /// When DynamoDB may remove an item, in seconds since 1970.
    pub const EXPIRES_AT: &str = "expires_at";
}

/// The attributes that only primary items have: they key the sparse indexes, which hold no
/// duplicates.
pub const PRIMARY_ONLY: [&str; 5] = [
    attribute::SHARD,
    attribute::PCD,
    attribute::AUTHOR_ID,
    attribute::UNPUBLISHED,
    attribute::UNPUBLISHED_CD,
];

/// The attributes that key the sparse index `moderation`. Only unpublished primary items have them.
///
/// The unfiltered listing of a product is made of its primary items themselves. So an unpublished
/// one has no `cd`, and no query of a reader can return it. It has no key of the index `primaries`
/// either, so a rebuild never ranks it (ADR 71). These say its status and its creation time
/// instead.
pub const UNPUBLISHED_KEYS: [&str; 2] = [attribute::UNPUBLISHED, attribute::UNPUBLISHED_CD];

pub const COMMENT_PREFIX: &str = "COMMENT#";

pub fn comment_pk(id: &CommentId) -> String {
    format!("{COMMENT_PREFIX}{id}")
}

/// The comment id in a partition key; `None` for a key of anything else.
pub fn comment_id_of_pk(pk: &str) -> Option<CommentId> {
    CommentId::parse(pk.strip_prefix(COMMENT_PREFIX)?).ok()
}

/// An item of a comment, or an entry of an index, as far as it describes the comment. Its texts are
/// its own, or borrowed from an [`Item`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(deserialize = "Blob: Deserialize<'de>, Text: From<String>"))]
pub struct CommentItem<Blob = CommentBlob, Text = String> {
    /// `COMMENT#<id>`.
    #[serde(deserialize_with = "strict_text")]
    pub pk: Text,
    #[serde(deserialize_with = "strict_text")]
    pub sk: Text,
    #[serde(
        default,
        deserialize_with = "strict_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub cd: Option<Text>,
    #[serde(deserialize_with = "strict_text")]
    pub language: Text,
    pub rating: u64,
    #[serde(
        default,
        deserialize_with = "strict_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub revision: Option<Text>,
    pub comment_blob: Blob,
    /// True on duplicates, absent on the primary item. Read as true with any value: only its
    /// presence counts.
    #[serde(
        default,
        deserialize_with = "is_there",
        skip_serializing_if = "Option::is_none"
    )]
    pub auto: Option<bool>,
    #[serde(
        default,
        deserialize_with = "strict_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub shard: Option<Text>,
    #[serde(
        default,
        deserialize_with = "strict_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub pcd: Option<Text>,
    #[serde(
        default,
        deserialize_with = "strict_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub attributes: Option<Text>,
    #[serde(
        default,
        deserialize_with = "strict_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub author_id: Option<Text>,
    #[serde(
        default,
        deserialize_with = "strict_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub unpublished: Option<Text>,
    #[serde(
        default,
        deserialize_with = "strict_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub unpublished_cd: Option<Text>,
}

/// Instead of the text, which an entry of the index `primaries` lacks.
pub type NoBlob = Option<IgnoredAny>;

fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| Some(true))
}

impl CommentItem {
    pub fn primary(comment: &Comment, format: BlobFormat) -> Self {
        let cd = comment.cd();
        let is_published = comment.status.is_published();
        let PrimariesKey { shard, pcd } = PrimariesKey::of(&comment.product, &cd);
        Self {
            pk: comment_pk(&comment.id),
            sk: FilterKey::primary(comment.product.clone()).to_string(),
            cd: is_published.then(|| cd.to_string()),
            language: comment.language.to_string(),
            rating: u64::from(comment.rating.get()),
            revision: Some(comment.revision.to_string()),
            comment_blob: CommentBlob::new(&comment.text, format),
            auto: None,
            shard: is_published.then_some(shard),
            pcd: is_published.then_some(pcd),
            attributes: comment
                .site
                .attributes
                .as_ref()
                .map(|attributes| attributes.as_json().to_owned()),
            author_id: comment.site.author_id.as_ref().map(ToString::to_string),
            unpublished: (!is_published).then(|| comment.status.to_string()),
            unpublished_cd: (!is_published).then(|| cd.to_string()),
        }
    }

    /// The comment that the item, primary or duplicate, holds.
    ///
    /// # Errors
    /// Names the attribute that is wrong. Limits of texts are not checked: stored texts are shown,
    /// except titles and authors without a visible character.
    pub fn into_comment(mut self) -> Result<Comment, Malformed> {
        let blob = mem::replace(&mut self.comment_blob, CommentBlob::Binary(Vec::new()));
        self.comment(|| blob.into_text().map_err(|error| error.problem))
    }
}

/// Like [`CommentItem::into_comment`], but every error names the attribute.
pub fn comment_of(item: &Item) -> Result<Comment, Malformed> {
    CommentItem::of(item)?.comment(|| blob::read(item.get(attribute::COMMENT_BLOB)))
}

/// The comment of a valid primary item, published or not.
pub fn comment_of_primary(item: &Item) -> Result<Comment, Malformed> {
    Image::read(item).and_then(|_| comment_of(item))
}

pub fn placed_of_entry(entry: &Item) -> Result<PlacedComment, Malformed> {
    CommentItem::of(entry)?.placed()
}

/// The primary item of a comment after an edit. Unknown attributes stay, and so do unknown keys
/// inside the map `comment_blob`: another version or tool wrote them. A map with such keys stays a
/// map in every format.
pub fn edited(item: Item, comment: &Comment, format: BlobFormat) -> Result<Item, Malformed> {
    let written: Item = serde_dynamo::to_item(CommentItem::primary(comment, format))
        .map_err(|error| Malformed::new("item", error.to_string()))?;
    let mut attributes = item.into_inner();
    // An edit may remove the site's data, and the new status may have another form.
    for name in [attribute::ATTRIBUTES, attribute::AUTHOR_ID, attribute::CD]
        .into_iter()
        .chain(PRIMARIES_KEYS)
        .chain(UNPUBLISHED_KEYS)
    {
        attributes.remove(name);
    }
    let blob = attributes
        .get(attribute::COMMENT_BLOB)
        .and_then(|blob| blob::with_unknown_keys_of(blob, &comment.text));
    attributes.extend(written.into_inner());
    if let Some(blob) = blob {
        attributes.insert(attribute::COMMENT_BLOB.to_owned(), blob);
    }
    Ok(Item::from(attributes))
}

fn malformed(item: &Item, name: &str, problem: &str) -> Malformed {
    let pk = text(item, attribute::PK).unwrap_or_default();
    let sk = text(item, attribute::SK).unwrap_or_default();
    Malformed::of_item(pk, sk, name, problem)
}

fn required_text<'item>(item: &'item Item, name: &str) -> Result<&'item str, Malformed> {
    text(item, name).ok_or_else(|| malformed(item, name, "is missing or no text"))
}

fn optional_text<'item>(item: &'item Item, name: &str) -> Result<Option<&'item str>, Malformed> {
    match item.get(name) {
        None | Some(AttributeValue::Null(_)) => Ok(None),
        Some(AttributeValue::S(text)) => Ok(Some(text)),
        Some(_) => Err(malformed(item, name, "is no text")),
    }
}

impl<'item> CommentItem<NoBlob, &'item str> {
    fn of(item: &'item Item) -> Result<Self, Malformed> {
        let rating = match item.get(attribute::RATING) {
            Some(AttributeValue::N(number)) => number.parse().ok(),
            _ => None,
        };
        Ok(Self {
            pk: required_text(item, attribute::PK)?,
            sk: required_text(item, attribute::SK)?,
            cd: given(item, attribute::CD),
            language: required_text(item, attribute::LANGUAGE)?,
            rating: rating.ok_or_else(|| {
                malformed(item, attribute::RATING, "is missing or no whole number")
            })?,
            revision: text(item, attribute::REVISION),
            comment_blob: None,
            auto: item.contains_key(attribute::AUTO).then_some(true),
            shard: given(item, attribute::SHARD),
            pcd: given(item, attribute::PCD),
            attributes: optional_text(item, attribute::ATTRIBUTES)?,
            author_id: optional_text(item, attribute::AUTHOR_ID)?,
            unpublished: given(item, attribute::UNPUBLISHED),
            unpublished_cd: given(item, attribute::UNPUBLISHED_CD),
        })
    }
}

impl<Blob, Text: Deref<Target = str>> CommentItem<Blob, Text> {
    fn malformed(&self, name: &str, problem: impl fmt::Display) -> Malformed {
        Malformed::of_item(&self.pk, &self.sk, name, problem)
    }

    fn is_primary(&self) -> bool {
        self.sk.ends_with(FilterKey::PRIMARY_SUFFIX)
    }

    /// Reads everything that the repair job cannot supply.
    fn read(&self) -> Result<PlacedComment, Malformed> {
        let id = comment_id_of_pk(&self.pk)
            .ok_or_else(|| self.malformed(attribute::PK, "is not a comment's"))?;
        let key = FilterKey::parse(&self.sk)
            .map_err(|error| self.malformed(attribute::SK, error.problem))?;
        if key.is_primary() && self.auto.is_some() {
            return Err(self.malformed(attribute::AUTO, "is there, but a primary item has none"));
        }
        let (status, name, cd) = self.status_and_cd()?;
        let cd = cd
            .filter(|cd| !cd.is_empty())
            .ok_or_else(|| self.malformed(name, "is missing or no text"))?;
        let cd = Cd::parse(cd).map_err(|error| self.malformed(name, error.problem))?;
        if cd.id != id {
            return Err(self.malformed(name, format!("{cd} is of another comment")));
        }
        // The value may be anything, so it is not repeated.
        let language = Language::parse_stored(&self.language)
            .map_err(|_| self.malformed(attribute::LANGUAGE, "is no language tag"))?;
        let rating = Rating::new(self.rating)
            .map_err(|error| self.malformed(attribute::RATING, error.problem))?;
        if let Some(attributes) = self.attributes.as_deref() {
            check_object(attributes)
                .map_err(|problem| self.malformed(attribute::ATTRIBUTES, problem))?;
        }
        let placement = Placement {
            product: key.product,
            language,
            rating,
        };
        Ok(PlacedComment {
            id,
            placement,
            created_at: cd.created_at,
            status,
        })
    }

    /// The status, with the name and value of the attribute that then holds the creation time. An
    /// item that has attributes of both forms has none.
    fn status_and_cd(&self) -> Result<(Status, &'static str, Option<&str>), Malformed> {
        let Some(unpublished) = self.unpublished.as_deref() else {
            return match self.unpublished_cd {
                None => Ok((Status::Published, attribute::CD, self.cd.as_deref())),
                Some(_) => Err(self.malformed(
                    attribute::UNPUBLISHED_CD,
                    "is there, but a published comment has none",
                )),
            };
        };
        let status = Status::parse(unpublished)
            .ok()
            .filter(|status| !status.is_published() && self.is_primary());
        let status = status.ok_or_else(|| {
            self.malformed(
                attribute::UNPUBLISHED,
                "is neither pending nor hidden, or not on a primary item",
            )
        })?;
        for (name, found) in [
            (attribute::CD, &self.cd),
            (attribute::SHARD, &self.shard),
            (attribute::PCD, &self.pcd),
        ] {
            if found.is_some() {
                return Err(
                    self.malformed(name, format!("is there, but a {status} comment has none"))
                );
            }
        }
        Ok((
            status,
            attribute::UNPUBLISHED_CD,
            self.unpublished_cd.as_deref(),
        ))
    }

    /// The revision, when everything is right that the repair job can supply: the revision, and on
    /// a primary item the keys of the index `primaries`.
    fn revision_of(&self, placed: &PlacedComment) -> Result<Revision, Malformed> {
        let revision = self
            .revision
            .as_deref()
            .ok_or_else(|| self.malformed(attribute::REVISION, "is missing or no text"))?;
        let revision = Revision::parse(revision)
            .map_err(|error| self.malformed(attribute::REVISION, error.problem))?;
        if self.is_primary() && placed.status.is_published() {
            self.check_primaries_key(placed)?;
        }
        Ok(revision)
    }

    /// The keys are compared by their parts: `sk` and `cd` are valid, so they hold product and
    /// instant as the keys must spell them. Reading a comment takes half the time without writing
    /// them.
    fn check_primaries_key(&self, placed: &PlacedComment) -> Result<(), Malformed> {
        let shard = primaries_shard(PrimariesKey::shard_of(&placed.placement.product));
        if self.shard.as_deref() != Some(&shard) {
            return Err(self.malformed(attribute::SHARD, format!("is missing or not {shard:?}")));
        }
        let pcd = self.pcd.as_deref().and_then(|pcd| pcd.split_once('#'));
        let product = self.sk.split(['#', '/']).nth(1);
        if pcd.is_some() && pcd == product.zip(self.cd.as_deref()) {
            return Ok(());
        }
        let PrimariesKey { pcd, .. } = placed.primaries_key();
        Err(self.malformed(attribute::PCD, format!("is missing or not {pcd:?}")))
    }

    fn comment(
        &self,
        text: impl FnOnce() -> Result<CommentText, String>,
    ) -> Result<Comment, Malformed> {
        let placed = self.read()?;
        let text = text()
            .map_err(|problem| self.malformed(attribute::COMMENT_BLOB, problem))?
            .shown();
        let revision = self.revision_of(&placed)?;
        let site = SiteData {
            attributes: self.attributes.as_deref().map(CommentAttributes::stored),
            author_id: self.author_id.as_deref().map(AuthorId::stored),
        };
        let PlacedComment {
            id,
            placement:
                Placement {
                    product,
                    language,
                    rating,
                },
            created_at,
            status,
        } = placed;
        Ok(Comment {
            id,
            product,
            language,
            rating,
            created_at,
            revision,
            status,
            text,
            site,
        })
    }

    pub fn placed(&self) -> Result<PlacedComment, Malformed> {
        let placed = self.read()?;
        self.revision_of(&placed)?;
        Ok(placed)
    }
}

/// A primary item's comment, and where it belongs: the data for its entries in the page index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedComment {
    pub id: CommentId,
    pub placement: Placement,
    pub created_at: Timestamp,
    /// Whether readers see it. Only a published comment has entries in the page index.
    pub status: Status,
}

impl PlacedComment {
    /// The entry in the page index that it implies if it is published.
    pub fn entry(&self) -> RankEntry {
        RankEntry {
            placement: self.placement.clone(),
            created_at: self.created_at,
        }
    }

    pub fn primaries_key(&self) -> PrimariesKey {
        PrimariesKey::of(
            &self.placement.product,
            &Cd {
                created_at: self.created_at,
                id: self.id.clone(),
            },
        )
    }
}

/// The text in an attribute; `None` when the attribute is missing or has another type.
pub fn text<'item>(item: &'item Item, name: &str) -> Option<&'item str> {
    match item.get(name) {
        Some(AttributeValue::S(text)) => Some(text),
        _ => None,
    }
}

/// The text in an attribute that only a text may fill: empty when it has another type, `None` when
/// it is missing or null.
fn given<'item>(item: &'item Item, name: &str) -> Option<&'item str> {
    match item.get(name) {
        None | Some(AttributeValue::Null(_)) => None,
        Some(_) => Some(text(item, name).unwrap_or_default()),
    }
}

#[cfg(test)]
pub(crate) mod tests;
