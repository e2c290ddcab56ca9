//! The cursor: the combined position in all partitions, as text.
//!
//! It is a JSON map of partition keys, compressed (raw deflate, RFC 1951), in base64url. The value is the `GSISK` of the
//! comment after which the partition resumes, `begin`, or `end`. The articles store whole keys, so their cursors are
//! somewhat longer. A cursor belongs to a product and a filter, because no two of them query the same partitions. It is
//! not sealed: changing a cursor only reads other comments of the same filter.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::Read,
    iter::zip,
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use flate2::{Compression, read::DeflateDecoder, read::DeflateEncoder};
use model::{Cd, Rating};
use thiserror::Error;

use crate::{
    key::{PageQuery, Plan},
    merge::Position,
};

/// Maximum length of the JSON. Five partitions take 5 KB, each with a key of at most about 850 bytes (a product of 200
/// characters of four bytes) and a `GSISK` of 89. JSON escapes at most double that.
const JSON_BYTES_MAX: usize = 12 * 1024;

const TEXT_BYTES_MAX: usize = JSON_BYTES_MAX / 3 * 4 + 64;

const BEGIN: &str = "begin";
const END: &str = "end";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the cursor {0}")]
pub struct CursorError(&'static str);

const TOO_LONG: CursorError = CursorError("is too long");
const NOT_BASE64: CursorError = CursorError("is not base64url");
const NOT_COMPRESSED: CursorError = CursorError("cannot be decompressed");
const NO_POSITIONS: CursorError = CursorError("does not hold the positions of partitions");
const OF_ANOTHER_QUERY: CursorError = CursorError("is another query's");

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(BTreeMap<String, Position>);

impl Cursor {
    pub(crate) fn after(plan: &Plan, positions: Vec<Position>) -> Option<Self> {
        let more = positions.iter().any(|position| *position != Position::End);
        more.then(|| Self(zip(plan.partitions.iter().map(|partition| partition.key.clone()), positions).collect()))
    }

    /// The cursor after the comments `shown`, for callers that know the listing without walking it. `to_come` are the
    /// comments that follow; both are newest first. `None` when no comments follow.
    ///
    /// A walk whose last answers were full learns one call later that a partition has ended.
    pub fn following<'comment>(
        query: &PageQuery,
        shown: impl IntoIterator<Item = (&'comment Cd, Rating)>,
        to_come: impl IntoIterator<Item = Rating>,
    ) -> Option<Self> {
        let plan = Plan::of(&query.product, &query.filter);
        let place = |rating: Rating| plan.partitions.iter().position(|of| of.rating.is_none_or(|of| of == rating));
        let last: HashMap<_, _> = shown.into_iter().map(|(cd, rating)| (place(rating), cd)).collect();
        let continued: HashSet<_> = to_come.into_iter().map(place).collect();
        let positions = (0..plan.partitions.len()).map(Some).map(|place| match last.get(&place) {
            _ if !continued.contains(&place) => Position::End,
            Some(cd) => Position::After((*cd).clone()),
            None => Position::Beginning,
        });
        Self::after(&plan, positions.collect())
    }

    pub(crate) fn positions(&self, plan: &Plan) -> Result<Vec<Position>, CursorError> {
        if self.0.len() != plan.partitions.len() {
            return Err(OF_ANOTHER_QUERY);
        }
        let position = |key: &String| self.0.get(key).cloned().ok_or(OF_ANOTHER_QUERY);
        plan.partitions.iter().map(|partition| position(&partition.key)).collect()
    }

    pub fn encode(&self) -> String {
        let positions: BTreeMap<&str, String> =
            self.0.iter().map(|(key, position)| (key.as_str(), written(position))).collect();
        // Serializing a map of strings to memory cannot fail.
        let json = serde_json::to_vec(&positions).unwrap_or_default();
        let mut compressed = Vec::new();
        DeflateEncoder::new(json.as_slice(), Compression::best()).read_to_end(&mut compressed).unwrap_or_default();
        BASE64_URL_SAFE_NO_PAD.encode(compressed)
    }

    pub fn decode(text: &str, query: &PageQuery) -> Result<Self, CursorError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(TOO_LONG);
        }
        let compressed = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| NOT_BASE64)?;
        let mut json = Vec::new();
        let room = u64::try_from(JSON_BYTES_MAX).unwrap_or(u64::MAX) + 1;
        let read = DeflateDecoder::new(compressed.as_slice()).take(room).read_to_end(&mut json);
        read.map_err(|_| NOT_COMPRESSED)?;
        if json.len() > JSON_BYTES_MAX {
            return Err(TOO_LONG);
        }
        let positions: BTreeMap<String, String> = serde_json::from_slice(&json).map_err(|_| NO_POSITIONS)?;
        let positions = positions.into_iter().map(|(key, text)| Ok((key, read_position(&text)?)));
        let cursor = Self(positions.collect::<Result<_, CursorError>>()?);
        cursor.positions(&Plan::of(&query.product, &query.filter))?;
        Ok(cursor)
    }
}

