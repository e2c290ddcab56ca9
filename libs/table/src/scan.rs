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
        let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        self.meter.read.admit().await;
        let scan = self
            .client
            .scan()
            .table_name(self.name())
            // One segment is sent as an ordinary scan: the embedded engine sorts the whole table
            // for each answer of a parallel scan.
            .set_segment((segments > 1).then(|| number(segment)))
            .set_total_segments((segments > 1).then(|| number(segments)))
            .limit(number(limit))
            .set_exclusive_start_key(from.map(|key| item_key(key.pk, key.sk)))
            .set_return_consumed_capacity(self.meter.report());
        let answer = scan.send().await.map_err(store_error)?;
        self.meter.read.charge(&answer.consumed_capacity);
        Ok(Part {
            rows: answer
                .items
                .unwrap_or_default()
                .into_iter()
                .map(Item::from)
                .collect(),
            next: answer.last_evaluated_key.as_ref().map(ItemKey::of),
        })
    }
}
