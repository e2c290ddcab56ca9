//! The statistics items: the number of a product's comments of each rating, in all languages and in
//! each language.
//!
//! A product's item for all languages has the key `PRODUCT#<product>`, `S`; the item for a language
//! has the sort key `S#<language>`. They have no index keys, so no index contains them. No I/O
//! here.
//!
//! Counters change in the comment's transaction, or by a function that follows the table's stream
//! ([`FourIndexTable::count_batch`](crate::FourIndexTable::count_batch)).

use std::collections::{BTreeMap, HashMap};

use model::{Comment, Language, Malformed, ProductId, Rating};
use serde_dynamo::{AttributeValue, Item};

use crate::key::{PK, SK, partition_key};

const STATISTICS_PREFIX: &str = "S";

const TOTAL: &str = "count_total";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepCounters {
    /// The write changes them in one transaction with the comment.
    InTransaction,
    /// The write is a plain conditional write of the comment alone. A function changes them for
    /// each batch of the table's stream.
    ByStream,
    /// The write is the same, and nothing changes them. A table must keep counters from its first
    /// comment on, or have none at all.
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
        let mut by_rating = [0; 5];
        for (count, rating) in by_rating.iter_mut().zip(Rating::ALL) {
            *count = count_in(item, &attribute_of(rating))?;
        }
        Ok(Self {
            by_rating,
            total: count_in(item, TOTAL)?,
        })
    }
}

fn count_in(item: &Item, name: &str) -> Result<u64, Malformed> {
    match item.get(name) {
        // A counter that was never increased.
        None => Ok(0),
        Some(AttributeValue::N(number)) => number
            .parse()
            .map_err(|_| Malformed::new("statistics item", format!("{name} is {number}"))),
        Some(_) => Err(Malformed::new(
            "statistics item",
            format!("{name} is no number"),
        )),
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
        let sort_key = match &self.language {
            Some(language) => format!("{STATISTICS_PREFIX}#{language}"),
            None => STATISTICS_PREFIX.to_owned(),
        };
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
    changes_of_batch([(old, new)])
}

/// The sums of several changes of comments.
pub(crate) fn changes_of_batch<'comment>(
    batch: impl IntoIterator<Item = (Option<&'comment Comment>, Option<&'comment Comment>)>,
) -> CounterChanges {
    let mut changes = CounterChanges::new();
    for (old, new) in batch {
        if let Some(old) = old {
            add_counts(old, -1, &mut changes);
        }
        if let Some(new) = new {
            add_counts(new, 1, &mut changes);
        }
    }
    for add in changes.values_mut() {
        add.retain(|_, count| *count != 0);
    }
    changes.retain(|_, add| !add.is_empty());
    changes
}

/// Counts a comment so many times in all its counters.
fn add_counts(comment: &Comment, times: i64, changes: &mut CounterChanges) {
    for language in [None, Some(comment.language.clone())] {
        let key = StatisticsKey {
            product: comment.product.clone(),
            language,
        };
        let add = changes.entry(key).or_default();
        for name in [attribute_of(comment.rating), TOTAL.to_owned()] {
            *add.entry(name).or_default() += times;
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Tally(CounterChanges);

impl Tally {
    pub fn add(&mut self, comment: &Comment) {
        for (key, add) in counter_changes(None, Some(comment)) {
            let counts = self.0.entry(key).or_default();
            for (name, count) in add {
                *counts.entry(name).or_default() += count;
            }
        }
    }

    pub fn items(&self) -> Vec<Item> {
        let mut items = Vec::new();
        for (key, counts) in &self.0 {
            let mut item = key.item().into_inner();
            for (name, count) in counts {
                item.insert(name.clone(), AttributeValue::N(count.to_string()));
            }
            items.push(Item::from(item));
        }
        items
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
        let mut lines = String::new();
        for (key, add) in counter_changes(old.as_ref(), new.as_ref()) {
            let language = match key.language {
                Some(language) => language.to_string(),
                None => "all".to_owned(),
            };
            lines.push_str(&format!("{language}: {add:?}\n"));
        }
        expected.assert_eq(&lines);
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
