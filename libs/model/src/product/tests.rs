//! What a record accepts, and that nothing takes its item for a comment.

use aws_lambda_events::dynamodb::EventRecord;
use serde_dynamo::Item;
use serde_json::json;

use super::*;
use crate::{
    filter::FilterKey,
    item::{Image, attribute, comment_id_of_pk},
    record::decode_record,
    timestamp::Timestamp,
};

fn record(product: &str) -> ProductRecord {
    ProductRecord {
        product: ProductId::parse(product).unwrap(),
        revision: Revision::after(
            None,
            Timestamp::parse("2024-02-29T12:00:00.123Z").unwrap(),
            7,
        ),
        details: ProductDetails {
            name: "Espresso machine".to_owned(),
            url: Some(WebUrl::parse("url", "https://shop.example/a?b=1").unwrap()),
            image: None,
            brand: Some("Ada".to_owned()),
            gtin: Some(Gtin::parse("4006381333931").unwrap()),
            sku: None,
            language: Some(Language::parse("en").unwrap()),
        },
    }
}

fn item(product: &str) -> Item {
    serde_dynamo::to_item(ProductItem::from(record(product))).unwrap()
}

#[test]
fn a_record_has_the_attributes_of_the_design() {
    let expected = json!({
        "pk": { "S": "PRODUCTS#28" },
        "sk": { "S": "a%2Fb" },
        "revision": { "S": "01HQTBRNKV0000000000000007" },
        "name": { "S": "Espresso machine" },
        "url": { "S": "https://shop.example/a?b=1" },
        "brand": { "S": "Ada" },
        "gtin": { "S": "4006381333931" },
        "language": { "S": "en" },
    });
    assert_eq!(serde_json::to_value(item("a/b")).unwrap(), expected);
    let read: ProductItem = serde_dynamo::from_item(item("a/b")).unwrap();
    assert_eq!(ProductRecord::try_from(read), Ok(record("a/b")));
}

#[test]
fn an_item_in_the_wrong_shard_is_no_record() {
    let mut wrong: ProductItem = serde_dynamo::from_item(item("a/b")).unwrap();
    wrong.pk = record_pk(1);
    assert!(
        ProductRecord::try_from(wrong)
            .unwrap_err()
            .to_string()
            .contains("not a product of this shard")
    );
}

#[test]
fn no_index_and_no_reader_of_comments_takes_a_record_for_a_comment() {
    for product in [
        "p",
        "/~/~",
        "COMMENT#c1",
        "~",
        "PRODUCT#p/~/~",
        &"/".repeat(ProductId::MAX_CHARS),
    ] {
        let item = item(product);
        let (pk, sk) = record_key(&ProductId::parse(product).unwrap());
        // Without these attributes, no index holds the item.
        for name in [attribute::CD, attribute::SHARD, attribute::PCD] {
            assert!(!item.contains_key(name), "{name}");
        }
        // The filter of the functions, the table scan of the audit, the one definition of a
        // comment.
        assert!(
            !sk.ends_with(FilterKey::PRIMARY_SUFFIX) && FilterKey::parse(&sk).is_err(),
            "{sk}"
        );
        assert_eq!(comment_id_of_pk(&pk), None);
        assert!(Image::read(&item).is_err());
        let keys = json!({ "pk": { "S": pk }, "sk": { "S": sk } });
        let change = json!({
            "ApproximateCreationDateTime": 1_709_208_000.0, "Keys": keys, "NewImage": item, "SequenceNumber": "1",
            "SizeBytes": 512, "StreamViewType": "NEW_AND_OLD_IMAGES",
        });
        let record = json!({
            "awsRegion": "eu-central-1", "eventID": "1", "eventName": "INSERT", "eventSource": "aws:dynamodb",
            "eventVersion": "1.1", "dynamodb": change,
        });
        let record: EventRecord = serde_json::from_value(record).unwrap();
        assert_eq!(decode_record(&record), Ok(None));
        assert!(
            pk.len() <= 2048 && sk.len() <= 1024,
            "within the limits of a key"
        );
    }
}

