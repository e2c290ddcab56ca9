//! The statistics items: the number of a product's comments of each rating, in all languages and in each language.
//!
//! A product's item for all languages has the key `PRODUCT#<product>`, `S`; the item for a language has the sort key
//! `S#<language>`. They have no index keys, so no index contains them. No I/O here.

use std::collections::{BTreeMap, HashMap};

use model::{Comment, Language, Malformed, Placement, ProductId, Rating};
use serde_dynamo::{AttributeValue, Item};

use crate::key::{PK, SK, partition_key};

/// Prefix of the sort keys of statistics items.
pub(crate) const STATISTICS_PREFIX: &str = "S";

/// The attribute with the count of all ratings.
pub(crate) const TOTAL: &str = "count_total";

/// Whether a write changes the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepCounters {
    /// The write changes them in one transaction with the comment.
    Yes,
    /// The write is a plain conditional write of the comment alone. A table must keep counters from its first comment
    /// on, or have none at all.
    No,
}

/// Numbers of comments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// The count of each rating, 1 to 5.
    pub by_rating: [u64; 5],
    /// The count of all ratings.
    pub total: u64,
}

impl Counters {
    /// The number of comments with this rating.
    pub fn get(&self, rating: Rating) -> u64 {
        self.by_rating.get(usize::from(rating.get()) - 1).copied().unwrap_or(0)
    }

    /// Adds one comment.
    fn add(&mut self, rating: Rating) {
        if let Some(count) = self.by_rating.get_mut(usize::from(rating.get()) - 1) {
            *count += 1;
        }
        self.total += 1;
    }

    /// Reads the counters of a statistics item.
    ///
    /// # Errors
    /// A counter does not hold a valid number of comments.
    pub(crate) fn of_item(item: &Item) -> Result<Self, Malformed> {
        let count = |name: &str| match item.get(name) {
            // A counter that was never increased.
            None => Ok(0),
            Some(AttributeValue::N(number)) => {
                number.parse().map_err(|_| Malformed::new("statistics item", format!("{name} is {number}")))
            }
            Some(_) => Err(Malformed::new("statistics item", format!("{name} is no number"))),
        };
        let mut by_rating = [0; 5];
        for (place, rating) in by_rating.iter_mut().zip(Rating::ALL) {
            *place = count(&attribute_of(rating))?;
        }
        Ok(Self { by_rating, total: count(TOTAL)? })
    }
}

/// The attribute that counts a rating.
pub(crate) fn attribute_of(rating: Rating) -> String {
    format!("count_{rating}")
}

/// The key of a statistics item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StatisticsKey {
    pub(crate) product: ProductId,
    /// `None` for all languages.
    pub(crate) language: Option<Language>,
}

impl StatisticsKey {
    pub(crate) fn item(&self) -> Item {
        let language = self.language.as_ref().map_or(String::new(), |language| format!("#{language}"));
        let sort_key = format!("{STATISTICS_PREFIX}{language}");
        Item::from(HashMap::from([
            (PK.to_owned(), AttributeValue::S(partition_key(&self.product, None, None))),
            (SK.to_owned(), AttributeValue::S(sort_key)),
        ]))
    }

    /// The language of a statistics item.
    pub(crate) fn language_of(item: &Item) -> Result<Option<Language>, Malformed> {
        let malformed = || Malformed::new("statistics item", format!("{SK} is {:?}", item.get(SK)));
        let Some(AttributeValue::S(sort_key)) = item.get(SK) else { return Err(malformed()) };
        match sort_key.strip_prefix(STATISTICS_PREFIX) {
            Some("") => Ok(None),
            Some(rest) => {
                let tag = rest.strip_prefix('#').ok_or_else(malformed)?;
                Ok(Some(Language::parse(tag).map_err(|_| malformed())?))
            }
            None => Err(malformed()),
        }
    }
}

/// The changes to one statistics item. Unchanged attributes are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CounterChange {
    pub(crate) key: StatisticsKey,
    pub(crate) add: BTreeMap<String, i64>,
}

/// The changes to the counters for a change of a comment; `None` stands for an absent comment. A change of the text
/// alone gives no changes.
pub(crate) fn counter_changes(old: Option<&Placement>, new: Option<&Placement>) -> Vec<CounterChange> {
    let mut changes: BTreeMap<StatisticsKey, BTreeMap<String, i64>> = BTreeMap::new();
    for (placement, sign) in [(old, -1), (new, 1)].into_iter().filter_map(|(placement, sign)| Some((placement?, sign)))
    {
        for language in [None, Some(placement.language.clone())] {
            let key = StatisticsKey { product: placement.product.clone(), language };
            let add = changes.entry(key).or_default();
            *add.entry(attribute_of(placement.rating)).or_default() += sign;
            *add.entry(TOTAL.to_owned()).or_default() += sign;
        }
    }
    let changes = changes.into_iter().map(|(key, mut add)| {
        add.retain(|_, count| *count != 0);
        CounterChange { key, add }
    });
    changes.filter(|change| !change.add.is_empty()).collect()
}

