//! Items written and read back, and invalid primary items.

use std::collections::HashMap;

use itertools::Itertools;
use proptest::prelude::*;

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
        site: SiteData::default(),
    }
}

pub(crate) fn placed(comment: &Comment) -> PlacedComment {
    PlacedComment {
        id: comment.id.clone(),
        placement: comment.placement(),
        created_at: comment.created_at,
        status: comment.status,
    }
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

fn site_data(attributes: &str, author_id: &str) -> SiteData {
    SiteData {
        attributes: Some(CommentAttributes::parse(attributes).unwrap()),
        author_id: Some(AuthorId::parse(author_id).unwrap()),
    }
}

#[test]
fn an_unpublished_item_has_no_key_of_a_reader_and_reads_back() {
    for status in Status::UNPUBLISHED {
        let comment = Comment {
            status,
            ..comment("c1", "a/b", "en", 4)
        };
        let item = primary_item(&comment);
        let mut names: Vec<&String> = item.keys().collect();
        names.sort();
        let expected = [
            "comment_blob",
            "language",
            "pk",
            "rating",
            "revision",
            "sk",
            "unpublished",
            "unpublished_cd",
        ];
        assert_eq!(names, expected);
        assert_eq!(item["unpublished"], text_value(status.as_str()));
        assert_eq!(
            item["unpublished_cd"],
            text_value("2024-02-29T12:00:00.123Z#c1")
        );
        let read = Image::read(&item).unwrap();
        assert_eq!(
            (read.status, read.placement, read.revision),
            (status, comment.placement(), comment.revision)
        );
        assert_eq!(comment_of_primary(&item), Ok(comment.clone()));
        let typed: CommentItem = serde_dynamo::from_item(item.clone()).unwrap();
        assert_eq!(typed.into_comment(), Ok(comment));
        let named = Image::of_primary(&item).unwrap_err().to_string();
        assert!(
            named.contains("attribute unpublished: says that the comment is"),
            "{named}"
        );
    }
}

#[test]
fn an_item_with_attributes_of_both_forms_is_invalid() {
    let hidden = primary_item(&Comment {
        status: Status::Hidden,
        ..comment("c1", "p", "en", 4)
    });
    let published = primary_item(&comment("c1", "p", "en", 4));
    for (of, name, value) in [
        (&hidden, "cd", text_value("2024-02-29T12:00:00.123Z#c1")),
        (&hidden, "shard", text_value("49")),
        (&hidden, "pcd", text_value("p#2024-02-29T12:00:00.123Z#c1")),
        (&hidden, "unpublished", text_value("published")),
        (&hidden, "unpublished", AttributeValue::Bool(true)),
        (
            &hidden,
            "unpublished_cd",
            text_value("2024-02-29T12:00:00.123Z#c2"),
        ),
        (&published, "unpublished", text_value("hidden")),
        (
            &published,
            "unpublished_cd",
            text_value("2024-02-29T12:00:00.123Z#c1"),
        ),
    ] {
        let mut both = of.clone().into_inner();
        both.insert(name.to_owned(), value);
        let read = Item::from(both);
        assert!(
            Image::read(&read).is_err() && incomplete(&read).is_none(),
            "{name}: {read:?}"
        );
        assert!(comment_of(&read).is_err(), "{name}");
    }
}

#[test]
fn an_edit_gives_an_item_the_form_of_its_status() {
    let comments = Status::ALL.map(|status| Comment {
        status,
        ..comment("c1", "p", "en", 4)
    });
    for (before, after) in comments.iter().cartesian_product(&comments) {
        let item = edited(primary_item(before), after, BlobFormat::Map).unwrap();
        assert_eq!(
            item,
            primary_item(after),
            "{} to {}",
            before.status,
            after.status
        );
    }
}

#[test]
fn items_read_back_as_the_comment_and_only_the_primary_item_names_the_author() {
    let site = site_data(r#"{"n":1.5,"verified":true}"#, "u-7");
    let comment = Comment {
        site,
        ..comment("c1", "a/b", "en", 4)
    };
    let item = primary_item(&comment);
    assert_eq!(
        item["attributes"],
        text_value(r#"{"n":1.5,"verified":true}"#)
    );
    assert_eq!(
        (&item["author_id"], comment_of(&item)),
        (&text_value("u-7"), Ok(comment.clone()))
    );
    let image = Image::of_primary(&item).unwrap();
    assert_eq!(
        (&image.id, &image.placement, image.created_at),
        (&comment.id, &comment.placement(), comment.created_at)
    );
    for key in comment.placement().duplicate_keys() {
        let duplicate: CommentItem = serde_dynamo::from_item(image.duplicate(&key)).unwrap();
        assert_eq!(duplicate.auto, Some(true));
        let keys = (&duplicate.shard, &duplicate.pcd, &duplicate.author_id);
        assert_eq!(
            keys,
            (&None, &None, &None),
            "only primary items are in the sparse indexes"
        );
        let site = SiteData {
            author_id: None,
            ..comment.site.clone()
        };
        assert_eq!(
            duplicate.into_comment().unwrap(),
            Comment {
                site,
                ..comment.clone()
            }
        );
    }
}

fn text_value(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn with(name: &str, value: Option<AttributeValue>) -> Item {
    let mut item = primary_item(&comment("c1", "p", "en", 4)).into_inner();
    match value {
        Some(value) => item.insert(name.to_owned(), value),
        None => item.remove(name),
    };
    Item::from(item)
}

fn number(number: &str) -> Option<AttributeValue> {
    Some(AttributeValue::N(number.to_owned()))
}

fn text(text: &str) -> Option<AttributeValue> {
    Some(text_value(text))
}

#[test]
fn an_invalid_primary_item_is_named_by_its_key_and_the_attribute() {
    assert!(Image::of_primary(&with("other", Some(text_value("kept")))).is_ok());
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
        ("attributes", text("said in confidence")),
        ("attributes", Some(AttributeValue::M([].into()))),
        ("author_id", number("7")),
        ("comment_blob", None),
        ("comment_blob", text("said in confidence")),
        ("comment_blob", Some(AttributeValue::B(vec![7, 1]))),
        (
            "comment_blob",
            Some(AttributeValue::M(
                [("body".to_owned(), AttributeValue::Bool(true))].into(),
            )),
        ),
    ] {
        let item = with(name, value.clone());
        let malformed = Image::read(&item).unwrap_err();
        assert_eq!(incomplete(&item), None, "{name} {value:?}");
        let [pk, sk] = ["pk", "sk"].map(|name| super::text(&item, name).unwrap());
        let named = format!("malformed item: pk {pk:?}, sk {sk:?}, attribute {name}: ");
        let says = malformed.to_string();
        assert!(
            says.starts_with(&named) && !says.contains("confidence"),
            "{name} {value:?}: {says}"
        );
        assert_eq!(
            comment_of(&item).is_err(),
            name != "sk",
            "a duplicate's key is no fault of a comment"
        );
    }
}

#[test]
fn only_a_revision_and_the_keys_of_the_sparse_index_can_be_supplied() {
    let wrong = [None, text("none"), number("1")];
    for (name, value) in ["revision", "shard", "pcd"]
        .into_iter()
        .cartesian_product(wrong)
    {
        let item = with(name, value);
        let malformed = Image::read(&item).unwrap_err();
        assert_eq!(
            incomplete(&item),
            Some(placed(&comment("c1", "p", "en", 4)))
        );
        assert!(
            malformed
                .to_string()
                .contains(&format!("attribute {name}: ")),
            "{malformed}"
        );
        let mut both = item.into_inner();
        both.remove("rating");
        assert_eq!(incomplete(&Item::from(both)), None);
    }
}

#[test]
fn a_duplicate_with_a_key_of_a_sparse_index_is_stale() {
    let item = primary_item(&Comment {
        site: site_data("{}", "u-7"),
        ..comment("c1", "p", "en", 4)
    });
    let image = Image::of_primary(&item).unwrap();
    let key = image.placement.duplicate_keys().next().unwrap();
    for name in PRIMARY_ONLY {
        let mut duplicate = image.duplicate(&key).into_inner();
        let value = item
            .get(name)
            .cloned()
            .unwrap_or_else(|| text_value("pending"));
        duplicate.insert(name.to_owned(), value);
        assert_eq!(image.differences(&Item::from(duplicate)), [name]);
    }
}

/// A value of any type that other tools may write, nested or not.
fn any_value() -> impl Strategy<Value = AttributeValue> {
    let plain = prop_oneof![
        "[a-zé ]{0,6}".prop_map(AttributeValue::S),
        "-?[1-9][0-9]{0,20}(\\.[0-9]{1,10})?".prop_map(AttributeValue::N),
        any::<bool>().prop_map(AttributeValue::Bool),
        Just(AttributeValue::Null(true)),
        prop::collection::vec(any::<u8>(), 1..4).prop_map(AttributeValue::B),
        prop::collection::btree_set("[a-z]{1,3}", 1..3)
            .prop_map(|set| AttributeValue::Ss(set.into_iter().collect())),
    ];
    plain.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(AttributeValue::L),
            prop::collection::hash_map("[a-z]{1,3}", inner, 0..3).prop_map(AttributeValue::M),
        ]
    })
}