#[test]
fn a_gtin_has_a_length_and_a_check_digit() {
    // The examples of the General Specifications, an EAN-8, a UPC-A, an ISBN-13 and an ITF-14.
    for right in [
        "96385074",
        "036000291452",
        "4006381333931",
        "9780306406157",
        "10614141000415",
        "6291041500213",
    ] {
        assert_eq!(Gtin::parse(right).unwrap().as_str(), right);
        let last = right.as_bytes()[right.len() - 1];
        for other in (b'0'..=b'9').filter(|digit| *digit != last) {
            let wrong = format!("{}{}", &right[..right.len() - 1], char::from(other));
            assert!(
                Gtin::parse(&wrong)
                    .unwrap_err()
                    .problem
                    .contains("check digit"),
                "{wrong}"
            );
        }
    }
    for wrong in [
        "",
        "0",
        "1234567",
        "123456789",
        "0-306-40615-2",
        "978 0306406157",
        "٩٦٣٨٥٠٧٤",
        "4006381333931 ",
    ] {
        assert!(
            Gtin::parse(wrong)
                .unwrap_err()
                .problem
                .contains("8, 12, 13 or 14 digits"),
            "{wrong}"
        );
    }
}

#[test]
fn only_web_addresses_are_urls() {
    for (origin, path) in [
        ("http://a", ""),
        ("https://shop.example", ""),
        ("https://Shop.Example:8443", "/a%20b/c;d?e=f&g#h"),
        ("http://127.0.0.1:1", "/"),
        ("https://xn--r8jz45g.jp", "/%E4%BE%8B?"),
        ("https://a", "?b"),
        ("https://a", "/'()*"),
    ] {
        let right = format!("{origin}{path}");
        let url = WebUrl::parse("url", &right).unwrap();
        assert_eq!((url.as_str(), url.origin()), (right.as_str(), origin));
    }
    for wrong in [
        "",
        "javascript:alert(1)",
        "JAVASCRIPT://a/%0Aalert(1)",
        "data:text/html,a",
        "ftp://a",
        "HTTPS://a",
        "//a",
        "a",
        "https://",
        "https:///a",
        "https://?",
        "https://user@a",
        "https://user:pw@a",
        "https://a:",
        "https://a:65536",
        "https://a:00080",
        "https://a:-1",
        "https://-a",
        "https://a..b",
        "https://a.",
        "https://[::1]/",
        "https://a b",
        "https://a/b c",
        "https://a/\n",
        "https://a/\"onclick=",
        "https://a/<b>",
        "https://例え.jp",
        "https://a/é",
        "https://a/%",
        "https://a/%2",
        "https://a/%zz",
        "https://a\\b",
    ] {
        assert_eq!(
            WebUrl::parse("image", wrong).unwrap_err().field,
            "image",
            "{wrong}"
        );
    }
    assert!(WebUrl::parse("url", &url_of(WebUrl::MAX_LEN)).is_ok());
    assert!(WebUrl::parse("url", &url_of(WebUrl::MAX_LEN + 1)).is_err());
}

fn url_of(len: usize) -> String {
    format!("https://a/{}", "x".repeat(len - 10))
}

/// A text with one character more than the limit.
fn too_long(max_chars: usize) -> String {
    "x".repeat(max_chars + 1)
}

#[test]
fn each_broken_field_is_named() {
    for name in [
        String::new(),
        " \u{200b}".to_owned(),
        "a\nb".to_owned(),
        too_long(ProductDetails::NAME_MAX_CHARS),
    ] {
        assert_eq!(ProductDetails::new_name(name).unwrap_err().field, "name");
    }
    assert_eq!(
        ProductDetails::new_brand(Some(too_long(ProductDetails::BRAND_MAX_CHARS)))
            .unwrap_err()
            .field,
        "brand"
    );
    assert_eq!(
        ProductDetails::new_sku(Some("a\tb".to_owned()))
            .unwrap_err()
            .field,
        "sku"
    );
    assert_eq!(
        ProductDetails::new_sku(Some("\u{2800}".to_owned())),
        Ok(None)
    );
}
