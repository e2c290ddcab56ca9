//! Packs the writes of a batch's comments into calls, each filled across comments. No I/O, no
//! clock, no randomness.
//!
//! **Invariant:** no key occurs twice in the calls for one batch of records, because `model::plan`
//! gives each key once a primary item, and an item's changes are joined first. So the calls may run
//! concurrently and in any order.

use model::{
    plan::{DuplicateWrite, plan_fan_out},
    record::CommentChange,
};
use table::Table;

/// The calls that update the duplicates of all changed comments, each of at most
/// [`Table::BATCH_MAX`] writes. A comment has 31 puts, and a delete for every other key that the
/// batch's images imply.
pub fn plan_calls(changes: &[CommentChange<'_>]) -> Vec<Vec<DuplicateWrite>> {
    let writes: Vec<DuplicateWrite> = changes.iter().flat_map(plan_fan_out).collect();
    writes.chunks(Table::BATCH_MAX).map(<[_]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use model::{
        BlobFormat, Comment, CommentId, CommentText, Language, ProductId, Rating, Revision,
        SiteData, Status, Timestamp,
        item::{CommentItem, Image},
    };
    use serde_dynamo::Item;

    use super::*;

    fn item(id: &str) -> Item {
        let now = Timestamp::from_epoch_ms(0).unwrap();
        let comment = Comment {
            id: CommentId::parse(id).unwrap(),
            product: ProductId::parse("p").unwrap(),
            language: Language::parse("en").unwrap(),
            rating: Rating::new(4).unwrap(),
            created_at: now,
            revision: Revision::after(None, now, 7),
            status: Status::Published,
            text: CommentText::new(None, "Fine.".to_owned(), None).unwrap(),
            site: SiteData::default(),
        };
        serde_dynamo::to_item(CommentItem::primary(&comment, BlobFormat::Map)).unwrap()
    }

    fn writes_of(call: &[DuplicateWrite], id: &str) -> usize {
        call.iter()
            .filter(|write| write.key().id.as_str() == id)
            .count()
    }

    #[test]
    fn calls_are_filled_across_comments() {
        let items = ["a", "b"].map(item);
        let changes = items.iter().enumerate().map(|(index, item)| {
            let last = Image::of_primary(item).unwrap();
            CommentChange {
                id: last.id.clone(),
                product: last.placement.product.clone(),
                first_sequence_number: index.to_string(),
                record_indexes: vec![index],
                seen: vec![last.entry()],
                last: Some(last),
            }
        });
        let calls = plan_calls(&changes.collect::<Vec<_>>());
        let keys: Vec<_> = calls.iter().flatten().map(DuplicateWrite::key).collect();
        assert_eq!(
            keys.iter().collect::<BTreeSet<_>>().len(),
            keys.len(),
            "a key stands twice"
        );
        assert!(
            calls
                .iter()
                .flatten()
                .all(|write| matches!(write, DuplicateWrite::Put { .. }))
        );
        let by_comment: Vec<_> = calls
            .iter()
            .map(|call| ["a", "b"].map(|id| writes_of(call, id)))
            .collect();
        assert_eq!(by_comment, [[25, 0], [6, 19], [0, 12]]);
        assert_eq!(plan_calls(&[]).len(), 0, "nothing changed needs no call");
    }
}
