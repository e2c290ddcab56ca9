//! Property tests of the parsers of text from outside. No parser panics. A value that a parser
//! accepts reads back from its own spelling.
//!
//! A quarter of the texts are arbitrary. The others are nearly right, with the limits of the
//! allowed values among them.

use std::fmt::{Debug, Display};

use proptest::{prelude::*, test_runner::TestCaseResult};
use serde_dynamo::{AttributeValue, Item};

use crate::{
    Cd, CommentId, FilterKey, Gtin, Language, ListingOrder, PageNumber, PageSize, Period,
    ProductId, Rating, RatingSet, Revision, Timestamp, WebUrl,
    item::{CommentItem, Image, attribute, comment_id_of_pk, comment_pk},
    journal::{JournalEntry, JournalItem},
};

const INSTANT: &str = r"(0000-01-01|0000-12-31|0001-01-01|9999-12-31)[Tt ](00:00:00|23:59:(59|60))(\.9{1,10})?([Zz]|[+-](00:00|00:01|23:59))|[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,12})?(Z|[+-][0-2][0-9]:[0-6][0-9])?";
const OWN_INSTANT: &str = r"(0000|0001|9999|[0-9]{4})-(01|02|12|[0-9]{2})-(01|29|31|[0-9]{2})T(00|23|[0-9]{2}):(00|59|[0-9]{2}):(59|60|[0-9]{2})\.[0-9]{3}Z";
const ID: &str = r"[A-Za-z0-9._-]{0,65}|\.{0,3}|[a-z]{1,3}[é/ #]";
const PRODUCT: &str = r"\.{0,3}|[a-z/ #~%{}é☕]{0,9}|[a-z]{200}é?|a[\x00-\x1f\x7f]";
const ESCAPED_PRODUCT: &str = r"([a-z.é]|%(2F|2f|23|7E|25|7B|7D|20|41|C3|2|)){0,6}";
const LANGUAGE: &str = r"[A-Za-z]{1,9}([-_][A-Za-z0-9]{1,9}){0,5}|[xiXI](-[a-z0-9]{1,8}){1,4}|~|";
const WEB_URL: &str = r"(https?|ftp|)(:|)(//|/|)[a-zA-Z.@-]{0,9}(:[0-9]{0,6})?[/?#]?([a-z0-9 é☕\\]|%[0-9a-fg]{0,2}){0,9}";
const GTIN: &str = r"[0-9]{7,15}|[0-9é-]{0,14}";
const RATINGS: &str = r"[0-6]?(\.[0-6]){0,5}|~";
const NUMBER: &str = r"[+-]?[0-9]{0,21}|0{1,3}[1-9]|1[0-9]{12}";
const ULID: &str = r"[0-9A-HJKMNP-TV-Z]{25,27}|[0-7][0-9a-zA-Z]{25}|7Z{25}|8[0Z]{25}";

fn text(pattern: &'static str) -> impl Strategy<Value = String> {
    let any = prop::collection::vec(any::<char>(), 0..40).prop_map(String::from_iter);
    prop_oneof![1 => any, 3 => pattern]
}