/// Names with values that no version knows.
fn unknown() -> impl Strategy<Value = HashMap<String, AttributeValue>> {
    prop::collection::hash_map("x-[a-z]{1,4}", any_value(), 0..4)
}

proptest! {
    /// Each edit sets all that an edit can set; formats change between edits, as in a rolling
    /// deployment.
    #[test]
    fn unknown_attributes_and_unknown_keys_of_the_text_survive_every_edit(
        (attributes, keys) in (unknown(), unknown()),
        edits in prop::collection::vec(
            ("[a-z ]{0,200}x", prop::option::of("[a-z]{1,5}"), 1..=5_u64, prop::option::of(0..9_u8), any::<bool>()),
            1..6,
        ),
    ) {
        let mut item = primary_item(&comment("c1", "p", "en", 4)).into_inner();
        item.extend(attributes.clone());
        let Some(AttributeValue::M(fields)) = item.get_mut("comment_blob") else { panic!("no map") };
        fields.extend(keys.clone());
        let mut item = Item::from(item);
        for (body, title, stars, number, is_zstd) in edits {
            let text = CommentText::new(title, body, None).unwrap();
            let site = match number {
                Some(number) => site_data(&format!("{{\"n\":{number}}}"), "u"),
                None => SiteData::default(),
            };
            let after = Comment { text, site, ..comment("c1", "p", "ko", stars) };
            item = edited(item, &after, if is_zstd { BlobFormat::Zstd } else { BlobFormat::Map }).unwrap();
            prop_assert_eq!(comment_of(&item), Ok(after.clone()));
            for (name, value) in &attributes {
                prop_assert_eq!(item.get(name), Some(value));
            }
            if let AttributeValue::M(fields) = &item["comment_blob"] {
                prop_assert!(keys.iter().all(|(name, value)| fields.get(name) == Some(value)));
            } else {
                prop_assert!(is_zstd && keys.is_empty(), "only a text without unknown keys is compressed");
            }
            let own = primary_item(&after).into_inner();
            prop_assert!(item.keys().all(|name| own.contains_key(name) || attributes.contains_key(name)), "nothing else");
        }
    }
}
