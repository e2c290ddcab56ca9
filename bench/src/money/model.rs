//! The units and bytes of a comment, a write and a page in each design, from the sizes of their items. No I/O.
//!
//! The items are those that the programs write; the sizes and units follow DynamoDB's rules ([`model::size`],
//! [`four_index::write_cost_by_rules`], [`super::units`]). Assumptions:
//! - Every comment has the same text, and an id, product and language of ordinary lengths.
//! - A rating with `n` values gives 2^n items: a comment is in half of all sets of ratings, once for its language and
//!   once for any. The sets' texts have one character for each value.
//! - Page views have full pages, in any language. A filter by language costs each design the same as one without.
//! - The design with counters shows totals and counts on each page, as Pagemark does. It reads the product's statistics
//!   items, one for each language and one for all, by one eventually consistent query.

use four_index::{Index, KeepCounters, comment_item, counter_items, projection, write_cost_by_rules};
use model::{
    Comment, CommentId, CommentText, Filter, FilterKey, Language, ProductId, Rating, RatingSet, Revision, SiteData,
    Status, Timestamp,
    item::{Image, attribute},
    primaries::{PRIMARIES_KEYS, PRIMARIES_PROJECTED},
    size,
};
use serde::Serialize;
use strum::VariantArray;

use super::{
    design::{Design, PerWrite, Write, WriteUsage},
    units::{READ_UNIT_BYTES, STORAGE_OVERHEAD_BYTES, consistent_read_units, query_units},
};
use crate::{
    listing::PAGE_SIZE,
    report::{FOUR_INDEXES, FOUR_INDEXES_CACHED, FOUR_INDEXES_COUNTERS, HITS_OF_TEN, PAGEMARK},
    statistics::as_f64,
    workload::{FIRST_MS, primary_item},
};

/// The job audits each comment once a week, with the index scan. A month has 730 hours, a week 168.
const AUDITS_A_MONTH: f64 = 730.0 / 168.0;
/// The index scan reads each ranked comment's primary item, eventually consistent.
const INDEX_SCAN_READ_UNITS: f64 = 0.5;
/// `stream-writer` and `page-indexer`. At a low rate each write is a separate invocation. At a high rate one invocation
/// handles up to a hundred writes.
const FUNCTIONS: f64 = 2.0;
/// The functions' memory in the deployment template, in GB.
const FUNCTION_MEMORY_GB: f64 = 0.25;
/// Bytes of a comment in Redis, as measured with a million comments (`docs/benchmarks-notes.md`, page index). The text
/// and the number of rating values do not matter: each comment is in four sets, by its id.
pub(super) const REDIS_BYTES: f64 = 454.0;
/// Running time of both functions for each duplicate that they write or delete, in milliseconds. Measured: 2.72 ms for
/// the 31 duplicates of a new comment, and as long in the other function (`docs/benchmarks.md`, compare: writing).
const FUNCTION_MS_PER_DUPLICATE: f64 = FUNCTIONS * 2.72 / 31.0;
/// A journal entry is smaller than a unit, and written in a transaction.
const JOURNAL_UNITS: f64 = 2.0;
/// Bytes of a counter's value: up to 99 million.
const COUNTER_BYTES: usize = 5;

/// What comments and pages are like.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Shape {
    /// Bytes of a comment's text.
    pub(super) text_bytes: u32,
    /// How many values a rating has, from 2 to 10.
    pub(super) rating_values: u32,
    /// In how many languages a product has comments.
    pub(super) languages: u32,
    /// How many pages a design with cursors reads in order to show one.
    pub(super) depth: u32,
    /// Bytes of a comment in Redis.
    pub(super) redis_bytes: f64,
}

/// Pagemark, four indexes, and four indexes with counters.
pub(super) fn designs(shape: &Shape) -> anyhow::Result<Vec<Design>> {
    let change = Change::of(usize::try_from(shape.text_bytes)?)?;
    Ok(vec![
        pagemark(&change, shape)?,
        four_indexes(&change, shape, KeepCounters::No),
        four_indexes(&change, shape, KeepCounters::Yes),
    ])
}