fn check<T: Debug + PartialEq + Display, E: Debug>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> TestCaseResult {
    if let Ok(parsed) = parse(text) {
        let own = parsed.to_string();
        match parse(&own) {
            Ok(again) => prop_assert_eq!(again, parsed, "{:?}", text),
            Err(error) => prop_assert!(
                false,
                "{:?} reads as {:?}, and that is refused: {:?}",
                text,
                own,
                error
            ),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn an_instant_is_read_or_refused(text in text(INSTANT)) {
        check(&text, Timestamp::parse)?;
        if let Ok(instant) = Timestamp::parse(&text) {
            prop_assert!((Timestamp::MIN..=Timestamp::MAX).contains(&instant));
            prop_assert_eq!(Timestamp::parse_text(&instant.to_string()), Some(instant));
        }
    }

    #[test]
    fn a_period_is_read_or_refused(text in text("[0-9]{4}-[01][0-9](-[0-3][0-9])?")) {
        check(&text, Period::parse)?;
    }

    #[test]
    fn an_instant_in_a_key_is_read_or_refused(text in text(OWN_INSTANT)) {
        if let Some(instant) = Timestamp::parse_text(&text) {
            prop_assert_eq!(instant.to_string(), text);
        }
    }
}

proptest! {
    #[test]
    fn a_comment_id_is_read_or_refused(text in text(ID)) {
        check(&text, CommentId::parse)?;
        if let Ok(id) = CommentId::parse(&text) {
            prop_assert_eq!(comment_id_of_pk(&comment_pk(&id)), Some(id));
        }
        comment_id_of_pk(&text);
    }

    #[test]
    fn a_product_id_is_read_or_refused(text in text(PRODUCT), escaped in text(ESCAPED_PRODUCT)) {
        check(&text, ProductId::parse)?;
        if let Ok(product) = ProductId::parse_stored(&text) {
            let escaped = product.escaped();
            prop_assert!(!escaped.contains(['/', '#', '~', '{', '}', ' ']), "a separator is left in {}", escaped);
            prop_assert_eq!(ProductId::from_escaped(&escaped), Ok(product));
        }
        if let Ok(product) = ProductId::from_escaped(&escaped) {
            prop_assert_eq!(product.escaped(), escaped);
        }
    }

    #[test]
    fn a_url_is_read_or_refused(text in text(WEB_URL)) {
        if let Ok(url) = WebUrl::parse("url", &text) {
            let own = url.to_string();
            prop_assert_eq!(&own, &text);
            prop_assert!(own.is_ascii() && !own.contains(['"', '<', '>', ' ', '\\']), "{}", own);
        }
    }

    #[test]
    fn a_gtin_is_read_or_refused(text in text(GTIN)) {
        check(&text, Gtin::parse)?;
    }

    #[test]
    fn a_language_is_read_or_refused(text in text(LANGUAGE)) {
        check(&text, Language::parse)?;
    }

    #[test]
    fn ratings_are_read_or_refused(text in text(RATINGS), number in any::<f64>(), whole in any::<u64>()) {
        check(&text, Rating::parse)?;
        check(&text, RatingSet::parse)?;
        for number in [number, number.trunc(), number % 7.0, (number % 7.0).trunc()] {
            if let Ok(rating) = Rating::of_number(number) {
                prop_assert_eq!(f64::from(rating.get()), number);
            }
        }
        for whole in [whole, whole % 7] {
            prop_assert_eq!(Rating::new(whole).is_ok(), (1..=5).contains(&whole));
        }
    }

    #[test]
    fn page_numbers_and_sizes_are_read_or_refused(text in text(NUMBER)) {
        check(&text, PageNumber::parse)?;
        check(&text, PageSize::parse)?;
        check(&text, ListingOrder::parse)?;
    }

    #[test]
    fn a_revision_is_read_or_refused(text in text(ULID), random in any::<u128>()) {
        check(&text, Revision::parse)?;
        if let Ok(revision) = Revision::parse(&text) {
            prop_assert!((Timestamp::MIN..=Timestamp::MAX).contains(&revision.instant()));
            check(&Revision::after(Some(revision), Timestamp::MAX, random).to_string(), Revision::parse)?;
        }
    }

    #[test]
    fn a_cd_is_read_or_refused(text in text("[0-9-]{9,11}(#[a-z.]{0,3})?"), instant in OWN_INSTANT, id in ID) {
        for text in [&text, &format!("{instant}#{id}")] {
            check(text, Cd::parse)?;
            for beside in Cd::parse(text).ok().iter().flat_map(|cd| [cd.just_before(), cd.just_after()]).flatten() {
                prop_assert_eq!(Cd::parse(&beside.to_string()), Ok(beside));
            }
        }
    }

    #[test]
    fn a_filter_key_is_read_or_refused(
        text in text("PRODUCT#[a-z%/~]{0,9}"),
        product in ESCAPED_PRODUCT,
        language in LANGUAGE,
        ratings in RATINGS,
    ) {
        for text in [&text, &format!("PRODUCT#{product}/{language}/{ratings}")] {
            if let Ok(key) = FilterKey::parse(text) {
                prop_assert_eq!(&key.to_string(), text);
                prop_assert_eq!(key.is_primary(), text.ends_with(FilterKey::PRIMARY_SUFFIX));
                prop_assert!((1..=5).contains(&key.filter.base_sets(&key.product).len()));
            }
        }
    }

    #[test]
    fn a_journal_entry_is_read_or_refused(
        sk in text(OWN_INSTANT), instant in OWN_INSTANT, id in ID, revision in ULID, expires_at in any::<i64>(),
    ) {
        for sk in [sk, format!("{instant}#{id}")] {
            let Ok(revision) = Revision::parse(&revision) else { continue };
            let is_report = false;
            let item = JournalItem { pk: sk.clone(), sk, revision, before: None, after: None, created_at: [].into(), is_report, by: None, follows: None, expires_at };
            if let Ok(entry) = JournalEntry::try_from(item) {
                prop_assert_eq!(JournalEntry::try_from(entry.to_item()), Ok(entry));
            }
        }
    }

    #[test]
    fn an_item_is_a_comments_or_malformed(
        id in ID, cd in OWN_INSTANT, product in ESCAPED_PRODUCT, language in LANGUAGE, rating in NUMBER, revision in ULID,
        shard in "[0-9]{2}",
    ) {
        let mut attributes = std::collections::HashMap::from([
            (attribute::PK.to_owned(), AttributeValue::S(format!("COMMENT#{id}"))),
            (attribute::SK.to_owned(), AttributeValue::S(format!("PRODUCT#{product}/~/~"))),
            (attribute::CD.to_owned(), AttributeValue::S(format!("{cd}#{id}"))),
            (attribute::SHARD.to_owned(), AttributeValue::S(shard)),
            (attribute::PCD.to_owned(), AttributeValue::S(format!("{product}#{cd}#{id}"))),
            (attribute::LANGUAGE.to_owned(), AttributeValue::S(language)),
            (attribute::RATING.to_owned(), AttributeValue::N(rating)),
            (attribute::REVISION.to_owned(), AttributeValue::S(revision)),
        ]);
        let item = Item::from(attributes.clone());
        if let Ok(image) = Image::of_primary(&item) {
            for key in image.placement.duplicate_keys() {
                prop_assert!(image.differences(&image.duplicate(&key)).is_empty());
            }
        }
        let body = std::collections::HashMap::from([("body".to_owned(), AttributeValue::S("Fine.".to_owned()))]);
        attributes.insert("comment_blob".to_owned(), AttributeValue::M(body));
        if let Ok(item) = serde_dynamo::from_item::<_, CommentItem>(Item::from(attributes)) {
            item.into_comment().ok();
        }
    }
}
