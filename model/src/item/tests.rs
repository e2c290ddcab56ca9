//! Items written and read back, and invalid primary items.

use itertools::Itertools;

use super::*;
use crate::id::ProductId;

pub(crate) fn comment(id: &str, product: &str, language: &str, rating: u64) -> Comment {
    let now = Timestamp::parse("2024-02-29T12:00:00.123Z").unwrap();
    Comment {
        id: CommentId::parse(id).unwrap(),
        product: ProductId::parse(product).unwrap(),
        language: Language::parse(language).unwrap(),
        rating: Rating::new(rating).unwrap(),
        created_at: now,
        revision: Revision::after(None, now, 7),
        status: Status::Published,
        text: CommentText::new(None, "Fine.".to_owned(), Some("Ann".to_owned())).unwrap(),
    }
}

pub(crate) fn placed(comment: &Comment) -> PlacedComment {
    let (id, placement) = (comment.id.clone(), comment.placement());
    PlacedComment { id, placement, created_at: comment.created_at, status: comment.status }
}

pub(crate) fn primary_item(comment: &Comment) -> Item {
    serde_dynamo::to_item(CommentItem::primary(comment, BlobFormat::Map)).unwrap()
}

#[test]
fn a_primary_item_has_the_attributes_of_the_design() {
    let item = primary_item(&comment("c1", "a/b", "EN", 4));
    let expected = serde_json::json!({
        "pk": { "S": "COMMENT#c1" },
        "sk": { "S": "PRODUCT#a%2Fb/~/~" },
        "cd": { "S": "2024-02-29T12:00:00.123Z#c1" },
        "language": { "S": "en" },
        "rating": { "N": "4" },
        "revision": { "S": "01HQTBRNKV0000000000000007" },
        "comment_blob": { "M": { "author": { "S": "Ann" }, "body": { "S": "Fine." } } },
        "shard": { "S": "28" },
        "pcd": { "S": "a%2Fb#2024-02-29T12:00:00.123Z#c1" },
    });
    assert_eq!(serde_json::to_value(&item).unwrap(), expected);
}

#[test]
fn an_unpublished_item_has_no_key_of_a_reader_and_reads_back() {
    for status in Status::UNPUBLISHED {
        let comment = Comment { status, ..comment("c1", "a/b", "en", 4) };
        let item = primary_item(&comment);
        let mut names: Vec<&String> = item.keys().collect();
        names.sort();
        let expected = ["comment_blob", "language", "pk", "rating", "revision", "sk", "unpublished", "unpublished_cd"];
        assert_eq!(names, expected);
        assert_eq!(item["unpublished"], text_value(status.as_str()));
        assert_eq!(item["unpublished_cd"], text_value("2024-02-29T12:00:00.123Z#c1"));
        let PrimaryItem::Unpublished(read) = PrimaryItem::read(&item) else { panic!("{item:?}") };
        assert_eq!((read.comment, read.revision), (placed(&comment), comment.revision));
        assert_eq!(comment_of_primary(&item), Ok(comment.clone()));
        let typed: CommentItem = serde_dynamo::from_item(item.clone()).unwrap();
        assert_eq!(typed.into_comment(), Ok(comment));
        let named = Image::of_primary(&item).unwrap_err().to_string();
        assert!(named.contains("attribute unpublished: says that the comment is"), "{named}");
    }
}

#[test]
fn an_item_with_attributes_of_both_forms_is_invalid() {
    let hidden = primary_item(&Comment { status: Status::Hidden, ..comment("c1", "p", "en", 4) });
    let published = primary_item(&comment("c1", "p", "en", 4));
    for (of, name, value) in [
        (&hidden, "cd", text_value("2024-02-29T12:00:00.123Z#c1")),
        (&hidden, "shard", text_value("49")),
        (&hidden, "pcd", text_value("p#2024-02-29T12:00:00.123Z#c1")),
        (&hidden, "unpublished", text_value("published")),
        (&hidden, "unpublished", AttributeValue::Bool(true)),
        (&hidden, "unpublished_cd", text_value("2024-02-29T12:00:00.123Z#c2")),
        (&published, "unpublished", text_value("hidden")),
        (&published, "unpublished_cd", text_value("2024-02-29T12:00:00.123Z#c1")),
    ] {
        let mut both = of.clone().into_inner();
        both.insert(name.to_owned(), value);
        let read = Item::from(both);
        assert!(matches!(PrimaryItem::read(&read), PrimaryItem::Invalid(_)), "{name}: {read:?}");
        assert!(comment_of(&read).is_err(), "{name}");
    }
}

#[test]
fn an_edit_gives_an_item_the_form_of_its_status() {
    let of = |status| Comment { status, ..comment("c1", "p", "en", 4) };
    for (before, after) in [Status::ALL, Status::ALL].into_iter().multi_cartesian_product().map(|of| (of[0], of[1])) {
        let item = edited(primary_item(&of(before)), &of(after), BlobFormat::Map).unwrap();
        assert_eq!(item, primary_item(&of(after)), "{before} to {after}");
    }
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
        assert_eq!(duplicate.auto, Some(true));
        assert_eq!((&duplicate.shard, &duplicate.pcd), (&None, &None), "only primary items are in the sparse index");
        assert_eq!(duplicate.into_comment().unwrap(), comment);
    }
}

