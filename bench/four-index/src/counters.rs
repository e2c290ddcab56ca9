//! The statistics items: the number of a product's comments of each rating, in all languages and in
//! each language.
//!
//! A product's item for all languages has the key `PRODUCT#<product>`, `S`; the item for a language
//! has the sort key `S#<language>`. They have no index keys, so no index contains them. No I/O
//! here.

use std::collections::{BTreeMap, HashMap};

use model::{Comment, Language, Malformed, ProductId, Rating};
use serde_dynamo::{AttributeValue, Item};

use crate::key::{PK, SK, partition_key};

const STATISTICS_PREFIX: &str = "S";

const TOTAL: &str = "count_total";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepCounters {
    /// The write changes them in one transaction with the comment.
    Yes,
    /// The write is a plain conditional write of the comment alone. A table must keep counters from
    /// its first comment on, or have none at all.
    No,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RatingCounters {
    pub by_rating: [u64; 5],
    pub total: u64,
}

impl RatingCounters {
    pub fn get(&self, rating: Rating) -> u64 {
        self.by_rating
            .get(usize::from(rating.get()) - 1)
            .copied()
            .unwrap_or(0)
    }

    pub(crate) fn of_item(item: &Item) -> Result<Self, Malformed> {
        let count = |name: &str| match item.get(name) {
            // A counter that was never increased.
            None => Ok(0),
            Some(AttributeValue::N(number)) => number
                .parse()
                .map_err(|_| Malformed::new("statistics item", format!("{name} is {number}"))),
            Some(_) => Err(Malformed::new(
                "statistics item",
                format!("{name} is no number"),
            )),
        };
        let mut by_rating = [0; 5];
        for (place, rating) in by_rating.iter_mut().zip(Rating::ALL) {
            *place = count(&attribute_of(rating))?;
        }
        Ok(Self {
            by_rating,
            total: count(TOTAL)?,
        })
    }
}

fn attribute_of(rating: Rating) -> String {
    format!("count_{rating}")
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StatisticsKey {
    pub(crate) product: ProductId,
    pub(crate) language: Option<Language>,
}

impl StatisticsKey {
    pub(crate) fn item(&self) -> Item {
        let language = self
            .language
            .as_ref()
            .map_or(String::new(), |language| format!("#{language}"));
        let sort_key = format!("{STATISTICS_PREFIX}{language}");
        Item::from(HashMap::from([
            (
                PK.to_owned(),
                AttributeValue::S(partition_key(&self.product, None, None)),
            ),
            (SK.to_owned(), AttributeValue::S(sort_key)),
        ]))
    }
}

pub(crate) type CounterChanges = BTreeMap<StatisticsKey, BTreeMap<String, i64>>;

pub(crate) fn counter_changes(old: Option<&Comment>, new: Option<&Comment>) -> CounterChanges {
    let mut changes = CounterChanges::new();
    for (comment, sign) in old
        .map(|old| (old, -1))
        .into_iter()
        .chain(new.map(|new| (new, 1)))
    {
        for language in [None, Some(comment.language.clone())] {
            let add = changes
                .entry(StatisticsKey {
                    product: comment.product.clone(),
                    language,
                })
                .or_default();
            for name in [attribute_of(comment.rating), TOTAL.to_owned()] {
                *add.entry(name).or_default() += sign;
            }
        }
    }
    changes
        .values_mut()
        .for_each(|add| add.retain(|_, count| *count != 0));
    changes.retain(|_, add| !add.is_empty());
    changes
}

#[derive(Debug, Clone, Default)]
pub struct Tally(CounterChanges);

impl Tally {
    pub fn add(&mut self, comment: &Comment) {
        for (key, add) in counter_changes(None, Some(comment)) {
            let counts = self.0.entry(key).or_default();
            add.into_iter()
                .for_each(|(name, count)| *counts.entry(name).or_default() += count);
        }
    }

    pub fn items(&self) -> Vec<Item> {
        let item = |(key, counts): (&StatisticsKey, &BTreeMap<String, i64>)| {
            let mut item = key.item().into_inner();
            let counts = counts
                .iter()
                .map(|(name, count)| (name.clone(), AttributeValue::N(count.to_string())));
            item.extend(counts);
            Item::from(item)
        };
        self.0.iter().map(item).collect()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::item::tests::comment;

    fn check(old: Option<(&str, u64)>, new: Option<(&str, u64)>, expected: Expect) {
        let [old, new] =
            [old, new].map(|of| of.map(|(language, rating)| comment("c", language, rating)));
        let line = |(key, add): (StatisticsKey, BTreeMap<String, i64>)| {
            let language = key
                .language
                .map_or("all".to_owned(), |language| language.to_string());
            format!("{language}: {add:?}\n")
        };
        expected.assert_eq(
            &counter_changes(old.as_ref(), new.as_ref())
                .into_iter()
                .map(line)
                .collect::<String>(),
        );
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
        check(Some(("en", 5)), Some(("en", 5)), expect![""]);
    }
}
