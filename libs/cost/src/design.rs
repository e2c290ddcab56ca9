//! What a design takes for a page view, a write and a stored comment, from the sizes of its items.
//!
//! The items are those that the programs write; the sizes and units follow DynamoDB's rules
//! ([`model::size`], [`four_index::write_cost_by_rules`]). Assumptions:
//! - Every comment has the same text. Page views have full pages, in any language.
//! - The design with counters shows totals and counts on each page, as Pagemark does. It reads the
//!   product's statistics items, one for each language and one for all, by one eventually
//!   consistent query.
//! - A function that counts by the stream runs for each write alone, as Pagemark's do, and takes as
//!   long. Its metrics, alarms and dead letters are not billed.
//! - The page index names a page's comments with their ratings. So four indexes with it read
//!   nothing that the page does not show, by one query for each rating, at any depth. They keep a
//!   journal in the comment's transaction, and confirm the index by it, as Pagemark does. So both
//!   have the same guarantees.

use four_index::{Index, KeepCounters, Tally, comment_item, projection, write_cost_by_rules};
use model::{
    BlobFormat, Comment, CommentId, CommentText, Filter, FilterKey, Language, ProductId, Rating,
    RatingSet, Revision, SiteData, Status, Timestamp,
    item::{CommentItem, Image, attribute},
    primaries::{PRIMARIES_KEYS, PRIMARIES_PROJECTED},
    size::{self, item_bytes},
};
use serde_dynamo::Item;
use strum::VariantArray;

use crate::{number::as_f64, prices::Stack};

pub const PAGEMARK: &str = "Pagemark";
pub const FOUR_INDEXES: &str = "four indexes";
/// Four indexes with Pagemark's page index, which names the comments of a page and their ratings.
pub const FOUR_INDEXES_PAGE_INDEX: &str = "four indexes with the page index";
/// Four indexes with the page index, whose pages are read by one BatchGetItem.
pub const FOUR_INDEXES_BATCH: &str = "four indexes with the page index and BatchGetItem";
/// Four indexes with transactional counters, so that its pages show totals like Pagemark's.
pub const FOUR_INDEXES_COUNTERS: &str = "four indexes with counters";

/// Four indexes whose counters a function changes. It follows the table's stream.
pub const FOUR_INDEXES_STREAM: &str = "four indexes with counters by a stream";

/// Comments of a page.
const PAGE_SIZE: usize = 20;
const READ_UNIT_BYTES: f64 = 4096.0;
/// Bytes billed for storing an item besides its size, in the table and in each index.
const STORAGE_OVERHEAD_BYTES: usize = 100;
/// The job audits each comment once a week, with the index scan. A month has 730 hours, a week 168.
const AUDITS_A_MONTH: f64 = 730.0 / 168.0;
/// The index scan reads each ranked comment's primary item, eventually consistent.
const INDEX_SCAN_READ_UNITS: f64 = 0.5;
/// `stream-writer` and `page-indexer`. At a low rate each write is a separate invocation.
const FUNCTIONS: f64 = 2.0;
/// Bytes of a comment in Redis, as measured with a million comments on 2026-11-29 (docs/deploy.md).
pub(crate) const REDIS_BYTES: f64 = 54.0;
/// Running time of a function for a new comment and for each of its duplicates, in milliseconds, as
/// measured.
const FUNCTION_MS: f64 = 2.72;
const FUNCTION_MS_PER_DUPLICATE: f64 = FUNCTIONS * FUNCTION_MS / 31.0;
/// A journal entry is smaller than a unit, and written in a transaction.
const JOURNAL_UNITS: f64 = 2.0;
/// The same holds for the record of an `Idempotency-Key`, which expires.
const IDEMPOTENCY_WRITE_UNITS: f64 = 2.0;
/// Bytes of a counter's value: up to 99 million.
const COUNTER_BYTES: usize = 5;
const LANGUAGES: usize = 8;
/// How many values a rating has. A filter by all of them is none.
const RATINGS: u32 = 5;
/// 2024-01-01T00:00:00.123Z. Every time has as many bytes.
const CREATED_AT_MS: i64 = 1_704_067_200_123;

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, VariantArray)]
pub enum Write {
    #[strum(to_string = "insert")]
    Insert,
    #[strum(to_string = "text edit")]
    EditText,
    #[strum(to_string = "rating change")]
    ChangeRating,
    #[strum(to_string = "delete")]
    Delete,
}