fn text_value(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// A primary item with an attribute replaced or removed.
fn with(name: &str, value: Option<AttributeValue>) -> Item {
    let mut item = primary_item(&comment("c1", "p", "en", 4)).into_inner();
    match value {
        Some(value) => item.insert(name.to_owned(), value),
        None => item.remove(name),
    };
    Item::from(item)
}

#[test]
fn an_invalid_primary_item_is_named_by_its_key_and_the_attribute() {
    assert!(Image::of_primary(&with("other", Some(text_value("kept")))).is_ok());
    let number = |number: &str| Some(AttributeValue::N(number.to_owned()));
    let text = |text: &str| Some(text_value(text));
    for (name, value) in [
        ("pk", text("CHANGE#1")),
        ("sk", text("PRODUCT#p/en/~")),
        ("cd", text("2024-02-29T12:00:00.123Z#c2")),
        ("cd", text("2020-11-09 12:00:00.123")),
        ("cd", None),
        ("language", text("e")),
        ("language", None),
        ("rating", number("6")),
        ("rating", number("4.5")),
        ("rating", text("4")),
        ("auto", Some(AttributeValue::Bool(true))),
        ("auto", Some(AttributeValue::Null(true))),
        ("comment_blob", None),
        ("comment_blob", text("said in confidence")),
        ("comment_blob", Some(AttributeValue::B(vec![7, 1]))),
        ("comment_blob", Some(AttributeValue::M([("title".to_owned(), text_value("No body"))].into()))),
    ] {
        let item = with(name, value.clone());
        let PrimaryItem::Invalid(malformed) = PrimaryItem::read(&item) else { panic!("{name} {value:?}") };
        let key = |name: &str| super::text(&item, name).unwrap().to_owned();
        let named = format!("malformed item: pk {:?}, sk {:?}, attribute {name}: ", key("pk"), key("sk"));
        let says = malformed.to_string();
        assert!(says.starts_with(&named) && !says.contains("confidence"), "{name} {value:?}: {says}");
        assert_eq!(comment_of(&item).is_err(), name != "sk", "a duplicate's key is no fault of a comment");
    }
}

#[test]
fn only_a_revision_and_the_keys_of_the_sparse_index_can_be_supplied() {
    let wrong = || [None, Some(text_value("none")), Some(AttributeValue::N("1".to_owned()))];
    for (name, value) in ["revision", "shard", "pcd"].into_iter().flat_map(|name| wrong().map(|value| (name, value))) {
        let item = with(name, value);
        let PrimaryItem::Incomplete(found, malformed) = PrimaryItem::read(&item) else { panic!("{item:?}") };
        assert_eq!(found, placed(&comment("c1", "p", "en", 4)));
        assert!(malformed.to_string().contains(&format!("attribute {name}: ")), "{malformed}");
        let mut both = item.into_inner();
        both.remove("rating");
        assert!(matches!(PrimaryItem::read(&Item::from(both)), PrimaryItem::Invalid(_)));
    }
}

#[test]
fn a_duplicate_with_a_key_of_the_sparse_index_is_stale() {
    let item = primary_item(&comment("c1", "p", "en", 4));
    let image = Image::of_primary(&item).unwrap();
    let key = image.placement.duplicate_keys().next().unwrap();
    for name in PRIMARIES_KEYS {
        let mut duplicate = image.duplicate(&key).into_inner();
        duplicate.insert(name.to_owned(), item[name].clone());
        assert_eq!(image.differences(&Item::from(duplicate)), [name]);
    }
}

#[test]
fn an_edit_keeps_unknown_attributes_and_unknown_keys_of_the_text() {
    let extra = AttributeValue::L(vec![text_value("a"), AttributeValue::M([("b".to_owned(), text_value("c"))].into())]);
    let blob = |title: Option<&str>, body: &str| {
        let title = title.map(|title| ("title".to_owned(), text_value(title)));
        let fields = [("body".to_owned(), text_value(body)), ("reply".to_owned(), extra.clone())];
        AttributeValue::M(fields.into_iter().chain(title).collect())
    };
    let mut old = with("comment_blob", Some(blob(Some("Title"), "Before."))).into_inner();
    old.insert("unknown".to_owned(), extra.clone());
    let text = CommentText::new(None, "After. ".repeat(100), None).unwrap();
    let after = Comment { text, ..comment("c1", "p", "en", 5) };
    for format in [BlobFormat::Map, BlobFormat::Zstd] {
        let item = edited(Item::from(old.clone()), &after, format).unwrap();
        assert_eq!(item["comment_blob"], blob(None, &after.text.body), "{format}");
        assert_eq!(item["unknown"], extra);
        assert_eq!(comment_of(&item).unwrap(), after);
    }
    // Without such keys, the item gets the writer's format.
    let item = edited(primary_item(&comment("c1", "p", "en", 4)), &after, BlobFormat::Zstd).unwrap();
    assert!(matches!(item["comment_blob"], AttributeValue::B(_)));
    assert_eq!(comment_of(&item).unwrap(), after);
}
