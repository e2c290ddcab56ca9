//! The items of the table, as `serde_dynamo` reads and writes them.
//!
//! The same types are read from the SDK's attribute values (`stores`) and from those of Lambda events (`record`).

use serde::{Deserialize, Serialize};
use serde_dynamo::{AttributeValue, Item};

use crate::{
    blob::{BlobFormat, CommentBlob},
    comment::{Cd, Comment, Placement},
    error::Malformed,
    filter::FilterKey,
    id::{CommentId, ProductId},
    instant::Instant,
    language::Language,
    rating::Rating,
    revision::Revision,
};

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
    /// True on duplicate items, absent on others.
    pub const AUTO: &str = "auto";
    /// When DynamoDB may remove an item, in seconds since 1970.
    pub const EXPIRES_AT: &str = "expires_at";
}

/// What the partition key of a comment begins with.
pub const COMMENT_PREFIX: &str = "COMMENT#";

/// The partition key of a comment's items.
pub fn comment_pk(id: &CommentId) -> String {
    format!("{COMMENT_PREFIX}{id}")
}

/// The comment id in a partition key, `None` when it is not a comment's.
pub fn comment_id_of_pk(pk: &str) -> Option<CommentId> {
    CommentId::parse(pk.strip_prefix(COMMENT_PREFIX)?).ok()
}

/// A primary or duplicate item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentItem {
    /// `COMMENT#<id>`.
    pub pk: String,
    /// The filter key.
    pub sk: String,
    /// See [`Cd`].
    pub cd: String,
    /// The comment's language.
    pub language: String,
    /// The comment's rating.
    pub rating: u64,
    /// The comment's revision.
    pub revision: String,
    /// The comment's text, in any format.
    pub comment_blob: CommentBlob,
    /// True on duplicates, absent on the primary item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto: Option<bool>,
}

impl CommentItem {
    /// The primary item of a comment, its text in this format.
    pub fn primary(comment: &Comment, format: BlobFormat) -> Self {
        Self {
            pk: comment_pk(&comment.id),
            sk: FilterKey::primary(comment.product.clone()).to_string(),
            cd: comment.cd().to_string(),
            language: comment.language.to_string(),
            rating: u64::from(comment.rating.get()),
            revision: comment.revision.to_string(),
            comment_blob: CommentBlob::new(&comment.text, format),
            auto: None,
        }
    }

    /// Whether the item is a duplicate.
    pub fn is_duplicate(&self) -> bool {
        self.auto.is_some()
    }

    /// The comment that the item, primary or duplicate, holds.
    ///
    /// # Errors
    /// An attribute that does not have its form, as the fields of this type describe it. Limits of texts are not checked: what is stored is shown.
    pub fn into_comment(self) -> Result<Comment, Malformed> {
        let malformed = |problem: String| Malformed::new("item", problem);
        let id = comment_id_of_pk(&self.pk).ok_or_else(|| malformed(format!("pk {:?} is not a comment's", self.pk)))?;
        let key = FilterKey::parse(&self.sk)?;
        let cd = Cd::parse(&self.cd)?;
        if cd.id != id {
            return Err(malformed(format!("cd {cd} is not of comment {id}")));
        }
        // Whoever looks into it needs to know which comment it is.
        let text = self.comment_blob.into_text();
        let text = text.map_err(|error| Malformed::new(error.what, format!("of comment {id}: {}", error.problem)));
        Ok(Comment {
            id,
            product: key.product,
            language: Language::parse(&self.language).map_err(|error| malformed(error.to_string()))?,
            rating: Rating::new(self.rating).map_err(|error| malformed(error.to_string()))?,
            created_at: cd.created_at,
            revision: Revision::parse(&self.revision).map_err(|error| malformed(error.to_string()))?,
            text: text?,
        })
    }
}

/// Which comment a primary item is of, and where it stands: what its entries in the page index are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedComment {
    /// The comment's id.
    pub id: CommentId,
    /// What decides the comment's keys.
    pub placement: Placement,
    /// When the comment was made.
    pub created_at: Instant,
}

/// The attributes that tell this of a primary item whose product is known.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PlacementItem {
    pk: String,
    cd: String,
    language: String,
    rating: u64,
    auto: Option<bool>,
}

