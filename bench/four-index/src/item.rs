//! The items of comments, and their projections into the indexes.

use std::{collections::HashMap, fmt::Display};

use model::{
    Cd, Comment, CommentBlob, CommentId, Language, Malformed, ProductId, Rating, Revision,
    SiteData, Status,
    item::{attribute, comment_pk},
};
use serde::Deserialize;
use serde_dynamo::{AttributeValue, Item};

use crate::key::{Index, PK, SK, SORT_KEY};

const COMMENT_BLOB: &str = "comment_blob";

/// The non-key attributes projected into every index: those that a page shows. The keys of the
/// other indexes are not projected.
pub(crate) const PROJECTED: [&str; 4] = [
    attribute::LANGUAGE,
    attribute::RATING,
    attribute::REVISION,
    COMMENT_BLOB,
];

fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub fn comment_item(comment: &Comment) -> Item {
    let placement = comment.placement();
    let key = comment_pk(&comment.id);
    let mut fields = HashMap::new();
    let optional = [
        ("body", &comment.text.body),
        ("title", &comment.text.title),
        ("author", &comment.text.author),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            fields.insert(name.to_owned(), text(value));
        }
    }
    let mut item = HashMap::from([
        (PK.to_owned(), text(&key)),
        (SK.to_owned(), text(key)),
        (SORT_KEY.to_owned(), text(comment.cd().to_string())),
        (
            attribute::LANGUAGE.to_owned(),
            text(comment.language.as_str()),
        ),
        (
            attribute::RATING.to_owned(),
            AttributeValue::N(comment.rating.to_string()),
        ),
        (
            attribute::REVISION.to_owned(),
            text(comment.revision.to_string()),
        ),
        (COMMENT_BLOB.to_owned(), AttributeValue::M(fields)),
    ]);
    for index in Index::EVERY.iter().copied() {
        item.insert(
            index.partition_attribute().to_owned(),
            text(index.partition_of(&placement)),
        );
    }
    Item::from(item)
}

pub fn projection(item: &Item, index: Index) -> Item {
    let keys = [PK, SK, SORT_KEY, index.partition_attribute()];
    let projected = item
        .iter()
        .filter(|(name, _)| keys.iter().chain(&PROJECTED).any(|one| one == name));
    Item::from(
        projected
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<HashMap<_, _>>(),
    )
}

pub(crate) fn item_key(id: &CommentId) -> Item {
    let key = comment_pk(id);
    Item::from(HashMap::from([
        (PK.to_owned(), text(&key)),
        (SK.to_owned(), text(key)),
    ]))
}

pub(crate) fn start_key(index: Index, partition: &str, after: &Cd) -> Item {
    let mut key = item_key(&after.id).into_inner();
    key.insert(SORT_KEY.to_owned(), text(after.to_string()));
    key.insert(index.partition_attribute().to_owned(), text(partition));
    Item::from(key)
}

#[derive(Debug, Deserialize)]
pub(crate) struct IndexEntry {
    #[serde(rename = "GSISK")]
    cd: String,
    language: String,
    rating: u64,
    revision: String,
    comment_blob: CommentBlob,
}

impl IndexEntry {
    pub(crate) fn cd(&self) -> Result<Cd, Malformed> {
        Cd::parse(&self.cd)
    }

    pub(crate) fn into_comment(self, product: &ProductId) -> Result<Comment, Malformed> {
        let cd = Cd::parse(&self.cd)?;
        Ok(Comment {
            id: cd.id,
            product: product.clone(),
            language: Language::parse(&self.language).map_err(malformed)?,
            rating: Rating::new(self.rating).map_err(malformed)?,
            created_at: cd.created_at,
            status: Status::Published,
            revision: Revision::parse(&self.revision).map_err(malformed)?,
            text: self.comment_blob.into_text()?,
            site: SiteData::default(),
        })
    }
}

fn malformed(problem: impl Display) -> Malformed {
    Malformed::new("item", problem.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use model::{CommentText, Timestamp, size::item_bytes};

    use super::*;

    pub(crate) fn comment(id: &str, language: &str, rating: u64) -> Comment {
        let now = Timestamp::parse("2024-02-29T12:00:00.123Z").unwrap();
        Comment {
            id: CommentId::parse(id).unwrap(),
            product: ProductId::parse("a/42").unwrap(),
            language: Language::parse(language).unwrap(),
            rating: Rating::new(rating).unwrap(),
            created_at: now,
            status: Status::Published,
            revision: Revision::after(None, now, 7),
            text: CommentText::new(None, "Fine.".to_owned(), Some("Ann".to_owned())).unwrap(),
            site: SiteData::default(),
        }
    }

    #[test]
    fn every_index_gives_the_comment_back() {
        let without = CommentText {
            title: None,
            body: Some("☕\n".to_owned()),
            author: None,
        };
        let with = CommentText {
            title: Some("T".to_owned()),
            author: Some("Ann".to_owned()),
            ..without.clone()
        };
        for text in [without, with] {
            let comment = Comment {
                text,
                ..comment("c1", "zh-Hant", 1)
            };
            let item = comment_item(&comment);
            for index in Index::EVERY.iter().copied() {
                let projected = projection(&item, index);
                assert!(item_bytes(&projected) < item_bytes(&item));
                let entry: IndexEntry = serde_dynamo::from_item(projected).unwrap();
                assert_eq!(entry.cd().unwrap(), comment.cd());
                assert_eq!(entry.into_comment(&comment.product).unwrap(), comment);
            }
        }
    }
}