/// Four indexes with counters, behind a cache in a Redis like Pagemark's.
pub(super) fn cached_designs(shape: &Shape) -> anyhow::Result<Vec<Design>> {
    let counting = four_indexes(&Change::of(usize::try_from(shape.text_bytes)?)?, shape, KeepCounters::Yes);
    let cached = HITS_OF_TEN.into_iter().zip(FOUR_INDEXES_CACHED);
    Ok(cached.map(|(hits, name)| counting.behind_cache(name, hits, shape.redis_bytes)).collect())
}

/// A comment, and its versions after a change.
struct Change {
    comment: Comment,
    edited: Comment,
    rated_again: Comment,
}

impl Change {
    fn of(text_bytes: usize) -> anyhow::Result<Self> {
        let created_at = Timestamp::from_epoch_ms(FIRST_MS)?;
        let revision = Revision::after(None, created_at, 2);
        let comment = Comment {
            id: CommentId::parse(&Revision::after(None, created_at, 1).to_string())?,
            product: ProductId::parse("shop/item-00042")?,
            language: Language::parse("en")?,
            rating: Rating::new(5)?,
            created_at,
            revision,
            status: Status::Published,
            text: CommentText { title: None, body: "x".repeat(text_bytes), author: None },
            site: SiteData::default(),
        };
        let edited = Comment { revision: Revision::after(Some(revision), created_at, 3), ..comment.clone() };
        let rated_again = Comment { rating: Rating::new(4)?, ..edited.clone() };
        Ok(Self { comment, edited, rated_again })
    }

    /// The comment before and after a write.
    fn versions(&self, write: Write) -> (Option<&Comment>, Option<&Comment>) {
        match write {
            Write::Insert => (None, Some(&self.comment)),
            Write::EditText => (Some(&self.comment), Some(&self.edited)),
            Write::ChangeRating => (Some(&self.comment), Some(&self.rated_again)),
            Write::Delete => (Some(&self.comment), None),
        }
    }
}

/// Duplicates of equal size.
struct Group {
    count: f64,
    bytes: usize,
}

/// The sizes of a comment's items.
struct Items {
    primary: usize,
    /// In the index `primaries`.
    entry: usize,
    duplicates: Vec<Group>,
    /// The duplicates whose set of ratings lacks the new rating.
    deleted_with_rating: Vec<Group>,
    /// A duplicate of any language and one rating. Each further rating adds two bytes.
    smallest: usize,
}

impl Items {
    fn of(comment: &Comment, rating_values: u32) -> anyhow::Result<Self> {
        let primary = primary_item(comment)?;
        let filter = Filter::new(None, RatingSet::of([comment.rating]));
        let key = FilterKey { product: comment.product.clone(), filter };
        let smallest = size::item_bytes(&Image::of_primary(&primary)?.duplicate(&key));
        let more_for_language = comment.language.as_str().len() - 1;
        let (mut duplicates, mut deleted_with_rating) = (Vec::new(), Vec::new());
        for ratings in 1..rating_values {
            for bytes in [smallest, smallest + more_for_language].map(|bytes| bytes + more_for_ratings(ratings)) {
                duplicates.push(Group { count: choose(rating_values - 1, ratings - 1), bytes });
                deleted_with_rating.push(Group { count: choose(rating_values - 2, ratings - 1), bytes });
            }
        }
        // All ratings have a text of one byte. In any language they are the primary item.
        duplicates.push(Group { count: 1.0, bytes: smallest + more_for_language });
        let held = [attribute::PK, attribute::SK].into_iter().chain(PRIMARIES_KEYS).chain(PRIMARIES_PROJECTED);
        let held: Vec<&str> = held.collect();
        let mut entry = primary.clone().into_inner();
        entry.retain(|name, _| held.contains(&name.as_str()));
        let (primary, entry) = (size::item_bytes(&primary), size::item_bytes(&entry.into()));
        Ok(Self { primary, entry, duplicates, deleted_with_rating, smallest })
    }