impl PlacementItem {
    /// Reads the primary item of a product; `None` of one that is a duplicate, or no comment's.
    ///
    /// # Errors
    /// As of [`Image::of_primary`].
    pub fn into_placed(self, product: &ProductId) -> Result<Option<PlacedComment>, Malformed> {
        if self.auto.is_some() || !self.pk.starts_with(COMMENT_PREFIX) {
            return Ok(None);
        }
        let malformed = |problem: String| Malformed::new("image", format!("{} of {product}: {problem}", self.pk));
        let id = comment_id_of_pk(&self.pk).ok_or_else(|| malformed("pk is not a comment's".to_owned()))?;
        let cd = Cd::parse(&self.cd)?;
        if cd.id != id {
            return Err(malformed(format!("cd {cd} is not of comment {id}")));
        }
        let language = Language::parse(&self.language).map_err(|error| malformed(error.to_string()))?;
        let rating = Rating::new(self.rating).map_err(|error| malformed(error.to_string()))?;
        Ok(Some(PlacedComment {
            id,
            placement: Placement { product: product.clone(), language, rating },
            created_at: cd.created_at,
        }))
    }
}

/// The text in an attribute, `None` when it is missing or no text.
pub fn text<'item>(item: &'item Item, name: &str) -> Option<&'item str> {
    match item.get(name) {
        Some(AttributeValue::S(text)) => Some(text),
        _ => None,
    }
}

/// What a primary item, or an image of it in the stream, says about its comment, with the item itself.
///
/// Duplicates are made from the whole item, so that they equal it also in attributes that this version of the
/// code does not know. The item is borrowed, and only what decides keys is read: a handler looks at two images a
/// record, and copies of their texts would cost it more than everything else that it does.
#[derive(Debug, Clone, PartialEq)]
pub struct Image<'item> {
    /// The comment's id.
    pub id: CommentId,
    /// What decides the comment's keys.
    pub placement: Placement,
    /// When the comment was made.
    pub created_at: Instant,
    /// The primary item, every attribute of it.
    pub item: &'item Item,
}

impl<'item> Image<'item> {
    /// Reads a primary item.
    ///
    /// # Errors
    /// An attribute that decides keys is missing or wrong, or the item is a duplicate.
    pub fn of_primary(item: &'item Item) -> Result<Self, Malformed> {
        let malformed = |problem: String| Malformed::new("image", problem);
        let required = |name: &str| text(item, name).ok_or_else(|| malformed(format!("{name} is missing or no text")));
        let (pk, cd) = (required(attribute::PK)?, Cd::parse(required(attribute::CD)?)?);
        let id = comment_id_of_pk(pk).ok_or_else(|| malformed(format!("pk {pk:?} is not a comment's")))?;
        let key = FilterKey::parse(required(attribute::SK)?)?;
        if !key.is_primary() {
            return Err(malformed(format!("sk {key} is not a primary item's")));
        }
        if item.contains_key(attribute::AUTO) {
            return Err(malformed("a primary item with the attribute auto".to_owned()));
        }
        if cd.id != id {
            return Err(malformed(format!("cd {cd} is not of comment {id}")));
        }
        let language = Language::parse(required(attribute::LANGUAGE)?).map_err(|error| malformed(error.to_string()))?;
        let rating = match item.get(attribute::RATING) {
            Some(AttributeValue::N(number)) => Rating::parse(number).map_err(|error| malformed(error.to_string()))?,
            _ => return Err(malformed("rating is missing or no number".to_owned())),
        };
        let placement = Placement { product: key.product, language, rating };
        Ok(Self { id, placement, created_at: cd.created_at, item })
    }

    /// The same without the item.
    pub fn into_placed(self) -> PlacedComment {
        PlacedComment { id: self.id, placement: self.placement, created_at: self.created_at }
    }

    /// The attributes in which an item differs from the duplicate that it should be, ascending; its key is not looked at.
    pub fn differences(&self, found: &Item) -> Vec<String> {
        let is_right = |name: &str| match name {
            attribute::SK => true,
            attribute::AUTO => found.get(name) == Some(&AttributeValue::Bool(true)),
            _ => found.get(name) == self.item.get(name),
        };
        let names = self.item.keys().chain(found.keys()).map(String::as_str).chain([attribute::AUTO]);
        let mut wrong: Vec<String> = names.filter(|name| !is_right(name)).map(str::to_owned).collect();
        wrong.sort_unstable();
        wrong.dedup();
        wrong
    }

