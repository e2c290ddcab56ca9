//! The storage that comments need: items and bytes in the table, in its indexes, and in Redis.
//!
//! Bytes follow DynamoDB's rules and include every item of a full load. Each item in the table and in each index counts
//! 100 more bytes, which are also billed. Journal entries, which expire, are left out. Redis is measured.

use model::{
    BlobFormat, Comment,
    item::{CommentItem, Image, attribute},
    primaries::{PRIMARIES_KEYS, PRIMARIES_PROJECTED},
    size::item_bytes,
};

use crate::{
    index::fill_32_sets,
    payload::STORAGE_OVERHEAD_BYTES,
    report::{Table, row},
    statistics::as_f64,
    workload::Redis,
};

/// Number of comments for the comparison with 32 sets, where each comment takes eight times the memory.
const IN_32_SETS: usize = 10_000;

/// Storage per comment in one design.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stored {
    pub(super) items: f64,
    pub(super) table_bytes: f64,
    pub(super) index_items: f64,
    pub(super) index_bytes: f64,
    pub(super) redis_bytes: f64,
}

/// Pagemark: one primary item and its duplicates, all of them also in the index `gsi`, and an entry of `primaries`.
pub(super) fn pagemark(comments: &[Comment]) -> anyhow::Result<Stored> {
    let (mut items, mut bytes, mut entries) = (0_u64, 0_u64, 0_u64);
    let held = [attribute::PK, attribute::SK].into_iter().chain(PRIMARIES_KEYS).chain(PRIMARIES_PROJECTED);
    let held: Vec<&str> = held.collect();
    for comment in comments {
        let primary = serde_dynamo::to_item(CommentItem::primary(comment, BlobFormat::Map))?;
        let image = Image::of_primary(&primary)?;
        let duplicates = comment.placement().duplicate_keys().map(|key| image.duplicate(&key)).collect::<Vec<_>>();
        for item in duplicates.iter().chain([&primary]) {
            items += 1;
            bytes += (item_bytes(item) + STORAGE_OVERHEAD_BYTES) as u64;
        }
        let mut entry = primary.into_inner();
        entry.retain(|name, _| held.contains(&name.as_str()));
        entries += (item_bytes(&entry.into()) + STORAGE_OVERHEAD_BYTES) as u64;
    }
    let each = |sum: u64| as_f64(sum) / as_f64(comments.len() as u64);
    Ok(Stored {
        items: each(items),
        table_bytes: each(bytes),
        index_items: each(items) + 1.0,
        index_bytes: each(bytes + entries),
        redis_bytes: 0.0,
    })
}

/// The other design: one item, and its projections into four indexes.
pub(super) fn four_index(comments: &[Comment]) -> anyhow::Result<Stored> {
    let (mut table, mut indexes) = (0_u64, 0_u64);
    for comment in comments {
        let item = four_index::comment_item(comment);
        table += (item_bytes(&item) + STORAGE_OVERHEAD_BYTES) as u64;
        for index in four_index::Index::EVERY.iter().copied() {
            indexes += (item_bytes(&four_index::projection(&item, index)) + STORAGE_OVERHEAD_BYTES) as u64;
        }
    }
    let each = |sum: u64| as_f64(sum) / as_f64(comments.len() as u64);
    Ok(Stored { items: 1.0, table_bytes: each(table), index_items: 4.0, index_bytes: each(indexes), redis_bytes: 0.0 })
}

impl Stored {
    /// Bytes of a comment's items in the table that count for reading, without the storage overhead.
    pub(super) fn read_bytes(&self) -> f64 {
        self.table_bytes - self.items * as_f64(STORAGE_OVERHEAD_BYTES as u64)
    }

    /// All bytes in DynamoDB.
    pub(super) fn all_bytes(&self) -> f64 {
        self.table_bytes + self.index_bytes
    }
}

/// Bytes per comment in Redis with one sorted set for each of its 32 filter keys.
pub(super) async fn redis_bytes_in_32_sets(comments: &[Comment]) -> anyhow::Result<f64> {
    let some = comments.get(..IN_32_SETS.min(comments.len())).unwrap_or_default();
    let mut redis = Redis::start().await?;
    let before = redis.memory_bytes().await?;
    fill_32_sets(&mut redis, some).await?;
    let after = redis.memory_bytes().await?;
    redis.stop().await;
    Ok(as_f64(after.saturating_sub(before)) / as_f64(some.len().max(1) as u64))
}

/// The table: one row per design.
pub(super) fn table(comments: usize, pagemark: Stored, four: Stored, redis_bytes_in_32_sets: f64) -> Table {
    let columns = [
        "design",
        "items in the table",
        "bytes in the table",
        "items in indexes",
        "bytes in indexes",
        "bytes in Redis",
    ];
    let row = |design: &str, stored: Stored| {
        let Stored { items, table_bytes, index_items, index_bytes, redis_bytes } = stored;
        row![design, items, table_bytes, index_items, index_bytes, redis_bytes]
    };
    let about = format!(
        "A comment of {comments}, by DynamoDB's rules with the 100 bytes that are billed for each item; Redis as measured \
         (one set a filter key: {IN_32_SETS} comments at most)"
    );
    let rows = [
        row("Pagemark", pagemark),
        row("Pagemark with one set a filter key", Stored { redis_bytes: redis_bytes_in_32_sets, ..pagemark }),
        row("four indexes", four),
    ];
    Table::new("compare: storage", about, &columns, rows)
}