pub(crate) type PerWrite<T> = [T; Write::VARIANTS.len()];

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WriteUsage {
    pub write_units: f64,
    pub read_units: f64,
    pub function_invocations: f64,
    pub function_ms: f64,
}

/// Read units of a page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageUnits {
    /// The first one, to which all readers come.
    pub front: f64,
    /// One with a number or a cursor.
    pub numbered: f64,
}

impl PageUnits {
    /// Both cost the same.
    pub fn alike(units: f64) -> Self {
        Self {
            front: units,
            numbered: units,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Design {
    pub name: String,
    pub stack: Stack,
    /// Of a page without a filter by rating, then with 1, 2, 3 and 4 ratings.
    pub page_read_units: Vec<PageUnits>,
    pub write: PerWrite<WriteUsage>,
    /// For the record of an `Idempotency-Key`, beside a new comment.
    pub idempotency_write_units: f64,
    /// Bytes of a comment in the table and in all indexes, as billed for storage.
    pub table_bytes: f64,
    pub index_bytes: f64,
    /// Bytes of a comment in Redis; 0 for a design without Redis.
    pub redis_bytes: f64,
    pub upkeep_read_units: f64,
}

/// Pagemark, and four indexes: alone, with counters in both ways, and with the page index, by
/// queries and by BatchGetItem. `depth` is how many pages a design with cursors reads in order to
/// show one.
pub fn designs(text_bytes: u32, depth: u32, redis_bytes: f64) -> anyhow::Result<Vec<Design>> {
    let change = Change::of(usize::try_from(text_bytes)?)?;
    let by_queries = with_page_index(
        four_indexes(&change, 1, KeepCounters::No),
        &change,
        redis_bytes,
    );
    // It rounds each item up.
    let item_units = query_units(count(item_bytes(&comment_item(&change.comment))));
    let page_read_units = vec![PageUnits::alike(item_units * count(PAGE_SIZE)); RATINGS as usize];
    let by_batch = Design {
        name: FOUR_INDEXES_BATCH.to_owned(),
        page_read_units,
        ..by_queries.clone()
    };
    Ok(vec![
        pagemark(&change, redis_bytes)?,
        four_indexes(&change, depth, KeepCounters::No),
        four_indexes(&change, depth, KeepCounters::InTransaction),
        four_indexes(&change, depth, KeepCounters::ByStream),
        by_queries,
        by_batch,
    ])
}

/// The primary item of a comment.
pub fn primary_item(comment: &Comment) -> anyhow::Result<Item> {
    Ok(serde_dynamo::to_item(CommentItem::primary(
        comment,
        BlobFormat::Map,
    ))?)
}

/// The primary item of a comment, and its duplicates.
pub fn items(comment: &Comment) -> anyhow::Result<Vec<Item>> {
    let primary = primary_item(comment)?;
    let image = Image::of_primary(&primary)?;
    let mut items = vec![primary.clone()];
    for key in comment.placement().duplicate_keys() {
        items.push(image.duplicate(&key));
    }
    Ok(items)
}

struct Change {
    comment: Comment,
    edited: Comment,
    rated_again: Comment,
}

impl Change {
    fn of(text_bytes: usize) -> anyhow::Result<Self> {
        let created_at = Timestamp::from_epoch_ms(CREATED_AT_MS)?;
        let revision = Revision::after(None, created_at, 1);
        let comment = Comment {
            // Ids are ULIDs, like revisions.
            id: CommentId::parse(&revision.to_string())?,
            product: ProductId::parse("shop/item-00001")?,
            language: Language::parse("en")?,
            rating: Rating::new(5)?,
            created_at,
            revision,
            status: Status::Published,
            text: CommentText {
                title: None,
                body: Some("x".repeat(text_bytes)),
                author: None,
            },
            site: SiteData::default(),
        };
        let revision = Revision::after(Some(comment.revision), comment.created_at, 3);
        let edited = Comment {
            revision,
            ..comment.clone()
        };
        let rated_again = Comment {
            rating: Rating::new(4)?,
            ..edited.clone()
        };
        Ok(Self {
            comment,
            edited,
            rated_again,
        })
    }

    fn versions(&self, write: Write) -> (Option<&Comment>, Option<&Comment>) {
        match write {
            Write::Insert => (None, Some(&self.comment)),
            Write::EditText => (Some(&self.comment), Some(&self.edited)),
            Write::ChangeRating => (Some(&self.comment), Some(&self.rated_again)),
            Write::Delete => (Some(&self.comment), None),
        }
    }
}

/// Bytes of a comment, as billed for storage.
pub struct StoredBytes {
    pub table: f64,
    /// In all indexes together.
    pub indexes: f64,
}

/// The bytes of a comment in Pagemark, then in the design with four indexes. Pagemark
/// has one primary item and its duplicates, all of them also in the index `gsi`, and an entry of
/// `primaries`. Journal entries expire.
pub fn stored_bytes(comment: &Comment) -> anyhow::Result<[StoredBytes; 2]> {
    let table = items(comment)?.iter().map(billed_bytes).sum();
    let entry = billed_bytes(&primaries_entry(comment)?);
    let pagemark = StoredBytes {
        table: count(table),
        indexes: count(table + entry),
    };
    let item = comment_item(comment);
    let mut projected = 0;
    for index in Index::EVERY {
        projected += billed_bytes(&projection(&item, *index));
    }
    let four_indexes = StoredBytes {
        table: count(billed_bytes(&item)),
        indexes: count(projected),
    };
    Ok([pagemark, four_indexes])
}

/// The bytes for which an item's storage is billed.
fn billed_bytes(item: &Item) -> usize {
    item_bytes(item) + STORAGE_OVERHEAD_BYTES
}

fn primaries_entry(comment: &Comment) -> anyhow::Result<Item> {
    let held: Vec<&str> = [attribute::PK, attribute::SK]
        .into_iter()
        .chain(PRIMARIES_KEYS)
        .chain(PRIMARIES_PROJECTED)
        .collect();
    let mut entry = primary_item(comment)?.into_inner();
    entry.retain(|name, _| held.contains(&name.as_str()));
    Ok(entry.into())
}

fn pagemark(
    Change {
        comment,
        rated_again,
        ..
    }: &Change,
    redis_bytes: f64,
) -> anyhow::Result<Design> {
    let primary = primary_item(comment)?;
    let primary_bytes = item_bytes(&primary);
    let image = Image::of_primary(&primary)?;
    let rated_again = rated_again.placement();
    let mut duplicates_bytes = Vec::new();
    // A comment that is rated again has other filter keys. The old ones are deleted.
    let mut deleted_bytes = Vec::new();
    for key in comment.placement().duplicate_keys() {
        let bytes = item_bytes(&image.duplicate(&key));
        duplicates_bytes.push(bytes);
        if !key.filter.matches(&rated_again) {
            deleted_bytes.push(bytes);
        }
    }
    // The transaction counts twice in the table, and once in each of two indexes.
    let primary_units =
        3.0 * write_units(primary_bytes) + write_units(item_bytes(&primaries_entry(comment)?));
    let all_units = primary_units + JOURNAL_UNITS + duplicates_units(&duplicates_bytes);
    let bytes = primary_bytes + duplicates_bytes.iter().sum::<usize>();
    let write = per_write(|write| {
        let deleted_bytes = if write == Write::ChangeRating {
            deleted_bytes.as_slice()
        } else {
            &[]
        };
        let duplicates = duplicates_bytes.len() + deleted_bytes.len();
        WriteUsage {
            write_units: all_units + duplicates_units(deleted_bytes),
            // Within the hour, `recent` reads all items, strongly consistent.
            read_units: read_before(write, primary_bytes) + consistent_read_units(count(bytes)),
            function_invocations: FUNCTIONS,
            function_ms: FUNCTION_MS_PER_DUPLICATE * count(duplicates),
        }
    });
    let mut page_read_units = vec![pagemark_page_units(primary_bytes)];
    for ratings in 1..RATINGS {
        let ratings = RatingSet::of(Rating::ALL.into_iter().rev().take(ratings as usize));
        let key = FilterKey {
            product: comment.product.clone(),
            filter: Filter::new(None, ratings),
        };
        page_read_units.push(pagemark_page_units(item_bytes(&image.duplicate(&key))));
    }
    let [stored, _] = stored_bytes(comment)?;
    Ok(Design {
        name: PAGEMARK.to_owned(),
        stack: Stack::Pagemark,
        page_read_units,
        write,
        idempotency_write_units: IDEMPOTENCY_WRITE_UNITS,
        table_bytes: stored.table,
        index_bytes: stored.indexes,
        redis_bytes,
        // A scan is eventually consistent, and packs items, so it is not rounded up.
        upkeep_read_units: AUDITS_A_MONTH
            * (count(bytes) / READ_UNIT_BYTES / 2.0 + INDEX_SCAN_READ_UNITS),
    })
}

/// The units of writing or deleting duplicates: in the table, and in the index, which holds whole
/// items.
fn duplicates_units(items_bytes: &[usize]) -> f64 {
    let units = items_bytes.iter().map(|bytes| 2.0 * write_units(*bytes));
    units.sum()
}

fn pagemark_page_units(item_bytes: usize) -> PageUnits {
    let mut of_front_pages = 0.0;
    // Those that fill no archive page yet are on the front page, so all its sizes are as frequent.
    for shown in PAGE_SIZE..2 * PAGE_SIZE {
        of_front_pages += query_units(count(items_read(shown) * item_bytes));
    }
    PageUnits {
        front: of_front_pages / count(PAGE_SIZE),
        numbered: query_units(count(items_read(PAGE_SIZE) * item_bytes)),
    }
}

/// The API reads one comment more than a page shows, and so sees whether others follow.
fn items_read(shown: usize) -> usize {
    shown + 1
}

fn four_indexes(change: &Change, depth: u32, counters: KeepCounters) -> Design {
    let item = comment_item(&change.comment);
    let name = match counters {
        KeepCounters::InTransaction => FOUR_INDEXES_COUNTERS,
        KeepCounters::ByStream => FOUR_INDEXES_STREAM,
        KeepCounters::No => FOUR_INDEXES,
    };
    let statistics_units = if counters == KeepCounters::No {
        0.0
    } else {
        query_units(count(statistics_bytes(&change.comment)))
    };
    let by_function = if counters == KeepCounters::ByStream {
        WriteUsage {
            function_invocations: 1.0,
            function_ms: FUNCTION_MS,
            ..WriteUsage::default()
        }
    } else {
        WriteUsage::default()
    };
    let mut page_read_units = Vec::new();
    for ratings in 0..RATINGS {
        let (queries, index) = queries_of_page(ratings);
        let query_units = query_units(count(PAGE_SIZE * entry_bytes(&item, index)));
        page_read_units.push(PageUnits {
            front: f64::from(queries) * query_units + statistics_units,
            numbered: f64::from(depth * queries) * query_units + statistics_units,
        });
    }
    let write = per_write(|write| {
        let (old, new) = change.versions(write);
        WriteUsage {
            write_units: write_cost_by_rules(old, new, counters).total(),
            read_units: read_before(write, item_bytes(&item)),
            ..by_function
        }
    });
    let mut index_bytes = 0.0;
    for index in Index::EVERY {
        index_bytes += count(entry_bytes(&item, *index) + STORAGE_OVERHEAD_BYTES);
    }
    Design {
        name: name.to_owned(),
        page_read_units,
        write,
        table_bytes: count(billed_bytes(&item)),
        index_bytes,
        ..Design::default()
    }
}

/// How many queries a page of four indexes takes with a filter by so many ratings, and of which
/// index.
fn queries_of_page(ratings: u32) -> (u32, Index) {
    if ratings == 0 {
        (1, Index::All)
    } else {
        (ratings, Index::ByRating)
    }
}

/// Bytes of a comment's entry in an index.
fn entry_bytes(item: &Item, index: Index) -> usize {
    item_bytes(&projection(item, index))
}

fn with_page_index(four_indexes: Design, change: &Change, redis_bytes: f64) -> Design {
    let item = comment_item(&change.comment);
    let mut page_read_units = Vec::new();
    for ratings in 0..RATINGS {
        let (queries, index) = queries_of_page(ratings);
        let queries = f64::from(queries);
        // Each query reads its part of the page only.
        let bytes = count(PAGE_SIZE * entry_bytes(&item, index)) / queries;
        page_read_units.push(PageUnits::alike(queries * query_units(bytes)));
    }
    let write = per_write(|write| {
        let (old, new) = change.versions(write);
        let cost = write_cost_by_rules(old, new, KeepCounters::No);
        WriteUsage {
            // The transaction with the journal's entry counts twice in the table.
            write_units: cost.total() + cost.table_units + JOURNAL_UNITS,
            // Within the hour, `recent` reads the item, strongly consistent.
            read_units: read_before(write, item_bytes(&item))
                + consistent_read_units(count(item_bytes(&item))),
            function_invocations: 1.0,
            function_ms: FUNCTION_MS,
        }
    });
    let scan = count(item_bytes(&item)) / READ_UNIT_BYTES / 2.0;
    Design {
        name: FOUR_INDEXES_PAGE_INDEX.to_owned(),
        stack: Stack::PageIndex,
        page_read_units,
        write,
        idempotency_write_units: IDEMPOTENCY_WRITE_UNITS,
        redis_bytes,
        upkeep_read_units: AUDITS_A_MONTH * (scan + INDEX_SCAN_READ_UNITS),
        ..four_indexes
    }
}

fn statistics_bytes(comment: &Comment) -> usize {
    let mut tally = Tally::default();
    tally.add(comment);
    let of_language = tally.items().iter().map(item_bytes).max().unwrap_or(0);
    // The item of one comment has the counters of one rating and of all.
    let further = ("count_1".len() + COUNTER_BYTES) * (RATINGS as usize - 1);
    (LANGUAGES + 1) * (of_language + further + 2 * COUNTER_BYTES)
}

fn per_write(usage: impl Fn(Write) -> WriteUsage) -> PerWrite<WriteUsage> {
    let mut usages = PerWrite::default();
    for (of_write, write) in usages.iter_mut().zip(Write::VARIANTS) {
        *of_write = usage(*write);
    }
    usages
}

fn read_before(write: Write, item_bytes: usize) -> f64 {
    if write == Write::Insert {
        0.0
    } else {
        consistent_read_units(count(item_bytes))
    }
}

fn consistent_read_units(bytes: f64) -> f64 {
    (bytes / READ_UNIT_BYTES).ceil()
}

/// The units of one Query of an index, which is eventually consistent.
fn query_units(items_bytes: f64) -> f64 {
    consistent_read_units(items_bytes) / 2.0
}

fn write_units(item_bytes: usize) -> f64 {
    count(size::write_units(item_bytes))
}

fn count(number: usize) -> f64 {
    as_f64(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_units_of(text_bytes: u32) -> Vec<[f64; 4]> {
        let designs = designs(text_bytes, 1, REDIS_BYTES).unwrap();
        designs
            .iter()
            .map(|design| design.write.map(|write| write.write_units))
            .collect()
    }

    fn numbered(design: &Design) -> [f64; 5] {
        let mut units = [0.0; 5];
        for (unit, page) in units.iter_mut().zip(&design.page_read_units) {
            *unit = page.numbered;
        }
        units
    }

    #[test]
    fn comments_take_the_units_that_the_documents_name() {
        // One of the 68 is for `primaries`. A change of the rating also deletes 16 duplicates.
        let four_indexes = [5.0, 5.0, 7.0, 5.0];
        let expected = [
            [68.0, 68.0, 100.0, 68.0],
            four_indexes,
            [10.0, 5.0, 12.0, 10.0],
            // The counters' transaction alone counts twice.
            [9.0, 5.0, 11.0, 9.0],
            // The table's unit once more, and two for the journal's entry.
            four_indexes.map(|units| units + 3.0),
            four_indexes.map(|units| units + 3.0),
        ];
        assert_eq!(write_units_of(60), expected);
        for (text_bytes, units) in [(1_024, 133.0), (2_048, 198.0), (4_096, 328.0)] {
            assert_eq!(write_units_of(text_bytes)[0][0], units, "{text_bytes}");
        }
    }

    #[test]
    fn pages_of_short_comments_take_the_units_that_were_measured() {
        let designs = designs(57, 1, REDIS_BYTES).unwrap();
        let units = designs.iter().map(numbered).collect::<Vec<_>>();
        let expected = [
            [1.0; 5],
            [1.0, 1.0, 2.0, 3.0, 4.0],
            [1.5, 1.5, 2.5, 3.5, 4.5],
            [1.5, 1.5, 2.5, 3.5, 4.5],
            // Each rating's query reads its part of the page only.
            [1.0, 1.0, 1.0, 1.5, 2.0],
            [10.0; 5],
        ];
        assert_eq!(units, expected);
        // A front page reads 21 to 40 items: 21 take two half units, 22 to 40 three.
        assert_eq!(
            designs[0].page_read_units[0].front,
            (1.0 + 19.0 * 1.5) / 20.0
        );
    }

    #[test]
    fn a_page_found_by_walking_costs_each_page_before_it() {
        let [of_one, of_ten] = [1, 10].map(|depth| designs(60, depth, REDIS_BYTES).unwrap());
        assert_eq!(of_one[0], of_ten[0]);
        let ten_times = numbered(&of_one[1]).map(|units| 10.0 * units);
        assert_eq!(numbered(&of_ten[1]), ten_times);
        // A front page is the first.
        assert_eq!(of_ten[1].page_read_units[4].front, 4.0);
        // The statistics are read once.
        assert_eq!(
            (numbered(&of_one[2])[4], numbered(&of_ten[2])[4]),
            (4.5, 40.5)
        );
    }
}