    /// Bytes of all items in the table, each with this many more.
    fn bytes(&self, overhead: usize) -> f64 {
        count(self.primary + overhead) + sum(&self.duplicates, |bytes| count(bytes + overhead))
    }

    fn number(&self) -> f64 {
        1.0 + sum(&self.duplicates, |_| 1.0)
    }

    /// The read units of pages, in the order of [`Design::page_read_units`]. The API reads one comment more than a page
    /// shows.
    fn page_read_units(&self, rating_values: u32) -> Vec<f64> {
        let filtered = (1..rating_values).map(|ratings| self.smallest + more_for_ratings(ratings));
        [self.primary].into_iter().chain(filtered).map(|bytes| query_units(count((PAGE_SIZE + 1) * bytes))).collect()
    }
}

/// Bytes of a set's text beyond those of a single rating.
fn more_for_ratings(ratings: u32) -> usize {
    2 * (ratings as usize).saturating_sub(1)
}

fn pagemark(change: &Change, shape: &Shape) -> anyhow::Result<Design> {
    let items = Items::of(&change.comment, shape.rating_values)?;
    // In the table and in the index, which holds whole items.
    let duplicates = |groups: &[Group]| sum(groups, |bytes| 2.0 * write_units(bytes));
    // The transaction counts twice in the table, and once in each of two indexes.
    let primary = 3.0 * write_units(items.primary) + write_units(items.entry) + JOURNAL_UNITS;
    let all = primary + duplicates(&items.duplicates);
    let write = per_write(|write| {
        let (moved_units, moved) = match write {
            Write::ChangeRating => (duplicates(&items.deleted_with_rating), sum(&items.deleted_with_rating, |_| 1.0)),
            Write::Insert | Write::EditText | Write::Delete => (0.0, 0.0),
        };
        WriteUsage {
            write_units: all + moved_units,
            // Within the hour, `recent` reads all items, strongly consistent.
            read_units: read_before(write, items.primary) + consistent_read_units(items.bytes(0)),
            function_invocations: FUNCTIONS,
            function_ms: FUNCTION_MS_PER_DUPLICATE * (items.number() - 1.0 + moved),
        }
    });
    let table_bytes = items.bytes(STORAGE_OVERHEAD_BYTES);
    Ok(Design {
        name: PAGEMARK.to_owned(),
        items: items.number(),
        page_read_units: items.page_read_units(shape.rating_values),
        write,
        function_memory_gb: FUNCTION_MEMORY_GB,
        table_bytes,
        index_bytes: table_bytes + count(items.entry + STORAGE_OVERHEAD_BYTES),
        redis_bytes: shape.redis_bytes,
        upkeep_read_units: audit_read_units(items.bytes(0)),
    })
}

fn four_indexes(change: &Change, shape: &Shape, counters: KeepCounters) -> Design {
    let item = comment_item(&change.comment);
    let projected = |index: Index| size::item_bytes(&projection(&item, index));
    let statistics = match counters {
        KeepCounters::Yes => query_units(count(statistics_bytes(&change.comment, shape))),
        KeepCounters::No => 0.0,
    };
    let page = |ratings: u32| {
        let (queries, index) = if ratings == 0 { (1, Index::All) } else { (ratings, Index::ByRating) };
        f64::from(shape.depth * queries) * query_units(count(PAGE_SIZE * projected(index))) + statistics
    };
    let write = per_write(|write| {
        let (old, new) = change.versions(write);
        WriteUsage {
            write_units: write_cost_by_rules(old, new, counters).total(),
            read_units: read_before(write, size::item_bytes(&item)),
            ..WriteUsage::default()
        }
    });
    let name = match counters {
        KeepCounters::Yes => FOUR_INDEXES_COUNTERS,
        KeepCounters::No => FOUR_INDEXES,
    };
    Design {
        name: name.to_owned(),
        items: 1.0,
        page_read_units: (0..shape.rating_values).map(page).collect(),
        write,
        table_bytes: stored_bytes(size::item_bytes(&item)),
        index_bytes: Index::EVERY.iter().map(|index| stored_bytes(projected(*index))).sum(),
        ..Design::default()
    }
}

