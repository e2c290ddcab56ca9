//! Scans of the whole table, for the audit.

use process::StoreError;
use serde_dynamo::Item;

use crate::{
    Table,
    error::store_error,
    item::{ItemKey, item_key},
    parts::Part,
};

impl Table {
    /// One answer of a scan of a segment, which reads at most `limit` items, eventually consistent.
    /// Callers look again before they conclude anything.
    pub async fn scan_segment(
        &self,
        from: Option<ItemKey>,
        segment: u32,
        segments: u32,
        limit: u32,
    ) -> Result<Part<Item, ItemKey>, StoreError> {
        self.meter.read.admit().await;
        let mut scan = self
            .client
            .scan()
            .table_name(self.name())
            .limit(to_i32(limit))
            .set_exclusive_start_key(from.map(|key| item_key(key.pk, key.sk)))
            .set_return_consumed_capacity(self.meter.report());
        // One segment is sent as an ordinary scan: the embedded engine sorts the whole table for
        // each answer of a parallel scan.
        if segments > 1 {
            scan = scan
                .segment(to_i32(segment))
                .total_segments(to_i32(segments));
        }
        let answer = scan.send().await.map_err(store_error)?;
        self.meter.read.charge(&answer.consumed_capacity);
        let items = answer.items.unwrap_or_default();
        Ok(Part {
            rows: items.into_iter().map(Item::from).collect(),
            next: answer.last_evaluated_key.as_ref().map(ItemKey::of),
        })
    }
}

fn to_i32(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