/// Counts comments for a bulk load.
#[derive(Debug, Clone, Default)]
pub struct Tally(BTreeMap<StatisticsKey, Counters>);

impl Tally {
    /// Counts a comment.
    pub fn add(&mut self, comment: &Comment) {
        for language in [None, Some(comment.language.clone())] {
            let key = StatisticsKey { product: comment.product.clone(), language };
            self.0.entry(key).or_default().add(comment.rating);
        }
    }

    /// The statistics items with these counts.
    pub fn items(&self) -> Vec<Item> {
        let item = |(key, counters): (&StatisticsKey, &Counters)| {
            let number = |count: u64| AttributeValue::N(count.to_string());
            let mut item = key.item().into_inner();
            item.insert(TOTAL.to_owned(), number(counters.total));
            // Increments leave the same items: an attribute that was never counted is absent.
            let counted = Rating::ALL.into_iter().filter(|rating| counters.get(*rating) > 0);
            item.extend(counted.map(|rating| (attribute_of(rating), number(counters.get(rating)))));
            Item::from(item)
        };
        self.0.iter().map(item).collect()
    }
}

/// The statistics items for these comments, for a bulk load into an empty table.
pub fn counter_items<'comment>(comments: impl IntoIterator<Item = &'comment Comment>) -> Vec<Item> {
    let mut tally = Tally::default();
    comments.into_iter().for_each(|comment| tally.add(comment));
    tally.items()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::item::tests::comment;

    fn check(old: Option<(&str, u64)>, new: Option<(&str, u64)>, expected: Expect) {
        let placement =
            |of: Option<(&str, u64)>| of.map(|(language, rating)| comment("c", language, rating).placement());
        let changes = counter_changes(placement(old).as_ref(), placement(new).as_ref());
        let line = |change: CounterChange| {
            let language = change.key.language.map_or("all".to_owned(), |language| language.to_string());
            format!("{language}: {:?}\n", change.add)
        };
        expected.assert_eq(&changes.into_iter().map(line).collect::<String>());
    }

    #[test]
    fn a_change_adds_to_the_items_that_it_concerns_and_no_others() {
        check(
            None,
            Some(("en", 5)),
            expect![[r#"
                all: {"count_5": 1, "count_total": 1}
                en: {"count_5": 1, "count_total": 1}
            "#]],
        );
        check(
            Some(("en", 5)),
            None,
            expect![[r#"
                all: {"count_5": -1, "count_total": -1}
                en: {"count_5": -1, "count_total": -1}
            "#]],
        );
        check(
            Some(("en", 5)),
            Some(("en", 4)),
            expect![[r#"
                all: {"count_4": 1, "count_5": -1}
                en: {"count_4": 1, "count_5": -1}
            "#]],
        );
        check(
            Some(("en", 5)),
            Some(("de", 5)),
            expect![[r#"
                de: {"count_5": 1, "count_total": 1}
                en: {"count_5": -1, "count_total": -1}
            "#]],
        );
        check(
            Some(("en", 5)),
            Some(("de", 1)),
            expect![[r#"
                all: {"count_1": 1, "count_5": -1}
                de: {"count_1": 1, "count_total": 1}
                en: {"count_5": -1, "count_total": -1}
            "#]],
        );
        check(Some(("en", 5)), Some(("en", 5)), expect![""]);
    }

    #[test]
    fn a_tally_is_what_single_inserts_add_up_to() {
        let comments =
            [("a", "en", 5), ("b", "en", 5), ("c", "de", 1)].map(|(id, tag, rating)| comment(id, tag, rating));
        let items = counter_items(&comments);
        assert_eq!(items.len(), 3);
        for item in items {
            let mut added: BTreeMap<String, i64> = BTreeMap::new();
            for change in comments.iter().flat_map(|comment| counter_changes(None, Some(&comment.placement()))) {
                let key = change.key.item();
                if key.iter().all(|(name, value)| item.get(name) == Some(value)) {
                    change.add.into_iter().for_each(|(name, count)| *added.entry(name).or_default() += count);
                }
            }
            let counters = Counters::of_item(&item).unwrap();
            for (name, count) in &added {
                assert_eq!(item.get(name), Some(&AttributeValue::N(count.to_string())), "{name}");
            }
            assert_eq!(counters.by_rating.iter().sum::<u64>(), counters.total);
            assert_eq!(item.len(), added.len() + 2);
            let of_language = StatisticsKey::language_of(&item).unwrap();
            let counted = |c: &&Comment| of_language.as_ref().is_none_or(|language| *language == c.language);
            assert_eq!(comments.iter().filter(counted).count() as u64, counters.total);
        }
    }

    #[test]
    fn a_counter_below_zero_is_malformed() {
        let item = |value: AttributeValue| Item::from(HashMap::from([("count_1".to_owned(), value)]));
        assert_eq!(Counters::of_item(&item(AttributeValue::N("2".to_owned()))).unwrap().by_rating, [2, 0, 0, 0, 0]);
        for value in [AttributeValue::N("-1".to_owned()), AttributeValue::S("1".to_owned())] {
            assert!(Counters::of_item(&item(value)).is_err());
        }
    }
}