/// Read units for auditing a comment for a month. `item_bytes` are those of all its items in the table. A scan is
/// eventually consistent, and packs items, so it is not rounded up.
fn audit_read_units(item_bytes: f64) -> f64 {
    AUDITS_A_MONTH * (item_bytes / READ_UNIT_BYTES / 2.0 + INDEX_SCAN_READ_UNITS)
}

/// Bytes of a product's statistics items, each with a counter for every rating.
fn statistics_bytes(comment: &Comment, shape: &Shape) -> usize {
    let of_language = counter_items([comment]).iter().map(size::item_bytes).max().unwrap_or(0);
    // The item of one comment has the counters of one rating and of all.
    let further = ("count_1".len() + COUNTER_BYTES) * (shape.rating_values as usize - 1);
    (shape.languages as usize + 1) * (of_language + further + 2 * COUNTER_BYTES)
}

fn per_write(usage: impl Fn(Write) -> WriteUsage) -> PerWrite<WriteUsage> {
    let mut usages = PerWrite::default();
    usages.iter_mut().zip(Write::VARIANTS).for_each(|(place, write)| *place = usage(*write));
    usages
}

/// A change first reads the comment, strongly consistent.
fn read_before(write: Write, item_bytes: usize) -> f64 {
    if write == Write::Insert { 0.0 } else { consistent_read_units(count(item_bytes)) }
}

fn write_units(item_bytes: usize) -> f64 {
    count(size::write_units(item_bytes))
}

fn stored_bytes(item_bytes: usize) -> f64 {
    count(item_bytes + STORAGE_OVERHEAD_BYTES)
}

fn sum(groups: &[Group], of: impl Fn(usize) -> f64) -> f64 {
    groups.iter().map(|group| group.count * of(group.bytes)).sum()
}

fn count(number: usize) -> f64 {
    as_f64(number as u64)
}

