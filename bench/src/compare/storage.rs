//! The storage that comments need: items and bytes in the table, in its indexes, and in Redis.
//!
//! Bytes follow DynamoDB's rules and include every item of a full load. Each item in the table and in each index counts
//! 100 more bytes, which are also billed. Journal entries, which expire, are left out. Redis is measured.

use four_index::{Index, projection};
use model::{
    Comment, CommentText,
    item::attribute,
    primaries::{PRIMARIES_KEYS, PRIMARIES_PROJECTED},
    size::item_bytes,
};
use serde_dynamo::Item;

use crate::{
    money::STORAGE_OVERHEAD_BYTES,
    report::{FOUR_INDEXES, ONE_SET_A_FILTER, PAGEMARK, Plot, Series, Table, row},
    statistics::as_f64,
    workload,
};

/// Number of comments for the comparison with 32 sets, where each comment takes eight times the memory.
pub(super) const IN_32_SETS: usize = 10_000;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stored {
    pub(super) items: f64,
    pub(super) table_bytes: f64,
    pub(super) index_items: f64,
    pub(super) index_bytes: f64,
    pub(super) redis_bytes: f64,
}

/// The means of sums over comments: items, and bytes in the table and in the indexes.
fn each(comments: &[Comment], sums: [usize; 4]) -> Stored {
    let each = |sum: usize| as_f64(sum as u64) / as_f64(comments.len() as u64);
    let [items, table_bytes, index_items, index_bytes] = sums.map(each);
    Stored { items, table_bytes, index_items, index_bytes, redis_bytes: 0.0 }
}

fn stored_bytes(item: &Item) -> usize {
    item_bytes(item) + STORAGE_OVERHEAD_BYTES
}

/// Pagemark: one primary item and its duplicates, all of them also in the index `gsi`, and an entry of `primaries`.
pub(super) fn pagemark(comments: &[Comment]) -> anyhow::Result<Stored> {
    let (mut items, mut bytes, mut entries) = (0, 0, 0);
    let held = [attribute::PK, attribute::SK].into_iter().chain(PRIMARIES_KEYS).chain(PRIMARIES_PROJECTED);
    let held: Vec<&str> = held.collect();
    for comment in comments {
        let all = workload::items(comment)?;
        items += all.len();
        bytes += all.iter().map(stored_bytes).sum::<usize>();
        let mut entry = workload::primary_item(comment)?.into_inner();
        entry.retain(|name, _| held.contains(&name.as_str()));
        entries += stored_bytes(&entry.into());
    }
    Ok(each(comments, [items, bytes, items + comments.len(), bytes + entries]))
}

/// The other design: one item, and its projections into four indexes.
pub(super) fn four_index(comments: &[Comment]) -> Stored {
    let (mut table, mut indexes) = (0, 0);
    for comment in comments {
        let item = four_index::comment_item(comment);
        table += stored_bytes(&item);
        indexes += Index::EVERY.iter().map(|index| stored_bytes(&projection(&item, *index))).sum::<usize>();
    }
    each(comments, [comments.len(), table, 4 * comments.len(), indexes])
}

impl Stored {
    pub(super) fn all_bytes(&self) -> f64 {
        self.table_bytes + self.index_bytes
    }
}

/// Bytes in table and indexes by the length of the text.
pub(super) fn plot() -> anyhow::Result<Plot> {
    const TEXTS_BYTES: [usize; 5] = [20, 100, 500, 2_000, 8_000];
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let drawn = workload::Comments::new(8)?.take(100)?;
    for bytes in TEXTS_BYTES {
        let text = CommentText { title: None, body: "x".repeat(bytes), author: None };
        let comments: Vec<Comment> =
            drawn.iter().map(|comment| Comment { text: text.clone(), ..comment.clone() }).collect();
        let bytes = as_f64(bytes as u64);
        ours.push((bytes, pagemark(&comments)?.all_bytes()));
        theirs.push((bytes, four_index(&comments).all_bytes()));
    }
    let series = [(PAGEMARK, ours), (FOUR_INDEXES, theirs)];
    let series = series.map(|(name, points)| Series { name: name.to_owned(), points });
    Ok(Plot::new(
        "bytes",
        "Stored bytes of a comment by its text",
        ["bytes of text", "bytes in table and indexes"],
        series,
    ))
}

/// The table: one row per design.
pub(super) fn table(comments: usize, pagemark: Stored, four: Stored, redis_bytes_in_32_sets: f64) -> Table {
    let row = |design: &str, stored: Stored| {
        let Stored { items, table_bytes, index_items, index_bytes, redis_bytes } = stored;
        row![
            ("design", design),
            ("items in the table", items),
            ("bytes in the table", table_bytes),
            ("items in indexes", index_items),
            ("bytes in indexes", index_bytes),
            ("bytes in Redis", redis_bytes),
        ]
    };
    let about = format!(
        "A comment of {comments}, by DynamoDB's rules with the 100 bytes that are billed for each item; Redis as measured \
         (one set a filter key: {IN_32_SETS} comments at most)"
    );
    let rows = [
        row(PAGEMARK, pagemark),
        row(ONE_SET_A_FILTER, Stored { redis_bytes: redis_bytes_in_32_sets, ..pagemark }),
        row(FOUR_INDEXES, four),
    ];
    Table::new("compare: storage", about, rows)
}