fn written(position: &Position) -> String {
    match position {
        Position::Beginning => BEGIN.to_owned(),
        Position::After(cd) => cd.to_string(),
        Position::End => END.to_owned(),
    }
}

fn read_position(text: &str) -> Result<Position, CursorError> {
    match text {
        BEGIN => Ok(Position::Beginning),
        END => Ok(Position::End),
        cd => Ok(Position::After(Cd::parse(cd).map_err(|_| NO_POSITIONS)?)),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use model::{CommentId, Filter, Language, PageSize, ProductId, RatingSet, Timestamp};
    use proptest::prelude::*;

    use super::*;

    fn query(product: &str, language: Option<&str>, ratings: Option<&str>) -> PageQuery {
        let language = language.map(|tag| Language::parse(tag).unwrap());
        PageQuery {
            product: ProductId::parse(product).unwrap(),
            filter: Filter::new(language, ratings.map(|set| RatingSet::parse(set).unwrap())),
            page_size: PageSize::new(20).unwrap(),
            skip_empty: false,
        }
    }

    fn after(ms: i64, id: &str) -> Position {
        Position::After(Cd { created_at: Timestamp::from_epoch_ms(ms).unwrap(), id: CommentId::parse(id).unwrap() })
    }

    fn cursor(query: &PageQuery, positions: Vec<Position>) -> Cursor {
        Cursor::after(&Plan::of(&query.product, &query.filter), positions).unwrap()
    }

    fn encoded(json: &[u8]) -> String {
        let mut compressed = Vec::new();
        DeflateEncoder::new(json, Compression::best()).read_to_end(&mut compressed).unwrap();
        BASE64_URL_SAFE_NO_PAD.encode(compressed)
    }

    #[test]
    fn a_cursor_is_a_map_of_partitions() {
        let query = query("42", Some("en"), Some("1.3.5"));
        let cursor = cursor(&query, vec![Position::Beginning, Position::End, after(1_700_000_000_000, "c1")]);
        let compressed = BASE64_URL_SAFE_NO_PAD.decode(cursor.encode()).unwrap();
        let mut json = String::new();
        DeflateDecoder::new(compressed.as_slice()).read_to_string(&mut json).unwrap();
        expect![[
            r#"{"PRODUCT#42/en/1":"begin","PRODUCT#42/en/3":"end","PRODUCT#42/en/5":"2023-11-14T22:13:20.000Z#c1"}"#
        ]]
        .assert_eq(&json);
        assert_eq!(Cursor::decode(&cursor.encode(), &query).unwrap(), cursor);
    }

    #[test]
    fn a_cursor_belongs_to_a_product_and_a_filter() {
        let own = query("42", Some("en"), Some("1.5"));
        let text = cursor(&own, vec![Position::Beginning, after(5, "c1")]).encode();
        let other_size = PageQuery { page_size: PageSize::new(3).unwrap(), skip_empty: true, ..own.clone() };
        assert!(Cursor::decode(&text, &own).is_ok() && Cursor::decode(&text, &other_size).is_ok());
        for other in [
            query("43", Some("en"), Some("1.5")),
            query("42", None, Some("1.5")),
            query("42", Some("de"), Some("1.5")),
            query("42", Some("en"), Some("1.4")),
            query("42", Some("en"), Some("1")),
            query("42", Some("en"), Some("1.4.5")),
            query("42", Some("en"), None),
        ] {
            assert_eq!(Cursor::decode(&text, &other), Err(OF_ANOTHER_QUERY), "{other:?}");
        }
    }

    #[test]
    fn an_invalid_cursor_says_why() {
        let query = query("42", None, None);
        let text = cursor(&query, vec![after(5, "c1")]).encode();
        let half: String = text.chars().take(text.len() / 2).collect();
        let bomb = encoded(&vec![b' '; 50 * 1024 * 1024]);
        assert!(bomb.len() > TEXT_BYTES_MAX, "deflate makes it a thousandth");
        for (text, why) in [
            ("x".repeat(TEXT_BYTES_MAX + 1), TOO_LONG),
            (bomb, TOO_LONG),
            (encoded(&vec![b' '; JSON_BYTES_MAX + 1]), TOO_LONG),
            ("☕".to_owned(), NOT_BASE64),
            ("a+b/".to_owned(), NOT_BASE64),
            ("_____w".to_owned(), NOT_COMPRESSED),
            (half, NOT_COMPRESSED),
            (String::new(), NOT_COMPRESSED),
            (encoded(b"[]"), NO_POSITIONS),
            (encoded(br#"{"PRODUCT#42":"middle"}"#), NO_POSITIONS),
            (encoded(br#"{"PRODUCT#42":null}"#), NO_POSITIONS),
            (encoded(b"{}"), OF_ANOTHER_QUERY),
        ] {
            assert_eq!(Cursor::decode(&text, &query), Err(why), "{why:?}");
        }
    }

    #[test]
    fn the_longest_cursor_opens() {
        let query = query(&"😀".repeat(ProductId::MAX_CHARS), Some("en-x-abcdefgh-abcdefgh-abcdefgh"), Some("1.2.3.4"));
        let positions = vec![after(5, &"x".repeat(CommentId::MAX_LEN)); 4];
        let cursor = cursor(&query, positions);
        assert_eq!(Cursor::decode(&cursor.encode(), &query).unwrap(), cursor);
        // Quotes are escaped.
        let query = PageQuery { product: ProductId::parse(&"\"".repeat(ProductId::MAX_CHARS)).unwrap(), ..query };
        let cursor = self::cursor(&query, vec![Position::Beginning; 4]);
        assert_eq!(Cursor::decode(&cursor.encode(), &query).unwrap(), cursor);
    }

    #[test]
    fn a_cursor_can_be_made_from_the_comments_before_it() {
        let query = query("42", None, Some("1.3.5"));
        let cd = |ms, id| match after(ms, id) {
            Position::After(cd) => cd,
            Position::Beginning | Position::End => unreachable!(),
        };
        let rating = |stars| Rating::new(stars).unwrap();
        let shown = [(cd(9, "a"), rating(5)), (cd(8, "b"), rating(1)), (cd(7, "c"), rating(5))];
        let following = |to_come: &[u64]| {
            let to_come = to_come.iter().map(|stars| rating(*stars));
            Cursor::following(&query, shown.iter().map(|(cd, rating)| (cd, *rating)), to_come)
        };
        let all_continue = vec![after(8, "b"), Position::Beginning, after(7, "c")];
        assert_eq!(following(&[5, 3, 1]), Some(cursor(&query, all_continue)));
        assert_eq!(following(&[5]), Some(cursor(&query, vec![Position::End, Position::End, after(7, "c")])));
        assert_eq!(following(&[]), None);
    }

    proptest! {
        #[test]
        fn random_text_is_not_a_cursor(text in "[A-Za-z0-9_-]{0,300}|.{0,50}") {
            prop_assert!(Cursor::decode(&text, &query("42", None, Some("1.5"))).is_err());
        }

        #[test]
        fn every_cursor_opens_again(
            ratings in 1..31_usize,
            positions in prop::collection::vec((0..3_u8, 0..4_000_000_000_000_i64, "[A-Za-z0-9._-]{3,64}|[A-Za-z0-9_-]{1,2}"), 5),
        ) {
            let set = RatingSet::every().nth(ratings - 1).unwrap();
            let query = query("a/b ☕", None, Some(&set.to_string()));
            let position = |(kind, ms, id): &(u8, i64, String)| match kind {
                0 => Position::Beginning,
                1 => after(*ms, id),
                _ => Position::End,
            };
            let plan = Plan::of(&query.product, &query.filter);
            let mut positions: Vec<Position> = positions.iter().take(plan.partitions.len()).map(position).collect();
            positions[0] = Position::Beginning;
            let cursor = Cursor::after(&plan, positions.clone()).unwrap();
            let opened = Cursor::decode(&cursor.encode(), &query).unwrap();
            prop_assert_eq!(opened.positions(&plan).unwrap(), positions);
        }
    }
}