/// The number of ways to choose `taken` of `all`.
fn choose(all: u32, taken: u32) -> f64 {
    // Whole after each step.
    (1..=taken).fold(1.0, |ways, step| ways * f64::from((all + 1).saturating_sub(step)) / f64::from(step))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::workload::items;

    fn shape(text_bytes: u32, rating_values: u32) -> Shape {
        Shape { text_bytes, rating_values, languages: 8, depth: 1, redis_bytes: REDIS_BYTES }
    }

    fn of_shape(text_bytes: u32, rating_values: u32) -> [Design; 3] {
        designs(&shape(text_bytes, rating_values)).unwrap().try_into().unwrap()
    }

    fn write_units_of(designs: &[Design; 3]) -> [[f64; 4]; 3] {
        designs.each_ref().map(|design| design.write.map(|write| write.write_units))
    }

    /// For each design, the write units of an insert, a text edit, a rating change and a deletion.
    pub(crate) fn write_units_of_short_comments() -> [[f64; 4]; 3] {
        write_units_of(&of_shape(60, 5))
    }

    #[test]
    fn short_comments_take_the_units_that_the_documents_name() {
        // docs/deploy.md: 68, of which one is for `primaries`. A change of the rating also deletes 16 duplicates.
        // The others: ADR 25.
        let expected = [[68.0, 68.0, 100.0, 68.0], [5.0, 5.0, 7.0, 5.0], [10.0, 5.0, 12.0, 10.0]];
        assert_eq!(write_units_of_short_comments(), expected);
    }

    #[test]
    fn items_of_a_kilobyte_more_take_as_many_units_as_attributes_of_that_size() {
        // ADR 70: 133, 198 and 328 for 1, 2 and 4 KB.
        for (text_bytes, units) in [(1_024, 133.0), (2_048, 198.0), (4_096, 328.0)] {
            assert_eq!(write_units_of(&of_shape(text_bytes, 5))[0][0], units, "{text_bytes}");
        }
    }

    #[test]
    fn the_sizes_are_those_of_the_items_that_are_written() {
        for text_bytes in [1, 400, 1_500] {
            let Change { comment, rated_again, .. } = Change::of(text_bytes).unwrap();
            let written = items(&comment).unwrap();
            let bytes: usize = written.iter().map(size::item_bytes).sum();
            let units: f64 = written.iter().map(|item| write_units(size::item_bytes(item))).sum();
            let found = Items::of(&comment, 5).unwrap();
            assert_eq!((found.number(), found.bytes(0)), (32.0, count(bytes)));
            assert_eq!(write_units(found.primary) + sum(&found.duplicates, write_units), units);
            let kept: Vec<FilterKey> = rated_again.placement().duplicate_keys().collect();
            let placement = comment.placement();
            let deleted: Vec<FilterKey> = placement.duplicate_keys().filter(|key| !kept.contains(key)).collect();
            assert_eq!(sum(&found.deleted_with_rating, |_| 1.0), count(deleted.len()));
            let image = Image::of_primary(&written[0]).unwrap();
            let bytes: usize = deleted.iter().map(|key| size::item_bytes(&image.duplicate(key))).sum();
            assert_eq!(sum(&found.deleted_with_rating, count), count(bytes));
        }
    }

    #[test]
    fn each_further_value_of_a_rating_doubles_the_items() {
        for (rating_values, items, rating_change) in
            [(2, 4.0, 16.0), (3, 8.0, 28.0), (5, 32.0, 100.0), (10, 1_024.0, 3_076.0)]
        {
            let [pagemark, four, _] = of_shape(60, rating_values);
            assert_eq!(pagemark.items, items, "{rating_values}");
            let units = pagemark.write.map(|write| write.write_units);
            // 2 for each duplicate, and 6 for the primary item and its journal entry.
            let all = 2.0 * (items - 1.0) + 6.0;
            assert_eq!(units, [all, all, rating_change, all], "{rating_values}");
            assert_eq!(four.write[0].write_units, 5.0);
            assert_eq!(pagemark.page_read_units.len(), rating_values as usize);
        }
    }

    #[test]
    fn pages_of_short_comments_take_the_units_that_were_measured() {
        // docs/benchmarks.md, compare: what a page consumes. Comments of 57 bytes, 20 on a page.
        let [pagemark, four, counted] = of_shape(57, 5);
        assert_eq!(pagemark.page_read_units, [1.0; 5]);
        assert_eq!(four.page_read_units, [1.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(counted.page_read_units, [1.5, 1.5, 2.5, 3.5, 4.5]);
    }

    #[test]
    fn comments_take_about_the_bytes_that_were_measured() {
        // docs/benchmarks.md, compare: storage. Some of those comments have a title and an author, and `primaries` came
        // later.
        let near = |found: f64, measured: f64| {
            assert!((found / measured - 1.0).abs() < 0.06, "{found} instead of {measured}");
        };
        let [pagemark, four, _] = of_shape(57, 5);
        near(pagemark.table_bytes, 11_692.0);
        near(four.table_bytes, 498.0);
        near(four.index_bytes, 1_591.0);
    }

    #[test]
    fn only_the_statistics_query_knows_the_number_of_languages() {
        let of = |languages| designs(&Shape { languages, ..shape(60, 5) }).unwrap();
        let (few, mut many) = (of(1), of(100));
        assert!(few[2].page_read_units[0] < many[2].page_read_units[0]);
        many[2].page_read_units.clone_from(&few[2].page_read_units);
        assert_eq!(few, many);
    }

    #[test]
    fn a_page_found_by_walking_costs_each_page_before_it() {
        let of = |depth| designs(&Shape { depth, ..shape(60, 5) }).unwrap().try_into().unwrap();
        let [ours, theirs, counted]: [Design; 3] = of(1);
        let [ours_deep, theirs_deep, counted_deep]: [Design; 3] = of(10);
        assert_eq!(ours.page_read_units, ours_deep.page_read_units);
        assert_eq!(
            theirs.page_read_units.iter().map(|units| 10.0 * units).collect::<Vec<_>>(),
            theirs_deep.page_read_units
        );
        // The statistics are read once.
        assert_eq!(counted.page_read_units[4], 4.5);
        assert_eq!(counted_deep.page_read_units[4], 40.5);
    }
}