    /// The duplicate of the item under another key.
    pub fn duplicate(&self, key: &FilterKey) -> Item {
        let mut duplicate = self.item.clone().into_inner();
        duplicate.insert(attribute::SK.to_owned(), AttributeValue::S(key.to_string()));
        duplicate.insert(attribute::AUTO.to_owned(), AttributeValue::Bool(true));
        Item::from(duplicate)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::comment::CommentText;

    pub(crate) fn comment(id: &str, product: &str, language: &str, rating: u64) -> Comment {
        let now = Instant::parse("2024-02-29T12:00:00.123Z").unwrap();
        Comment {
            id: CommentId::parse(id).unwrap(),
            product: ProductId::parse(product).unwrap(),
            language: Language::parse(language).unwrap(),
            rating: Rating::new(rating).unwrap(),
            created_at: now,
            revision: Revision::after(None, now, 7),
            text: CommentText::new(None, "Fine.".to_owned(), Some("Ann".to_owned())).unwrap(),
        }
    }

    pub(crate) fn primary_item(comment: &Comment) -> Item {
        serde_dynamo::to_item(CommentItem::primary(comment, BlobFormat::Map)).unwrap()
    }

    #[test]
    fn a_primary_item_has_the_attributes_of_the_design() {
        let item = primary_item(&comment("c1", "a/b", "EN", 4));
        let json = serde_json::to_value(&item).unwrap();
        expect_test::expect![[r#"
            {
              "cd": {
                "S": "2024-02-29T12:00:00.123Z#c1"
              },
              "comment_blob": {
                "M": {
                  "author": {
                    "S": "Ann"
                  },
                  "body": {
                    "S": "Fine."
                  }
                }
              },
              "language": {
                "S": "en"
              },
              "pk": {
                "S": "COMMENT#c1"
              },
              "rating": {
                "N": "4"
              },
              "revision": {
                "S": "01HQTBRNKV0000000000000007"
              },
              "sk": {
                "S": "PRODUCT#a%2Fb/~/~"
              }
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&json).unwrap());
    }

    #[test]
    fn items_read_back_as_the_comment() {
        let comment = comment("c1", "a/b", "en", 4);
        let item = primary_item(&comment);
        let image = Image::of_primary(&item).unwrap();
        assert_eq!(
            (&image.id, &image.placement, image.created_at),
            (&comment.id, &comment.placement(), comment.created_at)
        );
        for key in comment.placement().duplicate_keys() {
            let duplicate: CommentItem = serde_dynamo::from_item(image.duplicate(&key)).unwrap();
            assert!(duplicate.is_duplicate());
            assert_eq!(duplicate.into_comment().unwrap(), comment);
        }
    }

    #[test]
    fn a_primary_item_is_placed_alike_however_it_is_read() {
        let comment = comment("c1", "a/b", "en", 4);
        let item = primary_item(&comment);
        let placed: PlacementItem = serde_dynamo::from_item(item.clone()).unwrap();
        let by_image = Image::of_primary(&item).unwrap().into_placed();
        assert_eq!(placed.clone().into_placed(&comment.product).unwrap(), Some(by_image));
        assert_eq!(PlacementItem { auto: Some(true), ..placed.clone() }.into_placed(&comment.product).unwrap(), None);
        let elsewhere = PlacementItem { pk: "STATE#c1".to_owned(), ..placed.clone() };
        assert_eq!(elsewhere.into_placed(&comment.product).unwrap(), None);
        for broken in [
            PlacementItem { pk: "COMMENT#c 1".to_owned(), ..placed.clone() },
            PlacementItem { pk: "COMMENT#c2".to_owned(), ..placed.clone() },
            PlacementItem { cd: "today".to_owned(), ..placed.clone() },
            PlacementItem { language: "e".to_owned(), ..placed.clone() },
            PlacementItem { rating: 6, ..placed.clone() },
        ] {
            assert!(broken.clone().into_placed(&comment.product).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn a_broken_item_is_malformed() {
        let good = primary_item(&comment("c1", "p", "en", 4));
        let with = |name: &str, value: Option<AttributeValue>| {
            let mut item = good.clone().into_inner();
            match value {
                Some(value) => item.insert(name.to_owned(), value),
                None => item.remove(name),
            };
            Image::of_primary(&Item::from(item)).map(|_| ())
        };
        let text = |text: &str| Some(AttributeValue::S(text.to_owned()));
        assert!(with("other", text("kept")).is_ok());
        for (name, value) in [
            ("pk", text("CHANGE#1")),
            ("sk", text("PRODUCT#p/en/~")),
            ("cd", text("2024-02-29T12:00:00.123Z#c2")),
            ("cd", None),
            ("language", text("e")),
            ("rating", Some(AttributeValue::N("6".to_owned()))),
            ("rating", text("4")),
            ("auto", Some(AttributeValue::Bool(true))),
        ] {
            assert!(with(name, value.clone()).is_err(), "{name} {value:?}");
        }
    }
}
